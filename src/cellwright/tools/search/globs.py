"""Globs as ripgrep reads them (`.gitignore`'s rules, and `{a,b}`), as regular expressions; and the readings of one.

`[slug]` and `{a}` may be the names of folders, so the disk is asked before they are patterns. A part of a glob that exists
literally is literal. Where the folder is not known (below a `*`), each reading is tried on the files there are, the literal
one first.
"""

from __future__ import annotations

import itertools
import os
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from cellwright.text import lazy_pattern

NAMES_LOOKED_AT = 20_000

_WILD = lazy_pattern(r"[*?\[{\\]")
_BRACKETS = lazy_pattern(r"(?<!\\)([\[\]])")
_BRACES = lazy_pattern(r"(?<!\\)([{}])")
_STARS = lazy_pattern(r"[*?]")


def any_matcher(globs: Sequence[str]) -> Callable[[str], bool]:
    """Build a test for paths that match one of `globs`. Raises ValueError as `glob_matcher`."""
    matchers = [glob_matcher(glob) for glob in globs]
    return matchers[0] if len(matchers) == 1 else lambda path: any(matches(path) for matches in matchers)


def glob_matcher(glob: str) -> Callable[[str], bool]:
    """Build a test for paths relative to the searched folder, with `/`. Raises ValueError for a malformed glob.

    A glob without a slash matches a name in any folder; one with a slash starts at the searched folder.
    """
    try:
        pattern = re.compile(glob_regex(glob), re.DOTALL)
    except re.error as error:
        raise ValueError(f"error parsing glob '{glob}': {error.msg}") from error
    return lambda path: pattern.fullmatch(path) is not None


def glob_regex(glob: str) -> str:
    """The regular expression that a whole path must match."""
    anchored = "/" in glob.rstrip("/")
    body = _Translation(glob.lstrip("/") if glob.startswith("/") else glob).regex()
    return body if anchored or glob.startswith("/") else f"(?:.*/)?{body}"


class _Translation:
    """One pass over a glob."""

    def __init__(self, glob: str) -> None:
        self._glob = glob
        self._at = 0
        self._open = 0

    def regex(self) -> str:
        parts = []
        while self._at < len(self._glob):
            parts.append(self._next())
        if self._open:
            raise ValueError(f"error parsing glob '{self._glob}': unclosed alternate group; missing '}}'")
        return "".join(parts)

    def _next(self) -> str:
        character = self._glob[self._at]
        if character == "*":
            return self._stars()
        self._at += 1
        if character == "[":
            return self._set()
        if character == "\\" and self._at < len(self._glob):
            self._at += 1
            return re.escape(self._glob[self._at - 1])
        if character in "{},":
            return self._alternates(character)
        return "[^/]" if character == "?" else re.escape(character)

    def _stars(self) -> str:
        begins = self._at == 0 or self._glob[self._at - 1] in "/{,"
        count = len(self._glob[self._at :]) - len(self._glob[self._at :].lstrip("*"))
        self._at += count
        after = self._glob[self._at : self._at + 1]
        if count >= 2 and begins and after == "/":
            self._at += 1
            return "(?:.*/)?"
        if count >= 2 and begins and not after:
            return ".+" if self._at > count else ".*"
        return "[^/]*"

    def _alternates(self, character: str) -> str:
        if character == "{":
            self._open += 1
            return "(?:"
        if character == "," and self._open:
            return "|"
        if character == "}" and self._open:
            self._open -= 1
            return ")"
        if character == "}":
            raise ValueError(f"error parsing glob '{self._glob}': unopened alternate group; missing '{{'")
        return re.escape(character)

    def _set(self) -> str:
        start = self._at
        negated = self._glob[start : start + 1] in ("!", "^")
        start += negated
        end = self._glob.find("]", start + 1)
        if end < 0:
            raise ValueError(f"error parsing glob '{self._glob}': unclosed character class; missing ']'")
        self._at = end + 1
        inside = self._glob[start:end].replace("\\", r"\\").replace("[", r"\[").replace("]", r"\]").replace("^", r"\^")
        return f"[^/{inside}]" if negated else f"(?!/)[{inside}]"


class GlobReadings(Struct, frozen=True):
    """A glob as it may be meant below `folder`: `readings` in the order in which they are tried, each one glob or several.

    `link` is set where the glob leads through a symbolic link: the search starts behind it then, in `folder`, which is
    `prefix` from where it was asked for.
    """

    folder: Path
    prefix: str
    readings: Sequence[tuple[str, ...]]
    link: str = ""


