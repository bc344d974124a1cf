"""A session forked at one of its turns: what was said up to there, to go on from it another way."""

from __future__ import annotations

from pathlib import Path

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.session import Session
from cellwright.sessions.transcript import Line, in_effect
from cellwright.sessions.turns import until_turn_ended


def fork_at(path: Path, turn: int | None) -> Session:
    """A new session with what the one at `path` holds up to the end of its turn `turn`, from 1; None: all of it.

    Turns that were taken back count as little as they do in the session. The session itself stays untouched, and
    another process may be writing to it. Raises `CellwrightError` INVALID_PARAMETERS where there is no such turn, else as
    `Session.fork_from`.
    """
    if turn is None:
        return Session.fork_from(path)

    def kept(lines: list[Line]) -> list[Line]:
        found = until_turn_ended(in_effect(lines), turn) if turn > 0 else None
        if found is None:
            message = (
                f"The session {path.stem} has no turn {turn} that can be read. Turns count from 1; nothing was forked."
            )
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
        return found

    return Session.fork_from(path, kept)
