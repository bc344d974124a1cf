"""The log of Cellwright's processes in a file, for when something went wrong, and the lines that runs add to it.

It is without secrets and of bounded size. A run's lines are numbers, names and codes, nothing of what was said.

The file is `logs/cellwright.log` in the state folder, the one before it with `.1` behind its name. All kernels of a
user write to it, a record at a time; each line says which process it is of.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cellwright.errors import log_fault
from cellwright.events import (
    Answered,
    Asked,
    ContextCompacted,
    Event,
    Notice,
    Retrying,
    RunEnd,
    SubagentEvent,
    ToolEnd,
    TurnEnd,
    UserPrompt,
)
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, state_folder
from cellwright.text import dollars

if TYPE_CHECKING:
    from cellwright.sessions.session import Session
    from cellwright.telemetry.run_state import ObservedRun

RUNS = "cellwright.runs"
"""The logger of what runs do. It is our file's alone: in a cell that shows a user's own log it would be noise."""

MAX_BYTES = 1_000_000
LINE_CHARS = 2_000
_FORMAT = "%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"


def log_path() -> Path:
    """The file that is written to."""
    return state_folder() / "logs" / "cellwright.log"


def last_lines(limit: int) -> list[str]:
    """The newest `limit` lines, the oldest of them first. Reads files: not for an event loop."""
    lines: list[str] = []
    path = log_path()
    for each in (path, _before(path)):
        if len(lines) < limit:
            lines = _read(each)[len(lines) - limit :] + lines
    return lines


def _before(path: Path) -> Path:
    return path.with_name(path.name + ".1")


def _read(path: Path) -> list[str]:
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:  # there is none, or no place for one
        return []
    return [line[:LINE_CHARS] for line in text.splitlines()]


class LogFile(logging.Handler):
    """Writes records to `path`, each as `clean` gives it back. Makes nothing on the disk before the first record."""

    def __init__(self, path: Path, clean: Callable[[str], str]) -> None:
        super().__init__()
        self.path = path
        self._clean = clean
        self.setFormatter(logging.Formatter(_FORMAT))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self._clean(self.format(record)) + "\n"
        # as in every handler: a record that cannot be formatted is its caller's fault, and is shown
        except Exception:  # noqa: BLE001
            self.handleError(record)
            return
        # a disk that is full must not end a run, and there is no other place to say so
        with contextlib.suppress(OSError):
            self._write(line)

    def _write(self, text: str) -> None:
        if not self.path.parent.exists():
            make_private_folder(self.path.parent)
        # one write at the end of the file: other kernels do the same
        descriptor = os.open(
            self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), PRIVATE_FILE
        )
        try:
            size = os.fstat(descriptor).st_size
            os.write(descriptor, text.encode("utf-8", "replace"))
        finally:
            os.close(descriptor)
        # by what it was before: of several processes at the limit, the others find the new file already
        if size > MAX_BYTES and self.path.stat().st_size > MAX_BYTES:
            self.path.replace(_before(self.path))


def log_to_file(clean: Callable[[str], str]) -> Callable[[], None]:
    """Keep what this process logs, from warnings on, and all of what its runs log; gives how to stop that.

    `clean` takes secrets out of a text.
    """
    handler = LogFile(log_path(), clean)
    ours, runs = logging.getLogger("cellwright"), logging.getLogger(RUNS)
    ours.addHandler(handler)
    runs.setLevel(logging.INFO)
    runs.propagate = False
    runs.addHandler(handler)

    def stop() -> None:
        ours.removeHandler(handler)
        runs.removeHandler(handler)

    return stop


logger = logging.getLogger(RUNS)


class RunLog:
    """Follows a conversation. `soon` calls a function when a run's first request is on its way: it waits for no log."""

    def __init__(self, soon: Callable[[Callable[[], None]], object] = lambda log: log()) -> None:
        self._soon = soon
        self._beginning: list[logging.LogRecord] = []

    def run_added(self, run: ObservedRun) -> None:
        """It is told when it begins."""

    def on_event(self, run: ObservedRun, event: Event) -> None:
        """Log the event, if it says how the run goes."""
        if isinstance(event, UserPrompt):
            if logger.isEnabledFor(logging.INFO):
                words, about = "%s %s: begins, session %s, mode %s", (run.id, run.origin, event.session_id, event.mode)
                # made now, so that it tells the time at which it was
                self._beginning.append(logger.makeRecord(RUNS, logging.INFO, __file__, 0, words, about, None))

                def log_late() -> None:
                    try:
                        self._log_beginning()
                    except Exception:  # noqa: BLE001  a handler that the user has added; an event loop would print it
                        about = "the beginning of a run could not be logged"
                        log_fault(logging.getLogger("cellwright.log"), about, foreign=True)

                self._soon(log_late)
            return
        if self._beginning:
            self._log_beginning()
        self._log(run, event)

    def _log_beginning(self) -> None:
        # whoever comes second, from another thread, finds nothing to be logged
        records, self._beginning = self._beginning, []
        for record in records:
            logger.handle(record)

    def _log(self, run: ObservedRun, event: Event) -> None:
        match event:
            case TurnEnd():
                words = "%s: request %s, %s, %d tokens in context, %s, ends with %s"
                about = event.request_id, event.model, event.context_tokens, _usd(event.cost_usd), event.stop_reason
                logger.info(words, run.id, *about)
            case ToolEnd():
                level = logging.INFO if event.status == "success" else logging.WARNING
                logger.log(
                    level,
                    "%s: %s %s %s after %.0f ms %s",
                    run.id,
                    event.name,
                    event.tool_use_id,
                    event.status,
                    event.duration_ms,
                    "" if event.error is None else str(event.error.get("code", "")),
                )
            case Asked():
                logger.info("%s: asks (%s) about %s", run.id, event.kind, event.tool_use["name"])
            case Answered():
                logger.info("%s: answered by %s: %s, %s", run.id, event.by, event.behavior, event.scope)
            case Retrying():
                words = "%s: request failed, tried again (%d of %d) in %.1f s: %s %s"
                tries = event.attempt, event.max_attempts, event.wait_seconds
                logger.warning(words, run.id, *tries, event.code, event.message)
            case ContextCompacted(state="done"):
                words = "%s: conversation summarised (%s), %d tokens before, %d after, %s"
                logger.info(words, run.id, event.trigger, event.tokens_before, event.tokens_after, _usd(event.cost_usd))
            case Notice(level="warning" | "error"):
                logger.warning("%s: %s", run.id, event.message)
            case RunEnd():
                self._ended(run, event)
            case SubagentEvent(event=ToolEnd() | TurnEnd() | Retrying() | Notice()):
                self._log(run, event.event)
            case _:
                pass

    def _ended(self, run: ObservedRun, end: RunEnd) -> None:
        level = logging.INFO if end.ok else logging.WARNING
        words = "%s: ends (%s) after %.1f s, %d requests, %s %s"
        error = end.error or {}
        why = f"{error.get('code', '')} {error.get('message', '')}".strip()
        logger.log(level, words, run.id, end.stop_reason, end.duration_ms / 1000, end.requests, _usd(end.cost_usd), why)

    def run_ended(self, run: ObservedRun) -> None:
        """Its last event says so."""

    def session_changed(self, session: Session) -> None:
        """Say which it is now."""
        logger.info("the conversation continues in session %s", session.id)


def _usd(cost: float | None) -> str:
    return "price not known" if cost is None else dollars(cost)
