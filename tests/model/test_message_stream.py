"""The API's events become one message, as the API wants it back."""

import json
import re
from typing import Any

import pytest

from cellwright.events import Event, TextDelta, ThinkingDelta, ToolInputDelta, TurnEnd
from cellwright.model.message_stream import MessageBuilder, SseParser, joined_deltas
from cellwright.model.provider import BlockEnd, MessageStart
from row_tables import for_each_row


def start(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def message_start(**message: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"id": "msg_1", "model": "claude-opus-5-5", **message}}


def message_end(stop_reason: str | None = "end_turn", **usage: Any) -> list[dict[str, Any]]:
    return [
        {"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": usage},
        {"type": "message_stop"},
    ]


def built(*events: dict[str, Any]) -> tuple[TurnEnd, list[Any]]:
    builder = MessageBuilder("claude-opus-5-5")
    assert isinstance(builder.add(json.dumps(message_start()).encode()), MessageStart)
    shown = [builder.add(json.dumps(event).encode()) for event in [*events, *message_end()]]
    assert builder.is_complete
    return builder.turn_end("req_1"), [event for event in shown if event is not None]


def content(*events: dict[str, Any]) -> list[dict[str, Any]]:
    return built(*events)[0].message["content"]


def test_text_with_citations():
    citations = [{"type": "char_location", "cited_text": text} for text in "ab"]
    assert content(
        start(0, {"type": "text", "text": "", "citations": None}),
        delta(0, type="text_delta", text="one "),
        delta(0, type="citations_delta", citation=citations[0]),
        delta(0, type="text_delta", text="two"),
        delta(0, type="citations_delta", citation=citations[1]),
    ) == [{"type": "text", "text": "one two", "citations": citations}]


def test_thinking_and_its_signature():
    assert content(
        start(0, {"type": "thinking", "thinking": "", "signature": ""}),
        delta(0, type="thinking_delta", thinking="a"),
        delta(0, type="thinking_delta", thinking="b"),
        delta(0, type="signature_delta", signature="sig"),
        start(1, {"type": "redacted_thinking", "data": "xyz"}),
        start(2, {"type": "thinking", "thinking": "", "signature": "omitted"}),
    ) == [
        {"type": "thinking", "thinking": "ab", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "thinking", "thinking": "", "signature": "omitted"},
    ]


def test_blocks_of_the_server_s_own_tools():
    result = {"type": "web_search_tool_result", "tool_use_id": "srv", "content": [{"type": "web_search_result"}]}
    end, shown = built(
        start(0, {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}}),
        delta(0, type="input_json_delta", partial_json='{"query":'),
        delta(0, type="input_json_delta", partial_json=' "x"}'),
        start(1, result),
    )
    call = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {"query": "x"}}
    assert end.message["content"] == [call, result]
    assert shown == [], "no card for a call that is not ours to run"


def test_what_is_not_known_is_kept():
    assert content(
        start(0, {"type": "compaction", "content": None}),
        delta(0, type="compaction_delta", content="summary", encrypted_content="e"),
        start(1, {"type": "hologram", "beams": [1]}),
    ) == [
        {"type": "compaction", "content": "summary", "encrypted_content": "e"},
        {"type": "hologram", "beams": [1]},
    ]


def test_a_delta_that_is_not_known_leaves_its_block_as_the_api_takes_it():
    assert content(
        start(0, {"type": "text", "text": ""}),
        delta(0, type="text_delta", text="Hello"),
        delta(0, type="smell_delta", smell="roses"),
        start(1, {"type": "hologram", "beams": []}),
        delta(1, type="beams_delta", beams=[1]),
    ) == [
        {"type": "text", "text": "Hello"},
        {"type": "hologram", "beams": [1]},
    ]


