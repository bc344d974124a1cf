"""Would `tar c .`, `grep -R x` or `find . | xargs cat`, which show or copy whole folders, show what a rule hides?

What a rule allows to run is bound by rules that hide files all the same. These programs do not name each file, so the
folder is looked through.
"""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH111, PTH112, PTH118

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from cellwright.agent.calls.approval import Decision
from cellwright.permissions.paths import PathProblem, places
from cellwright.permissions.rule_book import RuleBook
from cellwright.permissions.rules.rule import CompiledRule
from cellwright.permissions.searched_folders import TooManyFiles, named_below
from cellwright.permissions.shell.conservative_parse import Part
from cellwright.text import visible_line

_SEARCHERS = frozenset({"ack", "ag", "rg", "ugrep"})
"""Read all that is below the folder they are in, if they are given none."""
_COPIERS = frozenset(
    {"7z", "7za", "7zr", "bsdtar", "cp", "cpio", "ditto", "gtar", "install", "jar", "pax", "rar", "rclone", "rsync"}
    | {"scp", "sftp", "tar", "zip", "diff", "colordiff"}
)
_GREPS = frozenset({"egrep", "fgrep", "grep", "zgrep"})
_DEEP_GREP = re.compile(r"-[A-Za-z]*[rR].*|--(dereference-)?recursive|-d|-drecurse|--directories(=recurse)?")
_TARGETS_LAST = frozenset({"cp", "rsync", "scp"})
_DEEP_COPY = re.compile(r"-[A-Za-z]*[rRa].*|--recursive|--archive")
_UNPACKS = re.compile(r"(--(extract|list|get|diff)|-?[A-Zabd-qs-twv-z]*[xt][A-Zabd-qs-twv-z]*)")
_PRINTERS = (
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


def shown_whole(book: RuleBook, parts: Sequence[Part], folders: Sequence[str]) -> Decision | None:
    """What is against a command (`parts`, run in any of `folders`) that shows whole folders; None when nothing is."""
    rules = [rule for rule in (*book.deny, *book.ask) if rule.path and rule.names("Read")]
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


def _read_by(part: Part, folders: Sequence[str]) -> Iterator[str]:
    """Every folder that the part may read as a whole."""
    names = [word.rpartition("/")[2].lower() for word in part.words]
    if part.program in _FEEDERS:
        if not _PRINTERS.isdisjoint(names[1:]):
            yield from _named(part.words[1:], folders) if part.program in ("find", "fd", "fdfind") else ()
            yield from folders
        return
    at = 0
    if part.runs_another:
        at = next((index for index, name in enumerate(names) if name in _PRINTERS), 0)
    program, operands = names[at], part.words[at + 1 :]
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
    """What is copied: all but the last name, unless that is the only one."""
    names = [index for index, word in enumerate(operands) if not word.startswith("-")]
    return tuple(word for index, word in enumerate(operands) if len(names) < 2 or index != names[-1])


def _named(words: Sequence[str], folders: Sequence[str]) -> Iterator[str]:
    for word in words:
        for folder in folders:
            # `--directory=x`, `-Cx`
            for piece in (word, word.partition("=")[2], word[2:] if word.startswith("-") else ""):
                path = os.path.join(folder, os.path.expanduser(piece))
                if piece and os.path.isdir(path):
                    yield path
