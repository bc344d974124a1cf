"""Judging tools that read or edit one file or look through one folder: Read, Grep, LS …; Edit, Write, EditSymbol ….

A Grep reads more than the path it names, so a search is also judged by each file below the folder that a rule names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from msgspec import structs

from cellwright.agent.calls.approval import Decision
from cellwright.permissions.paths import (
    PathProblem,
    RefusedPath,
    folded,
    inside,
    makes_repository,
    places,
    protected_part,
    shows_process,
)
from cellwright.permissions.rules.rule import (
    BYPASSED,
    EDIT,
    READ,
    Behavior,
    CompiledRule,
    JudgedCall,
    RuleBook,
    Subject,
    allowed_by,
    asked_by,
    denied_by,
    denied_by_plan,
)
from cellwright.text import lazy_pattern, unseen_characters, visible_line

# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH112, PTH118, PTH119


MAX_ENTRIES = 20_000
"""Names looked at; a larger folder counts as not known."""
NOT_SEARCHED = frozenset({".git", ".hg", ".svn", ".jj"})
"""Version control's own folders: Grep leaves them out (`tools/search/ripgrep.py`), a program may not."""


class TooManyFiles(Exception):
    """The folder is too large to say."""


def named_below(
    folder: str, rules: Sequence[CompiledRule], glob: str, not_searched: frozenset[str] = frozenset()
) -> tuple[str, CompiledRule] | None:
    """A file or folder below `folder` that passes the search's `glob` and that one of `rules` names, with the rule.

    Folders called like one of `not_searched` are left out. Raises TooManyFiles.
    """
    concerned = [rule for rule in rules if rule.path is not None and rule.path.may_match_below(folder)]
    if not concerned:
        return None
    for rule in concerned:
        if rule.covers_place((folder,)):
            return folder, rule
    # most names are no rule's last one: only of the others is the whole path looked at
    last_name = re.compile("|".join(rule.path.last_name for rule in concerned if rule.path))
    count = 0
    for here, folders, files in os.walk(folder):
        count += len(folders) + len(files)
        if count > MAX_ENTRIES:
            raise TooManyFiles
        for is_folder, names in ((True, folders), (False, files)):
            for name in names:
                if last_name.match(folded(name)) and (found := _first_about(concerned, here, name, is_folder, glob)):
                    return os.path.join(here, name), found
        if not_searched:
            folders[:] = [name for name in folders if name not in not_searched]
    return None


def _first_about(
    rules: Sequence[CompiledRule], here: str, name: str, is_folder: bool, glob: str
) -> CompiledRule | None:
    if not _passes(name, is_folder, glob):
        return None
    return next((rule for rule in rules if rule.covers_place((os.path.join(here, name),))), None)


def _passes(name: str, is_folder: bool, glob: str) -> bool:
    if not glob or "/" in glob or "{" in glob:
        return True  # not understood: it may pass
    if glob.startswith("!"):
        return not fnmatchcase(name, glob[1:])
    # what is wanted may be inside a folder of any name
    return is_folder or fnmatchcase(name, glob)


_RESTRICTIONS: tuple[tuple[Behavior, Callable[[CompiledRule, str], Decision]], ...] = (
    ("deny", denied_by),
    ("ask", asked_by),
)
_WILD = lazy_pattern(r"[*?\[{]")
_UP = lazy_pattern(r"(?:^|/)\.\.(?:/|$)")


def path_of(call: JudgedCall, cwd: str) -> str:
    """The path a call is about, as it was given; the searched folder for searches; "" when there is none."""
    if call.access.kind in ("read", "edit"):
        return call.touched
    folder = call.touched or cwd
    return os.path.join(folder, _fixed_start(call.text("pattern"))) if call.access.kind == "find" else folder


def _fixed_start(pattern: str) -> str:
    parts = pattern.split("/")
    wild = next((index for index, part in enumerate(parts) if _WILD.search(part)), len(parts))
    return "/".join(parts[:wild]) or ("/" if wild and parts[0] == "" else "")


def _leaves_folder(call: JudgedCall) -> bool:
    # `*/../../x` and `{/etc,src}/*`: where the fixed start leads says nothing about the rest
    if call.access.kind != "find":
        return False
    pattern = call.text("pattern")
    wild = _WILD.search(pattern)
    if wild is None:
        return False
    alternatives = (piece.partition("}")[0] for piece in pattern[wild.start() :].split("{")[1:])
    return _UP.search(pattern, wild.start()) is not None or any("/" in each or "." in each for each in alternatives)


def judge_file(book: RuleBook, call: JudgedCall) -> Decision:
    """Judge a call of a file tool. In a mode that asks for nothing, deny and ask rules still hold."""
    glob = call.text("glob") if call.access.kind == "search" else None
    path, leaves = path_of(call, book.cwd), _leaves_folder(call)
    decision = judge_path(book, call.subject, path, glob=glob, not_searched=NOT_SEARCHED, leaves=leaves)
    # the call's title says that it edits the file
    return structs.replace(decision, for_people="") if decision.reason.startswith(EDITS) else decision


