"""The entries of a Claude Code transcript: lines of JSON that name each other as parents.

The conversation is one way through them. It is walked from the last entry back to the first, or to the last compaction,
whose summary stands for what was before. An answer takes several lines with the same `message.id`, one for each block,
and the results of calls made side by side hang on different ones of them: so what belongs to an answer is gathered,
wherever it hangs.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

Json = Mapping[str, Any]

_TALK = ("user", "assistant")
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
"""The lines that name a session, and the field of the name; the user's own word goes first."""

MAX_STEPS = 1_000_000


class Entry(Struct, frozen=True):
    """One line that has a place in the conversation."""

    kind: str
    uuid: str
    parent: str
    data: Json

    @property
    def talks(self) -> bool:
        """True for what was said to Claude or by it; the rest only holds the way together."""
        return (self.kind in _TALK and bool(self.message)) or self.queued_prompt != ""

    @property
    def message(self) -> Json:
        message = self.data.get("message")
        return message if isinstance(message, dict) else {}

    @property
    def answer_id(self) -> str:
        """The id of the answer that this is a part of; "" where that is not said."""
        id = self.message.get("id") if self.kind == "assistant" else None
        return id if isinstance(id, str) else ""

    @property
    def queued_prompt(self) -> str:
        """The user's words that were said while Claude worked."""
        attachment = self.data.get("attachment")
        if self.kind != "attachment" or not isinstance(attachment, dict) or attachment.get("type") != "queued_command":
            return ""
        prompt = attachment.get("prompt")
        return prompt if isinstance(prompt, str) else ""

    @property
    def at(self) -> float | None:
        """Seconds since the epoch."""
        return seconds(self.data.get("timestamp"))


class Entries(Struct, frozen=True):
    """The content of a file. `conversation` is in order; `damaged` is the number of lines that are no JSON objects."""

    conversation: tuple[Entry, ...]
    title: str
    damaged: int
    compacted: bool


def read_entries(path: Path) -> Entries:
    """Read the transcript at `path`. Raises OSError."""
    entries: dict[str, Entry] = {}
    titles: list[tuple[str, Json]] = []
    damaged = 0
    with path.open("rb") as file:
        for raw in file:
            data = _object(raw)
            if data is None:
                damaged += bool(raw.strip(b"\0 \r\n\t"))
                continue
            kind = str(data.get("type"))
            if kind in _TITLES:
                titles.append((kind, data))
            uuid = data.get("uuid")
            # a copy of an entry, as resuming makes them, says nothing new
            if not isinstance(uuid, str) or uuid in entries or data.get("isSidechain"):
                continue
            parent = data.get("parentUuid")
            entries[uuid] = Entry(kind, uuid, parent if isinstance(parent, str) else "", data)
    way, compacted = _way(entries)
    title = _title(titles, entries)
    return Entries(tuple(_with_siblings(way, entries)), title, damaged, compacted)


def seconds(timestamp: object) -> float | None:
    """The time of `2026-11-03T14:15:00.123Z`; None for what is none."""
    if not isinstance(timestamp, str):
        return None
    try:
        return round(datetime.datetime.fromisoformat(timestamp).timestamp(), 3)
    except (ValueError, OverflowError, OSError):
        return None


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        # what JSON has no numbers for could not be sent
        data = json.loads(raw.decode("utf-8", "replace"), parse_constant=lambda _: None, parse_float=_number)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _title(lines: Sequence[tuple[str, Json]], entries: Mapping[str, Entry]) -> str:
    for wanted, field in _TITLES.items():
        for kind, data in reversed(lines):
            # summaries of other sessions stand at the beginning of some files
            its_own = kind != "summary" or data.get("leafUuid") in entries
            if kind == wanted and its_own and isinstance(title := data.get(field), str) and title.strip():
                return title
    return ""


def _number(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _way(entries: Mapping[str, Entry]) -> tuple[list[Entry], bool]:
    """The way to the last entry that talks, and whether it begins at a compaction."""
    in_order = list(entries.values())
    before: dict[str, Entry | None] = {}
    spoke: Entry | None = None
    for entry in in_order:
        before[entry.uuid] = spoke
        spoke = entry if entry.talks else spoke
    at = next((entry for entry in reversed(in_order) if entry.talks), None)
    way: list[Entry] = []
    seen: set[str] = set()
    while at is not None and at.uuid not in seen and len(way) < MAX_STEPS:
        seen.add(at.uuid)
        if at.kind == "system" and at.data.get("subtype") == "compact_boundary":
            return way[::-1], True
        way.append(at)
        # a parent that was never written: what was said before it is as near as one comes
        parent = entries.get(at.parent) if at.parent else None
        at = parent if parent is not None or not at.parent else before.get(at.uuid)
    return way[::-1], any(entry.data.get("isCompactSummary") for entry in way)


def _with_siblings(way: Sequence[Entry], entries: Mapping[str, Entry]) -> Iterator[Entry]:
    """The way with the rest of each of its answers, and the results of all their calls."""
    answers: dict[str, list[Entry]] = {}
    results: dict[str, Entry] = {}
    for entry in entries.values():
        if entry.answer_id:
            answers.setdefault(entry.answer_id, []).append(entry)
        results |= {call: entry for call in result_ids(entry) if call not in results}
    given: set[str] = set()
    on_the_way = {entry.uuid for entry in way}
    for entry in way:
        if entry.uuid in given:
            continue
        whole = answers.get(entry.answer_id, [entry])
        calls = [call for part in whole for call in call_ids(part)]
        # a result that is on the way comes where it stands
        aside = [results[call] for call in calls if call in results and results[call].uuid not in on_the_way]
        for part in (*whole, *aside):
            if part.uuid not in given:
                given.add(part.uuid)
                yield part


def call_ids(entry: Entry) -> list[str]:
    """The ids of the calls in an answer."""
    content = blocks(entry.message.get("content")) if entry.kind == "assistant" else ()
    return [str(block.get("id")) for block in content if block.get("type") == "tool_use"]


def result_ids(entry: Entry) -> list[str]:
    """The ids of the calls that a user's entry has results of."""
    content = blocks(entry.message.get("content")) if entry.kind == "user" else ()
    return [str(block.get("tool_use_id")) for block in content if block.get("type") == "tool_result"]


def blocks(content: object) -> list[dict[str, Any]]:
    """The content of a message as a list of blocks, whatever it was."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
