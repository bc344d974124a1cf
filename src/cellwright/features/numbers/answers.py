"""The answers of a conversation, their numbers traced, and the sources they are traced to, read from its messages.

Sources are results, code, the user's words and what came with them; among them are the values of *Check these*: the
instructions by which Claude computes the numbers that were not found, and what it computed. For a worker thread, one call at
a time.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from msgspec.structs import replace

from cellwright.agent.calls.tool_names import access_of
from cellwright.events import CheckedNumber, CheckedNumbers, Number, NumbersTraced
from cellwright.features.numbers.claims import unknown_names
from cellwright.features.numbers.match import interval
from cellwright.features.numbers.sources import Source, SourceKind, place, source
from cellwright.features.numbers.stale import (
    StaleNumber,
    answer_record,
    changed_since,
    marked_stale,
    refresh_prompt,
    stale_numbers,
)
from cellwright.features.numbers.trace import trace, with_marks
from cellwright.features.numbers.written import WrittenNumber, written_numbers
from cellwright.sessions.api_messages import begins_turn, is_after_boundary, is_attached, is_note
from cellwright.text import counted, lazy_pattern
from cellwright.tools.notebook.open_notebook import Cell

FIRST_LINE = "Check these numbers of your answer: no result of our conversation holds them."
MOST_CHECKED = 40
_HOW = (
    "Compute each from the data with code, and print one line `check ID VALUE` for it, with the ID below and the value that "
    "was computed. Do not write the stated number into the code. Then say which are right, which are wrong, and which "
    "cannot be computed, and why."
)
_ANSWER = "Answer: "
_MENTION = lazy_pattern(r"@|\$(?=[^\W\d])")
"""The beginnings of `@file` and `$name`: Claude's words attach nothing to a prompt."""
_TITLE = lazy_pattern(r"(?:Check|Refresh) \d{1,3} numbers?(?: of answer [0-9a-f]{6})?")
_ITEM = lazy_pattern(r"^(\d{1,3})\. (.{1,200}?) in “(.{0,400})”$", re.MULTILINE)
_CHECK = lazy_pattern(r"^\W{0,8}check[ \t]+(\d{1,3})[ \t:=]+(.{1,80})$", re.MULTILINE | re.IGNORECASE)

_CODE_FIELDS = ("code", "command", "content", "new_string", "new_source", "source", "patch")
_CELL = lazy_pattern(
    r'^<cell id="(?P<id>[^"\n]{1,200})" number="(?P<number>\d{1,6})"'
    r'(?:[^>\n]{0,200}? execution_count="(?P<count>\d{1,9})")?[^>\n]{0,400}>\n',
    re.MULTILINE,
)
_PLACE = lazy_pattern(r"\s*<(?P<tag>[a-z][\w-]*)(?:\s(?P<key>[a-z_]+)=[\"'](?P<value>[^\"']{1,200}))?")
_NO_DATA = frozenset({"environment", "mode", "todos", "skills", "agents", "git", "instructions"})
"""Tags of context that describes the place of work or the task, whose numbers are no results."""


