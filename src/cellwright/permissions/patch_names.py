"""The names in a patch's headers: unquoted, and without what stands before them (`a/`, `b/`, or what `strip` takes off)."""

from __future__ import annotations

import re

_PREFIXES = (("a/", "b/"), ("b/", "a/"), ("i/", "w/"), ("c/", "i/"), ("c/", "w/"), ("o/", "w/"))
"""What git may put before the old and the new name (`diff.mnemonicPrefix`), and the first pair reversed."""
_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_ESCAPED = re.compile(r"\\([abtnvfr\"\\]|[0-3][0-7]{2})")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


class PatchProblem(Exception):
    """Why a text is no patch that can be understood, as a sentence."""


def without_prefix(old: str | None, new: str | None) -> tuple[str | None, str | None]:
    for first, second in _PREFIXES:
        if (old is None or old.startswith(first)) and (new is None or new.startswith(second)):
            return old and old.removeprefix(first), new and new.removeprefix(second)
    return old, new


def name_in_git_line(rest: str, strip: int | None, at: int) -> str:
    """The name in `a/NAME b/NAME`: both are the same there, or other lines would give them."""
    if rest.startswith('"') and (quoted := _QUOTED.match(rest)):
        sides = quoted[0], rest[quoted.end() + 1 :]
    else:
        middle = len(rest) // 2
        sides = rest[:middle], rest[middle + 1 :]
    old, new = (unquoted(side) for side in sides)
    names = without_prefix(old, new) if strip is None else (stripped(old, strip, at), stripped(new, strip, at))
    if names[0] is None or names[0] != names[1]:
        raise PatchProblem(f"Line {at}: it is not clear which file `diff --git {rest}` means.")
    return names[0]


def stripped(name: str, parts: int, at: int) -> str:
    left = name.split("/", parts)
    if len(left) <= parts:
        raise PatchProblem(f"Line {at}: {name!r} has not {parts} leading parts to take off. Set `strip` lower.")
    return left[-1]


def unquoted(name: str) -> str:
    """A name as git writes it: plain, or quoted as in C where it holds characters that are not plain."""
    if not (len(name) >= 2 and name[0] == name[-1] == '"'):
        return name
    data = bytearray()
    done = 1
    for found in _ESCAPED.finditer(name, 1, len(name) - 1):
        data += name[done : found.start()].encode("utf-8", "surrogatepass")
        data.append(_ESCAPES[found[1]] if found[1] in _ESCAPES else int(found[1], 8))
        done = found.end()
    data += name[done:-1].encode("utf-8", "surrogatepass")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise PatchProblem(f"The name {name} is not UTF-8.") from None
