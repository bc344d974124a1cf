"""One streamed message: the API's bytes in, our events and at the end the whole message out.

The message is put together once, as the JSON that the API wants back. Blocks of kinds not known here are kept as they
came, with the fields of their deltas; deltas of unknown kinds leave the other blocks as the API takes them back.

Server-sent events are parsed from bytes as they come. The format is the HTML standard's
(https://html.spec.whatwg.org/multipage/server-sent-events.html); of its fields the Messages API uses `event` and
`data`. Written by hand because a line-by-line parser costs ten times as much per delta.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder
from msgspec.structs import replace

from cellwright.events import TextDelta, ThinkingDelta, ToolInputDelta, TurnEnd
from cellwright.model.pricing import MAX_COUNT, context_tokens, cost_usd, usage_of
from cellwright.model.provider import INVALID_JSON, BlockEnd, MessageStart, ProviderEvent
from cellwright.model.retry import says_error
from cellwright.text import replace_surrogates

Delta = TextDelta | ThinkingDelta | ToolInputDelta


MAX_EVENT_BYTES = 32_000_000
"""The most that one event may have, which is the API's limit for a request: a line without an end is given up."""


class ErrorEvent(Exception):
    """The data of an event is an error, by whatever name the event came."""


_decode = json.JSONDecoder().raw_decode


class _Text(Struct, tag_field="type", tag="text_delta"):
    text: str


class _TextEvent(Struct, tag_field="type", tag="content_block_delta"):
    """A delta of text, as nearly all events of a long answer are: read in a sixth of the time that any JSON takes."""

    index: int
    delta: _Text


_decode_text = Decoder(_TextEvent).decode


class MessageBuilder:
    """Follows one stream. `is_complete` when `message_stop` came and a `stop_reason` is known."""

    def __init__(self, model: str) -> None:
        self.is_complete = False
        self.model = model
        self._start: dict[str, Any] = {}
        self._end: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, _Block] = {}
        self._all: list[_Block] = []

    def add(self, data: bytes) -> MessageStart | BlockEnd | Delta | None:
        """Take the data of one event; what the loop needs of it at once, if anything.

        Raises ErrorEvent for an error, and ValueError, KeyError, TypeError or AttributeError when the data is not what the
        API sends: this is the one place where that is looked at. What comes after `message_stop` is nothing.
        """
        if self.is_complete:
            return None
        if b'"text_delta"' in data and (text_delta := self._add_text(data)) is not None:
            return text_delta
        event = _event(data)
        if says_error(event):
            raise ErrorEvent
        kind = event["type"]
        if kind == "content_block_delta":
            return self._add_delta(_index(event["index"]), event["delta"])
        if kind == "content_block_start":
            # one whose number was given before, as some gateways do, has a place of its own behind all
            index, block = _index(event["index"]), _Block(event["content_block"])
            block.place = index if index not in self._blocks else max(placed.place for placed in self._all) + 1
            self._blocks[index] = block
            self._all.append(block)
            return block.first_delta()
        if kind == "content_block_stop":
            ended = self._blocks.get(_index(event["index"]))
            return None if ended is None else BlockEnd(ended.place, ended.finished())
        if kind == "message_start":
            self._start = event["message"]
            self._usage = usage_of(self._start.get("usage"))
            return MessageStart(self._usage, _string(self._start.get("model") or self.model))
        if kind == "message_delta":
            self._end.update(event["delta"])
            _string(self._end.get("stop_reason") or "")
            # counts are cumulative; what is left out keeps its value from message_start
            self._usage.update((key, value) for key, value in usage_of(event.get("usage")).items() if value is not None)
        elif kind == "message_stop":
            self.is_complete = self._end.get("stop_reason") is not None
        return None

    def _add_text(self, data: bytes) -> TextDelta | None:
        """Take a delta of text as it nearly always is; None for what has to be read in full."""
        try:
            told = _decode_text(data)
        except (MsgspecError, UnicodeDecodeError):
            return None  # half of a character, say
        if (block := self._blocks.get(told.index)) is None:
            return None
        block.text.append(told.delta.text)
        return TextDelta(told.delta.text, block.place)

    def _add_delta(self, index: int, delta: Mapping[str, Any]) -> Delta | None:
        block = self._blocks.get(index)
        if block is None:
            raise ValueError(f"a delta of block {index!r:.100}, which has not begun")
        if delta["type"] != "text_delta":
            return block.add(delta)
        text = _string(delta["text"])
        block.text.append(text)
        # a character outside the BMP can be escaped as two halves, and those come in two deltas
        return TextDelta(replace_surrogates(text), block.place)

    def turn_end(self, request_id: str) -> TurnEnd:
        """The whole message. Text blocks without any text are left out: the API refuses them."""
        blocks = [block.finished() for block in sorted(self._all, key=lambda block: block.place)]
        model = self._start.get("model") or self.model
        return TurnEnd(
            message={"role": "assistant", "content": [block for block in blocks if not _is_blank(block)]},
            stop_reason=self._end["stop_reason"],
            usage=self._usage,
            model=model,
            message_id=self._start.get("id") or "",
            request_id=request_id,
            stop_details=self._end.get("stop_details"),
            cost_usd=cost_usd(model, self._usage),
            context_tokens=context_tokens(self._usage),
        )


