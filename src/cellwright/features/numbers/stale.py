"""The record that a saved answer keeps of its numbers: it shows which are stale when a cell or file has changed.

    {"v": 1, "text": HASH, "size": 310, "n": [{"at": 120, "text": "2.4", "cell": ID, "place": {"line": HASH, …}, …}]}

No text of what was seen is kept: the lines are hashes, and a value is one that the answer states or computes with. A place
is found again after its text has changed: a cell that ran again, a file that was written.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cellwright.events import Number
from cellwright.features.numbers.sources import FILE_BYTES, Source, name_of, output_text, statements
from cellwright.markdown.prose import prose_of
from cellwright.text import lazy_pattern
from cellwright.tools.notebook.open_notebook import Cell

_TOKEN = lazy_pattern(
    r"\d{1,3}(?:,\d{3}){1,8}(?:\.\d{1,20})?(?![\d,])|(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,3})?"
)
_RULE = lazy_pattern(r"([-=─━+|])\1+")
_LINE_NUMBER = lazy_pattern(r"^\s*\d+[→\t]")
"""Stands before the lines of a file that was read with line numbers."""
LINE_CHARS = 4_000
_FACTORS = (1.0, 0.01, 100.0, 1e-3, 1e3, 1e-6, 1e6, 1e-9, 1e9)
"""Of a stated number over the seen one: percentages, thousands, millions."""

VERSION = 1
QUOTED_CHARS = 20_000
"""Of an answer that is to be written anew; the conversation may not hold it any more."""


class Place(Struct, frozen=True, kw_only=True):
    """The place of a seen number, without its text: `value` stood as number `rank` of its line, both from 0.

    `line` is a hash of the line without its numbers; the line was the one of index `nth` of `many` such lines.
    """

    line: str
    nth: int
    many: int
    rank: int
    value: float


class Lines(Struct, frozen=True):
    """The lines of a text, in order, each as the hash of what it says besides its numbers."""

    texts: Sequence[str]
    hashes: Sequence[str]


def lines_of(text: str) -> Lines:
    """Return the lines of `text`, up to 400,000 characters of it."""
    texts = [line[:LINE_CHARS] for line in text[:400_000].split("\n")]
    places = []
    for line in texts:
        bare = _TOKEN.sub("#", _LINE_NUMBER.sub("", line)).replace("-#", "#")
        bare = " ".join(_RULE.sub(r"\1", bare).split())
        places.append(hashlib.sha256(bare.encode("utf-8", "surrogatepass")).hexdigest()[:12])
    return Lines(texts, places)


def numbers_in(line: str) -> list[float]:
    """Return the numbers of a line without signs, as `rank` counts them.

    >>> numbers_in("mean  41.37  -1,204 3e-5")
    [41.37, 1204.0, 3e-05]
    """
    return [abs(number) for number in signed_numbers_in(line)]


def signed_numbers_in(line: str) -> list[float]:
    """Return the numbers of a line as `numbers_in`, with their signs; a hyphen between two numbers is none.

    >>> signed_numbers_in("b  -0.31  2024-25")
    [-0.31, 2024.0, 25.0]
    """
    start = match.end() if (match := _LINE_NUMBER.match(line)) else 0
    line = line[:LINE_CHARS]
    return [
        float(token[0].replace(",", "")) * (-1 if is_negative(line, token.start()) else 1)
        for token in _TOKEN.finditer(line, start)
    ]


def is_negative(line: str, at: int) -> bool:
    """Return whether a minus sign stands before the number at `at`; a hyphen between two words or numbers is none."""
    before = line[max(0, at - 2) : at]
    return before[-1:] in ("-", "−") and not (len(before) == 2 and (before[0].isalnum() or before[0] in "_.)]"))


def find_place(lines: Lines, index: int, rank: int) -> Place:
    """Return the place of number `rank` of line `index`."""
    same = [at for at, found in enumerate(lines.hashes) if found == lines.hashes[index]]
    value = numbers_in(lines.texts[index])[rank]
    return Place(line=lines.hashes[index], nth=same.index(index), many=len(same), rank=rank, value=value)


def value_at(place: Place, lines: Lines) -> float | None:
    """Return the number that stands at the place now; None if it cannot be told, as its line is gone or not the only one.

    >>> was, now = lines_of("count 812\\nmean 2.4"), lines_of("count 790\\nmean 2.6")
    >>> value_at(find_place(was, 1, 0), now)
    2.6
    """
    same = [at for at, found in enumerate(lines.hashes) if found == place.line]
    if len(same) != place.many and len(same) != 1:
        return None
    if len(same) == 1 and place.many > 1:
        return None
    found = numbers_in(lines.texts[same[place.nth if len(same) == place.many else 0]])
    return found[place.rank] if place.rank < len(found) else None


def nearest_rank(line: str, value: float) -> int | None:
    """Return which number of a line is the likeliest source of `value`, as it is or as a percentage or in thousands."""
    best: tuple[float, int] | None = None
    for rank, seen in enumerate(numbers_in(line)):
        if seen > 0 and value > 0:
            apart = min(abs(math.log(seen * factor / value)) for factor in _FACTORS)
            best = min(best or (apart, rank), (apart, rank))
        elif seen == value:
            return rank
    return best[1] if best else None


def still_says(stated: float, resolution: float, then: float, now: float) -> bool:
    """Return whether a number stated of the seen value `then` is right of `now` as well, rounded as it is.

    `resolution` is one step of the stated number's last digit.

    >>> still_says(14.8, 0.1, 0.1481, 0.1483), still_says(14.8, 0.1, 0.1481, 0.1525)
    (True, False)
    """
    if then == now:
        return True
    if then <= 0 or stated <= 0:
        return abs(now - stated) <= resolution
    factor = min(_FACTORS, key=lambda factor: abs(math.log(then * factor / stated)))
    if abs(then * factor - stated) > resolution and abs(math.log(then * factor / stated)) > 0.02:
        factor = stated / then  # by another unit, as seconds are minutes
    # rounded, cut off, or as far from it as the first value was: "about 40,000" of 40,112 holds for 40,090
    off = then * factor - stated
    low, high = max(resolution / 2, -off), max(resolution * (1 - 1e-9), off)
    return stated - low - 1e-9 * stated <= now * factor <= stated + high + 1e-9 * stated


def short(value: float) -> str:
    """Return a seen value in words: at most six significant digits, whole numbers with commas.

    >>> short(2.4000000001), short(68846.0), short(0.0043)
    ('2.4', '68,846', '0.0043')
    """
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return (
        re.sub(r"\.?0+$", "", f"{value:.6g}") if "e" not in f"{value:.6g}" and "." in f"{value:.6g}" else f"{value:.6g}"
    )


def rank_in_line(number: Number, line: str) -> int | None:
    """Return which number of the line is the source of `number`, or the first term of its formula; None if unknown."""
    if number.verdict == "derived":
        shown = {f"{value:,.10g}": rank for rank, value in reversed(list(enumerate(numbers_in(line))))}
        terms = re.findall(r"[\d,.]+(?:e[+-]?\d+)?", number.formula)
        return next((shown[term] for term in terms if term in shown), None)
    return nearest_rank(line, number.value)


def changed_words(name: str, then: float, now: float | None, *, derived: bool = False) -> str:
    """Return what became of a number's source.

    >>> changed_words("cell [3]", 2.4, 2.6), changed_words("cell [3]", 2.4, None)
    ('cell [3] gave 2.4 then, 2.6 now', 'cell [3] gave 2.4 then, and has no such line now')
    """
    what = f"it was computed from {short(then)} of {name}" if derived else f"{name} gave {short(then)} then"
    if now is None:
        return f"{what}, {'which' if derived else 'and'} has no such line now"
    return f"{what}, {'which is ' if derived else ''}{short(now)} now"


class StaleNumber(Struct, frozen=True, kw_only=True):
    """A number of an answer, from `start` to `end` in its characters, whose source has another value now.

    `cell` is the source's id or `path` the file; `now` is None if its line is gone or the cell was edited and not run.
    """

    text: str
    start: int
    end: int
    because: str
    then: float
    now: float | None = None
    cell: str = ""
    path: str = ""


class _Kept(Struct, frozen=True, kw_only=True, omit_defaults=True):
    at: int
    text: str
    value: float
    resolution: float
    place: Place
    derived: bool = False
    cell: str = ""
    path: str = ""
    run: int | None = None
    source: str = ""


class _Record(Struct, frozen=True, kw_only=True):
    """`size` is the number of characters of the text that numbers were looked up in: the last one of the saved answer."""

    v: int
    text: str
    size: int
    n: tuple[_Kept, ...]


def answer_record(
    answer: str,
    numbers: Sequence[Number],
    sources: Sequence[Source],
    cells: Sequence[Cell],
    folder: Path | None = None,
) -> dict[str, Any] | None:
    """Return what is kept with `answer`, for its output's metadata; None if none of its numbers came from a cell or file.

    `numbers` are those that `trace(answer, sources)` gave. A number is linked with the cell (or the file below `folder`)
    whose outputs hold the line it was seen in.
    """
    places = _Places(cells, folder)
    by_name = {(str(each.kind), each.name): each for each in sources}
    kept: list[_Kept] = []
    shown = answer.strip("\n")  # as a notebook has it
    lead = len(answer) - len(answer.lstrip("\n"))
    for number in numbers:
        seen = number.source
        if len(kept) >= 60 or seen is None or number.verdict not in ("seen", "derived"):  # some 16 KB at most
            continue
        origin = by_name.get((seen.kind, seen.name))
        if origin is None or seen.kind in ("code", "prompt"):
            continue
        line = origin.text.split("\n")[max(seen.line - 1, 0)]
        rank = rank_in_line(number, line)
        if rank is not None and (found := places.find(line, rank, seen.id, seen.path)) is not None:
            kept.append(_kept(number, lead, *found))
    if not kept:
        return None
    made = _Record(v=VERSION, text=_hash(shown), size=len(shown), n=tuple(kept))
    record: dict[str, Any] = msgspec.to_builtins(made)
    return record


def _kept(number: Number, lead: int, cell: Cell | None, path: str, place: Place) -> _Kept:
    return _Kept(
        at=number.start - lead,
        text=number.text,
        value=number.value,
        resolution=number.resolution,
        place=place,
        derived=number.verdict == "derived",
        cell="" if cell is None else cell.id,
        path=path,
        run=None if cell is None else cell.execution_count,
        source="" if cell is None else cell.sha256[:12],
    )


class _Places:
    """The lines of cells' outputs and of files, read once each."""

    def __init__(self, cells: Sequence[Cell], folder: Path | None) -> None:
        self._folder = folder
        self._cells = [(cell, lines_of(output_text(cell.outputs))) for cell in cells if cell.outputs]
        self._files: dict[str, Lines | None] = {}

    def find(self, line: str, rank: int, cell_id: str, path: str) -> tuple[Cell | None, str, Place] | None:
        """Return the cell, else the file, that holds the line with the same numbers."""
        looked_for = lines_of(line)
        own = [pair for pair in self._cells if pair[0].id == cell_id]
        for cell, lines in own or reversed(self._cells):
            if (index := _index(lines, looked_for, line)) is not None:
                return cell, "", find_place(lines, index, rank)
            # the line that was seen is one of the cell's code, or was cut: its output says the same elsewhere
            if own and (place := _only_place(lines, numbers_in(line)[rank])) is not None:
                return cell, "", place
        in_file = None
        if path and not path.endswith(".ipynb"):
            if path not in self._files:
                self._files[path] = read_lines(self._folder, path)
            in_file = self._files[path]
        index = None if in_file is None else _index(in_file, looked_for, line)
        if in_file is None or index is None or self._folder is None:
            return None
        return None, _below(self._folder, path), find_place(in_file, index, rank)


