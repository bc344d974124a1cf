"""Which turn answers which request, and what the server remembers of them."""

from __future__ import annotations

import re
import threading

import pytest

from cellwright.testing import MessagesServer, say, turn, use


def answer(api, content):
    response = api.post(api.body(messages=[{"role": "user", "content": content}]))
    blocks = response.json().get("content")
    return blocks[0]["text"] if blocks else response.json()["error"]["message"]


def test_turns_are_used_in_order_and_a_bare_part_is_a_turn(client):
    api = client([say("one"), turn(say("two"))])
    assert [answer(api, "x") for _ in range(2)] == ["one", "two"]


def test_a_turn_with_when_waits_for_its_request(client):
    api = client([turn(say("weather"), when="rain"), turn(say("number"), when=re.compile(r"\d+")), say("else")])
    assert answer(api, "hello") == "else"
    assert answer(api, "how many? 12") == "number"
    assert api.server.remaining_turns == 1
    assert answer(api, [{"type": "text", "text": "will it rain?"}]) == "weather"


def test_when_sees_the_text_of_tool_results(client):
    api = client([use("Read"), turn(say("other"), when="beta"), turn(say("found"), when="alpha")])
    call = api.post().json()["content"]
    result = {"type": "tool_result", "tool_use_id": call[0]["id"], "content": [{"type": "text", "text": "alpha"}]}
    messages = [
        {"role": "user", "content": "Hello beta"},
        {"role": "assistant", "content": call},
        {"role": "user", "content": [result]},
    ]
    assert api.post(api.body(messages=messages)).json()["content"][0]["text"] == "found"
    assert api.server.requests[1].last_user_text == "alpha"


def test_an_exhausted_script_says_so_to_both_sides(client):
    api = client([say("one")])
    answer(api, "x")
    assert not api.server.exhausted
    assert answer(api, "and now?") == "script exhausted: no turn is left for 'and now?'"
    assert api.server.exhausted
    assert len(api.server.rejected) == 1


def test_turns_can_be_added(client):
    api = client()
    api.server.add(say("late"), turn(say("later")))
    assert api.server.remaining_turns == 2
    assert answer(api, "x") == "late"


def test_a_function_answers_any_number_of_requests(client):
    def echo(body):
        return say(f"{len(body['messages'])}: {body['messages'][-1]['content']}")

    api = client(echo)
    assert [answer(api, "a"), answer(api, "b")] == ["1: a", "1: b"]


def test_a_function_that_fails_is_seen(client):
    def broken(body):
        raise ValueError("no such fixture")

    api = client(broken)
    response = api.post()
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "the script raised ValueError('no such fixture')"
    assert "no such fixture" in api.server.rejected[0].error


def test_a_refused_request_uses_no_turn(client):
    api = client([say("one")])
    api.error(api.body(foo=1))
    assert answer(api, "x") == "one"


def test_requests_are_recorded(client):
    api = client([say("one")])
    api.post(api.body(system="Be brief"), **{"X-Extra": "Yes"})
    (request,) = api.server.wait_for_finished(1)
    assert (request.method, request.path, request.action, request.status) == ("POST", "/v1/messages", "messages", 200)
    assert request.body["system"] == "Be brief"
    assert b'"system": "Be brief"' in request.raw
    assert request.headers["x-api-key"] == api.server.api_key
    assert request.headers["x-extra"] == "Yes"
    assert request.arrived_at <= request.received_at <= request.finished_at
    assert not request.disconnected
    assert request.error == ""


def test_a_test_can_wait_for_requests(client):
    api = client([say("one"), say("two")])
    thread = threading.Thread(target=lambda: [api.post(), api.post()])
    thread.start()
    assert len(api.server.wait_for_requests(2)) == 2
    assert len(api.server.wait_for_finished(2)) == 2
    thread.join()


def test_waiting_for_what_does_not_come_says_what_came(client):
    api = client([say("one")])
    api.post()
    with pytest.raises(
        TimeoutError, match=r"1 of 2 requests within 0\.01 s; requests so far: POST /v1/messages -> 200"
    ):
        api.server.wait_for_requests(2, timeout=0.01)


def test_ids_differ_between_turns_and_servers(client):
    def ids(api, **changes):
        return [block["id"] for block in api.post(api.body(**changes)).json()["content"]]

    two = [turn(use("A"), use("B")), use("A")]
    one, other = client(two), client(two)
    seen = [*ids(one), *ids(one), *ids(other, system="another conversation")]
    assert len(set(seen)) == 5


def test_a_server_can_be_started_and_stopped_without_with():
    server = MessagesServer([say("one")], api_key="mine")
    with pytest.raises(RuntimeError, match="before it is started"):
        _ = server.url
    server.start()
    assert server.url.startswith("http://127.0.0.1:")
    server.stop()
    server.stop()
    assert not any(thread.name == "cellwright-messages-server" for thread in threading.enumerate())
