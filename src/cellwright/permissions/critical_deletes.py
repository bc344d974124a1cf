"""Deletions that no mode lets through unasked: `rm` or `rmdir` on what nobody means to delete.

Critical are the root of the file system and what lies directly in it, the home folder, the working folders and all
above them, the whole content of a working folder, and whatever a variable names, since an empty one leaves `/`.
"""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH111, PTH118

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from cellwright.permissions.paths import PathProblem, folded, folder_spellings, inside, places
from cellwright.permissions.rough_commands import Part, read_rough

_DELETERS = frozenset({"rm", "rmdir"})
_NAMED_ANYWHERE = re.compile(r"(?<![\w.-])(?:rm|rmdir)(?![\w.-])", re.IGNORECASE)
_SUBCOMMANDS = frozenset(
    {"apt", "brew", "cargo", "conda", "docker", "git", "helm", "npm", "pip", "pnpm", "podman", "yarn"}
)
"""Programs whose own `rm` deletes something else."""
_ALL_INSIDE = re.compile(r"/[*.?]+\Z")
_NAMELESS = re.compile(r"[./*?]+")


def critical_delete(command: str, folders: Sequence[str], cwd: str) -> str | None:
    """What `command` would delete that is critical (as the object of a sentence), or None.

    `folders` are the working folders, absolute and normalised, in all their spellings.
    """
    kept = tuple(folded(folder) for folder in (*folders, cwd, *_home()))
    parts = read_rough(command).parts
    starts = (
        cwd,
        *(os.path.join(cwd, part.words[1]) for part in parts if part.program == "cd" and len(part.words) > 1),
    )
    for part in parts:
        for operand in _operands(part):
            if any(_is_critical(operand, kept, start) for start in starts):
                return f"`{operand}`"
        if _deletes_unseen(part):
            return "something that cannot be seen before it runs"
    return None


def _home() -> tuple[str, ...]:
    return folder_spellings([os.path.expanduser("~")], "/")


def _operands(part: Part) -> list[str]:
    for index, word in enumerate(part.words):
        if word.rpartition("/")[2].lower() in _DELETERS and (index == 0 or part.runs_another):
            return [operand for operand in part.words[index + 1 :] if not operand.startswith("-")]
    return []


def _deletes_unseen(part: Part) -> bool:
    if part.program in ("xargs", "parallel", "find", "fd"):
        return any(word.rpartition("/")[2].lower() in _DELETERS for word in part.words)
    named = any(_NAMED_ANYWHERE.search(word) for word in part.words[1:])
    return named and part.opaque and part.program not in _SUBCOMMANDS


def _is_critical(operand: str, kept: Sequence[str], cwd: str) -> bool:
    if operand.startswith("$") or _NAMELESS.fullmatch(operand):
        return True
    whole = _ALL_INSIDE.sub("", operand) or "/"
    try:
        found = [folded(place) for place in places(whole, cwd)]
    except PathProblem:
        return True
    return any(place.count("/") <= 1 or any(inside(folder, [place]) for folder in kept) for place in found)
