"""The format of a transcript: a JSON Lines file with a header, then a line per message (docs/decisions/transcript.md).

    {"cellwright_transcript":1,"id":…,"created":…,"cwd":…,"epoch":1,"model":…,"system":[…],"tools":[…]}
    {"bytes":512,"crc32":…,"seq":7,"at":…,"epoch":1,"usage":{…},"model":…,"cost_usd":…,"context_tokens":…,"message":{…}}

`message` comes last, and `bytes` is its length: a reader slices it out as it was sent, without decoding it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cellwright.errors import CellwrightError, ErrorCode

FORMAT = 1
FORMAT_KEY = "cellwright_transcript"
_BYTES = b'{"bytes":'
_MESSAGE = b',"message":'
_REQUIRED = ("seq", "at", "epoch", "crc32")

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
    """What a transcript file holds. `size` is the length of its whole lines; what stands behind it was not finished.

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
        FORMAT_KEY: FORMAT,
        "id": header.id,
        "created": header.created,
        "cwd": str(header.cwd),
        "epoch": header.epoch,
        "model": header.model,
    }
    if header.forked_from:
        fields["forked_from"] = header.forked_from
    return b'%b,"system":%b,"tools":%b}\n' % (encode_json(fields)[:-1], header.system, header.tools)


def encode_line(line: Line) -> bytes:
    """A message as its line of the file; the message's bytes go in as they are."""
    meta = encode_json({"bytes": len(line.message), "crc32": zlib.crc32(line.message), **line.meta})
    return b"%b%b%b}\n" % (meta[:-1], _MESSAGE, line.message)


def _split(raw: bytes) -> tuple[bytes, bytes]:
    if not raw.startswith(_BYTES) or not raw.endswith(b"}"):
        raise ValueError("not a message line")
    start = len(raw) - 1 - int(raw[len(_BYTES) : raw.find(b",")])
    meta_end = start - len(_MESSAGE)
    if meta_end < 0 or raw[meta_end:start] != _MESSAGE:
        raise ValueError("the message is not as long as its line says")
    return raw[:meta_end] + b"}", raw[start:-1]


def _line(meta: Any, message: bytes) -> Line:
    if any(key not in meta for key in _REQUIRED) or meta.pop("crc32") != zlib.crc32(message):
        raise ValueError("the message is not what was written")
    del meta["bytes"]
    return Line(meta, message)


def parse_lines(raw_lines: list[bytes]) -> tuple[list[Line], int | None]:
    """The lines of a file (without their newlines) taken apart, up to the first that is damaged; its index, if any."""
    try:
        parts = [_split(raw) for raw in raw_lines]
        # in one go: a thousand calls of `loads` would take longer than everything else about a resume
        metas = json.loads(b"[%b]" % b",".join([meta for meta, _ in parts]))
        return [_line(meta, message) for meta, (_, message) in zip(metas, parts, strict=True)], None
    except (ValueError, TypeError):
        return _parse_up_to_damage(raw_lines)


def _parse_up_to_damage(raw_lines: list[bytes]) -> tuple[list[Line], int | None]:
    lines: list[Line] = []
    for raw in raw_lines:
        try:
            meta, message = _split(raw)
            lines.append(_line(json.loads(meta), message))
        except (ValueError, TypeError):
            return lines, len(lines)
    return lines, None


def _parse_header(raw: bytes) -> Header:
    fields = json.loads(raw)
    if (version := fields[FORMAT_KEY]) != FORMAT:
        raise ValueError(f"it has format {version}, this version of Cellwright reads format {FORMAT}")
    return Header(
        id=str(fields["id"]),
        created=float(fields["created"]),
        cwd=Path(fields["cwd"]),
        epoch=int(fields["epoch"]),
        model=str(fields["model"]),
        system=encode_json(fields["system"]),
        tools=encode_json(fields["tools"]),
        forked_from=fields.get("forked_from"),
    )


def read_transcript(path: Path) -> Transcript:
    """What the file at `path` holds; needs no lease. A line that another owner's newer epoch made void is left out.

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
    except (ValueError, TypeError, KeyError) as error:
        raise CellwrightError(
            ErrorCode.SESSION_CORRUPTED,
            f"The first line of the session {path} cannot be read ({type(error).__name__}: {error}). It holds the "
            "system prompt and the tools, so the session cannot go on: restore the file from a copy, or start a new "
            "session. The file stays as it is; its other lines hold the messages as JSON.",
            details={"path": str(path), "line": 1},
        ) from error
    lines, damaged = parse_lines(rest)
    lines, epoch = _without_void(lines, header.epoch)
    return Transcript(header, lines, epoch, size, None if damaged is None else damaged + 2)


def _without_void(lines: list[Line], epoch: int) -> tuple[list[Line], int]:
    # an owner that lost the lease without noticing (a frozen machine, a file system without locks) wrote on
    valid: list[Line] = []
    for line in lines:
        if line.meta["epoch"] >= epoch:
            epoch = line.meta["epoch"]
            valid.append(line)
    return valid, epoch


def read_messages(path: Path) -> list[dict[str, Any]]:
    """The messages of the transcript at `path` as far as they can be read; for readers, who need no lease."""
    return [json.loads(line.message) for line in read_transcript(path).lines]


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
