"""`/numbers`: each number of the last answer with its source in the conversation."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence

from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.conversation.core import Host
from cellwright.errors import ToolError
from cellwright.events import Number, Verdict
from cellwright.features.numbers.answers import TracedAnswers
from cellwright.features.numbers.claims import claims_of_tests, seen_texts, stated_names
from cellwright.sessions.session import Session
from cellwright.text import counted
from cellwright.tools.notebook.open_notebook import Cell

VERDICTS: Mapping[Verdict, str] = {
    "seen": "with a source",
    "derived": "could be computed from one",
    "weak": "too short to trace",
    "not_found": "not found",
}


async def numbers_page(call: CommandCall) -> CommandPage:
    """List the numbers of the last answer: where each was seen, or that no result of the conversation holds it.

    Numbers whose cell or file has another value now follow, names of columns, files, functions and cells that nothing has,
    and statements that tests pass.
    """
    host = call.conversation.host
    own = None if host.open_notebooks is None else host.open_notebooks.own()
    try:
        cells = [] if own is None else await own.cells()
    except ToolError:
        cells = []  # its page went away
    session = call.conversation.sessions.current
    numbers, others = await asyncio.to_thread(_last_claims, session, host, cells)
    if not numbers:
        return CommandPage([Section("Numbers", text="The last answer states no numbers that can be traced."), *others])
    rows: list[Row] = [("number", "source", "line")]
    rows += [(number.text, _source(number), _line(number)) for number in numbers]
    text = "A source says where a number was seen, not that the sentence around it is right."
    return CommandPage([Section("Numbers", rows, f"{summary(numbers)}. {text}"), *others])


def _other_claims(answer: str, session: Session, host: Host) -> list[Section]:
    """List the names that nothing has, and what the answer says of tests; nothing if there is neither."""
    seen = seen_texts(session.story)
    missing = [name for name in stated_names(answer, seen, host.cwd, host.has_name) if not name.found]
    tests = claims_of_tests(answer, session.story)
    sections: list[Section] = []
    if missing:
        rows: list[Row] = [("name", "what is known"), *((name.text, f"{name.words} (!)") for name in missing)]
        sections.append(Section("Names", rows))
    if tests:
        rows = [("statement", "what is known")]
        rows += [(claim.text, claim.words if claim.verdict == "borne_out" else f"{claim.words} (!)") for claim in tests]
        sections.append(Section("Tests", rows))
    return sections


def _last_claims(session: Session, host: Host, cells: Sequence[Cell]) -> tuple[tuple[Number, ...], list[Section]]:
    """Trace the last answer; in a worker thread, as a long session holds a million numbers."""
    answer = last_answer(session)
    answers = TracedAnswers()
    event = answers.event(answer, session.story)
    numbers = () if event is None else event.numbers
    sections = []
    if stale := answers.changed_since(numbers, cells, host.cwd):
        rows: list[Row] = [("number", "what has changed"), *((each.text, f"{each.because} (!)") for each in stale)]
        sections.append(Section("Stale", rows, f"{counted(len(stale), 'number')} of the answer changed since."))
    return numbers, [*sections, *_other_claims(answer, session, host)]


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
