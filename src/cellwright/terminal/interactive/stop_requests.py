"""Requests to stop from outside (SIGTERM, SIGHUP), while no run is there to be ended by them."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

STOP_REQUESTS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

STOPPED = tuple(128 + number for number in STOP_REQUESTS)
"""The exit codes of what they have ended."""


@contextlib.contextmanager
def on_stop_request(stop: Callable[[SystemExit], object]) -> Iterator[None]:
    """Have `stop` called, on the main thread, with the exit that a request asks for."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # what is ignored stays so: `nohup` means it
    heard = [number for number in STOP_REQUESTS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, lambda number, _frame: stop(SystemExit(128 + number))) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stop_requests_raise() -> AbstractContextManager[None]:
    """Have them end the process as `sys.exit` does: what was started and written is cleared away."""
    return on_stop_request(_leave)


def _leave(request: SystemExit) -> None:
    raise request
