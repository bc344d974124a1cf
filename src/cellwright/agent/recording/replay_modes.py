"""The modes of replay that a process, a kernel or a cell can ask for; apart from what plays, which is heavy."""

from __future__ import annotations

from collections.abc import Mapping

from cellwright.errors import CellwrightError, ErrorCode

REPLAY_MODES = ("auto", "strict", "off")
"""`auto` plays what is recorded and runs the rest live, `strict` plays or fails, also on drift, `off` runs all live."""


def process_replay_mode(environ: Mapping[str, str]) -> str | None:
    """The mode that CELLWRIGHT_REPLAY names, None where it names none. Raises CellwrightError CONFIG_INVALID."""
    mode = environ.get("CELLWRIGHT_REPLAY") or None
    if mode is not None and mode not in REPLAY_MODES:
        message = f"CELLWRIGHT_REPLAY is {mode!r}; it can be {', '.join(REPLAY_MODES)}. Nothing was sent."
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
    return mode