def glob_readings(glob: str, folder: Path, *, follow: bool) -> GlobReadings:
    """Read `glob`, relative to `folder`. With `follow` a link to a folder is followed that the glob names plainly.

    The policy judges where such a link leads; a name with brackets it takes for a pattern, so that is never followed.
    """
    if "/" not in glob and "\\" in glob and (folder / glob.partition("\\")[0]).is_dir():
        # as on Windows; the policy took it for one name
        glob, follow = glob.replace("\\", "/"), False
    parts = _parts(glob)
    if len(parts) == 1 or not parts[-1]:
        return GlobReadings(folder, "", _spelled(_products(["".join(parts[:1])] if len(parts) == 1 else parts, "")))
    head: list[str] = []
    behind = 0
    link = ""
    here = folder
    for part in parts[:-1]:
        plain = not _WILD.search(part)
        if not (plain or os.path.lexists(here / part)) or not (here / part).is_dir():
            break
        if (here / part).is_symlink():
            link = "/".join([*head, part])
            if not plain or not follow:
                break
            behind = len(head) + 1
        here /= part
        head.append(part)
    rest = parts[len(head) :]
    if here.is_dir():
        rest[0] = _existing(rest[0], here)
    start = folder.joinpath(*head[:behind])
    fixed = "".join(f"{_literal(part)}/" for part in head[behind:])
    readings = _spelled(_products(rest, f"/{fixed}"))
    return GlobReadings(start, "".join(f"{part}/" for part in head[:behind]), readings, link)


def literal_globs(globs: Sequence[str], folder: Path) -> tuple[str, ...]:
    """The globs of what is to be left out, with the parts literal that exist so in a folder that is known."""

    def read(glob: str) -> str:
        found = glob_readings(glob, folder, follow=False).readings
        return found[0][0] if len(found) == 1 and "/" in glob.rstrip("/") else glob

    return tuple(read(glob) if "[" in glob or "{" in glob else glob for glob in globs)


def _parts(glob: str) -> list[str]:
    """The parts between slashes; a slash within braces separates nothing: `{a/b,c}`."""
    parts: list[str] = []
    for part in glob.removeprefix("/").split("/"):
        if parts and _depth(parts[-1]) > 0:
            parts[-1] += f"/{part}"
        else:
            parts.append(part)
    return parts if not parts or _depth(parts[-1]) <= 0 else glob.removeprefix("/").split("/")


def _depth(text: str) -> int:
    plain = _BRACES.findall(text)
    return plain.count("{") - plain.count("}")


def _literal(part: str) -> str:
    return "".join(f"\\{character}" if character in "[]{}*?\\" else character for character in part)


def _forms(part: str) -> list[str]:
    """The ways to read a part, the most literal first: brackets and braces as they are, then as patterns."""
    if "/" in part:
        return [part]
    no_brackets = _BRACKETS.sub(r"\\\1", part)
    # `*.{ts,tsx}` is no name that files have
    plain = no_brackets if _STARS.search(part) and "," in part else _BRACES.sub(r"\\\1", no_brackets)
    forms = [plain, no_brackets, _BRACES.sub(r"\\\1", part), part] if plain != no_brackets else [no_brackets, part]
    # the last is the glob as it was given: what is wrong with that is said
    return [form for form in dict.fromkeys(forms) if form == part or _is_valid(form)]


def _is_valid(glob: str) -> bool:
    try:
        glob_matcher(glob)
    except ValueError:
        return False
    return True


def _existing(part: str, folder: Path) -> str:
    """The form of a part that is the name of something in `folder`; the last if none is."""
    forms = _forms(part)
    if len(forms) == 1 or part == "**":
        return forms[0]
    try:
        with os.scandir(folder) as scan:
            names = [entry.name for entry in itertools.islice(scan, NAMES_LOOKED_AT)]
    except OSError:
        return forms[-1]
    return next((form for form in forms[:-1] if any(map(glob_matcher(f"/{form}"), names))), forms[-1])


def _products(parts: Sequence[str], start: str) -> Iterator[str]:
    # what was decided by the disk has one form: it is escaped already
    choices = [_forms(part) for part in parts]
    for chosen in itertools.islice(itertools.product(*choices), 15):
        yield f"{start}{'/'.join(chosen)}"
    yield f"{start}{'/'.join(forms[-1] for forms in choices)}"


def _spelled(readings: Iterator[str]) -> list[tuple[str, ...]]:
    """Each reading with its other spelling: a letter and its accent may be one character on one disk, two on another."""
    return [
        tuple(dict.fromkeys((glob, *(unicodedata.normalize(form, glob) for form in ("NFC", "NFD")))))
        for glob in dict.fromkeys(readings)
    ]
