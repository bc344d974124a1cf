"""Where the hunks of a patch fit in a text, and the text with them applied.

A hunk is looked for where its header says, then everywhere after the hunk before it: exactly as it stands, then without
regard to line ends, to white space at the ends of lines, and to indentation that is off by the same amount on every line.
The first way that gives one place wins; several places are refused, never guessed among.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cellwright.permissions.patch_text import Hunk
from cellwright.tools.files.formats.text import main_line_end

EXACTLY, LINE_ENDS, TRAILING_SPACE, INDENTATION = range(4)
"""What is overlooked, in this order."""

_KEYS: tuple[Callable[[str], str], ...] = (
    lambda line: line,
    lambda line: line[:-2] + "\n" if line.endswith("\r\n") else line,
    str.rstrip,
    str.strip,
)
MISFITS_NAMED = 10
"""After so many hunks of a file that do not fit, the others are not looked for: each search goes through the file."""

_WORDS = ("", "", "white space at line ends differs", "indentation differs")


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a hunk could not be applied. `wanted` is the text it looked for."""

    number: int
    hunk: Hunk
    why: str
    wanted: str


@dataclass(slots=True)
class Applied:
    """A text with the hunks that fit; `notes` say what was overlooked, `misfits` what did not fit."""

    text: str
    notes: list[str] = field(default_factory=list)
    misfits: list[Misfit] = field(default_factory=list)


def apply_hunks(text: str, hunks: Sequence[Hunk], *, exact: bool) -> Applied:
    """`text` with `hunks` applied, one after the other.

    `exact`: nothing is overlooked but line ends, and each hunk must name a line that is there; its place may still differ.
    """
    lines = split_lines(text)
    result = Applied(text)
    done = moved = 0
    for number, hunk in enumerate(hunks, 1):
        expected = max(hunk.old_start - 1 if hunk.old else hunk.old_start, 0) + moved
        fit = _fit(lines, hunk, expected, done, LINE_ENDS if exact else INDENTATION) or _why_not(text, hunk)
        if isinstance(fit, str) or (exact and lines and not any(line.strip() for line in hunk.old)):
            why = fit if isinstance(fit, str) else "no line of it says what must be there. Read the file first"
            result.misfits.append(Misfit(number, hunk, why, "".join(hunk.old)))
            if len(result.misfits) == MISFITS_NAMED:
                break
            continue
        start, level = fit
        new = _new_lines(lines, hunk, start, level)
        lines[start : start + len(hunk.old)] = new
        done = start + len(new) - _trailing_context(hunk)
        result.notes += _notes(number, hunk, level, start - expected, start)
        moved += start - expected + len(new) - len(hunk.old)
    result.text = "".join(lines)
    return result


def split_lines(text: str) -> list[str]:
    """The lines of a text, each with its end; only LF ends a line."""
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _fit(lines: list[str], hunk: Hunk, expected: int, done: int, loosest: int) -> tuple[int, int] | str:
    """The line where the hunk fits, and what is overlooked; or why it does not fit, "" if it is nowhere."""
    old = hunk.old
    if not old:
        return _inserted(lines, hunk, expected, done)
    for level in range(loosest + 1):
        if level > LINE_ENDS and not any(line.strip() for line in old):
            break
        starts = _places(lines, old, level, expected, done, at_end=_ends_file(hunk))
        if len(starts) == 1:
            return starts[0], level
        if starts:
            numbers = ", ".join(str(start + 1) for start in starts)
            return f"it fits in several places (lines {numbers}, …). Give more lines of context"
    return ""


def _why_not(text: str, hunk: Hunk) -> str:
    """Why the lines of a hunk are nowhere after the hunk before it, judged by the text as it was."""
    lines = split_lines(text)
    if any(line.strip() for line in hunk.new) and _places(lines, hunk.new, EXACTLY, hunk.new_start - 1, 0):
        return "what it adds is there already; it may have been applied before"
    if _places(lines, hunk.old, EXACTLY, hunk.old_start - 1, 0):
        return "its lines are before those of the hunk before it. Put the hunks in the file's order"
    return "its lines are not in the file"


def _inserted(lines: list[str], hunk: Hunk, expected: int, done: int) -> tuple[int, int] | str:
    """The place of a hunk that only adds, without a line around it: where its header says."""
    if not done <= expected <= len(lines):
        return f"the file has only {len(lines)} lines"
    joins = expected and not lines[expected - 1].endswith("\n")
    if joins or (expected < len(lines) and _ends_file(hunk)):
        return "it does not fit the newline at the end of the file"
    return expected, EXACTLY


