"""The format of a transcript: JSON Lines, a header, then a line per message (docs/decisions/transcript.md).

  {"cellwright_transcript":4,"crc32":…,"id":…,"created":…,"cwd":…,"epoch":1,"model":…,"system":[…],"tools":[…]}
  {"bytes":512,"crc32":…,"after":…,"seq":7,"at":…,"epoch":1,"usage":{…},"model":…,"cost_usd":…,"message":{…}}

`message` comes last, and `bytes` is its length: a reader slices it out as it was sent, without decoding it. `crc32`
is the checksum of everything behind it, from the comma on; `after` is that of the line before, and so is covered: a
line that was altered, left out or doubled is noticed. `tools` of a line are definitions that were declared since the
header. A line with `aside` is no part of the conversation. One with
`compacted` is a boundary: its message stands for all before it in what is sent, and all before it stays in the file.
"""

from __future__ import annotations

import bisect
import itertools
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

from msgspec import Struct
from msgspec.structs import replace

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.file_changes import CallOutcome
from cellwright.sessions.transcripts.fork_point import ForkPoint, parent_gone, parent_path
from cellwright.sessions.transcripts.transcript_file import Line, OpenFile, StoredMessage, decode_json, encode_json

FORMAT = 4
"""1 and 2 had no `after` and no asides, 3 no `compacted`; they are read, and written anew in this form by who goes on with
them."""

_CHAINED_SINCE = 3
"""The first format whose lines have `after`."""

FORMAT_KEY = "cellwright_transcript"
_FORMAT = b'{"%b":' % FORMAT_KEY.encode()
_BYTES = b'{"bytes":'
_CRC32 = b'"crc32":'
_AFTER = b'"after":'
_MESSAGE = b',"message":'

NO_MESSAGES = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""The errors from lines that hold no messages, with checksums that are right: another program has written them."""


class Header(Struct, frozen=True):
    """The first line: what a session has once. `system` and `tools` are encoded JSON arrays."""

    id: str
    created: float
    cwd: Path
    epoch: int
    model: str
    system: bytes
    tools: bytes
    forked_from: str | None = None
    parent: ForkPoint | None = None
    """The place whose lines come before those of the file."""
    copied: int | None = None
    """So many of the file's first lines are another session's; None where that is not said."""


class Fault(Struct, frozen=True):
    """Something that is wrong with a file: at its line `line` (from 1), or before it where one is missing."""

    line: int
    what: Literal["damaged", "missing", "doubled", "foreign"]


class Transcript(Struct, frozen=True):
    """The content of a transcript file. `size` is the length of its whole lines; what stands behind was not finished.

    The first `inherited` lines are those of the session that a fork goes on from: what they cost was paid there.
    `lines` are those that can be read, without the asides; `open` are the asides behind the last of them, which tell of a
    turn that goes on, or was cut off. `check` is the checksum of the last line, `count` the number of lines in the file.
    """

    header: Header
    lines: list[Line]
    epoch: int
    size: int
    faults: tuple[Fault, ...] = ()
    open: tuple[Line, ...] = ()
    check: int = 0
    count: int = 1
    format: int = FORMAT
    inherited: int = 0


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
    if header.parent is not None:
        fields["parent"] = header.parent.to_json()
    if header.copied is not None:
        fields["copied"] = header.copied
    rest = b'%b,"system":%b,"tools":%b}' % (encode_json(fields)[1:-1], header.system, header.tools)
    return _checked(_FORMAT + b"%d" % FORMAT, rest)


def encode_line(line: Line, after: int | None = None) -> bytes:
    """A message as its line of the file, behind one whose checksum is `after`; the message's bytes go in as they are."""
    chained = b"" if after is None else b"%b%d," % (_AFTER, after)
    rest = b"%b%b%b%b}" % (chained, encode_json(line.meta)[1:-1], _MESSAGE, line.message)
    return _checked(_BYTES + b"%d" % len(line.message), rest)


