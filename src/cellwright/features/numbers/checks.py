"""Check these: the instructions by which Claude computes the numbers that were not found, and the values it computed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cellwright.events import CheckedNumber, CheckedNumbers, Number
from cellwright.features.numbers.match import interval
from cellwright.features.numbers.sources import Source, place
from cellwright.features.numbers.written import WrittenNumber, written_numbers
from cellwright.text import counted, lazy_pattern

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
