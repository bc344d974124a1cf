"""The catalog's extract of a transcript: the user's words and Claude's answers, and facts for the list.

A transcript only ever grows. The point it was read to is remembered as a `ReadPosition`, and next time only what
stands behind it is read: a session that is being written costs the catalog its new lines. Nothing here writes, and no
lease is needed.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from cellwright.errors import CellwrightError
from cellwright.sessions.api_messages import GO_ON, begins_turn, is_note, split_attached
from cellwright.sessions.transcripts.transcript import (
    ENDED,
    TAKEN_BACK,
    Transcript,
    in_effect,
    is_aside,
    is_said,
    parse_lines,
    read_file,
    read_transcript,
)
from cellwright.sessions.transcripts.transcript_file import Line

MAX_CHARS = 50_000
"""So much of one prompt or answer can be found: what is longer was piped in."""

TITLE_CHARS = 80
_CHECKED_BYTES = 256

Who = Literal["you", "Claude", "title"]


class ReadPosition(Struct, frozen=True):
    """The point a transcript was read to: `size` bytes, `check` the checksum of the last; the last line's epoch."""

    size: int
    check: int
    epoch: int


class SearchableText(Struct, frozen=True):
    """A text that can be found."""

    who: Who
    text: str


class TranscriptExtract(Struct):
    """The contents read. `cost_usd` is None where a price is not known; `damaged`: not all of it can be read."""

    position: ReadPosition
    updated: float = 0.0
    turns: int = 0
    cost_usd: float | None = 0.0
    model: str = ""
    first_words: str = ""
    searchable: list[SearchableText] = field(default_factory=list)
    damaged: bool = False

    def take(self, lines: Sequence[Line], in_effect: Iterable[Line], *, inherited: int = 0) -> None:
        """Add what `lines` say of costs and times, and what the ones `in_effect` say.

        The first `inherited` lines are another session's: they were paid for there, and it is called by their words.
        """
        for line in lines[inherited:]:
            meta = line.meta
            self.updated = max(self.updated, meta["at"])
            self.model = meta.get("model", self.model)
            for paid in (meta, meta.get("not_kept", {})):
                if paid.get("usage"):
                    cost = paid.get("cost_usd")
                    self.cost_usd = self.cost_usd + cost if self.cost_usd is not None and cost is not None else None
        theirs = set(map(id, lines[:inherited]))
        for line in in_effect:
            if is_said(line):
                self._listen(json.loads(line.message), own=id(line) not in theirs)

    def _listen(self, message: Mapping[str, Any], *, own: bool) -> None:
        texts = texts_of(message["content"])
        if message["role"] == "assistant":
            self._add_text("Claude", texts)
        elif begins_turn(message):
            self.turns += 1
            words, _ = split_attached(texts)
            self._add_text("you", words)
            if own and not self.first_words:
                self.first_words = first_line(words)[: TITLE_CHARS + 1]
        elif (
            texts := [text for text in texts if not is_note(text)]
        ) and GO_ON not in texts:  # said while Claude was at work, beside the results of calls
            self._add_text("you", split_attached(["", *texts])[0])

    def _add_text(self, who: Who, texts: Sequence[str]) -> None:
        if text := "\n".join(texts).strip():
            self.searchable.append(SearchableText(who, text[:MAX_CHARS]))


class WholeTranscript(Struct, frozen=True):
    """A transcript read from its beginning: what its header says, and what was said."""

    cwd: str
    created: float
    forked_from: str
    parent: str
    """The session that holds its first lines; "" where it has all itself."""
    reading: TranscriptExtract


def read_whole(path: Path) -> WholeTranscript:
    """All of the transcript at `path`, as far as it can be read. Raises `CellwrightError` when its header cannot be."""
    content = _as_far_as_it_is_there(path)
    place = ReadPosition(content.size, _check(path, content.size), content.epoch)
    reading = TranscriptExtract(place, content.header.created, model=content.header.model)
    reading.damaged = bool(content.faults)
    reading.take(content.lines, in_effect(content.lines), inherited=content.inherited)
    header = content.header
    parent = header.parent.session if header.parent is not None else ""
    return WholeTranscript(str(header.cwd), header.created, header.forked_from or "", parent, reading)


def _as_far_as_it_is_there(path: Path) -> Transcript:
    """The transcript; of a fork whose session is gone what it has itself."""
    own = read_file(path)
    if own.header.parent is None:
        return own
    try:
        return read_transcript(path)
    except CellwrightError:
        return own


def read_on(path: Path, position: ReadPosition) -> TranscriptExtract | None:
    """Read what the transcript at `path` holds behind `place`; None where it has to be read as a whole.

    That is so when turns were taken back, when a line is damaged, and when it is not the file that was read.
    """
    with path.open("rb") as file:
        before = min(_CHECKED_BYTES, position.size)
        file.seek(position.size - before)
        if zlib.crc32(file.read(before)) != position.check:
            return None
        data = file.read()
    size = data.rfind(b"\n") + 1
    parsed = parse_lines(data[:size].split(b"\n")[:-1], epoch=position.epoch)
    valid = [line for line in parsed.lines if not is_aside(line)]
    if parsed.faults or any(line.held == TAKEN_BACK and ENDED not in line.meta for line in valid):
        return None
    new = ReadPosition(position.size + size, _check(path, position.size + size), parsed.epoch)
    reading = TranscriptExtract(new)
    reading.take(valid, [line for line in valid if line.held != TAKEN_BACK])
    return reading


def _check(path: Path, size: int) -> int:
    """The checksum of the bytes before the place `size`."""
    before = min(_CHECKED_BYTES, size)
    with path.open("rb") as file:
        file.seek(size - before)
        return zlib.crc32(file.read(before))


def texts_of(content: str | Sequence[Mapping[str, Any]]) -> list[str]:
    """The texts among a message's content blocks."""
    if isinstance(content, str):
        return [content]
    return [str(block["text"]) for block in content if block.get("type") == "text"]


def users_words(prompt: Mapping[str, Any]) -> list[str]:
    """Return what the user said in a message that begins a turn."""
    return split_attached(texts_of(prompt["content"]))[0]


def first_line(texts: Sequence[str]) -> str:
    """The first line that is not empty."""
    lines = (line.strip() for text in texts for line in text.splitlines())
    return next((line for line in lines if line), "")