def encode_lines(header: Header, lines: Iterable[Line]) -> tuple[bytes, int]:
    """A whole file, and the checksum of its last line."""
    encoded = [encode_header(header)]
    for line in lines:
        encoded.append(encode_line(line, checksum(encoded[-1])))
    return b"".join(encoded), checksum(encoded[-1])


def checksum(encoded: bytes) -> int:
    """The checksum that stands in a line; 0 in what is none."""
    number = encoded.partition(_CRC32)[2].partition(b",")[0]
    return int(number) if number.isdigit() else 0


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


class ParsedLines(Struct, frozen=True):
    """Lines of a file, asides among them, with their `indexes`. `check`: of the last one, None where it is damaged.

    Indexes count from 0, those of `faults` too.
    """

    lines: list[Line]
    epoch: int
    check: int | None
    faults: list[Fault]
    indexes: list[int]


def parse_lines(
    raw_lines: Sequence[bytes],
    *,
    epoch: int = 1,
    check: int | None = None,
    chained: bool = False,
    earlier: Sequence[int] = (),
) -> ParsedLines:
    """The lines of a file (without their newlines) taken apart; what is damaged or stands there twice is left out.

    `epoch` is the one before them; a line that another owner's newer one made void is left out. `check`: the checksum of
    the line before them, None where that is not known, and `earlier` those of all lines before. `chained`: each is to have
    that of the one before it.
    """
    split: list[tuple[bytes, bytes] | None] = []
    for raw in raw_lines:
        try:
            split.append(_split(raw))
        except ValueError:
            split.append(None)
    metas = iter(_decoded([parts[0] for parts in split if parts is not None]))
    lines: list[Line] = []
    indexes: list[int] = []
    faults: list[Fault] = []
    seen: set[int] = set()
    for index, (raw, parts) in enumerate(zip(raw_lines, split, strict=True)):
        meta: Any = next(metas) if parts is not None else None
        number = checksum(raw)
        if parts is None or not _is_meta(meta):  # damaged, or another program's, with a checksum that is right
            faults.append(Fault(index, "damaged"))
            check = None
            continue
        if meta["epoch"] < epoch:  # an owner that lost the lease without noticing (a frozen machine) wrote on
            continue
        after = meta.pop("after", None)
        if check is not None and after is not None and after != check:
            seen = seen or {*earlier, *map(checksum, raw_lines[:index])}
            if number in seen:
                faults.append(Fault(index, "doubled"))
                continue
            faults.append(Fault(index, "missing"))
        if after is None and chained:
            faults.append(Fault(index, "foreign"))
        if seen:
            seen.add(number)
        epoch, check = meta["epoch"], number
        lines.append(Line(meta, parts[1]))
        indexes.append(index)
    return ParsedLines(lines, epoch, check, faults, indexes)


def _decoded(metas: list[bytes]) -> list[Any]:
    """Decode what is known of messages; None for what is no JSON."""
    try:
        # in one go: a thousand calls of `loads` would take longer than everything else about a resume
        decoded = json.loads(b"[%b]" % b",".join(metas))
        if len(decoded) == len(metas):
            return list(decoded)
    except ValueError:
        pass
    return list(map(decode_json, metas))


def _is_meta(meta: Any) -> bool:
    return (
        isinstance(meta, dict)
        and type(meta.get("seq")) is int
        and type(meta.get("epoch")) is int
        and type(meta.get("at")) in (int, float)
    )


def _parse_header(raw: bytes) -> tuple[Header, int]:
    """The header, and the format of the file."""
    version, rest = _check(raw, _FORMAT)
    fields = json.loads(b"{" + rest)
    header = Header(
        id=fields["id"],
        created=fields["created"],
        cwd=Path(fields["cwd"]),
        epoch=fields["epoch"],
        model=fields["model"],
        system=encode_json(fields["system"]),
        tools=encode_json(fields["tools"]),
        forked_from=fields.get("forked_from"),
        parent=ForkPoint.from_json(fields["parent"]) if "parent" in fields else None,
        copied=int(fields["copied"]) if "copied" in fields else None,
    )
    return header, version


