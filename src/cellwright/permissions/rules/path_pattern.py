"""The path in `Read(...)` and `Edit(...)`: gitignore-like patterns with Claude Code's anchors.

    //etc/hosts   from the root of the file system        /src/**    from the folder of the settings that say it
    ~/notes/**    from the home folder                    ./x, a/b   from the working directory
    .env          this name at any depth

A pattern that *grants* matches exactly, with case; one that *restricts* also covers everything below what it matches,
in any case and Unicode spelling, and a plain name anywhere on the machine.

Brackets are a set of characters, as in gitignore, and also stand in names: `app/[slug]`, `[...rest]`, `[[...x]]`. One that
restricts covers both, the pattern and the name. One that grants never covers both: the name if something of that very
name exists, else the pattern. `[[]slug]`, which `escaped` writes, is the name alone in either.
"""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH111, PTH118, PTH119, PTH206, PTH207

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from itertools import islice

from cellwright.permissions.paths import PathProblem, folded, folder_spellings, inside, normalised
from cellwright.text import lazy_pattern

ANY_DEPTH = "**"
_WILD = lazy_pattern(r"[*?\[\\]")
_ESCAPED = lazy_pattern(r"\[[*?\[\\{\s]\]|\\[*?\[]")
"""One character taken literally, as `escaped` writes it, or with gitignore's backslash."""


