"""Failures of Claude Code's requests, by our codes: it names a kind, sometimes the API's status, and words for people."""

from __future__ import annotations

from cellwright.errors import ApiError, ErrorCode

_CODES = {
    "authentication_failed": ErrorCode.API_KEY_INVALID,
    "oauth_org_not_allowed": ErrorCode.API_KEY_INVALID,
    "billing_error": ErrorCode.API_RATE_LIMITED,
    "rate_limit": ErrorCode.API_RATE_LIMITED,
    "overloaded": ErrorCode.API_OVERLOADED,
    "server_error": ErrorCode.API_OVERLOADED,
    "invalid_request": ErrorCode.API_REQUEST_INVALID,
    "model_not_found": ErrorCode.API_REQUEST_INVALID,
    "max_output_tokens": ErrorCode.API_REQUEST_INVALID,
}

_PASSES = (ErrorCode.API_RATE_LIMITED, ErrorCode.API_OVERLOADED, ErrorCode.API_NETWORK_ERROR)


def code_of(kind: str, status: int | None) -> ErrorCode:
    """The code for what Claude Code calls `kind`, or else for the API's `status`."""
    if kind in _CODES:
        return _CODES[kind]
    if status is None:
        return ErrorCode.API_NETWORK_ERROR
    if status in (401, 403):
        return ErrorCode.API_KEY_INVALID
    if status in (402, 429):
        return ErrorCode.API_RATE_LIMITED
    return ErrorCode.API_OVERLOADED if status >= 500 else ErrorCode.API_REQUEST_INVALID


def api_error(kind: str, status: int | None, words: str, *, program: str, resets: str = "") -> ApiError:
    """The error of a request that Claude Code has given up: what it says, and what to do.

    `program` is how to call it in a terminal, `resets` is when a limit ends, where it is known.
    """
    words = words.strip().rstrip(".") or "it gave no reason"
    code = code_of(kind, status)
    what = f"Claude Code could not ask the model ({words})."
    advice = ""
    if "prompt is too long" in words.lower():
        code, advice = ErrorCode.CONTEXT_TOO_LONG, "Start a new session, or /compact this one."
    elif code == ErrorCode.API_KEY_INVALID:
        if status is None:
            code = ErrorCode.API_KEY_MISSING
        advice = f"Sign in: run `{program} auth login` in a terminal, and ask again."
    elif code == ErrorCode.API_RATE_LIMITED:
        advice = f"The limit ends {resets}." if resets else "Ask again later, or with a key (`--provider api`)."
    details = {"type": "not_found_error" if kind == "model_not_found" else kind, "status": status}
    details = {name: value for name, value in details.items() if value}
    return ApiError(
        code, " ".join(part for part in (what, advice) if part), details=details, recoverable=code in _PASSES
    )
