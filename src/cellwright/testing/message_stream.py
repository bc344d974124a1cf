"""A scripted turn as the events of one streamed message, and its steps played to a client: framing, pace, gates and faults.

Events come in the order and shape of the API's own. A fault strikes an answer before its head, or in the middle of its
stream.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cellwright.testing.http_connection import HttpResponse
from cellwright.testing.rules.api_error import MESSAGE_OF_TYPE, TYPE_OF_STATUS, error_json
from cellwright.testing.rules.context_editing import signature_of_summary
from cellwright.testing.script import DEFAULT_DELTA_CHARS, Fault, Hold, Say, ServerUse, Slow, Think, Turn, Use

BROKEN_OFF = Say("This answer breaks off")

CONTENT_TYPE = "application/vnd.amazon.eventstream"
STRING = 7
EXCEPTION_OF_TYPE = {
    "rate_limit_error": "throttlingException",
    "overloaded_error": "serviceUnavailableException",
    "timeout_error": "modelTimeoutException",
    "invalid_request_error": "validationException",
}

STATUS_OF_TYPE = {error_type: status for status, error_type in reversed(TYPE_OF_STATUS.items())}
BREAKING = ("cut", "close", "stall")
MALFORMED_DATA = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_del'


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event: its name and its data as encoded JSON."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Delta(StreamEvent):
    """An event that the pace of the stream applies to."""


Step = StreamEvent | Hold | Slow | Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReply:
    """The facts a message needs beside its script: identity, usage so far, and how thinking is treated.

    `sign(text)` gives a thinking block's signature. `thinking` None leaves thinking blocks out; "omitted" their text.
    With `compaction_usage` the answer is a `compaction` block whose summary is what the script says; that is its usage.
    """

    model: str
    message_id: str
    usage: Mapping[str, Any]
    sign: Callable[[str], str]
    thinking: str | None
    delta_chars: int = DEFAULT_DELTA_CHARS
    compaction_usage: Mapping[str, Any] | None = None
    context_management: Mapping[str, Any] | None = None


def encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def pieces_of_text(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def pieces_of_json(source: str, size: int) -> Iterator[str]:
    """Pieces of at most `size` characters that end inside escapes wherever there is one to cut."""
    start = 0
    while start < len(source):
        end = start + size
        backslash = source.rfind("\\", start, end)
        if backslash > start:
            end = backslash + 1
        yield source[start:end]
        start = end


def parsed_input(source: str) -> dict[str, Any]:
    """The input that a call's JSON amounts to; none while it is no whole object."""
    try:
        value = json.loads(source)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def estimated_tokens(text: str) -> int:
    """About what a tokenizer would count: four characters to a token, at least one."""
    return max(1, len(text) // 4)


@dataclass(slots=True)
class MessageStream:
    """Walks through a turn once: `steps` yields the events; `content` is complete when it has ended."""

    turn: Turn
    reply: MessageReply
    content: list[dict[str, Any]] = field(default_factory=list)
    output_tokens: int = 0
    thinking_tokens: int = 0
    open_index: int | None = None

    def steps(self) -> Iterator[Step]:
        yield self._message_start()
        previous: object = None
        if self.reply.compaction_usage is not None:
            yield from self._compaction()
        else:
            parts = self.turn.parts
            if parts and isinstance(parts[0], Fault):
                # a fault that strikes in the middle of an answer needs an answer to strike
                parts = (BROKEN_OFF, *parts)
            for part in parts:
                yield from self._part(part, previous)
                previous = part
        yield from self._close_block()
        delta = {
            "stop_reason": self.stop_reason,
            "stop_sequence": self.turn.stop_sequence,
            "stop_details": self.turn.stop_details,
        }
        message_delta = {"type": "message_delta", "delta": delta, "usage": self._final_usage(), **self._management()}
        yield StreamEvent("message_delta", encode(message_delta))
        yield StreamEvent("message_stop", b'{"type":"message_stop"}')

    def message(self) -> dict[str, Any]:
        """The whole message, as a request without `stream` gets it."""
        for _ in self.steps():
            pass
        return {
            **self._head(),
            "content": self.content,
            "stop_reason": self.stop_reason,
            "stop_sequence": self.turn.stop_sequence,
            "stop_details": self.turn.stop_details,
            "usage": {**self.reply.usage, **self._final_usage()},
            **self._management(),
        }

    @property
    def stop_reason(self) -> str:
        if self.reply.compaction_usage is not None:
            return "compaction"
        if self.turn.stop_reason is not None:
            return self.turn.stop_reason
        return "tool_use" if any(isinstance(part, Use) for part in self.turn.parts) else "end_turn"

    def _compaction(self) -> Iterator[Step]:
        """The one block of a summary: its signature comes with its beginning, its content in one piece."""
        content = "".join(part.text for part in self.turn.parts if isinstance(part, Say))
        for part in self.turn.parts:
            if isinstance(part, Hold | Slow | Fault):
                yield part
        block = {"type": "compaction", "content": None, "signature": signature_of_summary(content)}
        yield from self._open_block(block)
        yield self._delta({"type": "compaction_delta", "content": content or None, "encrypted_content": None})
        self.content[-1].update(content=content or None, encrypted_content=None)
        self.output_tokens += estimated_tokens(content)

    def _part(self, part: object, previous: object) -> Iterator[Step]:
        match part:
            case Hold() | Slow() | Fault():
                yield part
            case Say(text):
                is_in_text = self.open_index is not None and self.content[-1]["type"] == "text"
                if not (isinstance(previous, Hold) and is_in_text):
                    yield from self._open_block({"type": "text", "text": ""})
                yield from self._text(text)
            case Think():
                yield from self._think(part)
            case Use():
                yield from self._use(part)
            case ServerUse():
                yield from self._server_use(part)

    def _text(self, text: str) -> Iterator[Step]:
        block = self.content[-1]
        for piece in pieces_of_text(text, self.reply.delta_chars):
            yield self._delta({"type": "text_delta", "text": piece})
        block["text"] += text
        self.output_tokens += estimated_tokens(text)

    def _think(self, part: Think) -> Iterator[Step]:
        if self.reply.thinking is None:
            return
        tokens = estimated_tokens(part.text)
        self.thinking_tokens += tokens
        self.output_tokens += tokens
        if part.redacted:
            yield from self._open_block({"type": "redacted_thinking", "data": self.reply.sign(part.text)})
            return
        text = "" if self.reply.thinking == "omitted" else part.text
        yield from self._open_block({"type": "thinking", "thinking": "", "signature": ""})
        for piece in pieces_of_text(text, self.reply.delta_chars):
            yield self._delta({"type": "thinking_delta", "thinking": piece})
        signature = self.reply.sign(text)
        yield self._delta({"type": "signature_delta", "signature": signature})
        self.content[-1].update(thinking=text, signature=signature)

    def _use(self, part: Use) -> Iterator[Step]:
        source = "".join(part.pieces) or json.dumps(part.input)
        pieces = part.pieces or tuple(pieces_of_json(source, self.reply.delta_chars))
        yield from self._open_block(
            {
                "type": "tool_use",
                "id": self._tool_use_id(),
                "name": part.name,
                "input": {},
                "caller": {"type": "direct"},
            }
        )
        yield self._delta({"type": "input_json_delta", "partial_json": ""})
        # a call without input is streamed as the one empty delta
        for piece in pieces if source != "{}" else ():
            yield self._delta({"type": "input_json_delta", "partial_json": piece})
        self.content[-1]["input"] = parsed_input(source)
        self.output_tokens += estimated_tokens(part.name + source)

    def _server_use(self, part: ServerUse) -> Iterator[Step]:
        call_id = self._tool_use_id().replace("toolu_", "srvtoolu_")
        call = {"type": "server_tool_use", "id": call_id, "name": part.name, "input": {}, "caller": {"type": "direct"}}
        yield from self._open_block(call)
        yield self._delta({"type": "input_json_delta", "partial_json": json.dumps(part.input)})
        self.content[-1]["input"] = dict(part.input)
        if part.answered:
            result = {"type": f"{part.name}_tool_result", "tool_use_id": call_id, "content": part.content}
            yield from self._open_block({**result, "caller": {"type": "direct"}})
        if part.text:
            yield from self._open_block({"type": "text", "text": "", **({"citations": []} if part.citations else {})})
            for citation in part.citations:
                yield self._delta({"type": "citations_delta", "citation": dict(citation)})
                self.content[-1]["citations"].append(dict(citation))
            yield from self._text(part.text)

    def _tool_use_id(self) -> str:
        digest = hashlib.sha256(f"{self.reply.message_id}/{len(self.content)}".encode()).hexdigest()
        return f"toolu_01{digest[:22]}"

    def _open_block(self, block: dict[str, Any]) -> Iterator[Step]:
        yield from self._close_block()
        self.open_index = len(self.content)
        self.content.append(dict(block))
        start = {"type": "content_block_start", "index": self.open_index, "content_block": block}
        yield StreamEvent("content_block_start", encode(start))
        if self.open_index == 0:
            yield StreamEvent("ping", b'{"type":"ping"}')

    def _close_block(self) -> Iterator[Step]:
        if self.open_index is not None:
            stop = {"type": "content_block_stop", "index": self.open_index}
            self.open_index = None
            yield StreamEvent("content_block_stop", encode(stop))

    def _delta(self, delta: dict[str, Any]) -> Delta:
        event = {"type": "content_block_delta", "index": self.open_index, "delta": delta}
        return Delta("content_block_delta", encode(event))

    def _head(self) -> dict[str, Any]:
        return {"id": self.reply.message_id, "type": "message", "role": "assistant", "model": self.reply.model}

    def _message_start(self) -> StreamEvent:
        message = {
            **self._head(),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "stop_details": None,
            "usage": self.reply.usage,
        }
        return StreamEvent("message_start", encode({"type": "message_start", "message": message}))

    def _final_usage(self) -> dict[str, Any]:
        if self.reply.compaction_usage is not None:
            counted = {**self.reply.compaction_usage, "output_tokens": max(1, self.output_tokens)}
            names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "cache_creation")
            iteration = {name: counted.get(name) for name in (*names, "output_tokens")}
            return {"input_tokens": 0, "output_tokens": 0, "iterations": [{"type": "compaction", **iteration}]}
        cumulative = {
            name: self.reply.usage[name]
            for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
            if name in self.reply.usage
        }
        cumulative["output_tokens"] = max(1, self.output_tokens)
        if self.thinking_tokens:
            cumulative["output_tokens_details"] = {"thinking_tokens": self.thinking_tokens}
        return {**cumulative, **self.turn.usage}

    def _management(self) -> dict[str, Any]:
        """Tell what was left out before the model read the conversation, where the request asked for that."""
        found = self.reply.context_management
        return {} if found is None else {"context_management": found}


