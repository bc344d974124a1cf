"""The path in `Read(...)` and `Edit(...)`: gitignore-like patterns with Claude Code's anchors.

    //etc/hosts   from the root of the file system        /src/**    from the folder of the settings that say it
    ~/notes/**    from the home folder                    ./x, a/b   from the working directory
    .env          this name at any depth

A pattern that *grants* matches exactly, with case; one that *restricts* also covers everything below what it matches,
in any case and Unicode spelling, and a plain name anywhere on the machine.
"""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH111, PTH118, PTH119, PTH206

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache

from cellwright.permissions.paths import PathProblem, folded, folder_spellings, inside, normalised
from cellwright.text import lazy_pattern

ANY_DEPTH = "**"
_WILD = lazy_pattern(r"[*?\[\\]")


class PatternProblem(Exception):
    """A pattern that cannot be understood: why, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A compiled pattern: `parts` (components, with wildcards) below any of `bases` (absolute folders)."""

    bases: tuple[str, ...]
    parts: tuple[str, ...]
    restricts: bool
    starts: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        starts = tuple(base if base.endswith(os.sep) else base + os.sep for base in self.bases)
        object.__setattr__(self, "starts", starts)

    def matches(self, place: str) -> bool:
        """Return whether the absolute, normalised `place` falls under the pattern."""
        place = (folded(place) if self.restricts else place) + os.sep
        # most rules are about another place: that is to be seen at once
        if not place.startswith(self.starts):
            return False
        below = (place[len(start) :] for start in self.starts if place.startswith(start))
        return any(_match(self.parts, [name for name in rest.split(os.sep) if name]) for rest in below)

    @property
    def last_name(self) -> str:
        """A regular expression for the last name, folded, of what falls under the pattern while its folder does not."""
        if len(self.parts) > 1:
            return _component(self.parts[-2]).pattern
        return "|".join(rf"{re.escape(os.path.basename(base))}\Z" for base in self.bases)

    def may_match_below(self, folder: str) -> bool:
        """Return whether something inside the absolute `folder` could fall under the pattern."""
        if self.restricts:
            folder = folded(folder)
        return any(inside(base, [folder]) or inside(folder, [base]) for base in self.bases)


def compile_pattern(pattern: str, *, source_root: str, cwd: str, restricts: bool) -> PathPattern:
    """Make `pattern` ready to match; `source_root` is what `/x` is relative to. Raises PatternProblem."""
    _refuse_foreign_syntax(pattern)
    anchor, rest = _anchor(pattern, source_root, cwd, restricts)
    parts = [part for part in rest.split("/") if part not in ("", ".")]
    if rest.endswith("/"):
        parts.append(ANY_DEPTH)
    literal: list[str] = []
    while parts and not _WILD.search(parts[0]):
        literal.append(parts.pop(0))
    if ".." in parts:
        raise PatternProblem("has `..` after a wildcard")
    if restricts:
        # the link that the pattern goes through and what it leads to are both restricted
        bases = _spellings(os.path.join(anchor, *literal), cwd)
        return PathPattern(tuple(folded(base) for base in bases), _covering(parts), restricts=True)
    bases = tuple(normalised(os.path.join(base, *literal)) for base in _spellings(anchor, cwd))
    return PathPattern(bases, tuple(parts), restricts=False)


def _spellings(folder: str, cwd: str) -> tuple[str, ...]:
    try:
        return folder_spellings([folder], cwd)
    except PathProblem:  # links in a circle lead nowhere: what is written counts
        return (normalised(os.path.join(cwd, folder)),)


def _refuse_foreign_syntax(pattern: str) -> None:
    if "\0" in pattern:
        raise PatternProblem("has a NUL byte")
    try:
        os.fsencode(pattern)
    except UnicodeEncodeError as error:
        raise PatternProblem("has half a character") from error
    if pattern.startswith("!"):
        raise PatternProblem("starts with `!`; a rule cannot take back another")
    if pattern.startswith("~") and pattern != "~" and not pattern.startswith("~/"):
        raise PatternProblem("starts with `~`; only `~/` is understood (`./~x` is a file of that name)")
    if re.search(r"(?<!\[)\{[^/]*,[^/]*\}", pattern):
        raise PatternProblem("has braces; write one rule for each alternative")


def _anchor(pattern: str, source_root: str, cwd: str, restricts: bool) -> tuple[str, str]:
    if pattern.startswith("//"):
        return "/", pattern[2:]
    if pattern == "~" or pattern.startswith("~/"):
        return os.path.expanduser("~"), pattern[1:].lstrip("/")
    if pattern.startswith("/"):
        return source_root, pattern[1:]
    if pattern.startswith(("./", "../")):
        return cwd, pattern
    folder = pattern.removesuffix("/**").rstrip("/")
    if "/" not in folder and (restricts or folder == pattern):
        # one name: any depth. A grant for `src/**` means the one src here
        return ("/" if restricts else cwd), f"{ANY_DEPTH}/{pattern}"
    return cwd, pattern


def _covering(parts: Sequence[str]) -> tuple[str, ...]:
    kept = [folded(part) for part in parts]
    while kept and kept[-1] == ANY_DEPTH:
        kept.pop()
    return (*kept, ANY_DEPTH)


def _match(parts: Sequence[str], names: Sequence[str]) -> bool:
    if parts == (ANY_DEPTH,):
        return True
    # greedy with one point of return, as for `*` in a string: linear in practice, never exponential
    part = name = 0
    again: tuple[int, int] | None = None
    while name < len(names):
        if part < len(parts) and parts[part] == ANY_DEPTH:
            again = (part + 1, name)
            part += 1
        elif part < len(parts) and _component(parts[part]).match(names[name]):
            part, name = part + 1, name + 1
        elif again is not None:
            again = (again[0], again[1] + 1)
            part, name = again
        else:
            return False
    return all(left == ANY_DEPTH for left in parts[part:])


@lru_cache(maxsize=512)
def _component(part: str) -> re.Pattern[str]:
    escaped = re.sub(r"\\([*?\[])", r"[\1]", part).replace("[^", "[!")
    return re.compile(translate(escaped))


def escaped(path: str) -> str:
    """`path` with its wildcard characters taken literally, for a rule made from it."""
    return re.sub(r"([*?\[\\{])", r"[\1]", path)
