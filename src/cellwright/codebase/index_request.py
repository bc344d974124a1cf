"""The task that an indexer is given, and its answer; light, since who gives it imports nothing of the indexer's."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

BUSY = 3
"""The answer of an indexer that found another one at work, for longer than it was to wait."""


class IndexRequest(Struct, frozen=True):
    """The task of an indexer. `listing` is the command that lists the project's files, each with a NUL byte behind it.

    `restrictions` are the deny and ask rules in force, each with what its `/x` paths start from: files that one of them
    keeps from being read are left out. `wait_seconds`: for another indexer to end. `check`: look for damage first;
    `rebuild`: begin anew. `keep_seconds`: the process ends when no other request has come for so long after this one.
    """

    root: str
    database: str
    listing: Sequence[str]
    restrictions: Sequence[tuple[str, str]] = ()
    wait_seconds: float = 5.0
    check: bool = False
    rebuild: bool = False
    keep_seconds: float = 60.0
