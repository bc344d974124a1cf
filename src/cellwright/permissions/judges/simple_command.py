"""Judging one simple command: its redirects, its files, and whether a rule, its kind or the mode allows it."""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH112, PTH114, PTH115, PTH118, PTH119, PTH120

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.approval import Decision
from cellwright.permissions.judges.files import (
    EDITS,
    asks_for_process,
    first_of_process,
    judge_changes_below,
    judge_made_below,
    judge_path,
    protected_among,
)
from cellwright.permissions.paths import PathProblem, inside, places, protected_below, protected_part
from cellwright.permissions.protected_patterns import protected_by_pattern
from cellwright.permissions.rules.command_pattern import GrantedCommand
from cellwright.permissions.rules.rule import EDIT, LIST, READ, SEARCH, CompiledRule, RuleBook, Subject, allowed_by
from cellwright.permissions.shell.analysis import SAFE_ASSIGNMENT, Folders, Redirect, SimpleCommand, unwrapped
from cellwright.permissions.shell.command_paths import (
    Access,
    Starts,
    Use,
    folders_listed,
    is_harmless,
    paths_named,
    places_named,
    starts_at,
)
from cellwright.permissions.shell.conservative_parse import path_pieces
from cellwright.permissions.shell.git import only_reads, reading_runs_nothing
from cellwright.permissions.shell.plain_commands import READERS, files_changed, files_read
from cellwright.permissions.shell.reading import Word
from cellwright.text import lazy_pattern, visible_line

_HIDDEN_PATTERN = lazy_pattern(r"(?:\A|/)\.\w[^/]*[*?\[]")
"""A wildcard in a hidden name. In a text whose quotes are gone, `.*` is a pattern for something else."""
MAX_BELOW = 5_000
"""Names looked at in a folder that is moved, copied or removed; a larger one asks."""

ALLOWED = Decision("allow", "The command only reads and prints.")
READS_REPOSITORY = Decision("allow", "The command only reads the session's repository.")
LOOKS = (ALLOWED, READS_REPOSITORY)
"""The decisions about what writes nothing."""
UNKNOWN_FILE = "shows only when the command runs, so whether it may be used is not known"


_SUBJECTS: Mapping[Use, Subject] = {"Read": READ, "LS": LIST, "Grep": SEARCH, "Edit": EDIT}


class CommandFacts(Struct, frozen=True):
    """A simple command with what is known of it. `words`: without wrappers. `read`, `changed`: None where not known."""

    command: SimpleCommand
    words: tuple[Word, ...]
    gets_more: bool
    plain_variables: bool
    set_besides: bool
    read: tuple[Access, ...] | None
    changed: tuple[Access, ...] | None

    @property
    def accesses(self) -> tuple[Access, ...]:
        return self.read or self.changed or ()


def part_of(command: SimpleCommand, *, more_variables: bool = False) -> CommandFacts:
    """Look at `command`. `more_variables`: the call sets variables that are not known to be harmless."""
    inner = unwrapped(command.words)
    plain = not more_variables and all(SAFE_ASSIGNMENT.fullmatch(word.raw) for word in command.assignments)
    known = bool(inner.words) and not inner.gets_more
    read = files_read(inner.words) if known else None
    changed = files_changed(inner.words) if known and read is None else None
    return CommandFacts(
        command,
        inner.words,
        inner.gets_more,
        plain,
        more_variables,
        None if read is None else tuple(read),
        None if changed is None else tuple(changed),
    )


def only_looks(book: RuleBook, facts: CommandFacts) -> bool:
    """Return whether all the command can do is to read and print; which files is another question."""
    if not facts.plain_variables or writes_files(facts):
        return False
    if not facts.words:
        return not facts.command.assignments
    return facts.read is not None or (not facts.gets_more and _git_only_reads(book, facts))


def changes(facts: CommandFacts) -> bool:
    """Return whether the command may change files, as far as its own words tell."""
    return facts.read is None or writes_files(facts)


def writes_files(facts: CommandFacts) -> bool:
    """Return whether the command redirects output to a file."""
    return any(_writes(redirect) for redirect in facts.command.redirects)


def is_understood(book: RuleBook, facts: CommandFacts) -> bool:
    """Return whether it is known which files the command uses."""
    return not facts.words or facts.read is not None or facts.changed is not None or only_looks(book, facts)


