"""`/numbers`: each number of the last answer with its source in the conversation."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping

from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.events import Number, Verdict
from cellwright.features.numbers.answers import TracedAnswers
from cellwright.sessions.session import Session
from cellwright.text import counted

VERDICTS: Mapping[Verdict, str] = {
    "seen": "with a source",
    "derived": "could be computed from one",
    "weak": "too short to trace",
    "not_found": "not found",
}


async def numbers_page(call: CommandCall) -> CommandPage:
    """List the numbers of the last answer: where each was seen, or that no result of the conversation holds it."""
    session = call.conversation.sessions.current
    numbers = await asyncio.to_thread(_last_numbers, session)
    if not numbers:
        return CommandPage([Section("Numbers", text="The last answer states no numbers that can be traced.")])
    rows: list[Row] = [("number", "source", "line")]
    rows += [(number.text, _source(number), _line(number)) for number in numbers]
    text = "A source says where a number was seen, not that the sentence around it is right."
    return CommandPage([Section("Numbers", rows, f"{summary(numbers)}. {text}")])


def _last_numbers(session: Session) -> tuple[Number, ...]:
    event = TracedAnswers().event(last_answer(session), session.story)
    return () if event is None else event.numbers


def last_answer(session: Session) -> str:
    """Return the text of the last message of Claude's that has one; empty if there is none."""
    for encoded in reversed(session.story):
        message = json.loads(encoded)
        if message["role"] != "assistant":
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if text := "\n\n".join(block["text"] for block in blocks if block.get("type") == "text"):
            return text
    return ""


def summary(numbers: tuple[Number, ...]) -> str:
    """Return the counts in words.

    >>> summary(())
    '0 numbers'
    """
    counts = Counter(number.verdict for number in numbers)
    named = [f"{counts[verdict]} {words}" for verdict, words in VERDICTS.items() if counts[verdict]]
    return " · ".join([counted(len(numbers), "number"), *named])


def _source(number: Number) -> str:
    return f"{number.words} (!)" if number.marked else number.words


def _line(number: Number) -> str:
    return f"{number.source.line}: {number.source.text}" if number.source is not None else ""
