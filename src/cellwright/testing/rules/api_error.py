"""The API's errors: an exception inside the server, JSON on the wire."""

from __future__ import annotations

import json

TYPE_OF_STATUS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    502: "api_error",
    503: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
MESSAGE_OF_TYPE = {
    "overloaded_error": "Overloaded",
    "api_error": "Internal server error",
    "rate_limit_error": "This request would exceed your account's rate limit. Please try again later.",
    "timeout_error": "The request timed out.",
}


class ApiRejection(Exception):
    """The request is answered with this error."""

    def __init__(self, message: str, *, status: int = 400, error_type: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.error_type = error_type or TYPE_OF_STATUS.get(status, "api_error")


def error_json(error_type: str, message: str, request_id: str) -> bytes:
    """The body of an error response, and the data of an `error` event."""
    error = {"type": error_type, "message": message}
    return json.dumps({"type": "error", "error": error, "request_id": request_id}, ensure_ascii=False).encode()