def _refuse_newer(path: Path, first: bytes) -> None:
    # before anything else is read: a newer version may write all of it in another way
    number = first.removeprefix(_FORMAT).partition(b",")[0]
    if first.startswith(_FORMAT) and number.isdigit() and int(number) > FORMAT:
        raise CellwrightError(
            ErrorCode.SESSION_CORRUPTED,
            f"The session {path.stem} was written by a newer version of Cellwright (format {int(number)}, this one "
            f"reads up to {FORMAT}). Upgrade to continue it: pip install --upgrade cellwright. The file stays as it is.",
            details={"path": str(path), "format": int(number)},
        )


def read_transcript(path: Path, *, stored: bool = False) -> Transcript:
    """Read the transcript at `path`, with the lines that a fork has of other sessions; needs no lease.

    With `stored` all messages that are not short stay on the disk, not only those that are not sent any more.

    Raises as `read_file`, and SESSION_CORRUPTED when a session that it goes on from is gone.
    """
    return _with_parents(path, read_file(path, stored=stored), {path.stem}, stored=stored)


def _with_parents(path: Path, content: Transcript, seen: set[str], *, stored: bool) -> Transcript:
    point = content.header.parent
    if point is None:
        return content
    of_parent = parent_path(path.parent, point.session)
    if point.session in seen:
        raise parent_gone(path, point, "which continues this one")
    try:
        parent = read_file(of_parent, stored=stored)
    except CellwrightError as error:
        why = "which is gone" if error.code == ErrorCode.SESSION_NOT_FOUND else "which cannot be read"
        raise parent_gone(path, point, why) from error
    lines = point.lines_of(_with_parents(of_parent, parent, {*seen, point.session}, stored=stored).lines)
    if lines is None:
        raise parent_gone(path, point, "which does not hold the place any more that this one was forked at")
    return replace(content, lines=[*lines, *content.lines], inherited=len(lines))


def _copied(header: Header, lines: Sequence[Line]) -> int:
    """Count the lines that a fork has as copies: until forks pointed at their sessions, all were, and it was not said."""
    if header.copied is not None:
        return header.copied
    if header.forked_from is None or header.parent is not None:
        return 0
    return next((at for at, line in enumerate(lines) if line.meta["at"] > header.created), len(lines))


def read_file(path: Path, *, stored: bool = False) -> Transcript:
    """Read what is in the file at `path` itself.

    SESSION_NOT_FOUND when there is no file, SESSION_CORRUPTED when its header cannot be read.
    """
    try:
        with path.open("rb") as file:
            return _read_from(file, path, stored=stored)
    except OSError as error:
        raise unreadable(path, error) from error


def _read_from(file: BinaryIO, path: Path, *, stored: bool) -> Transcript:
    first = file.readline()
    _refuse_newer(path, first)
    try:
        header, version = _parse_header(first.removesuffix(b"\n") if first.endswith(b"\n") else b"")
        second = file.readline(200)
        if version < _CHAINED_SINCE and b"," + _AFTER in second[:80]:
            raise ValueError("its format is not that of its lines")
    except (ValueError, KeyError, TypeError) as error:
        raise CellwrightError(
            ErrorCode.SESSION_CORRUPTED,
            f"The first line of the session {path} cannot be read ({error}). It holds the "
            "system prompt and the tools, so the session cannot continue: restore the file from a copy, or start a new "
            "session. The file stays as it is; its other lines hold the messages as JSON.",
            details={"path": str(path), "line": 1},
        ) from error
    file.seek(len(first))
    reading = _Reading(path, header, checksum(first), chained=version >= _CHAINED_SINCE)
    size = len(first)
    for chunk in _chunks(file):
        reading.take(chunk, size)
        size += sum(map(len, chunk)) + len(chunk)
        if stored:
            reading.leave_on_disk(len(reading.lines))
    return Transcript(
        header,
        reading.lines,
        reading.epoch,
        size,
        faults=tuple(fault for fault in reading.faults if fault.line > reading.told),
        open=tuple(reading.open),
        check=reading.check,
        count=len(reading.checks),
        format=version,
        inherited=_copied(header, reading.lines),
    )


