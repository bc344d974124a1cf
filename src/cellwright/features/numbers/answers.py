"""The answers of a conversation, their numbers traced: for a worker thread, one call at a time."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from cellwright.events import Number, NumbersTraced
from cellwright.features.numbers.claims import unknown_names
from cellwright.features.numbers.seen import (
    SeenNumbers,
    check_instructions,
    check_title,
    checked_numbers,
    checked_texts,
)
from cellwright.features.numbers.stale import (
    StaleNumber,
    answer_record,
    changed_since,
    marked_stale,
    refresh_prompt,
    stale_numbers,
)
from cellwright.features.numbers.trace import trace, with_marks
from cellwright.text import counted
from cellwright.tools.notebook.open_notebook import Cell

MOST_ANSWERS = 50
"""Whose records are kept for the pages: some 16 KB each at most."""


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
            if len(self._kept) > MOST_ANSWERS:
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
