"""Server-sent events: every framing that the standard allows, cut anywhere."""

import pytest

from cellwright.model.message_stream import SseParser
from row_tables import for_each_row

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
