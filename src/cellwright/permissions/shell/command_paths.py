"""The files that a command has to do with: those that its words name, and hidden ones that it shows without naming them.

Of those that are named it is what the command does to each, and which places a word can name.

Rules that hide files also bind commands that another rule allows to run: `git show`, `tar c .`, `grep -R x`.

`git show`, `git log -p` and the like print what is in the history, which is not looked through: if a rule might be
about any of it, they are asked for, unless they name other files behind `--`. A plain `git diff` or `git grep` prints
tracked files, and the index says which those are.

`tar c .`, `grep -R x` and `find . | xargs cat` take in whole folders without naming each file, so the folder is
looked through.
"""

# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH111, PTH112, PTH113, PTH114, PTH117, PTH118, PTH207
from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct

from cellwright.agent.calls.approval import Decision
from cellwright.permissions.judges.files import TooManyFiles, named_below
from cellwright.permissions.paths import PathProblem, normalised, places
from cellwright.permissions.rules.rule import READ, CompiledRule, RuleBook
from cellwright.permissions.shell.analysis import Folders, named_path
from cellwright.permissions.shell.conservative_parse import PossibleCommand
from cellwright.permissions.shell.git import GLOBAL_WITH_VALUE, SUBCOMMANDS, repository_of, tracked_files
from cellwright.permissions.shell.reading import Word
from cellwright.text import lazy_pattern, visible_line

MAX_EXPANDED = 200
"""File names looked at for one wildcard."""
MAX_WILD_PARTS = 2
"""A word with more wildcard components is not expanded: it counts as naming anything."""
MAX_PATTERN = 500
"""Characters of a word with wildcards; a longer one counts as naming anything, too."""

HARMLESS_FILES = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_DESCRIPTOR = lazy_pattern(r"/dev/fd/(?:[0-2]|63)")
"""The standard ones, and what `<(…)` stands for; whatever else is open is not the command's."""
_PLAIN_NAME = lazy_pattern(r"(?!~)(?!\.\.?\Z)[\w.,:=@%+~-]+", re.ASCII)
_WILD = lazy_pattern(r"[*?\[]")
_OTHER_FOLDER = lazy_pattern(r"~(-|[+-]?\d)")
"""A folder that the shell was in before, or that is on its stack."""
_BRACKETS = lazy_pattern(r"\[(?P<not>[!^]?)(?P<inside>\]?[^\]/]*)\]")
_SINGLE_CHARACTERS = lazy_pattern(r"[^\[\]\\!^-]+")
_ANY_BRACKETS = lazy_pattern(r"\[[^/]*\]")

Use = Literal["Read", "LS", "Grep", "Edit"]
"""The tool whose rules speak about it: contents, names, contents of all below, changes."""


_PRINTERS = frozenset(
    {"diff", "show", "grep", "cat-file", "difftool", "diff-tree", "diff-index", "diff-files", "range-diff"}
    | {"archive", "format-patch", "fast-export", "bundle", "merge-tree", "merge-file", "unpack-file", "checkout-index"}
)
"""Subcommands that print, or write elsewhere, what is in files that they do not name. (`blame` names its file.)"""
_PATCH_ON_DEMAND = frozenset({"log", "whatchanged", "reflog", "stash", "rev-list"})
_PATCH = lazy_pattern(
    r"-[^-]*[puUcmWLGS].*|--(patch|cc|unified|remerge-diff|diff-merges|dd|word-diff|color-words|function-context|binary"
    r"|check|ext-diff|textconv)\b.*"
)
_NAMES_ONLY = lazy_pattern(
    r"--(stat|numstat|shortstat|dirstat|summary|compact-summary|name-only|name-status|raw|quiet|no-patch)\b(?!-with).*|-[sq]"
)
_OBJECT_TESTS = frozenset({"-t", "-s", "-e"})
_MAYBE_BLOB = lazy_pattern(r"[0-9a-fA-F]{4,64}(\^\{(blob|object)?\})?")
"""The name of any object, so perhaps that of a file's content; `abc123^{commit}` is certainly a commit."""
_SPECIAL = lazy_pattern(r"[*?\[\\]|\A:")
_IN_TREE = lazy_pattern(r"[\w./~^@-]*:(?:[0-3]:)?(?P<path>(?:[\w.][\w./ @+,-]*)?)")
"""`HEAD:path` or `:path`: that file alone, or the names in that folder."""
_OF_ONE_OBJECT = lazy_pattern(
    r"-[pstewb]|--(format|pretty|(no-)?color|textconv|no-textconv|no-patch|patch|oneline)(=.*)?"
)
"""Flags that say how an object is shown. Others may add commits: `--all`, `--reflog`, `--branches=x`."""
_TAKES_BLOBS = frozenset({"show", "diff", "cat-file", "grep", "difftool", "archive", "merge-file", "unpack-file"})
_OTHER_SIDES = frozenset({"--cached", "--staged", "--merge-base", "--no-index", "--untracked", "--no-exclude-standard"})
"""Flags with which `diff` and `grep` show something else than tracked files as they are."""


