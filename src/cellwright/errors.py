"""The errors a user of Cellwright meets, and the one set of codes that names them.

There are three kinds of errors, by who can act on them:

    CellwrightError            the user reads it: what is wrong, and what to do
    └── ApiError               … and it came from the Messages API or the way to it
    ToolError                  Claude reads it, and can react
    anything else              a bug of ours: it keeps its traceback

The codes are shared by the terminal, JSON lines, cells and the server, so that a program can branch on them.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import sys
import traceback
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeGuard


class ErrorCode(StrEnum):
    """Machine-readable names of everything that can go wrong; each is a text.

    >>> ErrorCode("BUDGET_EXCEEDED") is ErrorCode.BUDGET_EXCEEDED, ErrorCode.INTERRUPTED == "INTERRUPTED"
    (True, True)
    """

    API_KEY_MISSING = "API_KEY_MISSING"
    """Nothing gives a key, a token or another way to the model."""
    API_KEY_INVALID = "API_KEY_INVALID"
    """The API does not accept the key or token."""
    API_RATE_LIMITED = "API_RATE_LIMITED"
    """The account's rate limit or its credit is used up."""
    API_OVERLOADED = "API_OVERLOADED"
    """The API is overloaded, even after several tries."""
    API_NETWORK_ERROR = "API_NETWORK_ERROR"
    """The API cannot be reached, or the connection broke off."""
    API_REQUEST_INVALID = "API_REQUEST_INVALID"
    """The API refused the request as it stands."""
    CONTEXT_TOO_LONG = "CONTEXT_TOO_LONG"
    """The conversation no longer fits into the model's context window."""
    INVALID_PARAMETERS = "INVALID_PARAMETERS"
    """An option, a command or a tool's input is invalid."""
    TOOL_NOT_FOUND = "TOOL_NOT_FOUND"
    """The tool is unknown."""
    PERMISSION_DENIED = "PERMISSION_DENIED"
    """A rule, the mode, the administrator or you said no."""
    EXECUTION_TIMEOUT = "EXECUTION_TIMEOUT"
    """A tool took longer than it may."""
    EXECUTION_ERROR = "EXECUTION_ERROR"
    """A tool failed, or Cellwright itself did; the log has the traceback."""
    RATE_LIMIT_EXCEEDED = "RATE_LIMIT_EXCEEDED"
    """One of Cellwright's limits was reached: calls per minute, runs per user, requests to the proxy."""
    MEMORY_LIMIT_EXCEEDED = "MEMORY_LIMIT_EXCEEDED"
    """A child process needed more memory than it may have."""
    FILE_NOT_FOUND = "FILE_NOT_FOUND"
    """There is no such file, folder or notebook."""
    FILE_ACCESS_ERROR = "FILE_ACCESS_ERROR"
    """The file cannot be read or written."""
    FILE_PATH_INVALID = "FILE_PATH_INVALID"
    """The path cannot be used."""
    SEARCH_SERVICE_ERROR = "SEARCH_SERVICE_ERROR"
    """The web search did not answer."""
    NETWORK_ERROR = "NETWORK_ERROR"
    """A page or service cannot be reached."""
    MCP_CONNECTION_FAILED = "MCP_CONNECTION_FAILED"
    """An MCP server cannot be started or reached."""
    MCP_TOOL_NOT_FOUND = "MCP_TOOL_NOT_FOUND"
    """There is no such tool of an MCP server: the server is not connected, or it has no tool of this name."""
    SESSION_NOT_FOUND = "SESSION_NOT_FOUND"
    """The session is unknown here."""
    SESSION_CORRUPTED = "SESSION_CORRUPTED"
    """The transcript is damaged, and nothing of it can be read."""
    CONFIG_INVALID = "CONFIG_INVALID"
    """A setting, a rule or a mode cannot be used."""
    CONFIG_PARSE_ERROR = "CONFIG_PARSE_ERROR"
    """A settings file does not have the right format."""
    INTERRUPTED = "INTERRUPTED"
    """You stopped the run."""
    BUDGET_EXCEEDED = "BUDGET_EXCEEDED"
    """The next request could exceed the budget."""
    MAX_TURNS_REACHED = "MAX_TURNS_REACHED"
    """The run made as many requests as it may."""
    REFUSED = "REFUSED"
    """The model declined to answer."""


