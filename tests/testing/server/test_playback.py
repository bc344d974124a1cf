"""Each fault as a raw HTTP client sees it, and as the anthropic SDK does."""

from __future__ import annotations

import json
import threading

import httpx2
import pytest

from cellwright.testing import Gate, fault, hold, say, turn, use
from row_tables import for_each_row

HELLO = {"role": "user", "content": "Hello"}


def stream_lines(api, seen):
    """Read a streamed answer line by line into `seen`; what breaks it is raised."""
    body = {**api.body(), "stream": True}
    with api.http.stream("POST", f"{api.server.url}/v1/messages", json=body, headers=api.headers) as response:
        for line in response.iter_lines():
            seen.append(line)


def event_names(lines):
    return [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]


def sdk_message(api, **changes):
    import anthropic

    with (
        anthropic.Anthropic(base_url=api.server.url, api_key=api.server.api_key, max_retries=0, timeout=60) as sdk,
        sdk.messages.stream(**api.body(**changes)) as stream,
    ):
        return stream.get_final_message()


@for_each_row(
    ("status", "error_type", "sdk_error"),
    [
        (400, "invalid_request_error", "BadRequestError"),
        (401, "authentication_error", "AuthenticationError"),
        (403, "permission_error", "PermissionDeniedError"),
        (404, "not_found_error", "NotFoundError"),
        (413, "request_too_large", "APIStatusError"),
        (429, "rate_limit_error", "RateLimitError"),
        (500, "api_error", "InternalServerError"),
        (502, "api_error", "InternalServerError"),
        (503, "api_error", "InternalServerError"),
        (504, "timeout_error", "InternalServerError"),
        (529, "overloaded_error", "InternalServerError"),
    ],
)
def test_status(client, status, error_type, sdk_error):
    import anthropic

    api = client([fault("status", status=status), fault("status", status=status, message="Not now."), say("fine")])
    response = api.post()
    assert response.status_code == status
    assert response.json()["error"]["type"] == error_type
    assert response.json()["request_id"] == response.headers["request-id"]
    with pytest.raises(getattr(anthropic, sdk_error), match=r"Not now\."):
        sdk_message(api)
    assert sdk_message(api).content[0].text == "fine"
    assert [request.status for request in api.server.requests] == [status, status, 200]
    assert api.server.rejected == [], "a scripted fault is no broken rule"


def test_status_with_retry_headers(client):
    api = client([fault("status", status=429, retry_after=2.5, retry_after_ms=120, headers={"x-should-retry": "true"})])
    headers = api.post().headers
    assert (headers["retry-after"], headers["retry-after-ms"], headers["x-should-retry"]) == ("2.5", "120", "true")
    assert "anthropic-ratelimit-requests-remaining" in headers


def test_status_without_retry_headers(client):
    headers = client([fault("status", status=429)]).post().headers
    assert "retry-after" not in headers
    assert "retry-after-ms" not in headers


def test_status_with_a_proxy_page(client):
    api = client([fault("status", status=502, body="<html>Bad Gateway</html>")])
    response = api.post()
    assert (response.status_code, response.text) == (502, "<html>Bad Gateway</html>")
    assert response.headers["content-type"] == "text/html"


def test_cut_before_the_head(client):
    import anthropic

    api = client([fault("cut"), fault("cut"), say("fine")])
    with pytest.raises(httpx2.NetworkError):
        api.post()
    with pytest.raises(anthropic.APIConnectionError):
        sdk_message(api)
    assert [request.status for request in api.server.requests] == [None, None]
    assert sdk_message(api).content[0].text == "fine"


@pytest.mark.parametrize("scripted", [fault("cut", after=3), turn(say("x"), fault("cut", after=3))])
def test_cut_after_events(client, scripted):
    api = client([scripted, scripted])
    seen: list[str] = []
    with pytest.raises(httpx2.NetworkError):
        stream_lines(api, seen)
    assert event_names(seen) == ["message_start", "content_block_start", "ping"]
    with pytest.raises(httpx2.NetworkError):
        sdk_message(api)
    assert api.server.requests[0].events_sent == 3
    assert not api.server.requests[0].disconnected, "the server cut, not the client"


def test_cut_at_its_place_in_the_turn(client):
    seen: list[str] = []
    with pytest.raises(httpx2.NetworkError):
        stream_lines(client([turn(say("half"), fault("cut"), say("never"))]), seen)
    assert event_names(seen) == ["message_start", "content_block_start", "ping", "content_block_delta"]
    assert '"half"' in seen[-2]


def test_close_in_the_middle(client):
    api = client([fault("close"), turn(say("half"), fault("close"))])
    with pytest.raises(httpx2.RemoteProtocolError, match="disconnected without"):
        api.post()
    seen: list[str] = []
    with pytest.raises(httpx2.RemoteProtocolError, match="incomplete"):
        stream_lines(api, seen)
    assert event_names(seen)[-1] == "content_block_delta"


def test_truncated(client):
    api = client([fault("truncated"), fault("truncated")])
    seen: list[str] = []
    stream_lines(api, seen)
    assert event_names(seen)[0] == "message_start"
    assert event_names(seen)[-1] == "content_block_delta"
    assert sdk_message(api).stop_reason is None