class Access(Struct, frozen=True):
    """A file that a command reads, lists, searches through or changes; `word` names it.

    `whole`: of a folder, all that is in it goes too. `source` is what is copied or moved there, with all that is in it.
    """

    use: Use
    word: Word
    whole: bool = False
    source: Word | None = None


HERE = Word(".", raw=".")


def is_harmless(path: str) -> bool:
    """Return whether reading or writing `path` touches no file."""
    return path in HARMLESS_FILES or _DESCRIPTOR.fullmatch(path) is not None


def paths_named(word: Word, folders: Folders, *, flags_too: bool = True) -> list[str] | None:
    """The absolute paths that `word` may name in any of `folders`, wildcards expanded; None where that is not known.

    `flags_too`: a wildcard may expand to a name that starts with `-`, and so be a flag instead; None then.
    """
    if word.dynamic:
        return None
    path = named_path(word)
    if path is None:
        return None
    if os.path.isabs(path) and not word.globs:
        return [path]
    if folders is None:
        return None
    if not word.globs:
        return [os.path.join(folder, path) for folder in folders]
    found: list[str] = []
    for folder in folders:
        names = _expanded(word, path, folder)
        if names is None or (flags_too and any(name.startswith("-") for name in names)):
            return None
        found.extend(os.path.join(folder, name) for name in names)
    return found


def folders_listed(word: Word, folders: Folders) -> list[str] | None:
    """The folders behind links that the shell lists to expand `word`, whatever it finds there; None for too many.

    `*/x*` lists each folder, and a link may lead anywhere. Folders that the word names as it is written are not among them.
    """
    path = named_path(word)
    pattern = _glob_of(word, path) if word.globs and path is not None else None
    if pattern is None:
        return []
    parts = pattern.split("/")
    last = max((index for index, part in enumerate(parts) if _WILD.search(part)), default=0)  # none in `a]`
    if not any(map(_WILD.search, parts[:last])):
        return []
    found: list[str] = []
    for folder in map(os.path.realpath, folders or ()):
        names = list(islice(_matching("/".join((*parts[:last], "")), folder), MAX_EXPANDED + 1))
        if len(names) > MAX_EXPANDED:
            return None
        listed = (os.path.join(folder, name) for name in names)
        found += [place for place in listed if os.path.realpath(place) != normalised(place)]
    return found


def _expanded(word: Word, path: str, folder: str) -> list[str] | None:
    pattern = _glob_of(word, path)
    if pattern is None:
        return None
    # what bash leaves out (dotfiles) counts too: which it leaves out depends on its options
    names = list(islice(_matching(pattern, folder), MAX_EXPANDED + 1))
    return None if len(names) > MAX_EXPANDED else [*names, path]


def _glob_of(word: Word, path: str) -> str | None:
    """The pattern by which `glob` finds what `word`, as a `path`, stands for; None where that may be anything."""
    before = len(path) - len(word.text)
    if len(path) > MAX_PATTERN or sum(1 for part in path.split("/") if _WILD.search(part)) > MAX_WILD_PARTS:
        return None
    return _pattern(
        "".join(
            character if index - before in word.globs else f"[{character}]" if character in "*?[" else character
            for index, character in enumerate(path)
        )
    )


def _pattern(text: str) -> str:
    """A pattern for `glob` that matches whatever bash may match with `text`."""
    if "[[" in text or "\\" in text:
        return _ANY_BRACKETS.sub("*", text)  # classes: where the brackets end is another question
    return _BRACKETS.sub(_bracket, text)


def _bracket(found: re.Match[str]) -> str:
    inside = found["inside"]
    if not _SINGLE_CHARACTERS.fullmatch(inside):
        return "?"  # what is between `a` and `z` depends on the language
    return f"[!{inside}]" if found["not"] else f"[{inside}]"


Starts = Mapping[str, tuple[str, ...]]
"""Folders that names may be meant from, each with all its places."""


