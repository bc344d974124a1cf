"""The record that a saved answer keeps of its numbers: it shows which are stale when a cell or file has changed.

    {"v": 1, "text": HASH, "size": 310, "n": [{"at": 120, "text": "2.4", "cell": ID, "place": {"line": HASH, …}, …}]}

No text of what was seen is kept: the lines are hashes, and a value is one that the answer states or computes with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cellwright.events import Number
from cellwright.features.numbers.notebook_texts import FILE_BYTES, name_of, output_text, statements
from cellwright.features.numbers.places import (
    Lines,
    Place,
    changed_words,
    find_place,
    lines_of,
    numbers_in,
    rank_in_line,
    still_says,
    value_at,
)
from cellwright.features.numbers.sources import Source
from cellwright.markdown.prose import prose_of
from cellwright.tools.notebook.open_notebook import Cell

VERSION = 1
MOST_KEPT = 60
"""Numbers of an answer whose places are kept: at most some 16 KB."""
QUOTED_CHARS = 20_000
"""Of an answer that is to be written anew; the conversation may not hold it any more."""


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
        if len(kept) >= MOST_KEPT or seen is None or number.verdict not in ("seen", "derived"):
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
        in_file = self._file(path) if path and not path.endswith(".ipynb") else None
        index = None if in_file is None else _index(in_file, looked_for, line)
        if in_file is None or index is None or self._folder is None:
            return None
        return None, _below(self._folder, path), find_place(in_file, index, rank)

    def _file(self, path: str) -> Lines | None:
        if path not in self._files:
            self._files[path] = read_lines(self._folder, path)
        return self._files[path]


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
