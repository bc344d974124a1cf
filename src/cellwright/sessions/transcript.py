"""The format of a transcript: JSON Lines, a header, then a line per message (docs/decisions/transcript.md).

  {"cellwright_transcript":1,"crc32":…,"id":…,"created":…,"cwd":…,"epoch":1,"model":…,"system":[…],"tools":[…]}
  {"bytes":512,"crc32":…,"seq":7,"at":…,"epoch":1,"usage":{…},"model":…,"cost_usd":…,"context_tokens":…,"message":{…}}

`message` comes last, and `bytes` is its length: a reader slices it out as it was sent, without decoding it. `crc32`
is the checksum of everything behind it, from the comma on: a transcript that was altered is noticed, not sent.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cellwright.errors import CellwrightError, ErrorCode

FORMAT = 1
FORMAT_KEY = "cellwright_transcript"
_FORMAT = b'{"%b":' % FORMAT_KEY.encode()
_BYTES = b'{"bytes":'
_CRC32 = b'"crc32":'
_MESSAGE = b',"message":'

NO_MESSAGES = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""The errors from lines that hold no messages, with checksums that are right: another program has written them."""

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encode_json(value: object) -> bytes:
    """Compact UTF-8 JSON: the form in which messages are kept and sent. Halves of surrogate pairs become U+FFFD."""
    try:
        text = _encoder.encode(value)
    except ValueError as error:
        raise CellwrightError(
            ErrorCode.API_REQUEST_INVALID, f"The message holds a number that JSON cannot express: {error}."
        ) from error
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


@dataclass(frozen=True, slots=True)
class Header:
    """The first line: what a session has once. `system` and `tools` are encoded JSON arrays."""

    id: str
    created: float
    cwd: Path
    epoch: int
    model: str
    system: bytes
    tools: bytes
    forked_from: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One message: its encoded JSON, and what is known of it: `seq`, `at`, `epoch`; of answers `usage`, `model`, …"""

    meta: Mapping[str, Any]
    message: bytes


@dataclass(frozen=True, slots=True)
class Transcript:
    """The content of a transcript file. `size` is the length of its whole lines; what stands behind was not finished.

    `damaged_line` is the number (from 1) of the first line that cannot be read; `lines` are those before it.
    """

    header: Header
    lines: list[Line]
    epoch: int
    size: int
    damaged_line: int | None = None


def encode_header(header: Header) -> bytes:
    """The header as its line of the file."""
    fields: dict[str, Any] = {
        "id": header.id,
        "created": header.created,
        "cwd": str(header.cwd),
        "epoch": header.epoch,
        "model": header.model,
    }
    if header.forked_from:
        fields["forked_from"] = header.forked_from
    rest = b'%b,"system":%b,"tools":%b}' % (encode_json(fields)[1:-1], header.system, header.tools)
    return _checked(_FORMAT + b"%d" % FORMAT, rest)


def encode_line(line: Line) -> bytes:
    """A message as its line of the file; the message's bytes go in as they are."""
    rest = encode_json(line.meta)[1:-1] + _MESSAGE + line.message + b"}"
    return _checked(_BYTES + b"%d" % len(line.message), rest)


ONLY_THINKING = "[Only thinking, which was left out.]"


def without_thinking(line: Line) -> Line:
    """The line without the message's thinking blocks. Where there was nothing else its place is kept: lines cost."""
    if b'thinking"' not in line.message:
        return line
    message = json.loads(line.message)
    if message is None or message["role"] != "assistant" or isinstance(message["content"], str):
        return line
    content = [block for block in message["content"] if block["type"] not in ("thinking", "redacted_thinking")]
    content = content or [{"type": "text", "text": ONLY_THINKING}]  # the API takes no message without content
    return Line(line.meta, encode_json({**message, "content": content}))


def _checked(first: bytes, rest: bytes) -> bytes:
    return b"%b,%b%d,%b\n" % (first, _CRC32, zlib.crc32(rest), rest)