class PatternProblem(Exception):
    """A pattern that cannot be understood: why, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class PathPattern:
    """A compiled pattern: `parts` (components, with wildcards) below any of `bases` (absolute folders).

    `named`: the same with its brackets read as part of names, for a pattern that restricts; None if that is no other.
    """

    bases: tuple[str, ...]
    parts: tuple[str, ...]
    restricts: bool
    named: PathPattern | None = None
    starts: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        starts = tuple(base if base.endswith(os.sep) else base + os.sep for base in self.bases)
        object.__setattr__(self, "starts", starts)

    def matches(self, place: str) -> bool:
        """Return whether the absolute, normalised `place` falls under the pattern."""
        if self.named is not None and self.named.matches(place):
            return True
        place = (folded(place) if self.restricts else place) + os.sep
        # most rules are about another place: that is to be seen at once
        if not place.startswith(self.starts):
            return False
        below = (place[len(start) :] for start in self.starts if place.startswith(start))
        component = _widely if self.restricts else _component
        return any(_match(self.parts, [name for name in rest.split(os.sep) if name], component) for rest in below)

    @property
    def last_name(self) -> str:
        """A regular expression for the last name, folded, of what falls under the pattern while its folder does not."""
        names = (rf"{re.escape(os.path.basename(base))}\Z" for base in self.bases)
        own = _widely(self.parts[-2]).pattern if len(self.parts) > 1 else "|".join(names)
        return own if self.named is None else f"{own}|{self.named.last_name}"

    def may_match_below(self, folder: str) -> bool:
        """Return whether something inside the absolute `folder` could fall under the pattern."""
        if self.named is not None and self.named.may_match_below(folder):
            return True
        if self.restricts:
            folder = folded(folder)
        return any(inside(base, [folder]) or inside(folder, [base]) for base in self.bases)


def compile_pattern(pattern: str, *, source_root: str, cwd: str, restricts: bool) -> PathPattern:
    """Make `pattern` ready to match; `source_root` is what `/x` is relative to. Raises PatternProblem."""
    _refuse_foreign_syntax(pattern)
    anchor, parts = _split(pattern, source_root, cwd, restricts)
    wild = next((index for index, part in enumerate(parts) if _WILD.search(part)), len(parts))
    if ".." in parts[wild:]:
        raise PatternProblem("has `..` after a wildcard")
    literal = _taken_off(parts, lambda part: _WILD.search(part) is None)
    named = _taken_off([*parts], lambda part: _WILD.search(part) is None or _is_name_in_brackets(part))
    if not restricts and named:
        last = max(index for index, part in enumerate(named) if _has_brackets(part))
        if os.path.lexists(os.path.join(anchor, *literal, *named[: last + 1])):
            literal, parts = [*literal, *named], parts[len(named) :]
    if not restricts:
        bases = tuple(normalised(os.path.join(base, *literal)) for base in _spellings(anchor, cwd))
        return PathPattern(bases, tuple(parts), restricts=False)
    also = _restricting(anchor, [*literal, *named], parts[len(named) :], cwd) if named else None
    return _restricting(anchor, literal, parts, cwd, also)


def _split(pattern: str, source_root: str, cwd: str, restricts: bool) -> tuple[str, list[str]]:
    """The folder that `pattern` starts from, and its components."""
    anchor, rest = _anchor(pattern, source_root, cwd, restricts)
    parts = [part for part in rest.split("/") if part not in ("", ".")]
    return anchor, [*parts, ANY_DEPTH] if rest.endswith("/") else parts


def _taken_off(parts: list[str], while_true: Callable[[str], bool]) -> list[str]:
    """Take the first components off `parts`, as long as something holds for them."""
    count = next((index for index, part in enumerate(parts) if not while_true(part)), len(parts))
    taken = parts[:count]
    del parts[:count]
    return taken


def _restricting(
    anchor: str, literal: Sequence[str], parts: Sequence[str], cwd: str, named: PathPattern | None = None
) -> PathPattern:
    # the link that the pattern goes through and what it leads to are both restricted
    bases = _spellings(os.path.join(anchor, *literal), cwd)
    return PathPattern(tuple(folded(base) for base in bases), _covering(parts), restricts=True, named=named)


def _is_name_in_brackets(part: str) -> bool:
    """Return whether `part` is a pattern only by brackets that may as well be part of a name: `[slug]`."""
    return not re.search(r"[*?\\]", part) and _has_brackets(part)


def _has_brackets(part: str) -> bool:
    return "[" in _ESCAPED.sub("", part)


def taken_by_name(pattern: str, *, source_root: str, cwd: str) -> str | None:
    """The path that `pattern` names if its brackets are part of names, if only that exists and nothing that they match.

    None for a pattern without such brackets, and if too much would have to be looked at. Raises PatternProblem.
    """
    _refuse_foreign_syntax(pattern)
    anchor, parts = _split(pattern, source_root, cwd, False)
    if not any(map(_has_brackets, parts)):
        return None
    first = next((index for index, part in enumerate(parts) if part == ANY_DEPTH), len(parts))
    if first == 0:
        return None
    readings = ([_GLOB_MARK.sub("[[]", part) for part in parts[:first]], [_as_glob(part) for part in parts[:first]])
    by_name, by_pattern = (_first_existing(anchor, reading) for reading in readings)
    return by_name if by_pattern is None else None


_GLOB_MARK = lazy_pattern(r"\[")


def _first_existing(folder: str, parts: Sequence[str]) -> str | None:
    found = glob.iglob(os.path.join(*parts), root_dir=folder, include_hidden=True)
    return next((os.path.join(folder, name) for name in islice(found, 1)), None)


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


def _match(parts: Sequence[str], names: Sequence[str], component: Callable[[str], re.Pattern[str]]) -> bool:
    if parts == (ANY_DEPTH,):
        return True
    # greedy with one point of return, as for `*` in a string: linear in practice, never exponential
    part = name = 0
    again: tuple[int, int] | None = None
    while name < len(names):
        if part < len(parts) and parts[part] == ANY_DEPTH:
            again = (part + 1, name)
            part += 1
        elif part < len(parts) and component(parts[part]).match(names[name]):
            part, name = part + 1, name + 1
        elif again is not None:
            again = (again[0], again[1] + 1)
            part, name = again
        else:
            return False
    return all(left == ANY_DEPTH for left in parts[part:])


@lru_cache(maxsize=512)
def _component(part: str) -> re.Pattern[str]:
    return re.compile(translate(_as_glob(part)))


def _as_glob(part: str) -> str:
    return re.sub(r"\\([*?\[])", r"[\1]", part).replace("[^", "[!")


@lru_cache(maxsize=512)
def _widely(part: str) -> re.Pattern[str]:
    """The component in every way it can be read: as a pattern, with its brackets in the name, and as it stands."""
    readings = [_component(part).pattern]
    if _has_brackets(part):
        readings.append(translate(part.replace("[", "[[]")))
    if "\\" in _ESCAPED.sub("", part) or (_WILD.search(part) and "\\" in part):
        readings.append(rf"{re.escape(part)}\Z")
    return re.compile("|".join(dict.fromkeys(readings)))


def escaped(path: str) -> str:
    """`path` with its wildcard characters taken literally, for a rule made from it; a blank at its end stays there."""
    return re.sub(r"([*?\[\\{]|\s\Z)", r"[\1]", path)