def _event(data: bytes) -> dict[str, Any]:
    text = data.decode().strip()
    event, end = _decode(text)
    if end != len(text):
        raise ValueError(f"{text[end:]!r} after the JSON")
    if not isinstance(event, dict):
        raise TypeError(f"{event!r:.100} is no event")
    return event


def _string(value: Any) -> str:
    """`value`, which is to be a string: what the wire says is believed here, and nowhere checked again."""
    if type(value) is not str:
        raise TypeError(f"{value!r:.100} is no string")
    return value


def _index(value: Any) -> int:
    """The number of a block, which some gateways write as a text or with a point."""
    # more digits than the number of any block has
    if type(value) is str and value.isdecimal() and len(value) < 9:
        return int(value)
    if type(value) is float and value.is_integer() and abs(value) < MAX_COUNT:
        return int(value)
    if type(value) is not int:
        raise TypeError(f"index is {value!r:.100}")
    return value


class _Block:
    """A content block that is being streamed: its JSON, and the pieces that are joined at the end."""

    __slots__ = ("input", "json", "place", "text", "thinking")

    def __init__(self, content_block: Mapping[str, Any]) -> None:
        self.json = dict(content_block)
        self.place = 0
        for name in _STRINGS.get(_string(self.json["type"]), ()):
            _string(self.json[name])
        self.text: list[str] = []
        self.thinking: list[str] = []
        self.input: list[str] = []

    def first_delta(self) -> Delta | None:
        kind, index = self.json["type"], self.place
        if kind == "tool_use":
            return ToolInputDelta(self.json["id"], self.json["name"], "", index)
        if kind == "text" and self.json["text"]:
            return TextDelta(self.json["text"], index)
        if kind == "thinking" and self.json["thinking"]:
            return ThinkingDelta(self.json["thinking"], index)
        return None

    def add(self, delta: Mapping[str, Any]) -> Delta | None:
        kind, index = delta["type"], self.place
        if kind == "thinking_delta":
            self.thinking.append(_string(delta["thinking"]))
            return ThinkingDelta(replace_surrogates(delta["thinking"]), index)
        if kind == "input_json_delta":
            partial = _string(delta["partial_json"])
            self.input.append(partial)
            if partial and self.json["type"] == "tool_use":
                return ToolInputDelta(self.json["id"], self.json["name"], replace_surrogates(partial), index)
        elif kind == "citations_delta":
            if not isinstance(self.json.get("citations"), list):
                self.json["citations"] = []
            self.json["citations"].append(delta["citation"])
        elif kind == "signature_delta" or self.json["type"] not in _STRINGS:
            self.json.update((key, value) for key, value in delta.items() if key != "type")
        return None

    def finished(self) -> dict[str, Any]:
        """The whole block as far as it came; asked again, with what came since: its end is no reason to lose that."""
        if self.text:
            self.json["text"] = _joined([self.json.get("text") or "", *self.text])
            self.text.clear()
        if self.thinking:
            self.json["thinking"] = _joined([self.json.get("thinking") or "", *self.thinking])
            self.thinking.clear()
        if raw := _joined(self.input):
            self.json["input"] = _parsed_input(raw)
        elif self.json["type"] in ("tool_use", "server_tool_use"):
            self.json.setdefault("input", {})
        return self.json