def covered_file(book: RuleBook, call: JudgedCall) -> bool:
    """Return whether allow rules speak of each place that the path of a file tool's call names on its way."""
    path = path_of(call, book.cwd)
    try:
        found = places(path, book.cwd) if path else ()
    except PathProblem:
        return False
    return bool(found) and not _leaves_folder(call) and _granting(book, call.subject, found) is not None


def judge_path(
    book: RuleBook,
    subject: Subject,
    path: str,
    *,
    glob: str | None = None,
    not_searched: frozenset[str] = frozenset(),
    leaves: bool = False,
) -> Decision:
    """Judge whether `subject`, which is known to read or to edit files, may have the file at `path`.

    `glob`: the files below are read as well, as far as it lets them, and not those in folders called as `not_searched`
    says. `leaves`: others may be read, nobody knows where.
    """
    try:
        found = places(path, book.cwd) if path else ()
    except PathProblem as problem:
        end = "" if isinstance(problem, RefusedPath) else ", so no file can be meant"
        return Decision("deny", f"The path {visible_line(path)} {problem}{end}.")
    if rule := _first_covering(book.about("deny", subject), found):
        return denied_by(rule, f"{subject.name} of {visible_line(path)}")
    if blocked := _blocked(book, subject, found, leaves=leaves):
        return blocked
    if glob is not None and (searched := _judge_search(book, "deny", glob, not_searched, found)):
        return searched
    if book.mode == "plan" and subject.edits:
        return denied_by_plan(subject)
    if rule := _first_covering(book.about("ask", subject), found):
        return asked_by(rule, f"{subject.name} of {visible_line(path)}")
    if glob is not None and (searched := _judge_search(book, "ask", glob, not_searched, found)):
        return searched
    if book.mode == "bypassPermissions":
        return BYPASSED
    if shown := first_of_process(found, below=glob is not None):
        return asks_for_process(shown)
    return _judge_unruled(book, subject, path, found, leaves=leaves)


def first_of_process(found: Sequence[str], *, below: bool = False) -> str | None:
    """The first of a file's places that shows a process; with `below` also a folder that has such files in it."""
    return next((place for place in found if shows_process(place, below=below)), None)


def asks_for_process(place: str) -> Decision:
    """The decision about any use of `place`, which shows a process."""
    reason = f"{visible_line(place)} shows what a process holds, such as the keys in its environment."
    return Decision("ask", f"{reason} Each use of it needs your approval.", firm=True)


def _blocked(book: RuleBook, subject: Subject, found: tuple[str, ...], *, leaves: bool) -> Decision | None:
    blocks = book.blocks_writes if subject.edits else book.blocks_reads
    if not blocks or not (leaves or _outside(book, subject, found)):
        return None
    setting = "blockWritesOutside" if subject.edits else "blockReadsOutside"
    forbids = f"The setting `permissions.{setting}WorkingDirectories` forbids that; no rule can allow it."
    return Decision("deny", f"{_leaving(subject, found, leaves=leaves)} {forbids}")


def _outside(book: RuleBook, subject: Subject, found: tuple[str, ...]) -> bool:
    folders = book.folders if subject.edits else (*book.folders, *book.readable)
    return not all(inside(place, folders) for place in found)


def _leaving(subject: Subject, found: tuple[str, ...], *, leaves: bool) -> str:
    """Say in a sentence that a call goes outside; where a link leads is said, since the path does not show it."""
    if leaves:
        return f"Its pattern may lead out of {visible_line(found[-1])}, to an unknown place."
    doing = "writes" if subject.edits else "reads"
    where = visible_line(found[-1])
    by = f" by way of {visible_line(found[0])}" if len(found) > 1 else ""
    return f"It {doing} outside the project: {where}{by}."


def _judge_search(
    book: RuleBook, behavior: Behavior, glob: str, not_searched: frozenset[str], found: tuple[str, ...]
) -> Decision | None:
    """Judge a search by the files below the searched folder."""
    rules = [rule for rule in book.about(behavior, READ) if rule.path]
    try:
        hidden = named_below(found[-1], rules, glob, not_searched) if found and rules else None
    except TooManyFiles:
        reason = f"The folder is too large to see whether it holds what the rule `{rules[0].rule}` is about."
        return Decision("ask", reason, firm=True)
    if hidden is None:
        return None
    file, rule = hidden
    if behavior == "ask":
        return asked_by(rule, f"A search that reads {visible_line(file)}")
    reason = (
        f"The search would read {visible_line(file)}, which the rule `{rule.rule}` denies. Search a folder without it,"
    )
    return Decision("deny", f"{reason} or leave it out with the glob `!{os.path.basename(file)}`.", str(rule.rule))


