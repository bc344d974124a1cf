"""Failures of requests, explained once for people and once for programs, and the rule for trying again.

They are status codes, error events and failures of the network. Error types and codes are the Messages API's
(https://platform.claude.com/docs/en/api/errors); Bedrock's and Google Cloud's own forms are understood where they
differ.

The rule says what is tried again, when, and how long: pure functions of a failure, the count of tries and the time
that passed.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import math
import os
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct, field

from cellwright.errors import ApiError, CellwrightError, ErrorCode
from cellwright.text import lazy_pattern

_TOO_LONG = lazy_pattern(r"prompt is too long|context (limit|length|window)", re.IGNORECASE)
_PROXY_CODES = {
    "cellwright_budget_exceeded": ErrorCode.BUDGET_EXCEEDED,
    "cellwright_forbidden": ErrorCode.PERMISSION_DENIED,
    "cellwright_too_many_requests": ErrorCode.RATE_LIMIT_EXCEEDED,
}
_MONEY = lazy_pattern(
    r"\b(credits?|credit balance|billing|payment|prepaid|spend(ing)?|budget|invoice|usage limits?)\b", re.IGNORECASE
)
_MONEY_IN_400 = lazy_pattern(r"credit balance|API usage limits")
_SPEND_CODES = {"contract_spend_limit_reached", "enforced_spend_limit_reached", "insufficient_quota"}

_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    "validationException": 400,
    "throttlingException": 429,
    "internalServerException": 500,
    "modelStreamErrorException": 500,
    "serviceUnavailableException": 503,
    "modelTimeoutException": 504,
    # gateways to other platforms speak as OpenAI or Google do
    "server_error": 500,
    "internal_server_error": 500,
    "service_unavailable": 503,
    "service_unavailable_error": 503,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "context_length_exceeded": 413,
    "INVALID_ARGUMENT": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
"""The status that an error type stands for where none came with it: the API's, those of Bedrock's stream and of gateways."""


class FailedAttempt(Struct, frozen=True):
    """One failed attempt. `retry_after` (seconds) is what the server asked for, None where it asked for nothing."""

    code: ErrorCode
    message: str
    retryable: bool
    retry_after: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class RequestFailed(Exception):
    """An attempt ended without a message; whoever catches it decides whether to try again."""

    def __init__(self, failure: FailedAttempt) -> None:
        super().__init__(failure.message)
        self.failure = failure


class ApiErrorBody(Struct, frozen=True):
    """The content of an error body, in whichever form it came."""

    type: str = ""
    message: str = ""
    error_code: str = ""
    request_id: str = ""
    status: int = 0
    """The status that stands in the body itself, as gateways have it."""


def failure_of_response(
    status: int, headers: Mapping[str, str], body: bytes, *, model: str, now: float
) -> FailedAttempt:
    """The failure that an answer with an error `status` stands for. Header names are lower case; `now`: epoch time."""
    says = _error_body(body)
    retry_after = _retry_after(headers, now)
    answered = status
    if status == 200 and is_error_body(body):
        status = status_of_type(says.type) or says.status  # of a gateway that says it in the body alone
    spent = status == 429 and _is_spend_limit(says)
    if 0 < status < 400:
        redirect = f"it redirects to {headers['location']}" if "location" in headers else ""
        says = ApiErrorBody(message=redirect or says.message or headers.get("content-type", ""))
    code, what, advice = _explain(status, says, model, spent=spent)
    request_id = headers.get("request-id") or headers.get("x-amzn-requestid") or says.request_id
    return FailedAttempt(
        code,
        _sentence(what, advice, request_id),
        _is_retryable(status, headers, spent=spent),
        retry_after,
        _details(answered, says, request_id),
    )


def failure_of_event(data: bytes, *, model: str, request_id: str) -> FailedAttempt:
    """The failure that an `error` event in a stream stands for. What is of a kind not known here is not tried again."""
    says = _error_body(data)
    status = status_of_type(says.type) or says.status
    spent = says.error_code in _SPEND_CODES or (status == 429 and _is_spend_limit(says))
    code, what, advice = _explain(status, says, model, spent=spent)
    request_id = request_id or says.request_id
    message = _sentence(what, advice, request_id)
    return FailedAttempt(code, message, _is_retryable(status, {}, spent=spent), None, _details(200, says, request_id))


def is_refusal(error: CellwrightError) -> bool:
    """Return whether the API refused the request for what stands in it: asked again as it is, it would be refused again."""
    status, kind = error.details.get("status"), str(error.details.get("type", ""))
    if status is None or status < 400:  # it came in the stream, or from Claude Code, which names a kind
        status = 400 if kind == "invalid_request" else status_of_type(kind)
    return error.code == ErrorCode.API_REQUEST_INVALID and status in (400, 422)


def status_of_type(kind: str) -> int:
    """The status that an error type stands for; 0 for one that is not known here."""
    return _STATUS_OF_TYPE.get(kind, _STATUS_OF_TYPE.get(kind[:1].lower() + kind[1:], 0))


def broken_stream(what: str, request_id: str, *, retryable: bool = True) -> FailedAttempt:
    """The failure of a stream that came to nothing: cut, ended early, or not what the API sends."""
    return FailedAttempt(
        ErrorCode.API_NETWORK_ERROR,
        _sentence(what, "", request_id),
        retryable,
        details={"request_id": request_id} if request_id else {},
    )


def _explain(status: int, says: ApiErrorBody, model: str, *, spent: bool) -> tuple[ErrorCode, str, str]:
    """The code, what happened, and what to do."""
    quoted = says.message or says.type or "no reason was given"
    if status == 413 or (status == 400 and _TOO_LONG.search(says.message)):
        what = f"The conversation is larger than {model} takes ({quoted})."
        return ErrorCode.CONTEXT_TOO_LONG, what, "Start a new session, or take a model with a larger context window."
    if says.error_code in _PROXY_CODES:  # what the proxy of the Jupyter server says is meant for its user as it is
        return _PROXY_CODES[says.error_code], quoted, ""
    if spent or status == 402 or (status == 400 and _MONEY_IN_400.search(says.message)):
        what = f"The account's money or spend limit is used up ({quoted})."
        return ErrorCode.API_RATE_LIMITED, what, "Look at its billing and limits in the Console."
    if status == 429:
        return ErrorCode.API_RATE_LIMITED, f"Too many requests or tokens in a short time ({quoted}).", ""
    if status == 401:
        what = f"The API rejected your key ({quoted})."
        return ErrorCode.API_KEY_INVALID, what, "Check ANTHROPIC_API_KEY; /status shows which key is used."
    if status == 403:
        what = f"The credential may not do this ({quoted})."
        return ErrorCode.API_KEY_INVALID, what, "Check what the key, its workspace and its account may use."
    if status in (503, 529):
        says_more = quoted.lower().strip(".") not in ("overloaded", "overloaded_error")
        return ErrorCode.API_OVERLOADED, f"The API is overloaded{f' ({quoted})' if says_more else ''}.", ""
    if status in (408, 409) or status >= 500:
        return ErrorCode.API_OVERLOADED, f"The API failed with status {status} ({quoted}).", ""
    return ErrorCode.API_REQUEST_INVALID, *_explain_refusal(status, says, quoted, model)


def _explain_refusal(status: int, says: ApiErrorBody, quoted: str, model: str) -> tuple[str, str]:
    if status == 404 and (model in says.message or "model" in says.message.lower()):
        what = f"The API does not know the model {model!r}, or this key may not use it ({quoted})."
        return what, "Check the model's name."
    if status == 404 or 200 <= status < 400:
        what = f"The address does not serve the Messages API (status {status}: {quoted})."
        return what, "Check ANTHROPIC_BASE_URL."
    advice = "The session's history was changed: start a new session." if "different conversation" in quoted else ""
    return f"The API refused the request ({says.message or says.type or f'status {status}, {quoted}'}).", advice


def _is_retryable(status: int, headers: Mapping[str, str], *, spent: bool) -> bool:
    asked = headers.get("x-should-retry")
    if asked in ("true", "false"):
        return asked == "true"
    return not spent and (status in (408, 409, 429) or status >= 500)


def _is_spend_limit(says: ApiErrorBody) -> bool:
    """Return whether a 429 is a matter of money, and not of seconds: its code or its words say so."""
    named = says.type == "billing_error" or says.error_code in _SPEND_CODES
    return named or _MONEY.search(says.message) is not None


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds, from `retry-after-ms` (milliseconds) or `retry-after` (seconds or an HTTP date)."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * unit
        except (KeyError, ValueError):
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    date = email.utils.parsedate_tz(headers.get("retry-after"))
    return None if date is None else max(0.0, email.utils.mktime_tz(date) - now)


def _error_body(body: bytes) -> ApiErrorBody:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        text = body.decode(errors="replace").strip()
        # a page of HTML, as proxies send, says nothing
        return ApiErrorBody(message="" if text.startswith("<") else _words(text))
    if isinstance(answer, list) and answer:  # Google Cloud
        answer = answer[0]
    if not isinstance(answer, dict):
        return ApiErrorBody()
    error = answer.get("error", answer)
    if not isinstance(error, dict):
        return ApiErrorBody(message=_words(error))
    details = error.get("details")
    numbers = (error.get("code"), error.get("status"), error.get("status_code"), answer.get("status"))
    return ApiErrorBody(
        type=_words(error.get("type") if error is not answer else "") or _words(error.get("status")),
        message=_words(error.get("message") or error.get("Message") or error.get("detail")),
        # gateways to other platforms say it as OpenAI does
        error_code=_words(details.get("error_code") if isinstance(details, dict) else error.get("code")),
        request_id=_words(answer.get("request_id")),
        status=next((found for number in numbers if (found := _http_error(number))), 0),
    )


def says_error(event: object) -> bool:
    """Return whether the JSON of an event is an error, whatever the event is called: gateways leave its name out."""
    if not isinstance(event, Mapping):
        return False
    return event.get("type") == "error" or ("type" not in event and event.get("error") is not None)


def is_error_body(body: bytes) -> bool:
    """Return whether a body is JSON, and an error."""
    try:
        return says_error(json.loads(body)) if body.lstrip()[:1] == b"{" else False
    except (ValueError, RecursionError):
        return False


def _http_error(value: object) -> int:
    """The status of an error that `value` is, a number or its digits; 0 where it is none."""
    number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) == 3 else value
    return number if type(number) is int and 400 <= number < 600 else 0


def _words(value: Any) -> str:
    # so many characters of the API's own words does a message quote
    return " ".join(value.split())[:500] if isinstance(value, str) else ""


def _details(status: int, says: ApiErrorBody, request_id: str) -> dict[str, Any]:
    known = {"status": status, "type": says.type, "error_code": says.error_code, "request_id": request_id}
    return {key: value for key, value in known.items() if value}


def _sentence(what: str, advice: str, request_id: str) -> str:
    return " ".join(part for part in (what, advice, f"[request {request_id}]" if request_id else "") if part)


FIRST_WAIT = 0.5
LONGEST_WAIT = 32.0
JITTER = 0.25
"""Up to this part of a wait is taken off at random, so that many clients do not come back at once."""


class Clock(Struct, frozen=True):
    """Time and chance, as tests hand them in. `now` is monotonic, `today` is epoch time, both in seconds."""

    now: Callable[[], float] = time.monotonic
    today: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random


class RetryPolicy(Struct, frozen=True):
    """The limits on how often and how long a request is tried again.

    After `total_seconds` from the first try no further one begins. `stall_seconds` is how long an answer may be silent.
    """

    max_retries: int = 8
    stall_seconds: float = 90.0
    total_seconds: float = 600.0

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> RetryPolicy:
        """The policy with `CELLWRIGHT_MAX_RETRIES` and `CELLWRIGHT_STALL_SECONDS` where they are set."""
        environ = os.environ if environ is None else environ
        retries = _number(environ, "CELLWRIGHT_MAX_RETRIES", default=8, least=0)
        stall = _number(environ, "CELLWRIGHT_STALL_SECONDS", default=90, least=0.001)
        return cls(max_retries=int(retries), stall_seconds=stall)

    def wait_before(self, retry: int, failure: FailedAttempt, elapsed: float, chance: float) -> float | None:
        """Seconds to wait before the `retry`-th retry (the first is 1); None to give up.

        What the server asked for is kept to exactly; else the wait doubles each time. `chance` is in [0, 1).
        """
        if not failure.retryable or retry > self.max_retries:
            return None
        wait = failure.retry_after
        if wait is None:
            wait = min(FIRST_WAIT * 2 ** min(retry - 1, 10), LONGEST_WAIT) * (1 - JITTER * chance)
        return wait if elapsed + wait <= self.total_seconds else None

    def final_error(self, retry: int, failure: FailedAttempt, elapsed: float) -> ApiError:
        """The error of a request that is not tried again: what happened, and why it ends here."""
        message = failure.message
        if failure.retryable and retry <= self.max_retries and (failure.retry_after or 0) > LONGEST_WAIT:
            message += f" It asks to wait {_duration(failure.retry_after or 0)}; that is too long. Try again then."
        elif failure.retryable and retry > 1:
            message += f" Gave up after {retry} attempts in {_duration(elapsed)}. Try again later."
        details = {**failure.details, "attempts": retry}
        return ApiError(failure.code, message, details=details, recoverable=failure.retryable)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _number(environ: Mapping[str, str], name: str, *, default: float, least: float) -> float:
    text = environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value < float("inf"):
        raise CellwrightError(ErrorCode.CONFIG_INVALID, f"{name} is {text!r}: it must be a number, at least {least:g}.")
    return value