def _check(raw: bytes, first: bytes) -> tuple[int, bytes]:
    """The number of the first field, which is named as in `first`, and what stands behind the checksum."""
    number, _, behind = raw.partition(b",")
    checksum, _, rest = behind.partition(b",")
    if not number.startswith(first) or checksum != b"%b%d" % (_CRC32, zlib.crc32(rest)):
        raise ValueError("it is not what was written")
    return int(number[len(first) :]), rest


def _split(raw: bytes) -> tuple[bytes, bytes]:
    length, rest = _check(raw, _BYTES)
    start = len(rest) - 1 - length
    meta_end = start - len(_MESSAGE)
    if meta_end < 0 or rest[meta_end:start] != _MESSAGE:
        raise ValueError("the message is not as long as its line says")
    return b"{%b}" % rest[:meta_end], rest[start:-1]


def parse_lines(raw_lines: list[bytes]) -> tuple[list[Line], int | None]:
    """The lines of a file (without their newlines) taken apart, up to the first that is damaged; its index, if any."""
    metas: list[bytes] = []
    messages: list[bytes] = []
    damaged = None
    for index, raw in enumerate(raw_lines):
        try:
            meta, message = _split(raw)
        except ValueError:
            damaged = index
            break
        metas.append(meta)
        messages.append(message)
    decoded = _decoded(metas)
    strange = next((index for index, meta in enumerate(decoded) if not _is_meta(meta)), len(decoded))
    if strange < len(metas):  # another program's, with checksums that are right
        damaged = strange
    return [Line(meta, message) for meta, message in zip(decoded[:strange], messages, strict=False)], damaged


def _decoded(metas: list[bytes]) -> list[Any]:
    """Decode what is known of messages, up to what is no JSON."""
    try:
        # in one go: a thousand calls of `loads` would take longer than everything else about a resume
        decoded = json.loads(b"[%b]" % b",".join(metas))
        if len(decoded) == len(metas):
            return list(decoded)
    except ValueError:
        pass
    found: list[Any] = []
    with contextlib.suppress(ValueError):
        found += map(json.loads, metas)
    return found


def _is_meta(meta: Any) -> bool:
    return (
        isinstance(meta, dict)
        and type(meta.get("seq")) is int
        and type(meta.get("epoch")) is int
        and type(meta.get("at")) in (int, float)
    )


def _parse_header(raw: bytes) -> Header:
    version, rest = _check(raw, _FORMAT)
    if version != FORMAT:
        raise ValueError(f"it has format {version}, this version of Cellwright reads format {FORMAT}")
    fields = json.loads(b"{" + rest)
    return Header(
        id=fields["id"],
        created=fields["created"],
        cwd=Path(fields["cwd"]),
        epoch=fields["epoch"],
        model=fields["model"],
        system=encode_json(fields["system"]),
        tools=encode_json(fields["tools"]),
        forked_from=fields.get("forked_from"),
    )


def read_transcript(path: Path) -> Transcript:
    """Read the transcript at `path`; needs no lease. A line that another owner's newer epoch made void is left out.

    SESSION_NOT_FOUND when there is no file, SESSION_CORRUPTED when its header cannot be read.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise CellwrightError(
            ErrorCode.SESSION_NOT_FOUND, f"There is no session at {path}. Start a new one, or pick another to resume."
        ) from error
    except OSError as error:
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, f"The session {path} cannot be read: {error}.") from error
    size = data.rfind(b"\n") + 1
    first, *rest = data[:size].split(b"\n")[:-1] or [b""]
    try:
        header = _parse_header(first)
    except (ValueError, KeyError, TypeError) as error:
        raise CellwrightError(
            ErrorCode.SESSION_CORRUPTED,
            f"The first line of the session {path} cannot be read ({error}). It holds the "
            "system prompt and the tools, so the session cannot go on: restore the file from a copy, or start a new "
            "session. The file stays as it is; its other lines hold the messages as JSON.",
            details={"path": str(path), "line": 1},
        ) from error
    lines, damaged = parse_lines(rest)
    lines, epoch = _without_void(lines, header.epoch)
    return Transcript(header, lines, epoch, size, None if damaged is None else damaged + 2)


def read_whole_transcript(path: Path) -> Transcript:
    """The same for one who will write behind it; SESSION_CORRUPTED when any line is damaged."""
    content = read_transcript(path)
    if content.damaged_line is not None:
        raise CellwrightError(
            ErrorCode.SESSION_CORRUPTED,
            f"Line {content.damaged_line} of the session {path} is damaged. Fork the session to go on from the "
            f"{len(content.lines)} messages before it; the file stays as it is.",
            details={"path": str(path), "line": content.damaged_line},
        )
    return content


def _without_void(lines: list[Line], epoch: int) -> tuple[list[Line], int]:
    # an owner that lost the lease without noticing (a frozen machine, a file system without locks) wrote on
    valid: list[Line] = []
    for line in lines:
        if line.meta["epoch"] >= epoch:
            epoch = line.meta["epoch"]
            valid.append(line)
    return valid, epoch


TAKEN_BACK = b"null"
"""Stands in a line in a message's place: the message before it is no part of the conversation.