def restricted_use(book: RuleBook, facts: CommandFacts) -> Decision | None:
    """Find what denies a file that the command is known to use, or has it asked for, in every mode."""
    asked = None
    folders = facts.command.folders
    uses = [
        *facts.accesses,
        *(_redirect_access(redirect) for redirect in facts.command.redirects if _is_file(redirect)),
    ]
    for access in uses:
        for path in paths_named(access.word, folders) or ():
            decision = judge_path(book, _SUBJECTS[access.use], path, glob="" if access.use == "Grep" else None)
            below = judge_changes_below(book, path) if access.whole else None
            if decision.behavior == "deny" and not (book.mode == "plan" and access.use == "Edit"):
                return decision
            below = below or _judge_made(book, access, path, folders)
            if below and below.behavior == "deny":
                return below
            if decision.behavior == "ask" and decision.firm and (decision.rule or access.use == "Grep"):
                asked = asked or decision
            asked = asked or below
    return asked


def judge_part(book: RuleBook, facts: CommandFacts) -> Decision:
    """Judge a simple command. Deny and ask rules for commands have been looked at, and critical deletes."""
    redirected = _judge_redirects(book, facts.command)
    program = _judge_program(book, facts)
    if program.behavior == "deny":
        return program
    if redirected is not None:
        is_plain = redirected.reason.startswith(EDITS) and not redirected.firm
        runs = program.behavior == "ask" and redirected.behavior == "ask" and is_plain
        written = redirected.reason.removeprefix(EDITS).removesuffix(".")
        if runs:  # what a program does is more than that its output goes to a file of the project
            return program.because(f"{program.reason} Writes {written}.")
        return redirected.because(f"Writes {written}; that needs your approval.") if is_plain else redirected
    return _why_written(book, facts.command) if program in LOOKS else program


def _why_written(book: RuleBook, command: SimpleCommand) -> Decision:
    """Say why a command whose program only reads may write to what it redirects to, if it does."""
    for redirect in filter(_writes, command.redirects):
        for path in paths_named(redirect.target, command.folders) or ():
            # the rule is one for files: nobody has allowed the command
            return replace(judge_path(book, EDIT, path), rule="")
    return ALLOWED


def against_writes(book: RuleBook, facts: CommandFacts) -> Decision | None:
    """Find what is against the command's writes, where all of Bash is allowed: protected, elsewhere, or not known."""
    for redirect in facts.command.redirects:
        if redirect.writes and (redirect.target.dynamic or _is_unclear(redirect.target)):
            return Decision("ask", f"It redirects with `{redirect.operator}` to what {UNKNOWN_FILE}.")
    written = [_redirect_access(redirect) for redirect in facts.command.redirects if redirect.writes]
    for access in (*written, *(access for access in facts.changed or () if access.use == "Edit")):
        paths = paths_named(access.word, facts.command.folders)
        if paths is None or all(is_harmless(path) for path in paths):
            continue
        against = _judge_access(book, access, facts.command)
        if against and (against.behavior == "deny" or against.firm or not all(is_inside(book, path) for path in paths)):
            return against
    return None


def _judge_redirects(book: RuleBook, command: SimpleCommand) -> Decision | None:
    """Find what is against the redirects; None when nothing is."""
    for redirect in command.redirects:
        if redirect.is_descriptor:
            continue
        if redirect.target.dynamic or (redirect.writes and _is_unclear(redirect.target)):
            return Decision("ask", f"It redirects with `{redirect.operator}` to or from what {UNKNOWN_FILE}.")
        if not _is_file(redirect):
            continue
        if against := _judge_access(book, _redirect_access(redirect), command):
            return against
    return None


def _is_unclear(target: Word) -> bool:
    return bool(target.globs) or target.raw.startswith("~")


def _is_file(redirect: Redirect) -> bool:
    return (redirect.reads or redirect.writes) and not redirect.is_descriptor


def _writes(redirect: Redirect) -> bool:
    return redirect.writes and (bool(redirect.target.dynamic) or not is_harmless(redirect.target.text))


def _redirect_access(redirect: Redirect) -> Access:
    return Access("Edit" if redirect.writes else "Read", redirect.target)