def starts_at(folders: Iterable[str]) -> Starts:
    """`folders`, looked at once for all the names of a command."""
    found: dict[str, tuple[str, ...]] = {}
    for folder in folders:
        try:
            found[folder] = places(folder, "/")
        except PathProblem:  # names nothing
            continue
    return found


def places_named(name: str, starts: Starts) -> tuple[str, ...] | None:
    """The places that any text in a command may name, wildcards expanded; None where that may be anything."""
    if _OTHER_FOLDER.match(name):
        return None
    if name.startswith("~+"):
        name = f".{name[2:]}"
    wild = _WILD.search(name) is not None
    if wild and (len(name) > MAX_PATTERN or sum(1 for part in name.split("/") if _WILD.search(part)) > MAX_WILD_PARTS):
        return None
    # the quotes are gone, so what brackets hold is not known
    pattern = os.path.expanduser(_ANY_BRACKETS.sub("*", name)) if wild else name
    found: list[str] = []
    for folder, folder_places in starts.items():
        for spelling in [name, *(islice(_matching(pattern, folder), MAX_EXPANDED) if wild else ())]:
            if _PLAIN_NAME.fullmatch(spelling) and not os.path.islink(os.path.join(folder, spelling)):
                # most words of most commands: no way to go, so no link on it
                found += [os.path.join(place, spelling) for place in folder_places]
                continue
            try:
                found += places(spelling, folder)
            except PathProblem:  # no file can have such a name
                continue
    return tuple(found)


def _matching(pattern: str, folder: str) -> Iterator[str]:
    try:
        yield from glob.iglob(pattern, root_dir=folder, include_hidden=True)
    except ValueError:  # no file can have such a name
        return


_WEIGHT_OF_WAY, _WEIGHT_OF_LISTING = 3, 25
_OTHER_USER = lazy_pattern(r"~[^/]")


def looked_up(names: Iterable[str], folders: int) -> tuple[list[str], bool]:
    """As many of `names` as can be looked up in so many folders in a few milliseconds, and whether those are all."""
    # names that are looked up on disk for a command, weighed and counted for each folder that they may be meant from
    left = 400
    kept: list[str] = []
    for name in names:
        if _WILD.search(name) or _OTHER_USER.match(name):
            left -= folders * _WEIGHT_OF_LISTING
        else:
            left -= folders * (_WEIGHT_OF_WAY if "/" in name else 1)
        if left < 0:
            return kept, False
        kept.append(name)
    return kept, True


def accesses(use: Use, words: Iterable[Word]) -> Iterator[Access]:
    """One access for each of `words`."""
    return (Access(use, word) for word in words)


def hidden_by(book: RuleBook, folder: str, words: Sequence[str]) -> CompiledRule | None:
    """The rule against reading something that git, run in `folder` with `words` from its subcommand on, may print."""
    rules = [rule for rule in (*book.deny, *book.ask) if rule.path and rule.names(READ)]
    if not rules or not words or not _prints_files(words):
        return None
    try:
        folder = places(folder, book.cwd)[-1]
        top = repository_of(folder) or os.sep
        about = [rule for rule in rules if rule.path and rule.path.may_match_below(top)]
        return _about_shown(about, top, folder, words) if about else None
    except PathProblem:
        return rules[0]


def may_show(rule: CompiledRule) -> Decision:
    """Ask about a git command that may show what `rule` hides."""
    way = "Naming others behind `--` needs no question."
    return Decision(
        "ask", f"Git may print files that the rule `{rule.rule}` is about. {way}", str(rule.rule), firm=True
    )


def git_words(command: PossibleCommand) -> tuple[str, ...]:
    """Return what `command` gives to git, from the subcommand on; nothing where it runs no git."""
    names = [word.rpartition("/")[2].lower() for word in command.words]
    if "git" not in names or not (names[0] == "git" or command.runs_another):
        return ()
    left = list(command.words[names.index("git") + 1 :])
    while left and left[0].startswith("-"):
        if left.pop(0) in GLOBAL_WITH_VALUE and left:
            left.pop(0)
    return tuple(left)


def _prints_files(words: Sequence[str]) -> bool:
    subcommand, *rest = words
    flags = [word for word in _halves(rest)[0] if word.startswith("-")]
    patch = any(_PATCH.fullmatch(flag) for flag in flags)
    if subcommand in _PATCH_ON_DEMAND:
        return patch
    if subcommand == "cat-file":
        return not any(flag in _OBJECT_TESTS for flag in flags)
    if subcommand in ("diff", "show") and not patch and any(_NAMES_ONLY.fullmatch(flag) for flag in flags):
        return subcommand == "show" and any(_may_be_blob(word) for word in rest)
    return subcommand in _PRINTERS


