"""`/stability`: do the numbers of the last answer hold on resampled data, with a permuted label, with another seed?"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.config.settings.settings_in_force import TrustQuestion
from cellwright.conversation.conversation import Conversation
from cellwright.conversation.resolve_options import ask_about_trust
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Notice
from cellwright.features.stability.feature import CannotRerun, Stability
from cellwright.features.stability.rerun import (
    MOST_RESAMPLES,
    MOST_SECONDS,
    Choice,
    StabilityReport,
    Wish,
)
from cellwright.features.stability.spreads import Kind
from cellwright.features.stability.steps import Step
from cellwright.text import counted

STABILITY = "[FRAME] [label=COLUMN] [by=COLUMN] [n=50] [seconds=60] [seed=1] [yes]"
USAGE = "/stability FRAME label=COLUMN n=50, all optional; label=none permutes nothing, by=COLUMN keeps groups together"
NO_LABEL = "Without a label"
NOT_RUN = "Nothing was run."


async def stability_page(call: CommandCall) -> CommandPage:
    """Run the code behind the last answer's numbers on perturbed data, and show the spread of each."""
    wish, yes = parse(call.text)
    feature = stability_of(call.conversation)
    if feature is None:
        text = "Only a notebook's kernel has the data to resample; here Claude's code runs in commands of its own."
        return CommandPage([Section("Stability", text=text)])
    nobody = False

    async def asked(title: str, detail: str, reason: str, also: tuple[str, ...]) -> tuple[bool, str]:
        nonlocal nobody
        if yes or call.ask_user is None:
            nobody = not yes
            return yes, ""
        question = TrustQuestion(*("run", title, detail, reason, "Run", "Cancel", frozenset[str]()), also=also)
        session = call.conversation.sessions.current
        answer, chosen = await ask_about_trust(question, call.ask_user, session, call.emit, name="Stability")
        nobody = answer == "nobody"
        return answer == "yes", chosen

    async def approve(reason: str, steps: Sequence[Step]) -> bool:
        code = "\n\n".join(f"# {step.name}\n{step.code}" for step in steps)
        agreed, _ = await asked("Run this code again?", code, reason, ())
        return agreed

    async def confirm(choice: Choice, copies: str) -> Choice | None:
        others = {f"Use {other.name}": other for other in choice.others[: 1 if choice.label else 2] if other.columns}
        also = (*([NO_LABEL] if choice.label else []), *others)
        agreed, chosen = await asked(
            f"Test these numbers on resampled {choice.frame.name}?", _plan(choice, wish, copies), "", also
        )
        if nobody:
            return choice  # it is confined, and the page says what was chosen
        if not agreed:
            return None
        return (
            replace(choice, label="") if chosen == NO_LABEL else replace(choice, frame=others.get(chosen, choice.frame))
        )

    try:
        report = await feature.test(
            call.conversation.sessions.current,
            wish,
            approve=approve,
            confirm=confirm,
            progress=lambda text: call.emit(Notice(text)),
        )
    except CannotRerun as cannot:
        return CommandPage([Section("Stability", text=f"{cannot} {NOT_RUN}")])
    if report is None:
        text = "It needs your approval, and nobody could answer; add `yes` to give it. " if nobody else ""
        return CommandPage([Section("Stability", text=f"{text}{NOT_RUN}")])
    return page_of(report)


def stability_of(conversation: Conversation) -> Stability | None:
    """Return the feature, if this conversation is a kernel's."""
    return next((each for each in conversation.features.of_host if isinstance(each, Stability)), None)


