"""The catalog's knowledge of a session: words and facts out of its transcript, its title and tags from beside it.

A transcript only ever grows. The point it was read to is remembered as a `ReadPosition`, and next time only what
stands behind it is read: a session that is being written costs the catalog its new lines. Nothing of that writes, and no
lease is needed.

Title and tags are in `ID.about`, a JSON Lines file that is only ever added to, by any process at any time; the last line
that says something counts:

    {"at": 1790000000.0, "title": "Tides of Brest", "by": "user"}
    {"at": 1790000001.0, "tags": ["thesis"]}

Each line is one write on a file that is open for appending, and begins with a newline: a line that a crash cut off
spoils no other. docs/decisions/session-catalog.md says why it is not in the catalog.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.api_messages import GO_ON, begins_turn, begins_turn_encoded, is_note, split_attached
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import PRIVATE_FILE
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
from cellwright.sessions.transcripts.transcript_file import Line, decode_json
from cellwright.text import lazy_pattern, visible_line

FIRST_WORDS_CHARS = 80
_CHECKED_BYTES = 256

Who = Literal["you", "Claude", "title"]

TITLE_CHARS = 120
TAG_CHARS = 40
MAX_TAGS = 20

By = Literal["user", "model", "fork", "notebook"]
"""The maker of a title. The user's goes before all others, whenever it was given; "notebook": its name, the first words."""

_TAG = lazy_pattern(r"[^\W_][\w./:+-]*")


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
                self.first_words = first_line(words)[: FIRST_WORDS_CHARS + 1]
        elif (
            texts := [text for text in texts if not is_note(text)]
        ) and GO_ON not in texts:  # said while Claude was at work, beside the results of calls
            self._add_text("you", split_attached(["", *texts])[0])

    def _add_text(self, who: Who, texts: Sequence[str]) -> None:
        if text := "\n".join(texts).strip():
            # so much of one prompt or answer can be found: what is longer was piped in
            self.searchable.append(SearchableText(who, text[:50_000]))


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


class SessionMetadata(Struct, frozen=True):
    """`title` is "" where nobody gave one; `by` is then "" as well. `notebook` is the name of the file it was held in."""

    title: str = ""
    by: By | Literal[""] = ""
    tags: tuple[str, ...] = ()
    notebook: str = ""


def about_path(transcript: Path) -> Path:
    """Return the path of what is known of the session of this transcript."""
    return transcript.with_suffix(".about")


def read_about(transcript: Path) -> SessionMetadata:
    """Read what is known of the session of this transcript; nothing where nothing can be read."""
    try:
        lines = about_path(transcript).read_bytes().split(b"\n")
    except OSError:
        return SessionMetadata()
    titles: dict[str, str] = {}
    tags: tuple[str, ...] = ()
    notebook = ""
    for raw in lines:
        match decode_json(raw):
            case {"title": str(title), "by": "user" | "model" | "fork" | "notebook" as by}:
                titles.pop(by, None)  # the last of the others comes last
                titles[by] = visible_line(title, TITLE_CHARS)
            case {"tags": list(fields)}:
                tags = tuple(tag for tag in fields if isinstance(tag, str) and _TAG.fullmatch(tag))[:MAX_TAGS]
            case {"notebook": str(name)}:
                notebook = name
    if titles.get("user"):
        return SessionMetadata(titles["user"], "user", tags, notebook)
    others = [(title, by) for by, title in titles.items() if title and by != "user"]
    title, by = others[-1] if others else ("", "")
    return SessionMetadata(title, by, tags, notebook)  # type: ignore[arg-type]  # the pattern above leaves no other


def write_title(transcript: Path, title: str, by: By = "user") -> str:
    """Name the session; gives the title as it is shown. "" takes the user's title away. Raises `CellwrightError`."""
    shown = visible_line(" ".join(title.split()), TITLE_CHARS) if title.strip() else ""
    _add(transcript, {"title": shown, "by": by})
    return shown


def write_notebook(transcript: Path, notebook: Path, subject: str) -> None:
    """Note the session's notebook, and name the session after its `subject`, else the notebook. Raises `CellwrightError`."""
    _add(transcript, {"notebook": notebook.name})
    write_title(transcript, subject or notebook.stem, "notebook")


def write_tags(transcript: Path, tags: Iterable[str]) -> tuple[str, ...]:
    """Give the session these tags and no others. Raises `CellwrightError` for what cannot be a tag."""
    checked = checked_tags(tags)
    _add(transcript, {"tags": list(checked)})
    return checked


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """The tags, each once, without the `#` that people put before them. Raises `CellwrightError` INVALID_PARAMETERS."""
    found = tuple(dict.fromkeys(tag.strip().removeprefix("#") for tag in tags if tag.strip()))
    for tag in found:
        if len(tag) > TAG_CHARS or not _TAG.fullmatch(tag):
            form = f"one word of letters, digits and - _ . / : +, of at most {TAG_CHARS} characters"
            message = f"{tag!r} cannot be a tag, which is {form}. Nothing was changed."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    if len(found) > MAX_TAGS:
        message = f"A session has at most {MAX_TAGS} tags, and these are {len(found)}."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return found


def _add(transcript: Path, fields: dict[str, Any]) -> None:
    if not transcript.exists():
        message = f"Session {transcript.stem} was not found; nothing was changed."
        raise CellwrightError(ErrorCode.SESSION_NOT_FOUND, message)
    line = json.dumps({"at": round(time.time(), 3), **fields}, ensure_ascii=True)
    path = about_path(transcript)
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, flags, PRIVATE_FILE)
        with contextlib.closing(os.fdopen(descriptor, "wb", buffering=0)) as file:
            file.write(f"\n{line}\n".encode())
            os.fsync(descriptor)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}. Repair access to the folder, then try again."
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message, details={"path": str(path)}) from error


def with_title_of_fork(transcript: Path, fork: Path, turn: int | None, title: str) -> None:
    """Name a fork after what it was forked from, where that has a title."""
    if title:
        write_title(fork, f"{title} (fork{f' at turn {turn}' if turn else ''})", "fork")


def shown_tags(tags: Sequence[str]) -> str:
    """Tags as people write them."""
    return " ".join(f"#{tag}" for tag in tags)


def title_of(session: Session) -> str:
    """Return the name of `session`, "" while nothing was said in it. Reads one small file."""
    given = read_about(session.path).title if session.path is not None else ""
    return given or first_words(session)


def first_words(session: Session) -> str:
    """The first line of the first prompt."""
    first = next((json.loads(data) for data in session.story if begins_turn_encoded(data)), None)
    return "" if first is None else visible_line(first_line(users_words(first)), FIRST_WORDS_CHARS)


def has_title(transcript: Path) -> bool:
    """Return whether somebody has named the session; its notebook and first words alone are no such name."""
    return read_about(transcript).by not in ("", "notebook")