def _judge_access(book: RuleBook, access: Access, command: SimpleCommand) -> Decision | None:
    """Find what is against the use of a file; None when nothing is."""
    if access.use == "Edit" and (against := against_pattern(access.word, command.folders)):
        return against
    paths = paths_named(access.word, command.folders)
    listed = folders_listed(access.word, command.folders)
    if paths is None or listed is None:
        return Decision("ask", f"Which file `{visible_line(access.word.raw)}` is {UNKNOWN_FILE}.")
    uses: list[tuple[Use, str]] = [*((access.use, path) for path in paths), *(("LS", path) for path in listed)]
    for use, path in uses:
        if is_harmless(path):
            continue
        if not command.settled and (access.word.text != "." or command.folders != (book.cwd,)):
            return Decision("ask", f"Another part of the command may change where {visible_line(path)} leads.")
        if path.startswith(("/dev/tcp/", "/dev/udp/")):
            return Decision("ask", f"{visible_line(path)} is a connection to the network.")
        decision = judge_path(book, _SUBJECTS[use], path, glob="" if use == "Grep" else None)
        if decision.behavior != "allow":
            return decision
    return None


def _judge_program(book: RuleBook, facts: CommandFacts) -> Decision:
    command = facts.command
    if not command.words:
        if command.assignments:
            return Decision("ask", f"Sets a variable (`{visible_line(command.text)}`), which needs your approval.")
        return ALLOWED
    rule = granting_rule(book, facts)
    if rule is not None:
        against = _against_rule(book, facts, rule)
        if against is None:
            return allowed_by(rule)
        if against.behavior == "deny":
            return against
    else:
        against = Decision("ask", needs_approval(facts))
    if not facts.plain_variables:
        return against
    return against if sys.platform == "win32" else _judge_by_files(book, facts, against)


def _judge_by_files(book: RuleBook, facts: CommandFacts, against: Decision) -> Decision:
    """Judge a command by the files that it uses. Not on Windows: in Git Bash `/c/x` is not the `/c/x` of Windows."""
    command = facts.command
    if facts.read is not None:
        refused = next(filter(None, (_judge_access(book, access, command) for access in facts.read)), None)
        return refused or _follows_links(facts) or ALLOWED
    if not facts.gets_more and _git_only_reads(book, facts):
        # whatever git makes of a name with wildcards, the shell lists the folders that it leads through
        listed = (Access("LS", word) for word in facts.words if word.globs)
        return next(filter(None, (_judge_access(book, each, command) for each in listed)), READS_REPOSITORY)
    if facts.changed is not None and book.mode == "acceptEdits":
        return _judge_changes(book, facts)
    return against


def needs_approval(facts: CommandFacts) -> str:
    """Say that nothing is against a simple command but that no rule allows it."""
    return f"Running `{visible_line(facts.words[0].text)}` needs your approval."


def _follows_links(facts: CommandFacts) -> Decision | None:
    """Find what is against comparing folders: `diff` reads what the links in them lead to."""
    if facts.words[0].text != "diff" or any(word.text == "--no-dereference" for word in facts.words):
        return None
    for access in facts.accesses:
        if any(map(os.path.isdir, paths_named(access.word, facts.command.folders) or ())):
            reason = (
                "Where it compares folders, diff reads what links in them lead to; with --no-dereference it does not."
            )
            return Decision("ask", reason)
    return None


def granting_rule(book: RuleBook, facts: CommandFacts) -> CompiledRule | None:
    """The rule that covers the command as it is, or without the wrappers and harmless variables in front of it."""
    command = facts.command
    program = facts.words[0].text
    if "/" in program and not program.startswith("/") and command.folders != (book.cwd,):
        return None  # `./run` is another program in another folder than the one that the rule speaks of
    for rule in book.allow:
        if (grants := rule.grants) is None:
            continue
        if not facts.set_besides and grants.covers(command.words, command.assignments):
            return rule
        if not facts.plain_variables:
            continue
        again = facts.set_besides or command.assignments  # else it was asked just now
        if (again and grants.covers(command.words)) or _covers_inner(grants, facts):
            return rule
    return None


def _covers_inner(grants: GrantedCommand, facts: CommandFacts) -> bool:
    if facts.gets_more and not grants.takes_more:
        return False  # what xargs adds is not in what the rule says
    return len(facts.words) < len(facts.command.words) and grants.covers(facts.words)