def encode_message(headers: dict[str, str], payload: bytes) -> bytes:
    """One message: prelude, prelude CRC, headers, payload, CRC of everything before it."""
    encoded = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", STRING, len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack("!II", 16 + len(encoded) + len(payload), len(encoded))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + encoded + payload
    return message + struct.pack("!I", zlib.crc32(message))


def aws_frame(event: StreamEvent) -> bytes:
    """A Messages API event as a `chunk`, an `error` event as the exception that Bedrock sends instead."""
    if event.name == "error":
        error = json.loads(event.data)["error"]
        headers = {
            ":exception-type": EXCEPTION_OF_TYPE.get(error["type"], "internalServerException"),
            ":content-type": "application/json",
            ":message-type": "exception",
        }
        return encode_message(headers, json.dumps({"message": error["message"]}).encode())
    headers = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    payload = {"bytes": base64.b64encode(event.data).decode("ascii")}
    return encode_message(headers, json.dumps(payload).encode())


def comes_before_head(fault: Fault, *, first: bool) -> bool:
    """Return whether the client sees nothing of the answer; `first`: the fault is the first part of its turn."""
    return fault.kind == "status" or (fault.kind in BREAKING and first and fault.after is None)


async def break_off(fault: Fault, answer: HttpResponse) -> None:
    """End the connection without an end of the body; a stall is silent first."""
    if fault.kind == "stall":
        await silence(fault)
    if fault.kind == "close":
        answer.close()
    else:
        answer.reset()


