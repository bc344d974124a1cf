"""Our log and that of our libraries goes to the user's handlers, and a handler that raises fails nothing of ours.

Logging calls handlers in the middle of the code that logs: asyncio logs when a loop is made, the HTTP library with each
request. A handler whose `emit` raises would fail a cell that has nothing to do with it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

GUARDED = (
    *("cellwright", "asyncio", "concurrent.futures", "anyio", "httpx2", "httpcore2", "hpack", "anthropic", "mcp"),
    *("markdown_it", "rich", "keyring", "detect_secrets", "charset_normalizer", "pypdf", "PIL", "bs4"),
)
"""The loggers of what runs within a cell, a run or a tool."""


class _ToTheUsersHandlers(logging.Handler):
    """Hands records on to the handlers of the loggers above, and lets nothing through that they raise."""

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__()
        self._logger = logger

    def handle(self, record: logging.LogRecord) -> bool:  # without a lock: theirs have their own
        handlers = list(_handlers_from(self._logger.parent))
        if not handlers and all(handler is self for handler in _handlers_from(logging.getLogger(record.name))):
            handlers = [logging.lastResort] if logging.lastResort is not None else []
        for handler in handlers:
            if record.levelno >= handler.level:
                with contextlib.suppress(Exception):
                    handler.handle(record)
        return True


def _handlers_from(logger: logging.Logger | None) -> Iterator[logging.Handler]:
    """The handlers that a record of `logger` meets, as `Logger.callHandlers` goes through them."""
    while logger is not None:
        yield from logger.handlers
        logger = logger.parent if logger.propagate else None


def guard_logs() -> None:
    """Guard the loggers; a second time it does nothing, and what the user keeps from other handlers stays so."""
    for name in GUARDED:
        logger = logging.getLogger(name)
        if logger.propagate:
            logger.addHandler(_ToTheUsersHandlers(logger))
            logger.propagate = False
