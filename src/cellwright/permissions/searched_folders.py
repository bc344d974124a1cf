"""Whether a search through a folder would read a file that a rule denies: a Grep reads more than the path it names."""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH118, PTH119

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from cellwright.permissions.rules import CompiledRule

MAX_ENTRIES = 20_000
"""Names looked at; a larger folder counts as not known."""
NOT_SEARCHED = frozenset({".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".venv", "site-packages"})
"""Version control, which Grep leaves out, and installed packages, where nobody keeps what rules hide."""


class TooManyFiles(Exception):
    """The folder is too large to say."""


def denied_file(folder: str, rules: Sequence[CompiledRule], glob: str) -> tuple[str, CompiledRule] | None:
    """A file below `folder` that passes the search's `glob` and that one of `rules` denies, with the rule.

    Raises TooManyFiles.
    """
    concerned = [rule for rule in rules if rule.path is not None and rule.path.may_match_below(folder)]
    if not concerned:
        return None
    for count, file in enumerate(_files(folder)):
        if count > MAX_ENTRIES:
            raise TooManyFiles
        for rule in concerned:
            if rule.covers_place((file,)) and _passes(os.path.basename(file), glob):
                return file, rule
    return None


def _files(folder: str) -> Iterator[str]:
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in NOT_SEARCHED]
        yield from (os.path.join(here, name) for name in files)


def _passes(name: str, glob: str) -> bool:
    if not glob or "/" in glob or "{" in glob:
        return True  # not understood: it may pass
    if glob.startswith("!"):
        return not fnmatchcase(name, glob[1:])
    return fnmatchcase(name, glob)