def _halves(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Split `words` into what stands before `--` and what stands behind it."""
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def _may_be_blob(word: str) -> bool:
    return any(_MAYBE_BLOB.fullmatch(end) for end in re.split(r"\.{2,3}", word))


def _about_shown(rules: Sequence[CompiledRule], top: str, folder: str, words: Sequence[str]) -> CompiledRule | None:
    """The one of `rules` that may be about what is shown."""
    subcommand, *rest = words
    before, behind = _halves(rest)
    operands = _operands(subcommand, before)
    in_trees = [found["path"] for word in operands if (found := _IN_TREE.fullmatch(word))]
    for path in in_trees:
        start = folder if path.startswith(("./", "../")) else top
        if rule := _covering(rules, places(path, start)):
            return rule
    others = [word for word in operands if not _IN_TREE.fullmatch(word)]
    alone = all(_OF_ONE_OBJECT.fullmatch(word) for word in before if word.startswith("-"))
    if in_trees and not others and alone and subcommand in ("show", "cat-file"):
        return None
    if subcommand in _TAKES_BLOBS and any(map(_may_be_blob, others)):
        return rules[0]
    within = behind or others
    tracked = tracked_files(top) if _shows_tracked_alone(subcommand, before) else None
    # tracked files looked at; with more it is not known whether a rule is about one
    known = tracked is not None and len(tracked) <= 20_000 and not any(map(_SPECIAL.search, within))
    if tracked and known and (not others or (not behind and _are_there(folder, others))):
        return _about_tracked(rules, top, tracked, [os.path.join(folder, word) for word in within] or [top])
    if not behind:
        return rules[0]
    return next(filter(None, (_about_path(rules, folder, word) for word in behind)), None)


def _operands(subcommand: str, words: Sequence[str]) -> list[str]:
    known = SUBCOMMANDS.get(subcommand)
    taken = known.read([Word(word, raw=word) for word in words]) if known else None
    if taken is None:
        return [word for word in words if not word.startswith("-")]
    found = [word.text for word in taken.operands]
    return found[1:] if subcommand == "grep" and "-e" not in taken.flags else found


def _shows_tracked_alone(subcommand: str, flags: Sequence[str]) -> bool:
    """Return whether, as long as no revision is named, only files of the index are shown, as they are in the work tree."""
    return subcommand in ("diff", "grep") and not any(flag in _OTHER_SIDES for flag in flags)


def _are_there(folder: str, words: Sequence[str]) -> bool:
    # what is a revision as well git refuses
    return all(os.path.lexists(os.path.join(folder, word)) for word in words)


def _covering(rules: Sequence[CompiledRule], found: Sequence[str]) -> CompiledRule | None:
    return next((rule for rule in rules if rule.covers_place(found)), None)


def _about_path(rules: Sequence[CompiledRule], folder: str, pathspec: str) -> CompiledRule | None:
    if _SPECIAL.search(pathspec):
        return rules[0]
    found = places(pathspec, folder)
    if os.path.isfile(os.path.join(folder, pathspec)):
        return _covering(rules, found)
    # a folder, now or in the history, which may have held more than it does now
    return next((rule for rule in rules if _may_be_below(rule, found)), None)


def _may_be_below(rule: CompiledRule, folders: Sequence[str]) -> bool:
    return rule.path is not None and any(map(rule.path.may_match_below, folders))


def _about_tracked(
    rules: Sequence[CompiledRule], top: str, tracked: Sequence[str], within: Sequence[str]
) -> CompiledRule | None:
    starts = tuple(map(normalised, within))
    for name in tracked:
        place = os.path.join(top, name)
        if not place.startswith(starts):
            continue
        folder = normalised(place) if name.endswith("/") else ""  # a sparse index names folders in the place of files
        for rule in rules:
            if rule.covers_place((place,)) or (folder and _may_be_below(rule, (folder,))):
                return rule
    return None


_SEARCHERS = frozenset({"ack", "ag", "rg", "ugrep"})
"""Read all that is below the folder they are in, if they are given none."""
_COPIERS = frozenset(
    {"7z", "7za", "7zr", "bsdtar", "cp", "cpio", "ditto", "gtar", "install", "jar", "pax", "rar", "rclone", "rsync"}
    | {"scp", "sftp", "tar", "zip", "diff", "colordiff"}
)
_GREPS = frozenset({"egrep", "fgrep", "grep", "zgrep"})
_DEEP_GREP = lazy_pattern(r"-[A-Za-z]*[rR].*|--(dereference-)?recursive|-d|-drecurse|--directories(=recurse)?")
_TARGETS_LAST = frozenset({"cp", "rsync", "scp"})
_DEEP_COPY = lazy_pattern(r"-[A-Za-z]*[rRa].*|--recursive|--archive")
_UNPACKS = lazy_pattern(r"(--(extract|list|get|diff)|-?[A-Zabd-qs-twv-z]*[xt][A-Zabd-qs-twv-z]*)")
_SHOWS_CONTENTS = (
    _SEARCHERS
    | _COPIERS
    | _GREPS
    | frozenset(
        {
            "awk",
            "base32",
            "base64",
            "bat",
            "cat",
            "column",
            "cut",
            "fold",
            "gawk",
            "head",
            "hexdump",
            "jq",
            "less",
            "mawk",
        }
        | {
            "more",
            "nl",
            "od",
            "paste",
            "perl",
            "pr",
            "rev",
            "sed",
            "sort",
            "strings",
            "tac",
            "tail",
            "tee",
            "xxd",
            "yq",
        }
    )
)
_FEEDERS = frozenset({"fd", "fdfind", "find", "parallel", "xargs"})
"""Programs that give others the names of files that nobody sees."""


def shown_whole(book: RuleBook, parts: Sequence[PossibleCommand], folders: Sequence[str]) -> Decision | None:
    """Find what is against a command (`parts`, run in any of `folders`) that shows whole folders, or None."""
    rules = [rule for rule in (*book.deny, *book.ask) if rule.path and rule.names(READ)]
    if not rules:
        return None
    for part in parts:
        for folder in dict.fromkeys(_read_by(part, folders)):
            try:
                hidden = named_below(places(folder, book.cwd)[-1], rules, "")
            except TooManyFiles:
                return _too_large(folder, rules[0])
            except PathProblem:  # names nothing
                continue
            if hidden:
                file, rule = hidden
                reason = f"`{part.program}` may read {visible_line(file)}, which the rule `{rule.rule}` is about."
                return Decision("ask", reason, str(rule.rule), firm=True)
    return None


def _too_large(folder: str, rule: CompiledRule) -> Decision:
    reason = f"{visible_line(folder)} is too large to see whether it holds what the rule `{rule.rule}` is about."
    return Decision("ask", reason, str(rule.rule), firm=True)


def _read_by(command: PossibleCommand, folders: Sequence[str]) -> Iterator[str]:
    """Every folder that the part may read as a whole."""
    names = [word.rpartition("/")[2].lower() for word in command.words]
    if command.program in _FEEDERS:
        if not _SHOWS_CONTENTS.isdisjoint(names[1:]):
            yield from _named(command.words[1:], folders) if command.program in ("find", "fd", "fdfind") else ()
            yield from folders
        return
    at = 0
    if command.runs_another:
        at = next((index for index, name in enumerate(names) if name in _SHOWS_CONTENTS), 0)
    program, operands = names[at], command.words[at + 1 :]
    if program in _GREPS and not any(map(_DEEP_GREP.fullmatch, operands)):
        return
    if program in _TARGETS_LAST:
        if program != "rsync" and not any(map(_DEEP_COPY.fullmatch, operands)):
            return
        operands = _without_target(operands)
    if program in ("tar", "bsdtar", "gtar") and operands and _UNPACKS.fullmatch(operands[0]):
        return
    if program in _SEARCHERS | _COPIERS | _GREPS:
        found = list(_named(operands, folders))
        yield from found or (folders if program not in _COPIERS else ())


def _without_target(operands: Sequence[str]) -> tuple[str, ...]:
    """Return what is copied: all but the last name, unless that is the only one."""
    names = [index for index, word in enumerate(operands) if not word.startswith("-")]
    return tuple(word for index, word in enumerate(operands) if len(names) < 2 or index != names[-1])


def _named(words: Sequence[str], folders: Sequence[str]) -> Iterator[str]:
    for word in dict.fromkeys(words):
        for folder in folders:
            # `--directory=x`, `-Cx`
            for piece in (word, word.partition("=")[2], word[2:] if word.startswith("-") else ""):
                path = os.path.join(folder, os.path.expanduser(piece))
                if piece and os.path.isdir(path):
                    yield path