@for_each_row(
    ("event", "said"),
    [
        (delta(7, type="text_delta", text="x"), "a delta of block 7, which has not begun"),
        (delta(7, type="signature_delta", signature="x"), "a delta of block 7, which has not begun"),
        ([1, 2], "[1, 2] is no event"),
    ],
)
def test_what_the_api_does_not_send_is_named(event, said):
    with pytest.raises((ValueError, TypeError), match=re.escape(said)):
        built(event)


@for_each_row(
    ("pieces", "expected"),
    [
        ([], {}),
        ([""], {}),
        (["{}"], {}),
        (['{"a": ', "[1, 2.5, null]}"], {"a": [1, 2.5, None]}),
        (['{"a": 1'], {"INVALID_JSON": '{"a": 1'}),
        (["[1]"], {"INVALID_JSON": "[1]"}),
        (['"text"'], {"INVALID_JSON": '"text"'}),
        (['{"a": NaN}'], {"INVALID_JSON": '{"a": NaN}'}),
        (['{"a": 1e999}'], {"INVALID_JSON": '{"a": 1e999}'}),
        (['{"a": "\\ud83c\\udf89 \\ud83c"}'], {"a": "🎉 \ufffd"}),
        (["[" * 100_000], {"INVALID_JSON": "[" * 100_000}),
    ],
)
def test_tool_input(pieces, expected):
    block = {"type": "tool_use", "id": "t", "name": "Read", "input": {}}
    [call] = content(start(0, block), *(delta(0, type="input_json_delta", partial_json=piece) for piece in pieces))
    assert call == {**block, "input": expected}
    json.dumps(call, ensure_ascii=False).encode()


def test_the_first_delta_of_a_call_names_it():
    _, shown = built(
        start(0, {"type": "tool_use", "id": "t", "name": "Read", "input": {}}),
        delta(0, type="input_json_delta", partial_json=""),
        delta(0, type="input_json_delta", partial_json="{}"),
    )
    assert shown == [ToolInputDelta("t", "Read", "", 0), ToolInputDelta("t", "Read", "{}", 0)]


@pytest.mark.parametrize("text", ["", " \n"])
def test_text_without_words_is_not_sent_back(text):
    assert content(start(0, {"type": "text", "text": text})) == []


def test_half_a_character_is_whole_in_the_message():
    """The two halves of an emoji can be escaped and come in two deltas; neither may reach a view as it is."""
    end, shown = built(
        start(0, {"type": "text", "text": ""}),
        delta(0, type="text_delta", text="\ud83c"),
        delta(0, type="text_delta", text="\udf89"),
    )
    assert end.message["content"] == [{"type": "text", "text": "🎉"}]
    assert shown == [TextDelta("\ufffd"), TextDelta("\ufffd")]


def test_text_that_stands_in_the_start_of_its_block_is_shown():
    end, shown = built(start(0, {"type": "text", "text": "a"}), delta(0, type="text_delta", text="b"))
    assert shown == [TextDelta("a"), TextDelta("b")]
    assert end.message["content"] == [{"type": "text", "text": "ab"}]


def test_usage_is_the_start_s_and_then_the_newest():
    builder = MessageBuilder("claude-opus-5-5")
    begin = {"input_tokens": 10, "output_tokens": 1, "cache_creation": {"ephemeral_1h_input_tokens": 4}}
    for event in [message_start(usage=begin), *message_end(output_tokens=9, input_tokens=None)]:
        builder.add(json.dumps(event).encode())
    assert builder.turn_end("").usage == {**begin, "output_tokens": 9}


@for_each_row(
    "data",
    [
        b"{",
        b"\xff\xfe",
        b"[]",
        b'"text"',
        b"{}",
        b'{"type":"ping"} {}',
        b'{"type":"content_block_delta","index":7,"delta":{"type":"text_delta","text":"x"}}',
        b'{"type":"content_block_start","index":0}',
    ],
)
def test_what_the_api_never_sends_is_an_error(data):
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        MessageBuilder("m").add(data)