With `"as_after": SEQ` the conversation is again what it was after the last line whose `seq` is not greater than that: turns
were taken back, or taken back turns brought back.
"""


def in_effect(lines: Sequence[Line]) -> list[Line]:
    """The lines whose messages make up the conversation, those that were taken back left out."""
    # each state knows the one before it: going back to one costs no more than going on
    states: list[_State | None] = []
    state: _State | None = None
    for line in lines:
        if line.message != TAKEN_BACK:
            state = _State(line, state)
        elif "as_after" in line.meta:
            place = bisect.bisect_right(lines, line.meta["as_after"], hi=len(states), key=lambda each: each.meta["seq"])
            state = states[place - 1] if place else None
        elif state is not None:
            state = state.before
        states.append(state)
    kept: list[Line] = []
    while state is not None:
        kept.append(state.line)
        state = state.before
    return kept[::-1]


@dataclass(frozen=True, slots=True)
class _State:
    """The conversation after `line`, and the one before that."""

    line: Line
    before: _State | None


def read_messages(path: Path) -> list[dict[str, Any]]:
    """The messages of the transcript at `path` as far as they can be read; for readers, who need no lease.

    Up to the first that is no message: another program may have written it, with a checksum that is right.
    """
    lines = in_effect(read_transcript(path).lines)
    return list(itertools.takewhile(_is_message, (_message_of(line) for line in lines)))


def _message_of(line: Line) -> Any:
    try:
        return json.loads(line.message)
    except (ValueError, RecursionError):
        return None


def _is_message(message: Any) -> bool:
    match message:
        case {"role": "user" | "assistant", "content": str()}:
            return True
        case {"role": "user" | "assistant", "content": list(blocks)}:
            return all(map(_is_block, blocks))
    return False


def _is_block(block: Any) -> bool:
    match block:
        case {"type": "text"}:
            return isinstance(block.get("text"), str)
        case {"type": "image"}:
            return isinstance(block.get("source"), dict)
        case {"type": "tool_use" | "server_tool_use", "id": str(), "name": str()}:
            return isinstance(block.get("input"), dict)
        case {"type": "tool_result", "tool_use_id": str()}:
            content = block.get("content") or ""
            return isinstance(content, str) or (isinstance(content, list) and all(map(_is_block, content)))
        case {"type": "tool_use" | "server_tool_use" | "tool_result"}:
            return False
        case {"type": str()}:
            return True
    return False


def interrupted_results(encoded_message: bytes, *, because: str) -> dict[str, Any] | None:
    """The user message that answers every `tool_use` of the last message as an error, or None when none is open."""
    if b'"tool_use"' not in encoded_message:
        return None
    message = json.loads(encoded_message)
    if message["role"] != "assistant" or isinstance(message["content"], str):
        return None
    calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
    results = [
        {"type": "tool_result", "tool_use_id": call, "content": f"interrupted: {because}", "is_error": True}
        for call in calls
    ]
    return {"role": "user", "content": results} if results else None
