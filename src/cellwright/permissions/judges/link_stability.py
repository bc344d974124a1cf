"""Parts of a command that still find what they name where it was judged, since nothing before or beside them moves links.

`ln -s / x; cat x/etc/passwd` reads elsewhere than it says while it is judged. What only reads, or writes into plain
files, leaves the rest as certain as it was; any other program may have moved links and folders.
"""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH112, PTH114, PTH118, PTH119

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import IntEnum

from msgspec.structs import replace

from cellwright.permissions.judges.simple_command import CommandFacts
from cellwright.permissions.shell.command_paths import paths_named
from cellwright.permissions.shell.read_only.commands import READERS
from cellwright.permissions.shell.read_only.git import only_reads

MAX_BELOW = 2_000
"""Names looked at in a folder that is moved or copied; a larger one may hold a link."""

_LEAVES_FILES = frozenset({"add", "commit", "tag", "push", "fetch", "notes"})
"""Subcommands of git that write, and not into the work tree."""
_MOVERS = frozenset({"mv", "cp"})


class Change(IntEnum):
    """Changes that a part may have made for those after it."""

    NOTHING = 0
    REPOSITORIES = 1
    """A folder may have become a repository."""
    PLACES = 2
    """A name may lead elsewhere."""


def settled_parts(parts: Sequence[CommandFacts]) -> list[CommandFacts]:
    """Return `parts`, those marked whose names may lead elsewhere by the time that they run."""
    changes = [_change(part) for part in parts]
    marked = []
    for index, part in enumerate(parts):
        others = [change for at, change in enumerate(changes[: part.command.until]) if at != index]
        limit = Change.REPOSITORIES if part.words and part.words[0].text == "git" else Change.PLACES
        unsettled = max(others, default=Change.NOTHING) >= limit
        marked.append(replace(part, command=replace(part.command, settled=False)) if unsettled else part)
    return marked


def _change(facts: CommandFacts) -> Change:
    if facts.gets_more:
        reader = READERS.get(facts.words[0].text)
        return Change.NOTHING if reader and reader[0].any_glob else Change.PLACES
    if facts.changed is not None and facts.words[0].text in _MOVERS:
        return max(_moved(facts), _written(facts))
    if not facts.words or facts.read is not None or facts.changed is not None or _git_leaves_files(facts):
        return _written(facts)
    return Change.PLACES


def _git_leaves_files(facts: CommandFacts) -> bool:
    program, *rest = facts.words
    if program.raw != "git":
        return False
    return only_reads(facts.words) or (bool(rest) and rest[0].text in _LEAVES_FILES)


def _written(facts: CommandFacts) -> Change:
    """Return whether a part that writes plain files may have made one that makes a repository of its folder."""
    written = [access.word for access in facts.changed or () if access.use == "Edit"]
    written += [redirect.target for redirect in facts.command.redirects if redirect.writes]
    made = any(os.path.basename(word.text).lower() == "head" or word.dynamic or word.globs for word in written)
    return Change.REPOSITORIES if made else Change.NOTHING


def _moved(facts: CommandFacts) -> Change:
    """Return what a part that moves or copies files takes along."""
    found = Change.NOTHING
    for access in facts.changed or ():
        for path in paths_named(access.word, facts.command.folders) or ():
            if os.path.islink(path) or _holds_link(path):
                return Change.PLACES
            if os.path.isdir(path):
                found = Change.REPOSITORIES
    return found


def _holds_link(folder: str) -> bool:
    count = 0
    for here, folders, files in os.walk(folder):
        count += len(folders) + len(files)
        if count > MAX_BELOW or any(os.path.islink(os.path.join(here, name)) for name in (*folders, *files)):
            return True
    return False
