"""Words with wildcards, compared with the protected names: a pattern that could name one of them counts as naming it.

What is on the disk answers for the moment of the decision only, so `.g?t/hooks/x` is compared by what it says. A part
that says nothing (`*`, `*.py`) names what is there, which is looked up; it counts only beside a part that says more:
`*/hooks/pre-commit`, `*/bin/python`. As in bash, a wildcard in front does not stand for the dot of a hidden name, but
for the folder of a name that is known to lie in a hidden one.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from fnmatch import fnmatchcase

from cellwright.permissions.paths import PROTECTED_FILES, PROTECTED_FOLDERS
from cellwright.text import lazy_pattern

# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH206

WILD = lazy_pattern(r"[*?\[]")
_SAYS_NOTHING = lazy_pattern(r"\*+(?:\.\w+|\.\*)?")
_BRACKETS = lazy_pattern(r"\[[!^]?\]?[^\]/]*\]")
_ODD_BRACKETS = lazy_pattern(r"\[[^/]*\]")
_TELLING = frozenset(
    {"hooks", "config", "config.worktree", "commondir", "modules", "settings.json", "settings.local.json"}
    | {"tasks.json", "launch.json", "mcp.json", "workflows", "startup", "kernels", "authorized_keys"}
)
"""Names by which a folder that a wildcard stands for is known to be a protected one."""
_FOLDERS = tuple(tuple(folder.split("/")) for folder in PROTECTED_FOLDERS)


def protected_by_pattern(word: str) -> str | None:
    """The protected name that the path `word`, with wildcards, could name; None if it could name none."""
    return _protected(tuple(name for name in word.lower().split(os.sep) if name not in ("", ".")))


@functools.lru_cache(maxsize=256)
def _protected(names: Sequence[str]) -> str | None:
    if not any(WILD.search(name) for name in names):
        return None
    for folder in _FOLDERS:
        for start in range(len(names)):
            if _meets_folder(names[start : start + len(folder)], folder, names[start + len(folder) :]):
                return "/".join(folder)
    if len(names) > 1 and _meets_name(names[-2], "startup") and not _says_nothing(names[-2]):
        last = names[-1]
        if any(_meets(last, each) for each in ("*.py", "*.ipy")):
            return f"startup/{last}"
    last = names[-1]
    if not WILD.search(last) or last.strip("*") == "":
        return None
    files = (file for file in PROTECTED_FILES if file.startswith("*") or not _says_nothing(last))
    return next((file for file in files if _meets_file(last, file)), None)


def _meets_folder(names: Sequence[str], folder: Sequence[str], behind: Sequence[str]) -> bool:
    if len(names) < len(folder) or not any(WILD.search(name) for name in names):
        return False  # without wildcards it is looked up
    if not all(_meets_name(name, part, behind) for name, part in zip(names, folder, strict=True)):
        return False
    return any(not _says_nothing(name) for name in names) or (bool(behind) and behind[0] in _TELLING)


def _meets_name(name: str, part: str, behind: Sequence[str] = ()) -> bool:
    if not WILD.search(name):
        return name == part
    if part.startswith(".") and not name.startswith("."):
        return bool(behind) and behind[0] in _TELLING and fnmatchcase(part, _pattern(name))
    return fnmatchcase(part, _pattern(name))


def _meets_file(name: str, file: str) -> bool:
    if file.startswith(".") and not name.startswith("."):
        return False
    if file.startswith("*") and name.endswith("*"):
        return False  # it says nothing of the ending
    return _meets(name, file) if "*" in file else fnmatchcase(file, _pattern(name))


def _says_nothing(name: str) -> bool:
    return _SAYS_NOTHING.fullmatch(name) is not None


def _pattern(name: str) -> str:
    """`name` as `fnmatch` reads it; brackets that it may read otherwise than bash stand for anything."""
    if "[[" in name or "\\" in name:
        return _ODD_BRACKETS.sub("*", name)
    return name.replace("[^", "[!")


def _meets(one: str, other: str) -> bool:
    """Return whether some name matches both patterns; brackets of `one` stand for any character."""
    one = _ODD_BRACKETS.sub("*", one) if "[[" in one or "\\" in one else _BRACKETS.sub("?", one)
    reached = {(0, 0)}
    seen: set[tuple[int, int]] = set()
    while reached:
        at = reached.pop()
        if at in seen:
            continue
        seen.add(at)
        first, second = at
        if first == len(one) and second == len(other):
            return True
        left, right = one[first : first + 1], other[second : second + 1]
        if left == "*":
            reached |= {(first + 1, second), *([(first, second + 1)] if right else [])}
        if right == "*":
            reached |= {(first, second + 1), *([(first + 1, second)] if left else [])}
        if left and right and (left == right or "?" in (left, right)):
            reached.add((first + 1, second + 1))
    return False
