"""Which folder the shell is in after a `cd`, as far as that can be told from the text."""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH111, PTH118, PTH206

from __future__ import annotations

import os
from collections.abc import Sequence

from cellwright.permissions.paths import normalised
from cellwright.permissions.shell.tokens import Word

Folders = tuple[str, ...] | None
"""The folders the shell may be in; None where that is not known."""

_MOVERS = frozenset({"cd", "pushd", "popd", "builtin", "command", "eval", "source", ".", "exec", "trap", "time"})
"""Programs that may take the shell elsewhere, or hide one that does."""


def moved(words: Sequence[Word], assignments: Sequence[Word], folders: Folders) -> Folders:
    """The folders the shell may be in after the simple command `words` succeeded."""
    if not words:
        return folders
    program = words[0]
    if program.dynamic or program.globs:
        return None
    if program.text not in _MOVERS:
        return folders
    target = folder_named(words)
    if target is None or folders is None or assignments:
        return None
    found = [_joined(folder, target) for folder in folders]
    return None if None in found else tuple(place for place in found if place is not None)


def folder_named(words: Sequence[Word]) -> str | None:
    """The folder that `cd` or `pushd` names, `~` expanded; None where it shows only when it runs."""
    program, *rest = words
    if program.text not in ("cd", "pushd"):
        return None
    if rest and rest[0].text in ("--", "-L"):
        rest = rest[1:]
    if not rest and program.text == "cd":
        return os.path.expanduser("~")
    if len(rest) != 1 or rest[0].dynamic or rest[0].globs:
        return None
    return named_path(rest[0]) if not rest[0].text.startswith(("-", "+")) and rest[0].text else None


def named_path(word: Word) -> str | None:
    """The path that a word is for the program that gets it: `~` expanded where bash expands it; None for `~user`."""
    if not word.raw.startswith("~"):
        return word.text
    if word.raw == "~" or word.raw.startswith("~/"):
        return os.path.expanduser("~") + word.text[1:]
    return None


def _joined(folder: str, target: str) -> str | None:
    path = os.path.join(folder, target)
    place = normalised(path)
    # bash takes `link/..` for the folder of the link, the system for the parent of what it leads to
    if os.pardir in target.split(os.sep) and os.path.realpath(path) != os.path.realpath(place):
        return None
    return place