def _ends_file(hunk: Hunk) -> bool:
    """Whether the hunk takes the newline at the end of the file away: then it fits nowhere else."""
    return bool(hunk.new) and not hunk.new[-1].endswith("\n") and (not hunk.old or hunk.old[-1].endswith("\n"))


def _places(
    lines: list[str], old: list[str], level: int, expected: int, done: int, *, at_end: bool = False
) -> list[int]:
    """Where `old` is: the expected place alone if it is there, else at most two others from line `done` on."""
    key = _KEYS[level]
    wanted = [key(line) for line in old]
    found: list[int] = []

    def fits(start: int) -> bool:
        here = lines[start : start + len(wanted)]
        if at_end and start + len(wanted) != len(lines):
            return False
        if [key(line) for line in here] != wanted:
            return False
        return level != INDENTATION or _shift(here, old) is not None

    if done <= expected and fits(expected):
        return [expected]
    where: dict[str, list[int]] = defaultdict(list)
    rare = set(wanted)
    for number, line in enumerate(lines):
        if (line_key := key(line)) in rare:
            where[line_key].append(number)
    # the line that is there least often leaves the fewest places to look at
    anchor = min(range(len(wanted)), key=lambda number: len(where[wanted[number]]))
    for number in where[wanted[anchor]]:
        if number - anchor >= done and fits(number - anchor):
            found.append(number - anchor)
            if len(found) == 2:
                break
    return found


def _shift(here: Sequence[str], old: Sequence[str]) -> tuple[str, str] | None:
    """What must be taken from and put before each line's indentation to get from `old` to `here`; None if they differ."""
    shifts = set()
    for there, line in zip(here, old, strict=True):
        if line.strip():
            is_, was = _indentation(there), _indentation(line)
            longer, shorter = (is_, was) if len(is_) >= len(was) else (was, is_)
            if not longer.startswith(shorter):
                return None
            extra = longer[len(shorter) :]
            shifts.add(("", extra) if longer is is_ else (extra, ""))
    return shifts.pop() if len(shifts) == 1 else None


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _new_lines(lines: list[str], hunk: Hunk, start: int, level: int) -> list[str]:
    """What stands in the hunk's place then: the file's own lines where it keeps them."""
    if level == EXACTLY:
        return hunk.new
    here = lines[start : start + len(hunk.old)]
    take, put = (_shift(here, hunk.old) or ("", "")) if level == INDENTATION else ("", "")
    keeps_cr = any(line.endswith("\r\n") for _, line in hunk.lines)
    new: list[str] = []
    at = 0
    for mark, line in hunk.lines:
        if mark != "+":
            if mark == " ":
                new.append(here[at])
            at += 1
            continue
        if line.strip():
            line = put + line.removeprefix(take)
        if not keeps_cr and line.endswith("\n") and _crlf_near(lines, start + at):
            line = line[:-1] + "\r\n"
        new.append(line)
    return _ended_as_before(new, hunk, here, "".join(lines))


def _crlf_near(lines: list[str], at: int) -> bool:
    """Whether the line before `at` ends in CRLF; at the start of the text, the one that is there."""
    near = lines[at - 1] if at else lines[0] if lines else ""
    return near.endswith("\r\n")


def _ended_as_before(new: list[str], hunk: Hunk, here: list[str], text: str) -> list[str]:
    """`new` with the line end that the file has at its end, where the hunk says nothing of it."""
    if not new or not here:
        return new
    end = main_line_end(text)
    whole = [line if line.endswith("\n") else line + end for line in new[:-1]] + new[-1:]
    hunk_keeps_it = hunk.old[-1].endswith("\n") == hunk.new[-1].endswith("\n")
    if hunk_keeps_it and not here[-1].endswith("\n"):
        whole[-1] = whole[-1].removesuffix("\n").removesuffix("\r")
    elif hunk_keeps_it and not whole[-1].endswith("\n"):
        whole[-1] += end
    return whole


def _trailing_context(hunk: Hunk) -> int:
    count = 0
    for mark, _ in reversed(hunk.lines):
        if mark != " ":
            break
        count += 1
    return count


def _notes(number: int, hunk: Hunk, level: int, offset: int, start: int) -> list[str]:
    found = []
    if offset:
        found.append(f"at line {start + 1}, {abs(offset)} {'after' if offset > 0 else 'before'} its place")
    if level >= TRAILING_SPACE:
        found.append(f"fuzzy: {_WORDS[level]}")
    if hunk.recounted:
        found.append("the counts in its header were wrong")
    return [f"hunk {number}: {'; '.join(found)}"] if found else []