def test_without_a_stop_reason_a_message_is_not_complete():
    builder = MessageBuilder("m")
    for event in [message_start(), *message_end(stop_reason=None)]:
        builder.add(json.dumps(event).encode())
    assert not builder.is_complete


def test_the_model_that_answered_is_the_one_that_is_paid_for():
    builder = MessageBuilder("some-alias")
    usage = {"input_tokens": 1_000_000, "output_tokens": 0}
    for event in [message_start(model="claude-haiku-4-5-20251001", usage=usage), *message_end()]:
        builder.add(json.dumps(event).encode())
    end = builder.turn_end("req")
    assert (end.model, end.cost_usd, end.request_id) == ("claude-haiku-4-5-20251001", 1.0, "req")


def test_a_block_s_end_gives_it_whole():
    stop = {"type": "content_block_stop", "index": 0}
    _, shown = built(start(0, {"type": "text", "text": ""}), delta(0, type="text_delta", text="a"), stop)
    assert shown == [TextDelta("a"), BlockEnd(0, {"type": "text", "text": "a"})]


@for_each_row("data", [b"[DONE]", b"{", b'{"type":"message_delta","delta":{"stop_reason":5}}'])
def test_nothing_after_the_end_of_the_message_matters(data):
    builder = MessageBuilder("m")
    for event in [message_start(), *message_end()]:
        builder.add(json.dumps(event).encode())
    assert builder.add(data) is None
    assert builder.turn_end("").stop_reason == "end_turn"


@for_each_row(
    "event",
    [
        message_start(usage={"input_tokens": "ten"}),
        message_start(usage={"cache_creation": {"ephemeral_1h_input_tokens": [4]}}),
        message_start(usage={"iterations": [{"input_tokens": -1}]}),
        message_start(usage=[1]),
        message_start(model=5),
        message_end(stop_reason=5)[0],  # type: ignore[arg-type]
        message_end(output_tokens=True)[0],
        start(0, {"type": "text", "text": 5}),
        start(0, {"type": "tool_use", "id": 5, "name": "Read"}),
        start(0, {"type": "tool_use", "id": "t", "name": None}),
        delta(0, type="text_delta", text=5),
        delta(0, type="thinking_delta", thinking=None),
        delta(0, type="input_json_delta", partial_json={}),
    ],
)
def test_a_value_of_a_wrong_type_is_noticed_where_it_comes_in(event):
    builder = MessageBuilder("m")
    builder.add(json.dumps(start(0, {"type": "text", "text": ""})).encode())
    with pytest.raises((KeyError, TypeError, AttributeError)):
        builder.add(json.dumps(event).encode())


@for_each_row(
    ("events", "joined"),
    [
        ([], []),
        ([TextDelta("a")], [TextDelta("a")]),
        ([TextDelta("a"), TextDelta("b"), TextDelta("c")], [TextDelta("abc")]),
        ([TextDelta("a", 0), TextDelta("b", 1)], [TextDelta("a", 0), TextDelta("b", 1)]),
        ([ThinkingDelta("a"), ThinkingDelta("b"), TextDelta("c")], [ThinkingDelta("ab"), TextDelta("c")]),
        ([TextDelta("a"), BlockEnd(0, {}), TextDelta("b")], [TextDelta("a"), BlockEnd(0, {}), TextDelta("b")]),
        (
            [
                ToolInputDelta("t", "Read", "", 1),
                ToolInputDelta("t", "Read", "{", 1),
                ToolInputDelta("t", "Read", "}", 1),
            ],
            [ToolInputDelta("t", "Read", "{}", 1)],
        ),
        (
            [ToolInputDelta("t", "Read", "{}", 1), ToolInputDelta("u", "Read", "", 2)],
            [ToolInputDelta("t", "Read", "{}", 1), ToolInputDelta("u", "Read", "", 2)],
        ),
    ],
)
def test_deltas_that_come_together_are_one(events: list[Any], joined: list[Event]):
    assert list(joined_deltas(events)) == joined


