"""Whether a search through a folder would read a file that a rule names: a Grep reads more than the path it names."""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH118, PTH119

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from cellwright.permissions.rules.rule import CompiledRule

MAX_ENTRIES = 20_000
"""Names looked at; a larger folder counts as not known."""
NOT_SEARCHED = frozenset({".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".venv", "site-packages"})
"""Version control, which Grep leaves out, and installed packages, where nobody keeps what rules hide."""


class TooManyFiles(Exception):
    """The folder is too large to say."""


def named_below(folder: str, rules: Sequence[CompiledRule], glob: str) -> tuple[str, CompiledRule] | None:
    """A file or folder below `folder` that passes the search's `glob` and that one of `rules` names, with the rule.

    Raises TooManyFiles.
    """
    concerned = [rule for rule in rules if rule.path is not None and rule.path.may_match_below(folder)]
    if not concerned:
        return None
    for count, (path, is_folder) in enumerate(_entries(folder)):
        if count > MAX_ENTRIES:
            raise TooManyFiles
        for rule in concerned:
            if rule.covers_place((path,)) and _passes(os.path.basename(path), is_folder, glob):
                return path, rule
    return None


def _entries(folder: str) -> Iterator[tuple[str, bool]]:
    for here, folders, files in os.walk(folder):
        yield from ((os.path.join(here, name), True) for name in folders)
        folders[:] = [name for name in folders if name not in NOT_SEARCHED]
        yield from ((os.path.join(here, name), False) for name in files)


def _passes(name: str, is_folder: bool, glob: str) -> bool:
    if not glob or "/" in glob or "{" in glob:
        return True  # not understood: it may pass
    if glob.startswith("!"):
        return not fnmatchcase(name, glob[1:])
    # what is wanted may be inside a folder of any name
    return is_folder or fnmatchcase(name, glob)
