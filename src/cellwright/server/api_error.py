"""Errors of the REST interface: a status, a code for programs, a message for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellwright.errors import CellwrightError

_STATUS = {
    "INVALID_PARAMETERS": 400,
    "API_REQUEST_INVALID": 400,
    "CONFIG_INVALID": 400,
    "FILE_PATH_INVALID": 400,
    "PERMISSION_DENIED": 403,
    "REFUSED": 403,
    "FILE_ACCESS_ERROR": 403,
    "SESSION_NOT_FOUND": 404,
    "FILE_NOT_FOUND": 404,
    "TOOL_NOT_FOUND": 404,
    "BUDGET_EXCEEDED": 403,
    "INTERRUPTED": 409,
    "SESSION_CORRUPTED": 409,
    "RATE_LIMIT_EXCEEDED": 429,
    "EXECUTION_TIMEOUT": 504,
}
"""The status of the product's codes; what is not listed is 500."""

_KERNEL_CODES = {"invalid": "INVALID_PARAMETERS", "unknown_method": "EXTENSION_MISSING", "failed": "EXECUTION_ERROR"}


class RouteError(Exception):
    """A request that is answered with `{"code", "message", "details"}` and `status`. `retry_after` is in seconds."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = dict(details or {})
        self.retry_after = retry_after

    @classmethod
    def of(cls, error: CellwrightError) -> RouteError:
        """An error of the library as the interface tells it."""
        return cls(_STATUS.get(str(error.code), 500), str(error.code), error.message, error.details)

    @classmethod
    def of_kernel(cls, code: str, message: str, details: Mapping[str, Any] | None) -> RouteError:
        """Build the error for what a kernel answered to a request that it could not do."""
        known = _KERNEL_CODES.get(code, code)
        return cls(409 if known == "EXTENSION_MISSING" else _STATUS.get(known, 500), known, message, details)

    def to_json(self) -> dict[str, Any]:
        """The body of the answer."""
        return {"code": self.code, "message": self.message, "details": self.details}