def parse(text: str) -> tuple[Wish, bool]:
    """Read what follows the command, and whether `yes` does. Raises CellwrightError INVALID_PARAMETERS.

    >>> parse("df label=churn n=20")
    (Wish(frame='df', label='churn', by='', resamples=20, seconds=60.0, seed=1, answer=''), False)
    """
    wish, yes = Wish(), False
    for word in text.split():
        name, is_option, value = word.partition("=")
        number = _number(value)
        match name.lower():
            case "yes" if not is_option:
                yes = True
            case "label" | "by" | "answer" | "frame" if value:
                wish = replace(wish, **{name.lower(): value})
            case "n" if number is not None and 2 <= number <= MOST_RESAMPLES and number == int(number):
                wish = replace(wish, resamples=int(number))
            case "seconds" if number is not None and 1 <= number <= MOST_SECONDS:
                wish = replace(wish, seconds=number)
            case "seed" if number is not None and 0 <= number < 1e9 and number == int(number):
                wish = replace(wish, seed=int(number))
            case _ if not is_option and not wish.frame and name.isidentifier():
                wish = replace(wish, frame=name)
            case _:
                message = f"{word!r} is not understood. Usage: {USAGE}. {NOT_RUN}"
                raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return wish, yes


def _number(text: str) -> float | None:
    try:
        return float(text)
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
    """Return the page: a row for each number, then what was done and how to read it."""
    heads = ("number", "resampled", "10 % left out", "another seed", f"{report.label} permuted", "what it says")
    kinds: tuple[Kind, ...] = ("bootstrap", "leave_out", "seed", "permuted")
    columns = [kind for kind in kinds if any(each.spread(kind) for each in report.numbers)]
    if _seeds_change_nothing(report):
        columns.remove("seed")
    shown = [0, *(kinds.index(kind) + 1 for kind in columns), 5]
    tested = [each for each in report.numbers if each.verdict != "not_followed"]
    rows: list[Row] = [tuple(heads[at] for at in shown)]
    for each in tested:
        mark = " (!)" if each.verdict in ("no_signal", "changed", "reseeded") else ""
        rows.append((each.text, *(each.range_text(kind) for kind in columns), f"{each.words}{mark}"))
    sections = [Section("Stability", rows if len(rows) > 1 else (), f"{_did(report)} {_reading(report)}".strip())]
    untested = [each for each in report.numbers if each.verdict == "not_followed"]
    if untested:
        sections.append(
            Section(
                "Not tested",
                [("number", "source", "why"), *((each.text, each.source, each.words) for each in untested)],
            )
        )
    if report.notes:
        sections.append(Section("Notes", text="\n".join(report.notes)))
    return CommandPage(sections)


def _did(report: StabilityReport) -> str:
    of_kinds: dict[Kind, str] = {
        "bootstrap": f"resamples of its {report.unit}",
        "leave_out": "samples without a tenth",
        "seed": "other seeds",
        "permuted": f"permutations of {report.label}",
    }
    did = [
        f"{report.done[kind]}{f' of {report.planned[kind]}' if report.done[kind] < report.planned[kind] else ''} {words}"
        for kind, words in of_kinds.items()
        if report.planned.get(kind)
    ]
    short = any(report.done[kind] < report.planned[kind] for kind in report.done)
    more = " The time ran out: seconds=N gives more." if short else ""
    label = "" if report.label else " No label was permuted: label=COLUMN names one."
    return (
        f"{report.frame} ({report.rows:,} rows): {', '.join(did)}; seed {report.seed}; "
        f"{report.seconds:g} s in {report.copies}.{more}{label} Run again: {', '.join(report.ran)}."
    )


def _reading(report: StabilityReport) -> str:
    if not any(each.verdict != "not_followed" for each in report.numbers):
        return "None of the numbers could be tested."
    lost = report.no_signal
    said = (
        f" {counted(len(lost), 'number')} {'is' if len(lost) == 1 else 'are'} as large without any signal."
        if lost
        else ""
    )
    seeds = " Another seed changes none of them." if _seeds_change_nothing(report) else ""
    return f"A range holds 95 % of the runs.{said}{seeds}"


def _seeds_change_nothing(report: StabilityReport) -> bool:
    spreads = [(each.again, spread) for each in report.numbers if (spread := each.spread("seed")) is not None]
    return bool(spreads) and all(again is not None and spread.is_constant(again) for again, spread in spreads)
