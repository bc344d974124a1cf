"""The instructions that count for certain files: those of folders below the session's, and rules with `paths`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cellwright.config.memory.find_memory_files import (
    LOCAL_NAME,
    Memory,
    MemoryPlace,
    folder_files,
    uses_fallback,
    with_imports_that_count,
)
from cellwright.config.memory.memory_file import MemoryFile, MemoryScope, read_memory_file
from cellwright.text import lazy_pattern
from cellwright.tools.search.glob_regex import glob_matcher


def memory_for_files(paths: Iterable[Path], place: MemoryPlace, memory: Memory) -> list[MemoryFile]:
    """The instructions that come with the files at `paths`, besides those that `memory` begins with.

    Of folders between the session's and a file, `CLAUDE.md` and the like; of `memory.rules`, those whose paths match.
    """
    seen: set[Path] = set()
    found: list[MemoryFile] = []
    fallback = uses_fallback(place.cwd)
    for path in paths:
        found += (rule for rule in memory.rules if rule not in found and rule_matches(rule, path))
        if not place.trusted or not path.is_relative_to(place.cwd):
            continue
        for folder in reversed([each for each in path.parents if each != place.cwd and place.cwd in each.parents]):
            for name in folder_files(folder, fallback=fallback):
                if (file := read_memory_file(name, _scope(name), folder)) is not None and file.text:
                    found += with_imports_that_count(file, place, seen)
    return found


def _scope(path: Path) -> MemoryScope:
    return "local" if path.name == LOCAL_NAME else "project"


def rule_matches(rule: MemoryFile, path: Path) -> bool:
    """Return whether a rule with paths counts for the file at `path`."""
    return matches_globs(path, rule.paths, rule.base)


def matches_globs(path: Path, globs: Iterable[str], base: Path) -> bool:
    """Return whether `path` lies below `base` and one of `globs` means it there.

    Brackets in a glob are a set of characters, and also part of a name: `app/[slug]/**`.
    """
    if not path.is_relative_to(base):
        return False
    relative = path.relative_to(base).as_posix()
    return any(
        _matches(reading, relative) for glob in globs for reading in with_names_in_brackets(glob.removeprefix("./"))
    )


def _matches(glob: str, relative: str) -> bool:
    try:
        return glob_matcher(glob)(relative)
    except ValueError:  # what is no glob matches nothing
        return False


def with_names_in_brackets(glob: str) -> tuple[str, ...]:
    r"""Return `glob`, and the same with its brackets as part of names, and also its braces if they hold no choice.

    >>> with_names_in_brackets("app/[slug]/*.{ts,tsx}")
    ('app/[slug]/*.{ts,tsx}', 'app/\\[slug]/*.{ts,tsx}')
    """
    named = _OPENING_BRACKET.sub(r"\\[", glob)
    plain = _LONE_BRACES.sub(r"\\{\g<inside>\\}", named)
    return tuple(dict.fromkeys((glob, named, plain)))


_OPENING_BRACKET = lazy_pattern(r"(?<!\\)\[(?![*?\[\\{\s]\])")
_LONE_BRACES = lazy_pattern(r"(?<!\\)\{(?P<inside>[^{},/]*)\}")