def judge_changes_below(book: RuleBook, folder: str) -> Decision | None:
    """Find what a rule has against a change of all that is below `folder`; None when nothing has."""
    for behavior, verdict in _RESTRICTIONS:
        rules = [rule for rule in book.about(behavior, EDIT) if rule.path]
        try:
            found = named_below(folder, rules, "")
        except TooManyFiles:
            reason = f"The folder is too large to see whether it holds what the rule `{rules[0].rule}` is about."
            return Decision("ask", reason, firm=True)
        if found:
            return verdict(found[1], f"Changing {visible_line(found[0])}")
    return None


def judge_made_below(book: RuleBook, source: str, target: str) -> Decision | None:
    """Find what a rule has against making below `target` what is below the folder `source`; None when nothing has."""
    restrictions = [
        (verdict, [rule for rule in book.about(behavior, EDIT) if rule.path and rule.path.may_match_below(target)])
        for behavior, verdict in _RESTRICTIONS
    ]
    if not any(rules for _, rules in restrictions) or not os.path.isdir(source):
        return None
    asked = None
    count = 0
    for here, folders, files in os.walk(source):
        count += len(folders) + len(files)
        if count > MAX_ENTRIES:
            reason = f"The folder is too large to see whether what is in it may be made in {visible_line(target)}."
            return asked or Decision("ask", reason, firm=True)
        there = os.path.normpath(os.path.join(target, os.path.relpath(here, source)))
        for place in (os.path.join(there, name) for name in (*folders, *files)):
            for verdict, rules in restrictions:
                if rule := next((rule for rule in rules if rule.covers_place((place,))), None):
                    decision = verdict(rule, f"Making {visible_line(place)}")
                    if decision.behavior == "deny":
                        return decision
                    asked = asked or decision
    return asked


def _judge_unruled(book: RuleBook, subject: Subject, path: str, found: tuple[str, ...], *, leaves: bool) -> Decision:
    if not found:
        return Decision("ask", f"{subject.name} does not say which file it is about.")
    if unseen := unseen_characters(_beyond_folders(path, book.folders)):
        return Decision("ask", f"The path {visible_line(found[-1])} has a character that cannot be seen ({unseen[0]}).")
    if subject.edits and (part := protected_change(found)):
        reason = f"{visible_line(found[-1])} is protected (`{part}`): each change of it needs your approval."
        return Decision("ask", reason, firm=True)
    rule = _granting(book, subject, found)
    if leaves or _outside(book, subject, found):
        if rule and not leaves:
            return allowed_by(rule)
        return Decision("ask", _leaving(subject, found, leaves=leaves))
    return _judge_inside(book, subject, rule, found)


def _granting(book: RuleBook, subject: Subject, found: tuple[str, ...]) -> CompiledRule | None:
    """The rule that allows where a file really is, if each of its places is allowed; one rule may be about one of them.

    Only a rule that names a place reaches outside: a bare `Read` means the session's folders.
    """
    folders = book.folders if subject.edits else (*book.folders, *book.readable)
    rules = book.about("allow", subject)
    rule = None
    for place in found:
        within = inside(place, folders)
        granting = (each for each in rules if (each.path.matches(place) if each.path else within and each.every_use))
        rule = next(granting, None)
        if rule is None:
            return None
    return rule


def _beyond_folders(path: str, folders: Sequence[str]) -> str:
    """Return the call's own part of `path`: how the session's folders are called is the user's business."""
    return next((path.removeprefix(folder) for folder in folders if path.startswith(folder)), path)


def _judge_inside(book: RuleBook, subject: Subject, rule: CompiledRule | None, found: Sequence[str]) -> Decision:
    if subject.reads:
        return Decision("allow", "It only reads, inside the session's folders.")
    if rule:
        return allowed_by(rule)
    if book.mode == "acceptEdits":
        return Decision("allow", "Mode Accept edits allows edits inside the session's folders.")
    # inside the folder the name in it says enough, and the long path would hide it
    start = f"{book.cwd}/"
    name = next((place.removeprefix(start) for place in reversed(found) if place.startswith(start)), found[-1])
    return Decision("ask", f"{EDITS}{visible_line(name)}.")


EDITS = "Edits "
"""The beginning of the reason of an edit that nothing is against but that no rule allows it."""


def protected_among(found: Sequence[str]) -> str | None:
    """The protected part of any of a file's places."""
    return next((part for place in found if (part := protected_part(place))), None)


def protected_change(found: Sequence[str]) -> str | None:
    """The protected part of any of the places of a file that is to be changed."""
    return protected_among(found) or ("HEAD" if any(map(makes_repository, found)) else None)


def _first_covering(rules: Sequence[CompiledRule], found: tuple[str, ...]) -> CompiledRule | None:
    if not found:
        return next((rule for rule in rules if rule.every_use), None)
    return next((rule for rule in rules if rule.covers_place(found)), None)