async def strike_before_head(fault: Fault, answer: HttpResponse, headers: dict[str, str], request_id: str) -> None:
    if fault.kind == "status":
        await _answer_with_status(fault, answer, headers, request_id)
    else:
        await break_off(fault, answer)


async def _answer_with_status(fault: Fault, answer: HttpResponse, headers: dict[str, str], request_id: str) -> None:
    error_type = fault.error_type or TYPE_OF_STATUS.get(fault.status, "api_error")
    message = fault.message or MESSAGE_OF_TYPE.get(error_type, error_type)
    body = error_json(error_type, message, request_id) if fault.body is None else fault.body
    content_type = "application/json" if fault.body is None else "text/html"
    head = {**headers, "content-type": content_type, **fault.headers, "content-length": str(len(body))}
    await answer.start(fault.status, head)
    await answer.write(body)
    await answer.end()


async def silence(fault: Fault) -> None:
    """Nothing happens while the fault lasts: for its seconds, until its gate opens, else until the client is gone."""
    waiting = fault.gate.passage() if fault.gate is not None else asyncio.Event().wait()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(waiting, fault.seconds)


def error_event_data(fault: Fault, request_id: str) -> bytes:
    error_type = fault.error_type or "overloaded_error"
    message = fault.message or MESSAGE_OF_TYPE.get(error_type, error_type)
    return error_json(error_type, message, request_id)