def _against_rule(book: RuleBook, facts: CommandFacts, rule: CompiledRule) -> Decision | None:
    """Find what a rule for the command cannot wave through; None when there is nothing."""
    assert rule.grants is not None
    command = facts.command
    for access in facts.accesses:
        if rule.grants.is_exact and access.use != "Edit":
            continue
        against = _judge_access(book, access, command)
        if against and (against.behavior == "deny" or _is_elsewhere(book, access, command, against, rule)):
            return against
    if facts.read is not None or facts.changed is not None or rule.grants.is_exact:
        return None
    for word in _path_like(facts):
        against = _judge_access(book, Access("Read", word), command)
        if against and _is_elsewhere(book, Access("Read", word), command, against, rule):
            return against
    return _names_protected(book, facts)


def _names_protected(book: RuleBook, facts: CommandFacts) -> Decision | None:
    """A file that needs consent, named by a program of which nobody knows what it does with it."""
    if against := against_patterns(facts):
        return against
    starts = starts_at(facts.command.folders or (book.cwd,))
    pieces = {piece: None for word in facts.words for piece in path_pieces(word.text)}
    return against_names(pieces, starts)


def against_patterns(facts: CommandFacts) -> Decision | None:
    """Find what is against wildcards that could name what is protected, and variables that hold it; None if nothing is."""
    values = [word.text.partition("=")[2] for word in facts.command.assignments if not word.dynamic]
    if against := against_names(filter(None, values), starts_at(facts.command.folders or ())):
        return against
    words = () if facts.read is not None else facts.words
    return next(filter(None, (against_pattern(word, facts.command.folders) for word in words)), None)


def against_pattern(word: Word, folders: Folders) -> Decision | None:
    """Find what is against `word` because of what its wildcards could name, in any of `folders`; None if nothing is."""
    if not word.globs:
        return None
    # only the name of the folder can be the beginning of a protected one
    starts = dict.fromkeys(os.path.basename(folder) for folder in folders or ("",))
    for start in starts:
        if part := protected_by_pattern(word.text if word.text.startswith("/") else os.path.join(start, word.text)):
            reason = (
                f"{visible_line(word.text)} could name `{part}`, which is protected: each change needs your approval."
            )
            return Decision("ask", reason, firm=True)
    return None


Known = Mapping[str, tuple[str, ...] | None]
"""The places of names that were looked up for a decision."""


def against_names(names: Iterable[str], starts: Starts, known: Known = MappingProxyType({})) -> Decision | None:
    """Find what is against the files that `names` may mean, whatever is done with them; None when nothing is.

    `known` are the places of names that were looked up already.
    """
    for name in names:
        found = known[name] if name in known else places_named(name, starts)
        protected = protected_among(found or ())
        if _HIDDEN_PATTERN.search(name):
            protected = protected or protected_by_pattern(name)
        if protected:
            reason = f"The command names `{protected}`, which is protected: each change needs your approval."
            return Decision("ask", reason)
        if found is None and name.startswith("/") and fnmatchcase("proc", name.split("/")[1]):
            found = (f"/proc/{name.split('/', 2)[-1]}",)  # too many wildcards to expand
        if not is_harmless(name) and (shown := first_of_process(found or ())):
            return asks_for_process(shown)
    return None


def _is_elsewhere(
    book: RuleBook, access: Access, command: SimpleCommand, against: Decision, rule: CompiledRule
) -> bool:
    """Return whether `against` is more than that no rule for files allows the use: protected, or outside."""
    paths = paths_named(access.word, command.folders)
    if against.firm or paths is None or not command.settled:
        # an exact rule shows the word as it is
        return against.firm or not (rule.grants and rule.grants.is_exact)
    if rule.grants and rule.grants.is_exact:
        return False
    return not all(is_inside(book, path) for path in (*paths, *(folders_listed(access.word, command.folders) or ())))


def is_inside(book: RuleBook, path: str) -> bool:
    """Return whether all that `path` names on its way is in the session's folders."""
    try:
        return all(inside(place, book.folders) for place in places(path, book.cwd))
    except PathProblem:
        return False


_HELD_TO_FOLDERS = frozenset(
    {"find", "sed", "jq", "cp", "mv", "rm", "mkdir", "touch", "base64", "b2sum", "bzcat", "cksum", "cmp", "column"}
    | {"comm", "egrep", "fgrep", "file", "fold", "gzcat", "hexdump", "join", "md5sum", "nl", "od", "paste", "readlink"}
    | {"realpath", "rev", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "shuf", "stat", "tac", "tree"}
    | {"df", "xzcat", "zcat"}
)
"""Programs besides those of `READERS` that look at or change the files they are given."""