def _chunks(file: BinaryIO) -> Iterator[list[bytes]]:
    """The whole lines of a file from where it stands, without their newlines, some megabytes at a time."""
    chunk: list[bytes] = []
    size = 0
    for raw in file:
        if not raw.endswith(b"\n"):
            break
        chunk.append(raw[:-1])
        size += len(raw)
        # so much of a transcript is taken apart at once: a long one is not in memory as a whole
        if size > 8 * 2**20:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


class _Reading:
    """A transcript as far as it was read: `lines` without the asides, `open` the asides behind the last of them.

    `checks` has the checksum of each line of the file, and `told` is the last line that its user knows the faults of.
    """

    def __init__(self, path: Path, header: Header, check: int, *, chained: bool) -> None:
        self.lines: list[Line] = []
        self.open: list[Line] = []
        self.faults: list[Fault] = []
        self.checks = [check]
        self.epoch = header.epoch
        self.told = 0
        self._path = path
        self._check: int | None = check
        self._chained = chained
        self._stored = 0
        self._places: list[int] = []

    @property
    def check(self) -> int:
        """The checksum that the next line has to name."""
        return self.checks[-1] if self._check is None else self._check

    def take(self, chunk: Sequence[bytes], start: int) -> None:
        """Take the next lines, which begin at the byte `start` of the file."""
        parsed = parse_lines(chunk, epoch=self.epoch, check=self._check, chained=self._chained, earlier=self.checks)
        starts = list(itertools.accumulate((len(raw) + 1 for raw in chunk), initial=start))
        self.faults += [Fault(fault.line + 1 + len(self.checks), fault.what) for fault in parsed.faults]
        boundary = self._stored
        for line, index in zip(parsed.lines, parsed.indexes, strict=True):
            if is_aside(line):
                self.open.append(line)
                if line.meta[ASIDE] == FAULTS_TOLD:
                    self.told = max(self.told, line.meta["content"])
                continue
            self.open = []
            if is_boundary(line):
                boundary = len(self.lines)
            # the message ends before the brace that ends the line
            self._places.append(starts[index + 1] - 2 - len(line.message))
            self.lines.append(line)
        self.checks += map(checksum, chunk)
        self.epoch, self._check = parsed.epoch, parsed.check
        if boundary > self._stored:
            self.leave_on_disk(boundary)

    def leave_on_disk(self, end: int) -> None:
        """Keep of the lines up to `end` only where their messages are: they are not sent any more."""
        file = OpenFile(self._path)
        for at in range(self._stored, end):
            line = self.lines[at]
            # a message that is longer stays on the disk when nothing before a boundary is sent any more
            if len(line.message) > 2_048:
                self.lines[at] = Line(line.meta, StoredMessage(file, self._places[at], len(line.message)))
        self._stored = end