async def answer_whole(
    fault: Fault | None, answer: HttpResponse, headers: dict[str, str], request_id: str, body: bytes
) -> bool:
    """An answer that is not streamed, or what the fault leaves of it; whether it was sent whole."""
    if fault is not None and fault.kind == "error_event":
        status = STATUS_OF_TYPE.get(fault.error_type or "overloaded_error", 500)
        await _answer_with_status(replace(fault, status=status), answer, headers, request_id)
        return False
    await answer.start(200, {**headers, "content-length": str(len(body))})
    if fault is None:
        await answer.write(body)
    elif fault.kind == "malformed":
        await answer.write(body.replace(b'"', b"'"))
    else:
        await answer.write(body[: len(body) // 2])
        await break_off(fault, answer)
        return False
    await answer.end()
    return fault is None


Frame = Callable[[StreamEvent], bytes]


def sse_frame(event: StreamEvent) -> bytes:
    """An event as server-sent events carry it."""
    return b"event: %b\ndata: %b\n\n" % (event.name.encode(), event.data)


@dataclass(slots=True, kw_only=True)
class Playback:
    """One streamed answer. `on_event(name)` hears of each event when it goes out."""

    answer: HttpResponse
    turn: Turn
    headers: Mapping[str, str]
    request_id: str
    pause: float
    on_event: Callable[[str], None]
    frame: Frame = sse_frame
    pending: list[StreamEvent] = field(default_factory=list)
    sent: int = 0
    writes: int = 0

    async def run(self, steps: Iterable[Step]) -> bool:
        """Send everything; whether it was sent whole."""
        await self.answer.start(200, self.headers)
        for step in steps:
            fault = self._due(step)
            if fault is not None:
                await self._strike(fault)
                return False
            match step:
                case Hold(gate):
                    await self._flush()
                    await gate.passage()
                case Slow(seconds):
                    self.pause = seconds
                case StreamEvent():
                    await self._event(step)
        if self.turn.fault is not None:
            await self._strike(self.turn.fault)
            return False
        await self._flush()
        await self.answer.end()
        return True

    def _due(self, step: Step) -> Fault | None:
        """The fault that strikes now: at its place, or after its count of events."""
        fault = self.turn.fault
        if fault is None:
            return None
        now = step is fault if fault.after is None else self.sent >= fault.after
        return fault if now else None

    async def _event(self, event: StreamEvent) -> None:
        if self.pause and isinstance(event, Delta):
            await self._flush()
            await asyncio.sleep(self.pause)
        self.pending.append(event)
        self.sent += 1
        if len(self.pending) >= (self.turn.events_per_write or 1):
            await self._flush()

    async def _flush(self) -> None:
        if not self.pending:
            return
        data = b"".join([self.frame(event) for event in self.pending])
        for event in self.pending:
            self.on_event(event.name)
        self.pending.clear()
        size = self.turn.chunk_bytes or len(data)
        for start in range(0, len(data), size):
            await self._write(data[start : start + size])

    async def _write(self, data: bytes) -> None:
        await self.answer.write(data)
        self.writes += 1
        # the loop gets a turn now and then: other connections go on, and a client that left is noticed
        if self.writes % 16 == 0:
            await asyncio.sleep(0)

    async def _strike(self, fault: Fault) -> None:
        await self._flush()
        match fault.kind:
            case "truncated":
                await self.answer.end()
            case "malformed":
                await self._write(self.frame(StreamEvent("content_block_delta", MALFORMED_DATA)))
                await self.answer.end()
            case "error_event":
                data = error_event_data(fault, self.request_id)
                await self._write(self.frame(StreamEvent("error", data)))
                await self.answer.end()
            case _:
                await break_off(fault, self.answer)