def _path_like(facts: CommandFacts) -> Iterator[Word]:
    """Words that name a place outside of the shell's folder, of a program that is known to read the files it is given."""
    program, *rest = facts.words
    if program.text not in READERS and program.text not in _HELD_TO_FOLDERS:
        return
    for word in rest:
        if word.raw.startswith("~") or word.text.startswith("/") or ".." in word.text.split("/"):
            yield word


def _git_only_reads(book: RuleBook, facts: CommandFacts) -> bool:
    program = facts.words[0]
    if program.raw != "git" or not only_reads(facts.words) or not facts.command.folders or not facts.command.settled:
        return False
    own = (book.cwd, *book.folders)
    return all(is_inside(book, folder) and reading_runs_nothing(folder, own) for folder in facts.command.folders)


def _judge_changes(book: RuleBook, facts: CommandFacts) -> Decision:
    assert facts.changed is not None
    for access in facts.changed:
        if against := _judge_access(book, access, facts.command):
            return against
        for path in paths_named(access.word, facts.command.folders) or ():
            if (access.whole or access.use != "Edit") and (hidden := _hidden_below(path, linked=access.use == "Grep")):
                return Decision("ask", f"{visible_line(path)} holds {visible_line(hidden)}, which needs your approval.")
            if against := _judge_moved_link(book, access, path, facts.command.folders):
                return against
            if access.source is not None and (inner := protected_below(path)):
                reason = f"{visible_line(path)} could create the protected path `{inner}`, so it needs your approval."
                return Decision("ask", reason)
    return Decision("allow", "Mode Accept edits allows changes of files inside the session's folders.")


def _judge_made(book: RuleBook, access: Access, target: str, folders: Folders) -> Decision | None:
    """Find what a rule has against the new names of what is copied or moved to `target`; None when nothing has."""
    sources = paths_named(access.source, folders) if access.source is not None else None
    return next(filter(None, (judge_made_below(book, source, target) for source in sources or ())), None)


def _judge_moved_link(book: RuleBook, access: Access, new_place: str, folders: Folders) -> Decision | None:
    """Find what is against a link at its new place, where a relative one leads elsewhere; None when nothing is."""
    if access.source is None or os.path.isdir(new_place):  # into a folder, it gets a name of its own there
        return None
    for source in paths_named(access.source, folders) or ():
        try:
            target = os.readlink(source.rstrip("/"))
        except OSError:  # no link
            continue
        leads_to = os.path.join(os.path.dirname(new_place), target)
        decision = judge_path(book, EDIT, leads_to)
        if decision.behavior != "allow":
            reason = f"At {visible_line(new_place)} the link would lead to {visible_line(leads_to)}. {decision.reason}"
            return decision.because(reason, rule="")
    return None


def judge_made_unseen(book: RuleBook, facts: CommandFacts) -> Decision | None:
    """Find what is against moving or copying what an earlier part of the command may have made; None when nothing is.

    Its names show only when the command runs, so rules about any below the target count.
    """
    rules = [rule for behavior in ("deny", "ask") for rule in book.about(behavior, EDIT) if rule.path]
    for access in facts.changed or ():
        for path in paths_named(access.word, facts.command.folders) or () if access.source is not None else ():
            if rule := next((rule for rule in rules if rule.path and rule.path.may_match_below(path)), None):
                reason = (
                    f"What is moved or copied to {visible_line(path)} shows only when the command runs, so the rule"
                )
                return Decision("ask", f"{reason} `{rule.rule}` cannot be checked.", firm=True)
    return None


def _hidden_below(path: str, *, linked: bool) -> str | None:
    """Find what is protected in the folder `path`, or a link in it that leads elsewhere once it is moved.

    `linked`: where `path` is a link, the folder that it leads to counts.
    """
    if not os.path.isdir(path) or (os.path.islink(path) and not linked):
        return None
    count = 0
    for here, folders, files in os.walk(path):
        for name in (*folders, *files):
            count += 1
            place = os.path.join(here, name)
            if count > MAX_BELOW:
                return f"more than {MAX_BELOW:,} files"
            if os.path.islink(place) or protected_part(place):
                return os.path.relpath(place, path)
    return None
