"""The numbers that a notebook states, in Markdown cells and saved answers, held against what its cells gave."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from cellwright.events import Number, traced_words
from cellwright.features.numbers.sources import (
    Source,
    Statement,
    name_of,
    notebook_sources,
    statements,
    texts_source,
    words,
    words_of_place,
)
from cellwright.features.numbers.stale import (
    Lines,
    changed_words,
    find_place,
    lines_of,
    rank_in_line,
    short,
    stale_numbers,
    still_says,
    value_at,
)
from cellwright.features.numbers.trace import MARKED_DIGITS, trace
from cellwright.text import lazy_pattern, visible_line
from cellwright.tools.notebook.open_notebook import Cell, Output

_MARKUP = lazy_pattern(r"<[^<>]{0,1000}>|^[#>\s|-]{1,20}|[*_`]{1,3}")

_Kind = Literal["stale", "not_found"]


class Finding(Struct, frozen=True, kw_only=True):
    """A number of a notebook that its outputs do not hold (any more).

    `cell` is the id, `name` the cell as a reader knows it, `line` counts from 1 in the Markdown cell or the answer.
    `then` and `now` are the seen value and what stands at its place now, if known; `because` says it in words.
    """

    kind: _Kind
    cell: str
    name: str
    where: Literal["markdown", "answer"]
    line: int
    text: str
    because: str
    then: float | None = None
    now: float | None = None
    source_cell: str = ""


class NotebookNumbers(Struct, frozen=True, kw_only=True):
    """The numbers of a notebook's texts, counted by verdict, and what there is to say of some.

    `unsure`: not found, but too short to be listed, or in a notebook where most numbers have no source (a tutorial).
    """

    numbers: int
    traced: int
    weak: int
    unsure: int
    findings: tuple[Finding, ...]

    @property
    def stale(self) -> tuple[Finding, ...]:
        return tuple(found for found in self.findings if found.kind == "stale")

    @property
    def not_found(self) -> tuple[Finding, ...]:
        return tuple(found for found in self.findings if found.kind == "not_found")

    @property
    def summary(self) -> str:
        """The counts in words."""
        return " · ".join(
            traced_words(
                self.numbers,
                self.traced,
                too_short_to_trace=self.weak,
                stale=len(self.stale),
                not_found=len(self.not_found),
                not_found_and_not_listed=self.unsure,
            )
        )


def finding_line(found: Finding) -> str:
    """Return the line that a reader gets."""
    where = f"{found.name}, {'answer, ' if found.where == 'answer' else ''}line {found.line}"
    return f"{found.kind.replace('_', ' ')}: {where}: {found.text}: {found.because}"


def _for_statement(statement: Statement, sources: Sequence[Source], prompts: Sequence[Source]) -> list[Source]:
    """Return the sources of a statement, those that it is likeliest to be from last and in a turn of their own."""
    position = statement.cell.position
    with_outputs = sorted({each.turn for each in sources if each.kind in ("cell", "output") and each.turn < position})
    near = {*with_outputs[-3:], position}  # whose numbers it is likeliest to state
    near.add(min((each.turn for each in sources if each.turn > position), default=position))
    own_words = [each for each in prompts if statement.kind == "answer" and each.turn <= position]
    ordered = sorted([*own_words, *sources], key=lambda each: (each.turn <= position, each.turn))
    return [replace(each, turn=int(each.turn in near and each.kind != "file")) for each in ordered]


def notebook_numbers(
    cells: Sequence[Cell], *, folder: Path | None = None, fresh: Mapping[str, Sequence[Output]] | None = None
) -> NotebookNumbers:
    """Hold the numbers of a notebook's texts against its own outputs, and against `fresh` ones of a run, by cell id.

    A number is *stale* if what stands at its source's place is another value now, *not found* if no output holds it and
    it has three or more digits. If fewer than half of the decided ones have a source, no *not found* one is listed.
    """
    saved = notebook_sources(cells, folder)
    rerun = [replace(cell, outputs=tuple(fresh[cell.id])) if fresh and cell.id in fresh else cell for cell in cells]
    current = [
        *saved,
        *(each for each in notebook_sources(rerun) if each.kind == "cell" and fresh and each.id in fresh),
    ]
    words_of_user = [
        made
        for cell in cells
        for made in texts_source("prompt", f"the text of {name_of(cell)}", cell.source, cell)
        if cell.cell_type == "markdown"
    ]
    lines: dict[int, Lines] = {}
    fresh_lines = {each.id: lines_of(each.text) for each in current[len(saved) :]}
    decided: list[tuple[Statement, Number, Finding | None]] = []
    for statement in statements(cells):
        traced_in = _for_statement(statement, saved, words_of_user)
        numbers = trace(statement.text, traced_in)
        old = {found.start: found for found in stale_numbers(statement.record, statement.text, rerun, folder)}
        elsewhere: Mapping[int, Number] = {}
        if fresh:
            elsewhere = {
                number.start: number
                for number in trace(statement.text, _for_statement(statement, current[len(saved) :], ()))
            }
        for number in _by_earlier_verdict(statement, numbers):
            found = None
            if number.start in old:
                stale = old[number.start]
                found = _finding(statement, number, "stale", stale.because, stale.then, stale.now, stale.cell)
            elif number.verdict == "not_found":
                again = elsewhere.get(number.start)
                if again is None or again.verdict == "not_found":
                    found = _finding(statement, number, "not_found", _hint(number, statement, traced_in))
            elif fresh and number.verdict != "weak":
                found = _changed(statement, number, saved, fresh, fresh_lines, lines, elsewhere.get(number.start))
            decided.append((statement, number, found))
    return _counted(decided)


def _by_earlier_verdict(statement: Statement, numbers: Sequence[Number]) -> Sequence[Number]:
    """Return the numbers as they were judged when the answer was finished, by more than the notebook keeps.

    A number of an answer of which the notebook keeps too little to judge is *weak* at the least.
    """
    if statement.kind == "markdown":
        return numbers
    verdicts = statement.verdicts or {}
    judged = []
    for number in numbers:
        verdict = verdicts.get(number.text, "weak" if not statement.whole else number.verdict)
        if number.verdict == "not_found" and verdict in ("seen", "derived", "weak"):
            number = replace(number, verdict="weak")
        judged.append(number)
    return judged


def _counted(decided: Sequence[tuple[Statement, Number, Finding | None]]) -> NotebookNumbers:
    traced = sum(number.verdict in ("seen", "derived") for _, number, _ in decided)
    missing = sum(found is not None and found.kind == "not_found" for _, _, found in decided)
    listed = tuple(
        found
        for _, number, found in decided
        if found is not None and (found.kind == "stale" or (number.digits >= MARKED_DIGITS and traced >= missing))
    )
    return NotebookNumbers(
        numbers=len(decided),
        traced=traced - sum(found.kind == "stale" for found in listed),
        weak=sum(number.verdict == "weak" for _, number, _ in decided),
        unsure=missing - sum(found.kind == "not_found" for found in listed),
        findings=listed,
    )


def _finding(
    statement: Statement,
    number: Number,
    kind: _Kind,
    because: str,
    then: float | None = None,
    now: float | None = None,
    source_cell: str = "",
) -> Finding:
    cell = statement.cell
    if cell.cell_type == "code":
        name = name_of(cell)
    else:  # with its first words that a reader sees
        lines = (_MARKUP.sub("", line).strip() for line in cell.source[:2_000].split("\n"))
        first = visible_line(next((line for line in lines if line), ""), 60)
        name = f"cell {cell.position + 1} ({first})" if first else f"cell {cell.position + 1}"
    return Finding(
        kind=kind,
        cell=cell.id,
        name=name,
        where=statement.kind,
        line=statement.text.count("\n", 0, number.start) + 1,
        text=number.text,
        because=because,
        then=then,
        now=now,
        source_cell=source_cell,
    )


def _changed(
    statement: Statement,
    number: Number,
    saved: Sequence[Source],
    fresh: Mapping[str, Sequence[Output]],
    fresh_lines: Mapping[str, Lines],
    cached: dict[int, Lines],
    again: Number | None,
) -> Finding | None:
    """Return that the cell that gave the number gave another one in the fresh run; None if it did not, or is unknown."""
    place = number.source
    if place is None or place.kind != "cell" or place.id not in fresh:
        return None
    origin = next(each for each in saved if each.kind == "cell" and each.id == place.id)
    lines = cached.setdefault(id(origin), lines_of(origin.text))
    index = max(place.line - 1, 0)  # a text of one line has none
    rank = rank_in_line(number, lines.texts[index]) if index < len(lines.texts) else None
    if rank is None:
        return None
    was = find_place(lines, index, rank)
    after = fresh_lines.get(place.id)
    now = value_at(was, after) if after is not None else None
    found_again = again is not None and again.verdict in ("seen", "derived")
    if now is None and found_again:
        return None
    if now is not None:
        same = (
            was.value == now
            if number.verdict == "derived"
            else still_says(number.value, number.resolution, was.value, now)
        )
        if same or (number.verdict == "derived" and found_again):
            return None
    because = changed_words(place.name, was.value, now, derived=number.verdict == "derived")
    return _finding(statement, number, "stale", because, was.value, now, place.id)


def _hint(number: Number, statement: Statement, sources: Sequence[Source]) -> str:
    """Return what the outputs have in its place: a value that its sentence's words name, and that differs by little."""
    begin = max(statement.text.rfind(mark, 0, number.start) for mark in ("\n", ". "))
    near = words(statement.text[begin + 1 : number.end + 120].partition("\n")[0])
    digits = re.sub(r"\D", "", number.text)
    best: tuple[int, float] | None = None
    hint = ""
    for each in sources:
        if each.kind == "code":
            continue
        for index in each.within(number.value * 0.8, number.value * 1.25)[:20]:
            value = each.values[index]
            shared = len(near & words_of_place(each, each.starts[index]))
            slip = sorted(digits) == sorted(re.sub(r"\D", "", short(value)))
            # so near, a value of the same words is likely to be meant
            close = abs(value - number.value) <= 0.02 * number.value
            if shared >= 2 or (shared and (slip or close)):
                rank = (shared + 2 * slip + 2 * close, -abs(value - number.value))
                if best is None or rank >= best:
                    best, hint = rank, f"no output has it; {each.name} has {short(value)}"
    return hint or "no output of the notebook has it"
