"""The branches of a conversation: the sessions that have another turn in the place of one of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from cellwright.errors import CellwrightError
from cellwright.sessions.catalog.catalog import Catalog, CatalogEntry
from cellwright.sessions.transcripts.transcript import in_effect, read_transcript
from cellwright.sessions.turns import begins_turn_encoded

MAX_SESSIONS = 200
"""The newest sessions of the folder among which branches are looked for."""

TurnStart = tuple[int, float]
"""The line that a turn begins with, which forks have in common: its `seq` and its time."""


def branches(catalog: Catalog, session_id: str, cwd: Path) -> dict[int, list[str]]:
    """Return the sessions to choose from at each turn that has several, oldest first; `session_id` is among them.

    Of those that share a turn it stands for itself, else the one that was used last.
    """
    family = _family(catalog.entries(cwd, limit=MAX_SESSIONS), session_id)
    if len(family) < 2:
        return {}
    starts = {entry.id: _turn_starts(entry.path) for entry in family}
    own = starts.get(session_id, [])
    found: dict[int, list[str]] = {}
    for turn, start in enumerate(own, 1):
        alike = [
            other for other in starts if starts[other][: turn - 1] == own[: turn - 1] and len(starts[other]) >= turn
        ]
        # the newest come first
        choices: dict[TurnStart, str] = {}
        for other in alike:
            choices.setdefault(starts[other][turn - 1], other)
        choices[start] = session_id
        if len(choices) > 1:
            found[turn] = [choices[each] for each in sorted(choices, key=lambda each: each[1])]
    return found


def _family(entries: Iterable[CatalogEntry], session_id: str) -> list[CatalogEntry]:
    """The sessions that were forked from the same one, in their order."""
    by_id = {entry.id: entry for entry in entries}

    def root(entry: CatalogEntry) -> str:
        seen = {entry.id}
        while entry.forked_from in by_id and entry.forked_from not in seen:
            entry = by_id[entry.forked_from]
            seen.add(entry.id)
        # forks of a session that was deleted belong together
        return entry.forked_from or entry.id

    if (own := by_id.get(session_id)) is None:
        return []
    return [entry for entry in by_id.values() if root(entry) == root(own) and not entry.is_beginning_gone]


def _turn_starts(path: Path) -> Sequence[TurnStart]:
    try:
        lines = in_effect(read_transcript(path).lines)
    except CellwrightError:
        return []  # it is damaged, or was deleted meanwhile
    return [(int(line.meta["seq"]), float(line.meta["at"])) for line in lines if begins_turn_encoded(line.message)]
