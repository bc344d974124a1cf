"""The files that a command has to do with: what it does to each, and which places a word of a command can name."""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH111, PTH114, PTH117, PTH118, PTH207

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Literal

from msgspec import Struct

from cellwright.permissions.paths import PathProblem, normalised, places
from cellwright.permissions.shell.analysis import Folders, named_path
from cellwright.permissions.shell.words import Word
from cellwright.text import lazy_pattern

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


MAX_LOOK_UPS = 400
"""Names that are looked up on disk for a command, weighed and counted for each folder that they may be meant from."""
_WEIGHT_OF_WAY, _WEIGHT_OF_LISTING = 3, 25
_OTHER_USER = lazy_pattern(r"~[^/]")


def looked_up(names: Iterable[str], folders: int) -> tuple[list[str], bool]:
    """As many of `names` as can be looked up in so many folders in a few milliseconds, and whether those are all."""
    left = MAX_LOOK_UPS
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
