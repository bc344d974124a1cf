"""What is tried again and what is not, as the user sees it, on every way to the API."""

import asyncio

import pytest

from cellwright.errors import ApiError, ErrorCode
from cellwright.events import Retrying, TextDelta, TurnEnd
from cellwright.model.retry import RetryPolicy
from cellwright.testing import fault, say, turn
from row_tables import for_each_row

AGAIN = [
    pytest.param(fault("status", status=408), "API_OVERLOADED", id="408"),
    pytest.param(fault("status", status=409), "API_OVERLOADED", id="409"),
    pytest.param(fault("status", status=429, retry_after=0.5), "API_RATE_LIMITED", id="429"),
    pytest.param(fault("status", status=429), "API_RATE_LIMITED", id="429-without-a-time"),
    pytest.param(fault("status", status=500), "API_OVERLOADED", id="500"),
    pytest.param(fault("status", status=502, body="<html>bad gateway</html>"), "API_OVERLOADED", id="html"),
    pytest.param(fault("status", status=503), "API_OVERLOADED", id="503"),
    pytest.param(fault("status", status=529), "API_OVERLOADED", id="529"),
    pytest.param(fault("status", status=400, headers={"x-should-retry": "true"}), "API_REQUEST_INVALID", id="asked"),
    pytest.param(fault("cut"), "API_NETWORK_ERROR", id="cut-before"),
    pytest.param(fault("cut", after=4), "API_NETWORK_ERROR", id="cut-within"),
    pytest.param(fault("truncated"), "API_NETWORK_ERROR", id="truncated"),
    pytest.param(turn(say("all of it"), fault("truncated", after=6)), "API_NETWORK_ERROR", id="no-message-stop"),
    pytest.param(fault("error_event", error_type="overloaded_error"), "API_OVERLOADED", id="overloaded-event"),
    pytest.param(fault("error_event", error_type="api_error"), "API_OVERLOADED", id="api-error-event"),
    pytest.param(fault("error_event", error_type="rate_limit_error"), "API_RATE_LIMITED", id="rate-limit-event"),
]


@for_each_row(("trouble", "code"), AGAIN)
def test_what_passes_is_tried_again(line, trouble, code):
    played = line([trouble, say("after all")]).play()
    assert played.error is None
    [retrying] = played.of(Retrying)
    assert (retrying.attempt, retrying.max_attempts, retrying.code) == (1, 8, code)
    assert retrying.message
    after = played.events[played.events.index(retrying) + 1 :]
    assert [event.text for event in after if isinstance(event, TextDelta)] == ["after all"]
    assert len(played.of(TurnEnd)) == 1
    assert played.events[-1].message["content"] == [{"type": "text", "text": "after all"}]


FOR_GOOD = [
    pytest.param(fault("status", status=400, message="max_tokens: too many"), "API_REQUEST_INVALID", "too many"),
    pytest.param(
        fault("status", status=400, message="prompt is too long: 2 tokens > 1 maximum"), "CONTEXT_TOO_LONG", "session"
    ),
    pytest.param(fault("status", status=401), "API_KEY_INVALID", "ANTHROPIC_API_KEY"),
    pytest.param(fault("status", status=402), "API_RATE_LIMITED", "billing"),
    pytest.param(fault("status", status=403), "API_KEY_INVALID", "may not"),
    pytest.param(fault("status", status=413, body="<html>413</html>"), "CONTEXT_TOO_LONG", "larger"),
    pytest.param(fault("status", status=429, message="monthly spend limit reached"), "API_RATE_LIMITED", "spend limit"),
    pytest.param(fault("status", status=529, headers={"x-should-retry": "false"}), "API_OVERLOADED", "overloaded"),
    pytest.param(fault("status", status=200, body="<html>Sign in</html>"), "API_REQUEST_INVALID", "ANTHROPIC_BASE_URL"),
    pytest.param(fault("error_event", error_type="invalid_request_error"), "API_REQUEST_INVALID", "refused"),
    pytest.param(fault("error_event", error_type="a_new_error"), "API_REQUEST_INVALID", "a_new_error"),
]


@for_each_row(("trouble", "code", "words"), FOR_GOOD)
def test_what_stays_is_not_tried_again(key_line, trouble, code, words):
    # the profile's own second try of a 401 would take the second turn
    playing = key_line([trouble, say("never")])
    played = playing.play()
    assert isinstance(played.error, ApiError)
    assert str(played.error.code) == code
    assert words in played.error.message
    assert played.of(Retrying) == []
    assert len(playing.server.requests) == 1
    assert playing.waits == []


