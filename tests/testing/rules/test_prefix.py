"""Usage: what a prompt cache would have read and written, and estimates that grow with the content."""

from __future__ import annotations

import pytest

from cellwright.testing import say, turn

LONG = "All work and no play makes Jack a dull boy. " * 100
HOUR = {"type": "ephemeral", "ttl": "1h"}
FIVE = {"type": "ephemeral"}


def text(value, cache_control=None):
    return {"type": "text", "text": value, **({"cache_control": cache_control} if cache_control else {})}


def usage_of(api, **changes):
    usage = api.post(api.body(**changes)).json()["usage"]
    return (
        usage["cache_read_input_tokens"],
        usage["cache_creation"]["ephemeral_1h_input_tokens"],
        usage["cache_creation"]["ephemeral_5m_input_tokens"],
        usage["input_tokens"],
    )


@pytest.fixture
def api(client):
    return client(lambda body: say("Yes."))


def test_nothing_is_cached_without_a_breakpoint(api):
    for _ in range(2):
        read, hour, five, uncached = usage_of(api, system=LONG)
        assert (read, hour, five) == (0, 0, 0)
        assert uncached > 1000


def test_the_system_prompt_is_written_once_and_read_after(api):
    system = [text(LONG, HOUR)]
    read, written, five, rest = usage_of(api, system=system)
    assert (read, five) == (0, 0)
    assert written > 1000
    assert rest < 20
    other = [{"role": "user", "content": "Something else"}]
    assert usage_of(api, system=system, messages=other)[:3] == (written, 0, 0)


def test_a_growing_conversation_reads_all_but_its_end(api):
    """The recommended way: 1 h at the end of the system prompt, automatic 5 min at the end of the conversation."""
    system = [text(LONG, HOUR)]
    messages = [{"role": "user", "content": LONG}]
    read, head, first, rest = usage_of(api, system=system, cache_control=FIVE, messages=messages)
    assert (read, rest) == (0, 0)
    assert head > 1000
    assert first > 1000
    messages += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": LONG}]
    read, hour, second, rest = usage_of(api, system=system, cache_control=FIVE, messages=messages)
    assert (read, hour, rest) == (head + first, 0, 0)
    assert second == pytest.approx(first, abs=20)


def test_a_changed_prefix_is_not_read(api):
    usage_of(api, system=[text(LONG, HOUR)])
    read, hour, *_ = usage_of(api, system=[text("X" + LONG, HOUR)])
    assert read == 0
    assert hour > 1000


def test_a_short_prefix_is_silently_not_cached(api):
    assert usage_of(api, system=[text("Be brief", HOUR)])[:3] == (0, 0, 0)
    mid = [text(LONG[:2600], HOUR)]
    assert usage_of(api, system=mid)[1] > 512
    assert usage_of(api, system=mid, model="claude-haiku-4-5")[1] == 0


def test_each_model_has_its_own_cache(api):
    system = [text(LONG, HOUR)]
    usage_of(api, system=system)
    assert usage_of(api, system=system, model="claude-sonnet-5-5")[0] == 0
    assert usage_of(api, system=system)[0] > 0


def test_another_effort_reads_the_head_only(api):
    asked = {"system": [text(LONG, HOUR)], "cache_control": FIVE, "messages": [{"role": "user", "content": LONG}]}
    head = usage_of(api, **asked)[1]
    assert usage_of(api, **asked, output_config={"effort": "low"})[0] == head


def test_another_format_of_the_answer_reads_nothing(api):
    asked = {"system": [text(LONG, HOUR)]}
    usage_of(api, **asked)
    number = {"format": {"type": "json_schema", "schema": {"type": "integer"}}}
    assert usage_of(api, **asked, output_config=number)[0] == 0
    assert usage_of(api, **asked, output_config=number)[0] > 0
    assert usage_of(api, **asked)[0] > 0


def test_a_breakpoint_looks_back_twenty_blocks(api):
    start = [text(LONG, FIVE)]
    usage_of(api, messages=[{"role": "user", "content": start}])

    def then(count):
        return [{"role": "user", "content": [text(LONG), *[text("x")] * (count - 1), text("x", FIVE)]}]

    assert usage_of(api, messages=then(19))[0] > 1000
    assert (
        usage_of(api, messages=[{"role": "user", "content": [text(LONG), *[text("y")] * 20, text("y", FIVE)]}])[0] == 0
    )


def test_streamed_usage_is_cumulative(client):
    api = client([turn(say("Yes, " * 50)), turn(say("x"), usage={"input_tokens": 5})])
    events = api.events(api.body(system=[text(LONG, HOUR)]))
    start, end = events[0]["message"]["usage"], events[-2]["usage"]
    assert end["input_tokens"] == start["input_tokens"]
    assert end["cache_creation_input_tokens"] == start["cache_creation_input_tokens"] > 1000
    assert end["output_tokens"] == 62
    assert api.post().json()["usage"]["input_tokens"] == 5


def test_counting_tokens_counts_what_a_request_would(api):
    body = api.body(system=LONG)
    counting = {name: value for name, value in body.items() if name != "max_tokens"}
    counted = api.post(counting, path="/v1/messages/count_tokens").json()
    assert counted == {"input_tokens": usage_of(api, system=LONG)[3]}
    assert "max_tokens: Extra inputs" in api.post(body, path="/v1/messages/count_tokens").text
    assert len(api.server.requests) == 1
    assert [request.action for request in api.server.all_requests] == ["count_tokens", "messages", "count_tokens"]


def test_warming_the_cache_takes_no_turn(client):
    api = client([say("one")])
    answer = api.post(api.body(max_tokens=0, system=[text(LONG, HOUR)])).json()
    assert (answer["content"], answer["stop_reason"], answer["usage"]["output_tokens"]) == ([], "max_tokens", 0)
    assert api.server.remaining_turns == 1
    assert usage_of(api, system=[text(LONG, HOUR)])[0] > 1000


def test_without_validation_usage_is_the_size_of_the_request(client):
    api = client(lambda body: say("x"), validate=False)
    answer = api.post({"messages": [], "foo": "x" * 4000}).json()
    assert 1000 < answer["usage"]["input_tokens"] < 1020