def _index(lines: Lines, looked_for: Lines, line: str) -> int | None:
    values = numbers_in(line)
    for index, found in enumerate(lines.hashes):
        if found == looked_for.hashes[0] and numbers_in(lines.texts[index]) == values:
            return index
    return None


def _only_place(lines: Lines, value: float) -> Place | None:
    """Return the place of the one number of `lines` that has this value; None if there is none or several."""
    found = [
        (index, rank)
        for index, text in enumerate(lines.texts)
        for rank, each in enumerate(numbers_in(text))
        if each == value
    ]
    return find_place(lines, *found[0]) if len(found) == 1 else None


def _below(folder: Path, path: str) -> str:
    return (folder.resolve() / path).resolve().relative_to(folder.resolve()).as_posix()


def read_lines(folder: Path | None, path: str) -> Lines | None:
    """Return the lines of a small text file below `folder`; None if it is elsewhere, large, gone or unreadable."""
    if folder is None:
        return None
    root = folder.resolve()
    file = (root / path).resolve()
    try:
        if not file.is_relative_to(root) or not file.is_file() or file.stat().st_size > FILE_BYTES:
            return None
        return lines_of(file.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def stale_numbers(
    record: Mapping[str, Any] | None,
    answer: str,
    cells: Sequence[Cell],
    folder: Path | None = None,
    *,
    edited: bool = True,
) -> tuple[StaleNumber, ...]:
    """Return the numbers of `answer` whose cell or file has another value now, in order, by what was kept with it.

    With `edited` also those whose cell has another source and did not run since.
    Nothing if the answer is not the one that the record was made of: it was edited, or the record is not ours.
    """
    kept = _read(record, answer)
    by_id = {cell.id: cell for cell in cells}
    by_source = {cell.sha256[:12]: cell for cell in cells if cell.cell_type == "code"} if kept else {}
    texts: dict[str, Lines] = {}
    files: dict[str, Lines | None] = {}
    found: list[StaleNumber] = []
    for number in kept:
        if number.path:
            if number.path not in files:
                files[number.path] = read_lines(folder, number.path)
            stale = _of_file(number, files[number.path]) if folder is not None else None
        else:
            # a cell that was cut and pasted has another id, as all have in a file that keeps none
            stale = _of_cell(number, by_id.get(number.cell) or by_source.get(number.source), texts, edited)
        if stale is not None:
            found.append(stale)
    return tuple(found)


def changed_since(
    numbers: Sequence[Number], sources: Sequence[Source], cells: Sequence[Cell], folder: Path
) -> tuple[StaleNumber, ...]:
    """Return the numbers, as `trace` gave them of `sources`, whose cell or file has another value now.

    For an answer of which no notebook keeps a record. What cannot be told is left out: a line that is gone or was cut.
    """
    by_name = {(str(each.kind), each.name): each for each in sources}
    by_id = {cell.id: cell for cell in cells}
    found: list[StaleNumber] = []
    for number in numbers:
        seen = number.source
        if seen is None or seen.kind not in ("cell", "file") or number.verdict not in ("seen", "derived"):
            continue
        then = lines_of(by_name[seen.kind, seen.name].text)
        index = max(seen.line - 1, 0)
        rank = rank_in_line(number, then.texts[index]) if index < len(then.texts) else None
        cell = by_id.get(seen.id) if seen.kind == "cell" else None
        after = read_lines(folder, seen.path) if cell is None and seen.kind == "file" else None
        lines = lines_of(output_text(cell.outputs)) if cell is not None else after
        if rank is None or lines is None:
            continue
        path = "" if cell is not None else _below(folder, seen.path)
        kept = _kept(number, 0, cell, path, find_place(then, index, rank))
        now = value_at(kept.place, lines)
        if now is not None and not _holds(kept, now):
            found.append(_stale(kept, now, _words(kept, path if cell is None else name_of(cell), now)))
    return tuple(found)


def stale_answers(cells: Sequence[Cell], folder: Path | None = None) -> dict[str, dict[str, Any]]:
    """Return what a page marks in the saved answers of a notebook as it is now, by the answer's cell id.

    Each is `{"answer": NAME, "numbers": [{"text", "from_end", "words", "cell", "path"}, …], "refresh": PROMPT}`: the answer
    is the one that `NumbersTraced` names so, and `from_end` counts equal texts behind the number in its prose. Answers
    without a stale number are left out. A cell that is being edited has no other value until it runs.
    """
    found: dict[str, dict[str, Any]] = {}
    for statement in statements(cells):
        if statement.record is None:
            continue
        if stale := stale_numbers(statement.record, statement.text, cells, folder, edited=False):
            marked = marked_stale(statement.name, statement.text, stale)
            found[statement.cell.id] = {**marked, "refresh": refresh_prompt(stale, statement.text)}
    return found


def marked_stale(name: str, answer: str, stale: Sequence[StaleNumber]) -> dict[str, Any]:
    """Return what a page needs to mark the numbers of the answer `name`, in the order of its text."""
    prose = prose_of(answer)
    numbers = [
        {
            "text": number.text,
            "from_end": prose.count(number.text, number.end),
            "words": number.because,
            "cell": number.cell,
            "path": number.path,
        }
        for number in stale
    ]
    return {"answer": name, "numbers": numbers}


def _read(record: Mapping[str, Any] | None, answer: str) -> tuple[_Kept, ...]:
    try:
        read = msgspec.convert(record, _Record)
    except msgspec.ValidationError:
        return ()  # no record, or not ours
    before = len(answer) - read.size
    if read.v != VERSION or not 0 <= before < len(answer) or read.text != _hash(answer[before:]):
        return ()
    kept = (replace(number, at=number.at + before) for number in read.n if number.at >= 0)
    return tuple(number for number in kept if answer.startswith(number.text, number.at))


def _of_file(number: _Kept, lines: Lines | None) -> StaleNumber | None:
    now = None if lines is None else value_at(number.place, lines)
    if now is not None and _holds(number, now):
        return None
    if lines is None:
        return _stale(number, None, f"{number.path} is gone")
    return _stale(number, now, _words(number, number.path, now))


def _of_cell(number: _Kept, cell: Cell | None, texts: dict[str, Lines], edited: bool) -> StaleNumber | None:
    if cell is None:
        return _stale(number, None, "the cell that gave it is gone")
    name = name_of(cell)
    if cell.id not in texts:
        texts[cell.id] = lines_of(output_text(cell.outputs))
    now = value_at(number.place, texts[cell.id])
    if now is not None and _holds(number, now):
        if edited and cell.sha256[:12] != number.source and cell.execution_count == number.run:
            return _stale(number, None, f"{name} was edited since, and has not run again")
        return None
    return _stale(number, now, _words(number, name, now))


def _holds(number: _Kept, now: float) -> bool:
    if number.derived:
        return now == number.place.value
    return still_says(number.value, number.resolution, number.place.value, now)


def _words(number: _Kept, name: str, now: float | None) -> str:
    return changed_words(name, number.place.value, now, derived=number.derived)


def _stale(number: _Kept, now: float | None, because: str) -> StaleNumber:
    return StaleNumber(
        text=number.text,
        start=number.at,
        end=number.at + len(number.text),
        because=because,
        then=number.place.value,
        now=now,
        cell=number.cell,
        path=number.path,
    )


def refresh_prompt(stale: Sequence[StaleNumber], answer: str) -> str:
    """Return the prompt by which Claude writes `answer` anew, whose numbers are stale.

    >>> stale = [StaleNumber(text="2.4", start=12, end=15, because="cell [3] gave 2.4 then, 2.6 now", then=2.4)]
    >>> print(refresh_prompt(stale, "The mean is 2.4."))
    Numbers in your answer below are out of date:
    - "2.4": cell [3] gave 2.4 then, 2.6 now
    Read these cells or files again, and write the whole answer anew with the current values. Keep its structure and change \
only what follows from them; if a conclusion no longer holds, say so first. Run nothing that changes data or files.
    <BLANKLINE>
    <answer>
    The mean is 2.4.
    </answer>
    """
    listed = "\n".join(f'- "{number.text}": {number.because}' for number in stale)
    quoted = answer if len(answer) <= QUOTED_CHARS else f"{answer[:QUOTED_CHARS]}\n[…]"
    return (
        f"Numbers in your answer below are out of date:\n{listed}\n"
        "Read these cells or files again, and write the whole answer anew with the current values. Keep its structure and "
        "change only what follows from them; if a conclusion no longer holds, say so first. Run nothing that changes data "
        f"or files.\n\n<answer>\n{quoted}\n</answer>"
    )