PASSING_CODES = frozenset(
    {
        ErrorCode.EXECUTION_TIMEOUT,
        ErrorCode.RATE_LIMIT_EXCEEDED,
        ErrorCode.SEARCH_SERVICE_ERROR,
        ErrorCode.NETWORK_ERROR,
        ErrorCode.MCP_CONNECTION_FAILED,
        ErrorCode.INTERRUPTED,
    }
)
"""The codes of a tool's errors after which the same call may work later."""


class CellwrightError(Exception):
    """Something the user can act on: `code` (an `ErrorCode`) for programs, `message` for people.

    `details` is a dict that JSON can hold; `recoverable`: the same may work later.

    >>> error = CellwrightError(ErrorCode.INVALID_PARAMETERS, "Turn 7 was not found.")
    >>> str(error), error.code == "INVALID_PARAMETERS", error.recoverable
    ('INVALID_PARAMETERS: Turn 7 was not found.', True, False)
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        recoverable: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = dict(details or {})
        self.recoverable = recoverable

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        """The form that events and JSON lines carry."""
        return {
            "code": str(self.code),
            "message": self.message,
            "details": self.details,
            "recoverable": self.recoverable,
        }


class ApiError(CellwrightError):
    """The Messages API, or the way to it, failed for good (after what `retry.py` tried)."""


class ToolError(Exception):
    """Raised by a tool: Claude reads `message` and can react, so say what is wrong and how to go on.

    >>> ToolError("There is no customer 7. Customers have numbers from 100.", code=ErrorCode.INVALID_PARAMETERS).code.value
    'INVALID_PARAMETERS'
    """

    def __init__(
        self,
        message: str,
        *,
        code: ErrorCode = ErrorCode.EXECUTION_ERROR,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.details = dict(details or {})


def fault(error: BaseException) -> CellwrightError:
    """A bug, ours or that of code we called, as the user reads of it; what is an error for the user stays as it is."""
    while isinstance(error, BaseExceptionGroup):  # of tasks that ran side by side
        error = error.exceptions[0]
    if isinstance(error, CellwrightError):
        return error
    if _is_of_the_system(error):
        code = ErrorCode.FILE_ACCESS_ERROR
        return CellwrightError(code, f"The system refused: {error}.", details={"errno": error.errno})
    message = f"This failed because of a bug in Cellwright; its log has the traceback. {error!r:.500}"
    return CellwrightError(ErrorCode.EXECUTION_ERROR, message, details={"exception": type(error).__name__})


_OF_THE_SYSTEM = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO}
)
"""A full or broken disk and the like: no fault of anybody's code."""


def _is_of_the_system(error: BaseException | None) -> TypeGuard[OSError]:
    return isinstance(error, OSError) and error.errno in _OF_THE_SYSTEM


def log_fault(
    logger: logging.Logger,
    message: str,
    *args: object,
    level: int = logging.ERROR,
    error: BaseException | None = None,
    foreign: bool = False,
) -> None:
    """Log `error`, by default the one that is being handled: the only door for exceptions that are logged.

    A fault has its traceback. What is to be expected has one line (the disk is full, the code is `foreign`, such as a hook),
    and its traceback at level DEBUG. A handler of somebody's that raises changes nothing.
    """
    error = sys.exception() if error is None else error
    with contextlib.suppress(Exception):
        if error is not None and (foreign or isinstance(error, CellwrightError) or _is_of_the_system(error)):
            logger.log(level, f"{message}: %s", *args, described(error))
            logger.debug("the traceback of that", exc_info=error)
        else:
            logger.log(level, message, *args, exc_info=error)


def described(error: BaseException) -> str:
    """The error as a traceback ends; never raises, whatever the error's own `__str__` does."""
    return "".join(traceback.format_exception_only(error)).strip()


def needs_extra(what: str, extra: str) -> str:
    """Say that `what` needs an optional part of the package, and how its user gets it."""
    return f"{what} needs packages that are not installed: pip install 'cellwright[{extra}]', and restart the kernel."