_STRINGS = {"text": ("text",), "thinking": ("thinking",), "tool_use": ("id", "name"), "server_tool_use": ("id", "name")}
"""The fields of blocks that begin which are strings."""


def _parsed_input(raw: str) -> dict[str, Any]:
    """A tool call's input; `{"INVALID_JSON": raw}` for what is not a JSON object, so that it can be sent back."""
    try:
        value = json.loads(raw, parse_constant=_not_json, parse_float=_finite)
        if "\\u" in raw:  # half a character can be written as an escape
            value = json.loads(replace_surrogates(json.dumps(value, ensure_ascii=False)))
    except (ValueError, RecursionError):
        return {INVALID_JSON: raw}
    return value if isinstance(value, dict) else {INVALID_JSON: raw}


def _not_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _not_json(digits)


def _is_blank(block: Mapping[str, Any]) -> bool:
    return block["type"] == "text" and not block["text"].strip() and not block.get("citations")


def _joined(parts: list[str]) -> str:
    return replace_surrogates("".join(parts))


def joined_deltas(events: Iterable[ProviderEvent]) -> Iterator[ProviderEvent]:
    """`events` with deltas of one block that follow each other as one: what arrived together is told together."""
    first: Delta | None = None
    pieces: list[str] = []
    for event in events:
        if isinstance(event, Delta):
            if first is not None and type(first) is type(event) and first.index == event.index:
                pieces.append(_piece_of(event))
                continue
            if first is not None:
                yield _with_pieces(first, pieces)
            first, pieces = event, [_piece_of(event)]
            continue
        if first is not None:
            yield _with_pieces(first, pieces)
            first = None
        yield event
    if first is not None:
        yield _with_pieces(first, pieces)


def _piece_of(delta: Delta) -> str:
    return delta.partial_json if isinstance(delta, ToolInputDelta) else delta.text


def _with_pieces(delta: Delta, pieces: list[str]) -> Delta:
    if len(pieces) == 1:
        return delta
    joined = "".join(pieces)
    return replace(delta, partial_json=joined) if isinstance(delta, ToolInputDelta) else replace(delta, text=joined)


_BOM = b"\xef\xbb\xbf"

_HEADS = {
    b"event: " + name.encode(): name
    for name in (
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
        "error",
    )
}
"""The beginnings of the API's events: looked up, because a parse of each line costs three times as much."""


class SseParser:
    """Takes the bytes of a stream in any pieces and gives its events. One parser for each stream."""

    __slots__ = ("_after_cr", "_ends_line", "_rest", "_started", "unread")

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._ends_line = False
        self._after_cr = False
        self._started = False
        self.unread = 0
        """The bytes of an event that has not ended."""

    def feed(self, chunk: bytes) -> list[tuple[str, bytes]]:
        """The events that `chunk` completes, as (name, data), in order. The data is UTF-8, not yet decoded.

        What comes after the last empty line is kept for the next call; at the end of the stream it is void.
        """
        if self._after_cr or b"\r" in chunk:
            chunk = self._with_newlines(chunk)
        # joined only where an event ends: a long one is not copied with each chunk
        if b"\n\n" not in chunk and not (self._ends_line and chunk.startswith(b"\n")):
            if chunk:
                self._rest.append(chunk)
                self._ends_line = chunk.endswith(b"\n")
                self.unread += len(chunk)
            return []
        blocks = b"".join([*self._rest, chunk]).split(b"\n\n")
        rest = blocks.pop()
        self._rest, self._ends_line, self.unread = [rest], rest.endswith(b"\n"), len(rest)
        if not self._started and blocks:
            self._started = True
            blocks[0] = blocks[0].removeprefix(_BOM)
        return [event for block in blocks if (event := _parse(block))]

    def rest(self) -> bytes:
        """The bytes of an event that has not ended."""
        return b"".join(self._rest)

    def _with_newlines(self, chunk: bytes) -> bytes:
        """`chunk` with CR LF and CR as LF; the two of a pair can come in two chunks."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _parse(block: bytes) -> tuple[str, bytes] | None:
    head, _, data = block.partition(b"\ndata: ")
    name = _HEADS.get(head)
    if name is not None and data and b"\n" not in data:
        return name, data
    return _parse_lines(block)


def _parse_lines(block: bytes) -> tuple[str, bytes] | None:
    name = ""
    data: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode(errors="replace")
    return (name, b"\n".join(data)) if data else None
