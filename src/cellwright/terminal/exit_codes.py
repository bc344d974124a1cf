"""The end of the command: its exit codes, 0 if the run ended by itself, and requests to stop from outside (SIGTERM)."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from enum import IntEnum

from cellwright.errors import ErrorCode

STOP_REQUESTS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

STOPPED = tuple(128 + number for number in STOP_REQUESTS)
"""The exit codes of what they have ended."""


class ExitCode(IntEnum):
    """Programs branch on these; a number is never given a second meaning."""

    OK = 0
    FAILED = 1
    USAGE = 2
    CREDENTIAL = 3
    API = 4
    REFUSED = 5
    MAX_TURNS = 6
    BUDGET = 7
    SESSION = 8
    CONFIG = 9
    DENIED = 10
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class OutputLost(Exception):
    """The output cannot be written any more, so the run was ended."""


MEANINGS = {
    ExitCode.OK: "the run ended by itself (also when a tool was denied or failed)",
    ExitCode.FAILED: "anything that has no code of its own",
    ExitCode.USAGE: "wrong arguments",
    ExitCode.CREDENTIAL: "no credential for the API, or one that is not accepted",
    ExitCode.API: "the API could not be reached, was too busy, or refused the request",
    ExitCode.REFUSED: "the model declined to answer",
    ExitCode.MAX_TURNS: "--max-turns was reached",
    ExitCode.BUDGET: "--budget was spent",
    ExitCode.SESSION: "the session to continue does not exist or is damaged",
    ExitCode.CONFIG: "the settings, a rule or a mode cannot be used",
    ExitCode.DENIED: "something is not permitted: a call (--on-denied error), a mode, a model, trust",
    ExitCode.INTERRUPTED: "interrupted (Ctrl-C); 128 + N for another signal N",
    ExitCode.BROKEN_PIPE: "the program reading the output went away",
}

_BY_ERROR = {
    ErrorCode.INVALID_PARAMETERS: ExitCode.USAGE,
    ErrorCode.API_KEY_MISSING: ExitCode.CREDENTIAL,
    ErrorCode.API_KEY_INVALID: ExitCode.CREDENTIAL,
    ErrorCode.API_RATE_LIMITED: ExitCode.API,
    ErrorCode.API_OVERLOADED: ExitCode.API,
    ErrorCode.API_NETWORK_ERROR: ExitCode.API,
    ErrorCode.API_REQUEST_INVALID: ExitCode.API,
    ErrorCode.CONTEXT_TOO_LONG: ExitCode.API,
    ErrorCode.REFUSED: ExitCode.REFUSED,
    ErrorCode.MAX_TURNS_REACHED: ExitCode.MAX_TURNS,
    ErrorCode.BUDGET_EXCEEDED: ExitCode.BUDGET,
    ErrorCode.SESSION_NOT_FOUND: ExitCode.SESSION,
    ErrorCode.SESSION_CORRUPTED: ExitCode.SESSION,
    ErrorCode.CONFIG_INVALID: ExitCode.CONFIG,
    ErrorCode.CONFIG_PARSE_ERROR: ExitCode.CONFIG,
    ErrorCode.PERMISSION_DENIED: ExitCode.DENIED,
    ErrorCode.INTERRUPTED: ExitCode.INTERRUPTED,
}


def said_of(error_code: str, message: str) -> str:
    """Return the line that tells the user of an error; an interrupt is the user's own, and needs no code."""
    return message if error_code == ErrorCode.INTERRUPTED else f"{error_code}: {message}"


def exit_code_of(error_code: str) -> ExitCode:
    """The exit code of a run that ended with this error."""
    return _BY_ERROR.get(ErrorCode(error_code), ExitCode.FAILED)


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

    def leave(request: SystemExit) -> None:
        raise request

    return on_stop_request(leave)