def test_truncated_just_before_the_end(client):
    events = client([turn(use("Read", a=1), fault("truncated"))]).events()
    assert events[-1]["type"] == "content_block_delta", "the call's block is not closed either"
    last = client([turn(say("x"), fault("truncated", after=6))]).events()[-1]
    assert (last["type"], last["delta"]["stop_reason"]) == ("message_delta", "end_turn")


def test_malformed(client):
    api = client([fault("malformed"), fault("malformed")])
    seen: list[str] = []
    stream_lines(api, seen)
    assert event_names(seen)[-1] == "content_block_delta"
    with pytest.raises(json.JSONDecodeError):
        json.loads(seen[-2].removeprefix("data: "))
    with pytest.raises(json.JSONDecodeError):
        sdk_message(api)


@pytest.mark.parametrize("error_type", ["overloaded_error", "api_error"])
def test_error_event(client, error_type):
    import anthropic

    api = client(
        [fault("error_event", error_type=error_type), turn(say("x"), fault("error_event", error_type=error_type))]
    )
    assert api.events()[-1]["error"]["type"] == error_type
    with pytest.raises(anthropic.APIStatusError) as caught:
        sdk_message(api)
    assert (caught.value.type, caught.value.status_code) == (error_type, 200)


def test_stall_ends_after_its_seconds(client):
    api = client([fault("stall", seconds=0.01), fault("stall", seconds=0.01, after=2)])
    with pytest.raises(httpx2.NetworkError):
        api.post()
    seen: list[str] = []
    with pytest.raises(httpx2.NetworkError):
        stream_lines(api, seen)
    assert len(event_names(seen)) == 2


def test_stall_ends_when_it_is_released(client):
    gate = Gate()
    api = client([turn(say("half"), fault("stall", gate=gate))])
    seen: list[str] = []
    failures: list[Exception] = []

    def read() -> None:
        try:
            stream_lines(api, seen)
        except httpx2.HTTPError as error:
            failures.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    gate.wait_until_reached()
    assert thread.is_alive()
    gate.open()
    thread.join(60)
    assert isinstance(failures[0], httpx2.NetworkError)
    assert event_names(seen)[-1] == "content_block_delta"


@pytest.mark.parametrize("stalled", [fault("stall"), fault("stall", after=2)])
def test_a_client_that_leaves_a_stall_is_noticed(client, stalled):
    api = client([stalled])
    body = {**api.body(), "stream": True}
    read_timeout = httpx2.Timeout(60, read=0.05)
    with pytest.raises(httpx2.ReadTimeout), httpx2.Client(verify=False) as impatient:
        impatient.post(f"{api.server.url}/v1/messages", json=body, headers=api.headers, timeout=read_timeout)
    (request,) = api.server.wait_for_disconnect()
    assert request.disconnected
    assert not request.finished


def test_a_client_that_leaves_a_running_stream_is_noticed(client):
    gate = Gate()
    api = client([turn(say("x" * 500), hold(gate), say("y")), say("next")], delta_chars=1)
    body = {**api.body(), "stream": True}
    with api.http.stream("POST", f"{api.server.url}/v1/messages", json=body, headers=api.headers) as response:
        lines = response.iter_lines()  # kept: a dropped iterator closes the response
        assert next(lines) == "event: message_start"
        gate.wait_until_reached()
    assert api.server.wait_for_disconnect()[0] is api.server.requests[0]
    assert api.post().json()["content"][0]["text"] == "next"


@pytest.mark.parametrize("kind", ["cut", "close"])
def test_a_whole_answer_that_breaks_off(client, kind):
    api = client([turn(say("half"), fault(kind))])
    with pytest.raises((httpx2.NetworkError, httpx2.RemoteProtocolError)):
        api.post()


def test_a_whole_answer_that_is_truncated_malformed_or_an_error(client):
    api = client([fault("truncated"), fault("malformed"), fault("error_event", error_type="overloaded_error")])
    with pytest.raises((httpx2.NetworkError, httpx2.RemoteProtocolError)):
        api.post()
    with pytest.raises(json.JSONDecodeError):
        api.post().json()
    response = api.post()
    assert (response.status_code, response.json()["error"]["type"]) == (529, "overloaded_error")


def test_the_sdk_gets_over_faults_by_its_own_retries(client):
    import anthropic

    api = client(
        [fault("status", status=529), fault("cut"), fault("status", status=429, retry_after_ms=1), say("fine")]
    )
    with anthropic.Anthropic(base_url=api.server.url, api_key=api.server.api_key, max_retries=3) as sdk:
        assert sdk.messages.create(**api.body()).content[0].text == "fine"
    assert len(api.server.requests) == 4


def test_a_fault_after_more_events_than_there_are_happens_at_the_end(client):
    seen: list[str] = []
    with pytest.raises(httpx2.NetworkError):
        stream_lines(client([turn(say("x"), fault("cut", after=99))]), seen)
    assert event_names(seen)[-1] == "message_stop"