def read_bytes(path: Path) -> bytes:
    """Read a transcript's file. Raises `CellwrightError`: SESSION_NOT_FOUND, FILE_ACCESS_ERROR."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> CellwrightError:
    """The error of a transcript that is not there, or cannot be read."""
    if isinstance(error, FileNotFoundError):
        message = f"There is no session at {path}. Start a new one, or pick another to resume."
        return CellwrightError(ErrorCode.SESSION_NOT_FOUND, message)
    return CellwrightError(ErrorCode.FILE_ACCESS_ERROR, f"The session {path} cannot be read: {error}.")


def migrated(path: Path) -> bytes:
    """The file at `path`, of an older format, in this one; lines that are damaged stay as they are."""
    first, *rest = read_bytes(path).split(b"\n")[:-1]
    header, version = _parse_header(first)
    if version >= _CHAINED_SINCE:
        # the lines are the same, and stay as they are: what is missing among them is noticed as before
        behind = first.removeprefix(_FORMAT + b"%d" % version)
        return b"\n".join([_FORMAT + b"%d" % FORMAT + behind, *rest, b""])
    encoded = [encode_header(header)]
    check, epoch = checksum(encoded[0]), header.epoch
    for raw in rest:
        parsed = parse_lines([raw], epoch=epoch)
        encoded.append(encode_line(parsed.lines[0], check) if parsed.lines else raw + b"\n")
        if parsed.lines:
            check, epoch = checksum(encoded[-1]), parsed.epoch
    return b"".join(encoded)


ASIDE = "aside"
"""The field that makes a line no part of the conversation; its value says what it is, `content` what it tells."""

FAULTS_TOLD = "faults told"
"""An aside: the user knows what is wrong with the lines of the file up to the one of the number `content`."""


def is_aside(line: Line) -> bool:
    """Return whether the line is no part of the conversation."""
    return ASIDE in line.meta


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
        if line.held != TAKEN_BACK:
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


COMPACTED = "compacted"
"""The field of a boundary: its message sums up what was said before it. It tells of the compaction, as JSON:
`trigger`, `tokens_before`, `cost_usd`, and the `summary` where the message does not show it."""

REATTACHED = "reattached"
"""The field of the line behind a boundary, whose message tells Claude again what must not be lost."""


ENDED = "ended"
"""The field of a line that takes nothing back and tells how a turn ended, for who draws it again: `prompt` is the `seq`
of the line that it began with; `stop_reason`, `mode`, `ms`, the `error`, the `notices` since the last message, its
`changes`, and the `agent` that worked itself."""


def is_boundary(line: Line) -> bool:
    """Return whether what is sent begins with the line."""
    return COMPACTED in line.meta


def is_said(line: Line) -> bool:
    """Return whether the line is a real message, not a compaction boundary or context re-attached after one."""
    return COMPACTED not in line.meta and REATTACHED not in line.meta


def since_boundary(lines: Sequence[Line]) -> list[Line]:
    """The last of `lines` (those in effect), whose messages are sent: from the last boundary on."""
    first = next((at for at in range(len(lines) - 1, -1, -1) if is_boundary(lines[at])), 0)
    return list(lines[first:])


class _State(Struct, frozen=True):
    """The conversation after `line`, and the one before that."""

    line: Line
    before: _State | None


def read_messages(path: Path) -> list[dict[str, Any]]:
    """The messages of the transcript at `path` that can be read, before a boundary too; for readers, who need no lease.

    What is no message is left out: another program may have written it, with a checksum that is right.
    """
    return messages_of(filter(is_said, in_effect(read_transcript(path).lines)))


def said_lines(path: Path) -> list[Line]:
    """The lines of those messages, which stay on the disk: for who reads them one after another (`each_message`)."""
    return list(filter(is_said, in_effect(read_transcript(path, stored=True).lines)))


def messages_of(lines: Iterable[Line]) -> list[dict[str, Any]]:
    """The messages of `lines`; what is none is left out."""
    return list(each_message(lines))


def each_message(lines: Iterable[Line]) -> Iterator[dict[str, Any]]:
    """The same, one at a time."""
    return filter(_is_message, (decode_json(line.message) for line in lines))


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


def interrupted_results(
    encoded_message: bytes, *, because: str, known: Mapping[str, CallOutcome] | None = None
) -> dict[str, Any] | None:
    """The user message that answers every `tool_use` of the last message as an error, or None when none is open.

    Of calls that are `known`, by their ids, it says what they did; those that did all of it are no errors.
    """
    if b'"tool_use"' not in encoded_message:
        return None
    message = json.loads(encoded_message)
    if message["role"] != "assistant" or isinstance(message["content"], str):
        return None
    calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
    results = [_interrupted_result(call, because, (known or {}).get(call)) for call in calls]
    return {"role": "user", "content": results} if results else None


def _interrupted_result(call: str, because: str, known: CallOutcome | None) -> dict[str, Any]:
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call}
    if known is None:
        return {**result, "content": f"interrupted: {because}", "is_error": True}
    result["content"] = f"The session was cut off in this call. {known.text}"
    return result if known.made else {**result, "is_error": True}