def test_a_redirect_is_not_followed(line):
    """The conversation goes nowhere but to the address that the user named."""
    playing = line([fault("status", status=307, headers={"location": "/v1/messages?elsewhere"}), say("never")])
    played = playing.play()
    assert isinstance(played.error, ApiError)
    assert played.error.code == ErrorCode.API_REQUEST_INVALID
    assert "redirects to /v1/messages?elsewhere. Check" in played.error.message.replace(")", "")
    assert len(playing.server.all_requests) == 1


def test_an_unknown_model_is_named(line):
    played = line([say("never")]).play(line([]).request(model="claude-nonesuch-9"))
    assert isinstance(played.error, ApiError)
    assert played.error.code == ErrorCode.API_REQUEST_INVALID
    assert "'claude-nonesuch-9'" in played.error.message


def test_the_request_id_is_said(line):
    played = line([fault("status", status=400)]).play()
    assert isinstance(played.error, ApiError)
    assert played.error.details["request_id"].startswith("req_")
    assert played.error.details["request_id"] in played.error.message
    assert played.error.details["status"] == 400


def test_waits_double_and_end_in_a_clear_error(line):
    playing = line([fault("status", status=529)] * 5, retry=RetryPolicy(max_retries=4))
    played = playing.play()
    assert playing.waits == [0.5, 1.0, 2.0, 4.0]
    assert [event.attempt for event in played.of(Retrying)] == [1, 2, 3, 4]
    assert [event.wait_seconds for event in played.of(Retrying)] == playing.waits
    assert isinstance(played.error, ApiError)
    assert played.error.code == ErrorCode.API_OVERLOADED
    assert played.error.recoverable
    assert "after 5 attempts in 8 s" in played.error.message
    assert len(playing.server.requests) == 5


def test_what_the_server_asks_for_is_waited(key_line):
    playing = key_line(
        [
            fault("status", status=429, retry_after=7),
            fault("status", status=529, retry_after_ms=1500, retry_after=9),
            fault("status", status=429, headers={"retry-after": "Mon, 12 Jan 1970 13:47:10 GMT"}),
            say("done"),
        ]
    )
    assert playing.play().error is None
    # the clock's today is 1,000,000 s: 13:46:40 of that day
    assert playing.waits == [7.0, 1.5, 30.0]


def test_a_wait_that_is_too_long_is_not_begun(key_line):
    playing = key_line([fault("status", status=429, retry_after=3600), say("never")])
    played = playing.play()
    assert isinstance(played.error, ApiError)
    assert played.error.code == ErrorCode.API_RATE_LIMITED
    assert "60 min" in played.error.message
    assert playing.waits == []


DONE = [say("done")] * 8
"""On a busy machine an answer that is not held may be late as well; then it is asked for again."""


def test_a_silent_server_is_left_after_the_stall_time(line):
    playing = line([fault("stall", after=4), *DONE], retry=RetryPolicy(stall_seconds=0.2))
    played = playing.play()
    assert played.error is None
    retrying = played.of(Retrying)[0]
    assert retrying.code == "API_NETWORK_ERROR"
    assert "for 0.2 s" in retrying.message
    playing.server.wait_for_disconnect()
    first, second, *_ = playing.server.requests
    assert second.arrived_at - first.arrived_at >= 0.2


def test_a_server_that_never_answers_is_left_too(line):
    playing = line([fault("stall"), *DONE], retry=RetryPolicy(stall_seconds=0.2))
    played = playing.play()
    assert "for 0.2 s" in played.of(Retrying)[0].message
    assert played.error is None


def test_nobody_at_the_address(line):
    playing = line([], retry=RetryPolicy(max_retries=1))
    playing.stop()
    played = playing.play()
    assert isinstance(played.error, ApiError)
    assert played.error.code == ErrorCode.API_NETWORK_ERROR
    assert "127.0.0.1 cannot be reached" in played.error.message
    assert len(played.of(Retrying)) == 1


def test_a_wait_can_be_cancelled(key_line):
    playing = key_line([fault("status", status=529, retry_after=500)])

    async def cancelled() -> None:
        from cellwright.model.anthropic import connect

        async with connect() as provider:
            events = provider.stream(playing.request())
            assert isinstance(await anext(events), Retrying)
            waiting = asyncio.create_task(anext(events))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(asyncio.wait_for(cancelled(), 60))


def test_malformed_data_is_tried_again(key_line):
    played = key_line([fault("malformed"), say("done")]).play()
    assert played.error is None
    assert "not what the" in played.of(Retrying)[0].message