@for_each_row(
    ("raw", "text"),
    [
        (b'{"type":"text_delta","text":"a"}', "a"),
        (b'{"text":"a","type":"text_delta"}', "a"),
        (b'{"type":"text_delta","text":"a","more":[1]}', "a"),
        (b'{"type":"text_delta","text":"\\ud83c\\udf89 \\n"}', "\U0001f389 \n"),
        (b'{"type":"text_delta","text":"\\ud83c"}', "\ufffd"),
        (b'{"type":"text_delta","text":"\\udf89"}', "\ufffd"),
    ],
)
def test_a_delta_of_text_however_it_is_written(raw: bytes, text: str):
    builder = MessageBuilder("m")
    builder.add(json.dumps(message_start()).encode())
    builder.add(json.dumps(start(3, {"type": "text", "text": ""})).encode())
    shown = builder.add(b'{"type":"content_block_delta","index":3,"delta":' + raw + b"}")
    assert shown == TextDelta(text, 3)


@for_each_row(
    "data",
    [
        b'{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":1}}',
        b'{"type":"content_block_delta","index":3,"delta":{"type":"text_delta"}}',
        b'{"type":"content_block_delta","index":4,"delta":{"type":"text_delta","text":"a"}}',
        b'{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"a"}} x',
        b'{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"a',
        b'{"type":"content_block_delta","index":3,"delta":{"type":"text_delta","text":"\xff"}}',
    ],
)
def test_a_delta_of_text_that_the_api_does_not_send(data: bytes):
    builder = MessageBuilder("m")
    builder.add(json.dumps(message_start()).encode())
    builder.add(json.dumps(start(3, {"type": "text", "text": ""})).encode())
    with pytest.raises((ValueError, KeyError, TypeError)):
        builder.add(data)


EVENTS = [("message_start", '{"a":1}'), ("content_block_delta", '{"text":"ä 🎉"}'), ("message_stop", "{}")]


def framed(newline: str) -> bytes:
    return "".join(f"event: {name}{newline}data: {data}{newline}{newline}" for name, data in EVENTS).encode()


def parsed(*chunks: bytes) -> list[tuple[str, str]]:
    parser = SseParser()
    return [(name, data.decode()) for chunk in chunks for name, data in parser.feed(chunk)]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_cut_at_any_two_places(newline):
    stream = framed(newline)
    for first in range(len(stream) + 1):
        for second in range(first, len(stream) + 1, 7):
            assert parsed(stream[:first], stream[first:second], stream[second:]) == EVENTS


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_one_byte_at_a_time(newline):
    stream = framed(newline)
    assert parsed(*(stream[i : i + 1] for i in range(len(stream)))) == EVENTS


@for_each_row(
    ("stream", "events"),
    [
        (b": a comment\n\ndata: x\n\n", [("", "x")]),
        (b"event: e\n: comment\ndata: x\n\n", [("e", "x")]),
        (b"data: one\ndata: two\nevent: e\n\n", [("e", "one\ntwo")]),
        (b"data:x\nevent:e\n\n", [("e", "x")]),
        (b"data:  x\n\n", [("", " x")]),
        (b"id: 1\nretry: 5\nnonsense\nevent: e\ndata: x\n\n", [("e", "x")]),
        (b"event: e\n\n", []),
        (b"\n\n\nevent: e\ndata: x\n\n\n\n", [("e", "x")]),
        (b"\xef\xbb\xbfevent: e\ndata: x\n\n", [("e", "x")]),
        (b"event: e\ndata: cut off", []),
        (b"event: ping\ndata: {}\n\n", [("ping", "{}")]),
    ],
)
def test_what_the_standard_says(stream, events):
    assert parsed(stream) == events


def test_an_event_in_many_chunks_is_found_once():
    data = "x" * 300_000
    stream = f"event: e\ndata: {data}\n\n".encode()
    assert parsed(*(stream[i : i + 1000] for i in range(0, len(stream), 1000))) == [("e", data)]