class TracedAnswers:
    """The sources of a conversation, indexed as they come, and the numbers of each answer looked up in them."""

    def __init__(self) -> None:
        self._seen = SeenNumbers()
        self._lock = threading.Lock()
        self._offered: dict[str, str] = {}
        """The instructions of the prompts that were offered below answers, by their titles."""
        self._kept: dict[str, tuple[Mapping[str, Any], str]] = {}
        """The records of the last answers, each with its answer, by the answer's name."""

    def instructions(self, words: str) -> str:
        """Return the instructions that were offered under the title `words`, to check or to refresh; empty if none were."""
        return self._offered.get(words.strip(), "")

    def index(self, messages: Sequence[bytes]) -> None:
        """Read what is new in `messages`, the encoded messages of the session, so that the answer waits for less."""
        with self._lock:
            try:
                self._seen.of(messages)
            except IndexError:  # messages were taken back meanwhile: the answer reads those that are left
                self._seen = SeenNumbers()

    def record(self, event: NumbersTraced, answer: str, cells: Sequence[Cell], folder: Path) -> NumbersTraced:
        """Return the event of `answer` with what its notebook, which has `cells`, keeps of its numbers."""
        with self._lock:
            record = answer_record(answer, event.numbers, self._seen.sources, cells, folder)
            if record is None:
                return event
            self._kept.pop(event.answer, None)
            self._kept[event.answer] = record, answer
            if len(self._kept) > 50:  # some 16 KB each at most
                del self._kept[next(iter(self._kept))]
        return replace(event, record=record)

    def keeps_records(self) -> bool:
        """Return whether any answer has numbers that came from cells or files."""
        return bool(self._kept)

    def stale(self, cells: Sequence[Cell], folder: Path) -> list[dict[str, Any]]:
        """Return what a page marks in answers that no cell shows, as `stale_answers` does for those of cells.

        Each has the `title` of the prompt, too, by which Claude writes it anew.
        """
        with self._lock:
            kept = list(self._kept.items())
        found = []
        for name, (record, answer) in kept:
            shown = answer.strip("\n")
            if stale := stale_numbers(record, shown, cells, folder, edited=False):
                refresh = refresh_prompt(stale, shown)
                title = self._offer(f"Refresh {counted(len(stale), 'number')}", name, refresh)
                found.append({**marked_stale(name, shown, stale), "refresh": refresh, "title": title})
        return found

    def _offer(self, title: str, name: str, instructions: str) -> str:
        """Keep the instructions of a prompt about the answer `name`; return the title that they have."""
        if self._offered.setdefault(title, instructions) != instructions:  # another answer has as many
            title = f"{title} of answer {name[:6]}"
            self._offered[title] = instructions
        return title

    def changed_since(self, numbers: Sequence[Number], cells: Sequence[Cell], folder: Path) -> tuple[StaleNumber, ...]:
        """Return those of `numbers`, an event's, whose cell or file has another value now."""
        with self._lock:
            return changed_since(numbers, self._seen.sources, cells, folder)

    def event(
        self,
        answer: str,
        messages: Sequence[bytes],
        *,
        typed: bool = False,
        folder: Path | None = None,
        known: Callable[[str], bool] = lambda _: False,
    ) -> NumbersTraced | None:
        """Return the numbers of `answer` with their sources in `messages`; None if it states none that can be looked up.

        `typed`: the answer is JSON, and its numeric fields are the numbers. With `folder`, where relative paths start, names
        that nothing has are looked for, too; `known` says of a name that this process has it.
        """
        with self._lock:
            sources = self._seen.of(messages)
            prompt, turn = self._seen.check, self._seen.turn
        numbers = trace(answer, sources, typed=typed)
        checked = None
        if prompt:
            # what the check repeats of the numbers that it was asked for is no claim of its own
            texts = frozenset(checked_texts(prompt).values())
            numbers = tuple(each for each in numbers if each.verdict != "not_found" or each.text not in texts)
            numbers = with_marks(numbers)
            checked = checked_numbers(prompt, [each for each in sources if each.turn == turn])
        names = () if typed or folder is None else unknown_names(answer, messages, folder, known)
        if not numbers and checked is None and not names:
            return None
        name = hashlib.sha256(answer.encode("utf-8", "replace")).hexdigest()[:12]
        if check := check_title(numbers):
            check = self._offer(check, name, check_instructions(name, numbers))
        return NumbersTraced(numbers, name, check, checked, names)


def check_title(numbers: Sequence[Number]) -> str:
    """Name the check of the marked ones of `numbers` for people: `Check 2 numbers`; empty if none is marked."""
    marked = sum(number.marked for number in numbers)
    return f"Check {counted(min(marked, MOST_CHECKED), 'number')}" if marked else ""


def is_title(text: str) -> bool:
    """Return whether `text` names a check or a refresh: the count in it is no number of the user's."""
    return _TITLE.fullmatch(text.strip()) is not None


def check_instructions(name: str, numbers: Sequence[Number]) -> str:
    """Return the instructions to compute the marked ones of `numbers`, those of the answer `name`; empty if none is."""
    marked = [number for number in numbers if number.marked][:MOST_CHECKED]
    if not marked:
        return ""
    items = [f"{at}. {number.text} in “{_MENTION.sub('', number.sentence)}”" for at, number in enumerate(marked, 1)]
    return "\n".join([FIRST_LINE, _HOW, "", *items, "", f"{_ANSWER}{name}"])


def read_check(text: str) -> str:
    """Return the instructions of a check that `text`, a part of a prompt, is; empty if it is another part."""
    written = text.strip().removeprefix("<instructions>").removesuffix("</instructions>").strip()
    return written if written.startswith(FIRST_LINE) else ""


def checked_texts(prompt: str) -> Mapping[int, str]:
    """Return the numbers that `prompt`, a check, asks for, as they were written, by their IDs."""
    return {int(item[1]): item[2] for item in _ITEM.finditer(prompt)}


def checked_numbers(prompt: str, sources: Sequence[Source]) -> CheckedNumbers | None:
    """Return what `sources`, those of the turn of `prompt`, computed for its numbers; None if that is nothing.

    A value counts if a call printed it whose code does not hold it: a number that was written down was not computed.
    """
    code = {each.id: each for each in sources if each.kind == "code"}
    printed: dict[int, tuple[str, Source, int]] = {}
    for each in sources:
        if each.kind == "output":
            printed |= {int(line[1]): (line[2].strip(), each, line.start()) for line in _CHECK.finditer(each.text)}
    found = []
    for at, text in checked_texts(prompt).items():
        stated = next(iter(written_numbers(text)), None)
        if stated is None or at not in printed:
            continue
        value, output, start = printed[at]
        numbers = written_numbers(value)
        if not numbers or _is_written(numbers[0], code.get(output.id)):
            continue
        source = place(output, start)
        agrees = _agrees(stated, numbers[0])
        found.append(CheckedNumber(at, text, agrees, f"computed as {value} in {source.words}", source))
    return CheckedNumbers(prompt.rpartition(_ANSWER)[2].strip(), tuple(found)) if found else None


