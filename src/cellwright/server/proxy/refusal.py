"""Refusals of the proxy itself, in the form of the Messages API's errors.

`{"type": "error", "error": {"type", "message", "details": {"error_code"}}}`
(https://platform.claude.com/docs/en/api/errors). The codes say which of the proxy's own rules it was, for programs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

BUDGET = "cellwright_budget_exceeded"
POLICY = "cellwright_forbidden"
BUSY = "cellwright_too_many_requests"

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    502: "api_error",
    504: "timeout_error",
}


class Refusal(Exception):
    """The request goes no further; `message` is for the user. `retry_after` is in seconds, None: it would not help."""

    def __init__(self, status: int, message: str, *, code: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.retry_after = retry_after

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that tell clients whether to try again."""
        if self.retry_after is None:
            return {"x-should-retry": "false"}
        return {"retry-after": str(max(1, math.ceil(self.retry_after))), "x-should-retry": "true"}

    def body(self) -> bytes:
        error = {"type": _TYPES[self.status], "message": self.message}
        if self.code:
            return json.dumps({"type": "error", "error": {**error, "details": {"error_code": self.code}}}).encode()
        return json.dumps({"type": "error", "error": error}).encode()


def forbidden(message: str) -> Refusal:
    """Build the refusal of what the administrator does not allow."""
    return Refusal(403, message, code=POLICY)


def over_budget(message: str) -> Refusal:
    return Refusal(402, message, code=BUDGET)
