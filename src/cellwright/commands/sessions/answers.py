"""`/numbers` and `/stability`: where the numbers of the last answer come from, and whether they hold on other data.

`/numbers` names each number's source in the conversation. `/stability` runs the code that gave the numbers again: on
resampled data, with a permuted label, with another seed.
"""

from __future__ import annotations

import asyncio
import json
import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from cellwright.agent.calls.approval import CanUseTool
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.config.settings.settings_in_force import TrustQuestion
from cellwright.conversation.core import Host
from cellwright.conversation.kernel_copies import CannotRerun, Step
from cellwright.conversation.resolve_options import ask_about_trust
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.events import Emit, Notice, Number, Verdict
from cellwright.features.conversation import Conversation
from cellwright.features.numbers.answers import TracedAnswers
from cellwright.features.numbers.claims import claims_of_tests, seen_texts, stated_names
from cellwright.features.stability.report import StabilityReport
from cellwright.features.stability.rerun import (
    MOST_RESAMPLES,
    MOST_SECONDS,
    MOST_SEED,
    Choice,
    Wish,
)
from cellwright.sessions.session import Session
from cellwright.text import counted
from cellwright.tools.notebook.open_notebook import Cell

VERDICTS: Mapping[Verdict, str] = {
    "seen": "with a source",
    "derived": "could be computed from one",
    "weak": "too short to trace",
    "not_found": "not found",
}

STABILITY = "[FRAME] [label=COLUMN] [by=COLUMN] [n=50] [seconds=60] [seed=1] [yes]"
USAGE = "/stability FRAME label=COLUMN n=50, all optional; label=none permutes nothing, by=COLUMN keeps groups together"
NO_LABEL = "Without a label"
NOT_RUN = "Nothing was run."


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
    for number in numbers:
        line = f"{number.source.line}: {number.source.text}" if number.source is not None else ""
        rows.append((number.text, f"{number.words} (!)" if number.marked else number.words, line))
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


async def stability_page(call: CommandCall) -> CommandPage:
    """Run the code behind the last answer's numbers on perturbed data, and show the spread of each."""
    wish, yes = parse(call.text)
    try:
        return page_of(await stability_report(call.conversation, wish, call.ask_user, call.emit, yes=yes))
    except CannotRerun as cannot:
        return CommandPage([Section("Stability", text=f"{cannot} {NOT_RUN}")])


async def stability_report(
    conversation: Conversation, wish: Wish, ask_user: CanUseTool | None, emit: Emit, *, yes: bool = False
) -> StabilityReport:
    """Test the numbers that `wish` is about; `yes` answers all questions. Raises CannotRerun, and CellwrightError."""
    feature = conversation.features.stability
    if feature is None:
        raise CannotRerun("Only a notebook's kernel has the data to resample; here Claude's code runs elsewhere.")
    session = conversation.sessions.current
    nobody = False

    async def asked(title: str, detail: str, reason: str, also: tuple[str, ...]) -> tuple[bool, str]:
        nonlocal nobody
        if yes or ask_user is None:
            nobody = not yes
            return yes, ""
        question = TrustQuestion("run", title, detail, reason, "Run", "Cancel", frozenset(), also=also)
        answer, chosen = await ask_about_trust(question, ask_user, session, emit, name="Stability")
        nobody = answer == "nobody"
        return answer == "yes", chosen

    async def approve(reason: str, steps: Sequence[Step]) -> bool:
        code = "\n\n".join(f"# {step.name}\n{step.code}" for step in steps)
        return (await asked("Run this code again?", code, reason, ()))[0]

    async def confirm(choice: Choice, copies: str) -> Choice | None:
        others = {f"Use {other.name}": other for other in choice.others[: 1 if choice.label else 2] if other.columns}
        also = (*([NO_LABEL] if choice.label else []), *others)
        title = f"Test these numbers on resampled {choice.frame.name}?"
        agreed, chosen = await asked(title, _plan(choice, wish, copies), "", also)
        if nobody:
            return choice  # it is confined, or was approved, and the page says what was chosen
        if not agreed:
            return None
        return (
            replace(choice, label="") if chosen == NO_LABEL else replace(choice, frame=others.get(chosen, choice.frame))
        )

    report = await feature.test(
        session, wish, approve=approve, confirm=confirm, progress=lambda text: emit(Notice(text))
    )
    if report is None:
        why = (
            "It needs your approval, and you cannot be asked here; add `yes` to give it." if nobody else "You said no."
        )
        raise CannotRerun(why)
    return report


def parse(text: str) -> tuple[Wish, bool]:
    """Read what follows the command, and whether `yes` does. Raises CellwrightError INVALID_PARAMETERS.

    >>> parse("df label=churn n=20")
    (Wish(frame='df', label='churn', by='', resamples=20, seconds=60.0, seed=1, answer=''), False)
    """
    wish, yes = Wish(), False
    try:
        given = shlex.split(text)
    except ValueError:  # a quote is open
        given = text.split()
    for word in given:
        name, is_option, value = word.partition("=")
        number = _number(value)
        match name.lower():
            case "yes" if not is_option:
                yes = True
            case "label" | "by" | "answer" | "frame" if value:
                wish = replace(wish, **{name.lower(): value})
            case "n" | "seed" if number is not None and number == int(number):
                wish = replace(wish, **{"resamples" if name.lower() == "n" else "seed": int(number)})
            case "seconds" if number is not None:
                wish = replace(wish, seconds=number)
            case _ if not is_option and not wish.frame and name.isidentifier():
                wish = replace(wish, frame=name)
            case _:
                message = f"{word!r} is not understood. Usage: {USAGE}. {NOT_RUN}"
                raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return checked(wish), yes


def checked(wish: Wish) -> Wish:
    """Return `wish`. Raises CellwrightError INVALID_PARAMETERS if a number of it is out of range."""
    for name, value, least, most in (
        ("n", wish.resamples, 2, MOST_RESAMPLES),
        ("seconds", wish.seconds, 1, MOST_SECONDS),
        ("seed", wish.seed, 0, MOST_SEED),
    ):
        if not least <= value <= most:
            message = f"{name} must be between {least:,} and {most:,.0f}, not {value:,}. {NOT_RUN}"
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return wish


def _number(text: str) -> float | None:
    try:
        return float(text) if math.isfinite(float(text)) else None
    except ValueError:
        return None


def _plan(choice: Choice, wish: Wish, copies: str) -> str:
    label = f"{choice.label} permuted as a null" if choice.label else "no label is permuted"
    return (
        f"{choice.frame.name} ({choice.frame.rows:,} rows); {label}.\n"
        f"{wish.resamples} resamples, at most {wish.seconds:g} s, in {copies}. "
        "No variable of yours changes and nothing is sent."
    )


def page_of(report: StabilityReport) -> CommandPage:
    """Return the page: a row for each number, what could not be tested and why, and how the test was done."""
    rows = report.rows
    sections = [Section("Stability", rows if len(rows) > 1 else (), report.headline)]
    untested = [each for each in report.numbers if each.verdict == "not_followed"]
    if untested:
        why = [(each.text, each.source, each.words) for each in untested]
        sections.append(Section("Not tested", [("number", "source", "why"), *why]))
    sections.append(Section("How it was tested", text="\n".join([*report.how, *report.notes])))
    return CommandPage(sections)
