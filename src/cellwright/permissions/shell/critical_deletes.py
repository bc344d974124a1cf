"""Deletions that no mode lets through unasked: `rm`, `rmdir`, `find -delete`, `git clean` on vital places.

Critical are the root of the file system and what lies directly in it, the home folder, the working folders and all
above them, the whole content of a working folder, and whatever a variable names, since an empty one leaves `/`.
"""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH111, PTH118

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from cellwright.permissions.paths import PathProblem, folded, folder_spellings, inside, places
from cellwright.permissions.shell.analysis import SimpleCommand, unwrapped
from cellwright.permissions.shell.conservative_parse import PossibleCommand, parse_conservatively

_DELETERS = frozenset({"rm", "rmdir"})
_NAMED_ANYWHERE = re.compile(r"(?<![\w.-])(?:rm|rmdir)(?![\w.-])", re.IGNORECASE)
_SUBCOMMANDS = frozenset(
    {"apt", "brew", "cargo", "conda", "docker", "git", "helm", "npm", "pip", "pnpm", "podman", "yarn"}
)
"""Programs whose own `rm` deletes something else."""
_ALL_INSIDE = re.compile(r"/[*.?]+\Z")
_NAMELESS = re.compile(r"[./*?]+")
_FIND_FILTER = re.compile(r"-(i?name|i?path|i?regex|(i?whole|l)name|size|[acm](time|min)|newer.*|user|empty|perm)")
_FILLED_IN = re.compile(
    r"(?:^|[;&|\n(`{!]|\b(?:then|do|else|sudo|doas|time|exec|command|nohup|env)\s)\s*(?:\S*/)?rm(?:dir)?\s[^;|&\n]*(?:\$\(|`)"
)
"""`rm` with what another command prints."""
_EVERYTHING = "everything that is not committed"
_UNSEEN = "something that cannot be seen before it runs"


def critical_delete(command: str, commands: Sequence[SimpleCommand], folders: Sequence[str], cwd: str) -> str | None:
    """Find what `command` would delete that is critical (as the object of a sentence), or None.

    `commands`: what it is known to run. `folders` are the working folders, absolute and normalised, in all spellings.
    """
    parts = parse_conservatively(command).parts
    if not any(_may_delete(part) for part in parts):
        return None
    kept = tuple(folded(folder) for folder in (*folders, cwd, *_home()))
    starts = (
        cwd,
        *(os.path.join(cwd, part.words[1]) for part in parts if part.program == "cd" and len(part.words) > 1),
    )
    for part in parts:
        for operand in (*_operands(part), *_found(part)):
            if any(_is_critical(operand, kept, start) for start in starts):
                return f"`{operand}`"
        if _cleans_all(part):
            return _EVERYTHING
        if _deletes_unseen(part):
            return _UNSEEN
    return _UNSEEN if _FILLED_IN.search(command) or any(map(_names_dynamically, commands)) else None


def _may_delete(part: PossibleCommand) -> bool:
    return any(_NAMED_ANYWHERE.search(word) or word in ("-delete", "clean") for word in part.words)


def _home() -> tuple[str, ...]:
    return folder_spellings([os.path.expanduser("~")], "/")


def _operands(part: PossibleCommand) -> list[str]:
    for index, word in enumerate(part.words):
        if word.rpartition("/")[2].lower() in _DELETERS and (index == 0 or part.runs_another):
            return [operand for operand in part.words[index + 1 :] if not operand.startswith("-")]
    return []


def _found(part: PossibleCommand) -> Iterator[str]:
    """Yield where `find … -delete` starts, as `rm` would name it: filtered, it is only critical beyond the folder."""
    if "-delete" not in part.words:
        return
    index = next((index for index, word in enumerate(part.words) if word.rpartition("/")[2] == "find"), None)
    if index is None:
        return
    filtered = any(_FIND_FILTER.fullmatch(word) for word in part.words)
    starts = []
    for word in part.words[index + 1 :]:
        if word.startswith("-"):
            break
        starts.append(word)
    for start in starts or ["."]:
        # `find . -name x -delete` is how one cleans up
        if not (filtered and start.rstrip("/") in (".", "./")):
            yield start


def _cleans_all(part: PossibleCommand) -> bool:
    """Return whether `part` is `git clean -f` without a path: what nobody has committed is in no history."""
    words = list(part.words)
    index = next((index for index, word in enumerate(words) if word.rpartition("/")[2].lower() == "git"), None)
    if index is None or "clean" not in words[index:] or not (index == 0 or part.runs_another):
        return False
    rest = words[words.index("clean", index) + 1 :]
    flags = [word for word in rest if word.startswith("-") and word != "--"]
    if any(word in ("--dry-run", "--help") or re.fullmatch(r"-\w*n\w*", word) for word in flags):
        return False
    named = [word for word in rest if not word.startswith("-") and not _NAMELESS.fullmatch(word)]
    return not named


def _deletes_unseen(part: PossibleCommand) -> bool:
    if part.program in ("xargs", "parallel", "find", "fd"):
        return any(word.rpartition("/")[2].lower() in _DELETERS for word in part.words)
    named = any(_NAMED_ANYWHERE.search(word) for word in part.words[1:])
    return named and part.opaque and part.program not in _SUBCOMMANDS


def _names_dynamically(command: SimpleCommand) -> bool:
    """Return whether `rm` is given what another command prints: `rm -rf $(cat list)`."""
    words = unwrapped(command.words).words
    if not words or words[0].text.rpartition("/")[2] not in _DELETERS:
        return False
    return any(word.dynamic and ("$(" in word.raw or "`" in word.raw) for word in words[1:])


def _is_critical(operand: str, kept: Sequence[str], cwd: str) -> bool:
    if operand.startswith("$") or _NAMELESS.fullmatch(operand):
        return True
    whole = _ALL_INSIDE.sub("", operand) or "/"
    try:
        found = [folded(place) for place in places(whole, cwd)]
    except PathProblem:
        return True
    return any(place.count("/") <= 1 or any(inside(folder, [place]) for folder in kept) for place in found)