def _agrees(stated: WrittenNumber, computed: WrittenNumber) -> bool:
    low, high = interval(stated)
    values = [computed.value]
    if stated.form == "percent" and computed.form == "plain":
        values.append(computed.value * 100)
    return any(low <= value <= high for value in values)


def _is_written(number: WrittenNumber, code: Source | None) -> bool:
    if code is None or number.digits < 2:
        return False
    slack = 1e-9 * number.value
    return len(code.within(number.value - slack, number.value + slack)) > 0


class SeenNumbers:
    """The sources of one conversation. Messages are only ever added: each is read once, if nothing was taken back."""

    def __init__(self) -> None:
        self._read: list[int] = []
        self.sources: list[Source] = []
        self.turn = 0
        """The number of the prompts so far."""
        self.check = ""
        """The instructions of the last prompt, if it asks to check numbers."""
        self._calls: dict[str, tuple[int, str, Mapping[str, Any]]] = {}

    def of(self, messages: Sequence[bytes]) -> Sequence[Source]:
        """Return the sources of `messages`, the encoded messages of a session, in their order.

        Claude's own answers are none: a number must not vouch for itself. Nor are summaries, which are Claude's.
        """
        if any(at >= len(messages) or hash(messages[at]) != read for at, read in enumerate(self._read)):
            # something was taken back
            self._read.clear()
            self.sources.clear()
            self._calls.clear()
            self.turn, self.check = 0, ""
        for at in range(len(self._read), len(messages)):
            message = messages[at]
            self._read.append(hash(message))
            self.sources += self._of_message(json.loads(message))
        return self.sources

    def _of_message(self, message: Mapping[str, Any]) -> Iterator[Source]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == "assistant":
            for block in blocks:
                if block.get("type") == "tool_use":
                    yield from self._of_call(block)
            return
        if is_after_boundary(blocks):
            return
        if begins_turn(message):
            self.turn, self.check = self.turn + 1, ""
        for block in blocks:
            if block.get("type") == "tool_result":
                yield from self._of_result(block)
            elif block.get("type") == "text" and not is_note(block["text"]):
                yield from self._of_words(block["text"])

    def _of_call(self, block: Mapping[str, Any]) -> Iterator[Source]:
        values = block["input"] if isinstance(block["input"], Mapping) else {}
        number = len(self._calls) + 1
        self._calls[block["id"]] = (number, block["name"], values)
        code = "\n".join(str(values[field]) for field in _CODE_FIELDS if isinstance(values.get(field), str))
        if code:
            yield from self._some("code", f"the code of {block['name']}, call {number}", code, id=block["id"])

    def _of_result(self, block: Mapping[str, Any]) -> Iterator[Source]:
        number, tool, values = self._calls.get(block["tool_use_id"], (0, "a call", {}))
        content = block.get("content", "")
        parts = (
            [content] if isinstance(content, str) else [part["text"] for part in content if part.get("type") == "text"]
        )
        path = str(values.get("file_path") or values.get("notebook_path") or values.get("path") or "")
        access = access_of(tool)
        kind: SourceKind = "file" if access.kind == "read" and path else "output"
        name = f"{PurePath(path).name}, read in call {number}" if kind == "file" else f"{tool}, call {number}"
        text = "\n".join(parts)
        shows_cells = access.kind in ("read", "cells") and access.field == "notebook_path"
        cells = list(_CELL.finditer(text)) if shows_cells else []
        yield from self._some(
            kind, name, text[: cells[0].start()] if cells else text, id=block["tool_use_id"], path=path
        )
        for at, cell in enumerate(cells):
            end = cells[at + 1].start() if at + 1 < len(cells) else len(text)
            shown = f"cell [{cell['count']}]" if cell["count"] else f"cell {cell['number']}"
            yield from self._some("cell", shown, text[cell.end() : end], id=cell["id"], path=path)

    def _of_words(self, text: str) -> Iterator[Source]:
        if check := read_check(text):
            self.check = check  # it names the numbers that were not found
            return
        if is_title(text):
            return
        if not is_attached(text):
            yield from self._some("prompt", "your prompt", text)
            return
        place = _PLACE.match(text)
        tag, value = (place["tag"], place["value"]) if place else ("context", None)
        if tag not in _NO_DATA:
            yield from self._some(
                "context", f"{tag} {value}" if value else f"the attached {tag}", text, path=value or ""
            )

    def _some(self, kind: SourceKind, name: str, text: str, *, id: str = "", path: str = "") -> Iterator[Source]:
        found = source(kind, name, text, turn=self.turn, id=id, path=path)
        if found.values:
            yield found
