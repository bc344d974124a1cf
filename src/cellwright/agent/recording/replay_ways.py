"""The ways of replay that a process, a kernel or a cell can ask for; apart from what plays, which is heavy."""

from __future__ import annotations

from collections.abc import Mapping

from cellwright.errors import CellwrightError, ErrorCode

REPLAY_WAYS = ("auto", "strict", "off")
"""`auto` plays what is recorded and runs the rest live, `strict` plays or fails, also on drift, `off` runs all live."""


def process_replay_way(environ: Mapping[str, str]) -> str | None:
    """The way that CELLWRIGHT_REPLAY names, None where it names none. Raises CellwrightError CONFIG_INVALID."""
    way = environ.get("CELLWRIGHT_REPLAY") or None
    if way is not None and way not in REPLAY_WAYS:
        message = f"CELLWRIGHT_REPLAY is {way!r}; it can be {', '.join(REPLAY_WAYS)}. Nothing was sent."
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
    return way
