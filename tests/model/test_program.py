"""Answers that are no messages, in the forms that the API, the clouds and proxies give them."""

import json
from typing import Any

import pytest

from cellwright.model.retry import FailedAttempt, failure_of_event, failure_of_response
from row_tables import for_each_row

NOW = 1_000_000.0


def of(status: int, body: Any = b"", **headers: str) -> FailedAttempt:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return failure_of_response(status, named, raw, model="claude-opus-5-5", now=NOW)


def api_error(error_type: str, message: str, **error: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"type": error_type, "message": message, **error}, "request_id": "req_9"}


@for_each_row(
    ("body", "words"),
    [
        (api_error("invalid_request_error", "max_tokens: bad"), "max_tokens: bad"),
        ({"message": "Malformed input"}, "Malformed input"),  # Bedrock
        ([{"error": {"code": 400, "message": "no such field", "status": "INVALID_ARGUMENT"}}], "no such field"),
        ({"error": "plain words"}, "plain words"),
        ({"detail": "Not here"}, "Not here"),
        (b"upstream said no", "upstream said no"),
        (b"<html><body>no</body></html>", "no reason was given"),
        (b"\xff\xfe", "\ufffd"),
        (b"", "no reason was given"),
        ([], "no reason was given"),
        ({"error": {"message": ["no", "text"]}}, "no reason was given"),
    ],
)
def test_every_form_of_error_is_read(body, words):
    failure = of(400, body)
    assert words in failure.message
    assert "invalid_request_error" not in failure.message
    assert str(failure.code) == "API_REQUEST_INVALID"


def test_a_type_is_named_once_and_an_overload_not_explained_by_itself():
    assert of(400, api_error("invalid_request_error", "")).message.count("invalid_request_error") == 1
    assert of(529, api_error("overloaded_error", "Overloaded")).message.startswith("The API is overloaded. [")


def test_long_words_are_cut():
    assert len(of(400, api_error("invalid_request_error", "x " * 5000)).message) < 700


def test_details_are_for_programs():
    details = {"error_code": "enforced_spend_limit_reached"}
    failure = of(429, api_error("rate_limit_error", "m", details=details), retry_after="5", request_id="req_1")
    assert failure.details == {
        "status": 429,
        "type": "rate_limit_error",
        "error_code": "enforced_spend_limit_reached",
        "request_id": "req_1",
    }
    assert not failure.retryable, "a spend limit is no matter of seconds, whatever the header says"


def test_the_clouds_throttle_without_saying_for_how_long():
    assert of(429, {"message": "Too many requests"}, x_amzn_errortype="ThrottlingException").retryable
    assert of(429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota"}}).retryable


@for_each_row(
    ("error", "headers", "again"),
    [
        (api_error("rate_limit_error", "Number of requests has exceeded your rate limit"), {}, True),
        (api_error("rate_limit_error", "limit"), {"retry_after": "3"}, True),
        ({"detail": "Too many requests"}, {}, True),
        (b"slow down", {}, True),
        (api_error("rate_limit_error", "You have reached your monthly spend limit."), {}, False),
        (api_error("rate_limit_error", "Your credit balance is too low."), {"retry_after": "3"}, False),
        (api_error("rate_limit_error", "m", details={"error_code": "contract_spend_limit_reached"}), {}, False),
        (api_error("billing_error", "The workspace is at its limit."), {"retry_after": "3"}, False),
        (api_error("rate_limit_error", "You have reached your specified API usage limits."), {}, False),
        ({"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}, {}, False),
    ],
)
def test_429_is_a_matter_of_money_only_where_its_code_or_words_say_so(error, headers, again):
    failure = of(429, error, **headers)
    assert failure.retryable is again
    assert ("money" in failure.message) is not again


@for_each_row(
    ("headers", "seconds"),
    [
        ({"retry_after": "3"}, 3.0),
        ({"retry_after": "0.25"}, 0.25),
        ({"retry_after": "-3"}, 0.0),
        ({"retry_after_ms": "250", "retry_after": "9"}, 0.25),
        ({"retry_after_ms": "soon", "retry_after": "9"}, 9.0),
        ({"retry_after": "inf"}, None),
        ({"retry_after": "tomorrow"}, None),
        ({"retry_after": "Mon, 12 Jan 1970 13:46:50 GMT"}, 10.0),
        ({"retry_after": "Mon, 12 Jan 1970 13:00:00 GMT"}, 0.0),
        ({}, None),
    ],
)
def test_retry_after(headers, seconds):
    assert of(529, **headers).retry_after == seconds


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("prompt is too long: 1000001 tokens > 1000000 maximum", "CONTEXT_TOO_LONG"),
        ("input length and `max_tokens` exceed context limit: 1 + 2 > 2", "CONTEXT_TOO_LONG"),
        ("Your credit balance is too low to access the Anthropic API.", "API_RATE_LIMITED"),
        ("You have reached your specified API usage limits. You will regain access on 2026-12-01.", "API_RATE_LIMITED"),
        ("tools.0: bad", "API_REQUEST_INVALID"),
    ],
)
def test_400_is_several_things(message, code):
    assert str(of(400, api_error("invalid_request_error", message)).code) == code


def test_404_is_the_model_or_the_address():
    assert "'claude-opus-5-5'" in of(404, api_error("not_found_error", "model: claude-opus-5-5")).message
    assert "ANTHROPIC_BASE_URL" in of(404, b"404 page not found").message
    assert "ANTHROPIC_BASE_URL" in of(404, {"detail": "Not Found"}).message


@for_each_row(
    ("error_type", "code", "again"),
    [
        ("overloaded_error", "API_OVERLOADED", True),
        ("api_error", "API_OVERLOADED", True),
        ("timeout_error", "API_OVERLOADED", True),
        ("rate_limit_error", "API_RATE_LIMITED", True),
        ("throttlingException", "API_RATE_LIMITED", True),
        ("ServiceUnavailableException", "API_OVERLOADED", True),
        ("modelStreamErrorException", "API_OVERLOADED", True),
        ("invalid_request_error", "API_REQUEST_INVALID", False),
        ("authentication_error", "API_KEY_INVALID", False),
        ("permission_error", "API_KEY_INVALID", False),
        ("billing_error", "API_RATE_LIMITED", False),
        ("something_new", "API_REQUEST_INVALID", False),
    ],
)
def test_errors_in_the_stream(error_type, code, again):
    data = json.dumps(api_error(error_type, "words")).encode()
    failure = failure_of_event(data, model="m", request_id="req_1")
    assert (str(failure.code), failure.retryable) == (code, again)
    assert "words" in failure.message
    assert "spend" not in failure.message or error_type == "billing_error"


def test_an_error_event_that_is_no_json_is_an_error_all_the_same():
    failure = failure_of_event(b"boom", model="m", request_id="")
    assert "boom" in failure.message
    assert not failure.retryable
