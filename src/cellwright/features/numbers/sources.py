"""The texts that numbers are looked up in, their numbers indexed: what a conversation has seen, and those of a notebook.

A notebook has texts that state something (Markdown cells, saved answers of Claude's) and texts that its cells gave.
"""

from __future__ import annotations

import html
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from cellwright.events import NumberSource
from cellwright.sessions.provenance import FIELD, NUMBERS
from cellwright.text import lazy_pattern
from cellwright.tools.notebook.notebook_source import joined
from cellwright.tools.notebook.open_notebook import Cell, Output, cell_name

SourceKind = Literal["output", "file", "cell", "code", "prompt", "context"]

MOST_NUMBERS = 20_000
"""Of one source: what lies beyond is bulk, and a short number in it means nothing."""
LINE_CHARS = 4_000
SHOWN_CHARS = 120

_NUMBER = lazy_pattern(
    r"(?P<grouped>(?<![\d.,])\d{1,3}(?:,\d{3}){1,8}(?:\.\d{1,20})?(?!\d|,\d))"
    r"|(?P<comma>(?<![\d.,])\d{1,12},(?:\d{1,2}|\d{4,20})(?!\d|,\d))"
    r"|(?P<plain>(?:\d{1,40}(?:\.\d{0,40})?|(?<!\d)\.\d{1,40})(?:[eE][+-]?\d{1,3})?)(?P<percent>\s?%)?"
)
_PARTS = lazy_pattern(r"\d{1,20}(?:\.\d{1,20})?")
_NO_DATA_LINE = lazy_pattern(
    r"it/s[\],]|s/it[\],]|[█▏▎▍▌▋▊▉]|\d%\|| ━{4}|<Figure size|^Traceback |^  File \"|^\s*\^+\s*$|Warning: |^-{5,}> ?\d"
)
_NO_DATA = lazy_pattern(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
    r"|(?<!\d)\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?!\d)|(?<!\d)\d{1,2}/\d{1,2}/\d{2,4}(?!\d)"
    r"|\b0x[0-9a-fA-F]{1,40}\b|\b(?=[0-9a-f]{0,6}[a-f])(?=[a-f]{0,6}\d)[0-9a-f]{8,64}\b|[a-z]{2,6}://[^\s]{1,2000}"
)
_WORD = lazy_pattern(r"[^\W\d_]{3,40}")
_STOP_WORDS = frozenset(
    word
    for line in (
        "the and for with that this from are was were has have had not but its all any can each per out one two than then",
        "they there here been being over under about into more most less very only also when where which while will would",
        "our your you him her his she who how what why nan none true false dtype int float object name length rows columns",
        "count value values total number data",
    )
    for word in line.split()
)

TRANSCRIPT = "application/vnd.cellwright.transcript+json"
"""The MIME type of a saved answer's transcript."""
IGNORED_TAG = "numbers-ok"
"""The tag of a cell whose numbers are known from elsewhere: they are not checked."""
LEFT_OUT = "characters more are in the session's transcript"
"""Stands in a saved result of which the notebook keeps a part."""
FILE_BYTES = 400_000

_TERMINAL_CODES = lazy_pattern(r"\x1b(?:\[[0-9;?]{0,40}[ -/]{0,8}[@-~])")
_TAG = lazy_pattern(r"<(?:style|script)\b.{0,20000}?</(?:style|script)>|<[^<>]{0,2000}>", re.DOTALL)
_ROW_END = lazy_pattern(r"</tr>|<br\s?/?>|</p>|</div>|</h\d>", re.IGNORECASE)
_FENCE = lazy_pattern(r"^(`{3,20})([^`\n]{0,40})\n(.{0,200000}?)^\1\s{0,8}$", re.DOTALL | re.MULTILINE)
_NAMED_FILE = lazy_pattern(r"[\"']([^\"'\n]{1,200}\.(?:csv|tsv|txt|json|jsonl|md|dat))[\"']")
_CODE_FIELDS = ("code", "command", "content", "new_string", "new_source", "source", "patch")


class Source(Struct, frozen=True):
    """A text that Claude has seen, or wrote as code: the result of a call, a cell's output, a file, the user's words.

    `name` says what it is to a reader ("Python, call 3"), `id` the call or the cell it can be gone to by, if any; `turn` is
    the number of the prompt it belongs to. `values` are its numbers without sign, ascending; `starts` their places in
    `text`; `percents`, parallel to them, is 1 if a percent sign stands behind.
    """

    kind: SourceKind
    name: str
    text: str
    turn: int
    values: array[float]
    starts: array[int]
    percents: bytes
    id: str = ""
    path: str = ""
    skipped: int = 0
    """Numbers beyond MOST_NUMBERS, which are not looked up."""

    def within(self, low: float, high: float) -> range:
        """Return the positions in `values` of numbers from `low` to `high`, both included."""
        return range(bisect_left(self.values, low), bisect_right(self.values, high))

    def line(self, start: int) -> tuple[int, str]:
        """Return the number of the line that holds the character `start`, from 1, and its text."""
        begin = self.text.rfind("\n", 0, start) + 1
        end = self.text.find("\n", start)
        return self.text.count("\n", 0, begin) + 1, self.text[begin : len(self.text) if end < 0 else end]


def place(source: Source, start: int) -> NumberSource:
    """Return the place of the number at `start` of the source, for its reader."""
    line, text = source.line(start)
    at = start - source.text.rfind("\n", 0, start) - 1
    first = max(0, at - SHOWN_CHARS // 2) if at > SHOWN_CHARS - 20 else 0  # the number itself must be in it
    words = " ".join(text[first : first + LINE_CHARS].split())[:SHOWN_CHARS]
    has_lines = "\n" in source.text.strip()
    return NumberSource(source.kind, source.name, line if has_lines else 0, words, source.id, source.path)


def source(kind: SourceKind, name: str, text: str, *, turn: int = 0, id: str = "", path: str = "") -> Source:
    """Return the source with its numbers indexed.

    >>> source("output", "Python, call 1", "mean 41.37 max 79.0").values.tolist()
    [41.37, 79.0]
    """
    text = text[:400_000]
    entries: list[tuple[float, int, bool]] = []
    skipped = 0
    for value, start, percent in _numbers(text):
        if len(entries) < MOST_NUMBERS:
            entries.append((value, start, percent))
        else:
            skipped += 1
    entries.sort()
    return Source(
        kind=kind,
        name=name,
        text=text,
        turn=turn,
        values=array("d", [value for value, _, _ in entries]),
        starts=array("I", [start for _, start, _ in entries]),
        percents=bytes([percent for _, _, percent in entries]),
        id=id,
        path=path,
        skipped=skipped,
    )


def _numbers(text: str) -> Iterator[tuple[float, int, bool]]:
    at = 0
    for line in text.split("\n"):
        start, at = at, at + len(line) + 1
        line = line[:LINE_CHARS]
        if not any(map(str.isdigit, line)) or _NO_DATA_LINE.search(line):
            continue
        line = _NO_DATA.sub(lambda match: " " * len(match[0]), line)
        for match in _NUMBER.finditer(line):
            place = start + match.start()
            kind = match.lastgroup
            if grouped := match["grouped"]:
                yield float(grouped.replace(",", "")), place, line[match.end() : match.end() + 2].lstrip()[:1] == "%"
                if "." not in grouped and line.count(",") > grouped.count(","):  # perhaps a line of a CSV file
                    yield from ((float(part[0]), place + part.start(), False) for part in _PARTS.finditer(grouped))
            elif comma := match["comma"]:
                yield float(comma.replace(",", ".")), place, line[match.end() : match.end() + 2].lstrip()[:1] == "%"
                yield from ((float(part[0]), place + part.start(), False) for part in _PARTS.finditer(comma))
            elif kind is not None:
                value = float(match["plain"])
                if value < 1e300:
                    yield value, place, match["percent"] is not None


def words(text: str) -> frozenset[str]:
    """Return the words of a text that may name a number: small letters, no plural's s, no words that name everything."""
    found = {match[0].lower() for match in _WORD.finditer(text[:LINE_CHARS].replace("_", " "))}
    return frozenset(word.removesuffix("s") for word in found if word not in _STOP_WORDS)


def words_of_place(source: Source, start: int) -> frozenset[str]:
    """Return the words that name the number at `start`: of its line, and of the header of its column."""
    text = source.text
    begin = text.rfind("\n", 0, start) + 1
    end = text.find("\n", start)
    line = text[begin : len(text) if end < 0 else end][:LINE_CHARS]
    return words(line) | words(_header(text, line, begin, start))


def _header(text: str, line: str, begin: int, start: int) -> str:
    """Return the header of the column: of a piped or comma-separated table, or of a frame as it is printed."""
    column_end = start - begin
    while column_end < len(line) and not line[column_end].isspace() and line[column_end] not in "|,":
        column_end += 1
    above = _lines_above(text, begin, 60)
    for mark in ("|", "\t", ","):
        if line.count(mark) >= 2 or (mark != "," and mark in line):
            column = line[: start - begin].count(mark)
            for other in reversed(above):
                if other.count(mark) == line.count(mark) and not any(map(str.isdigit, other)) and other.strip("|-: +="):
                    return other.split(mark)[column]
    for other in reversed(above):
        letters = other[: column_end + 1].rstrip()
        ends_there = len(other) >= column_end == len(letters) and letters[-1:].isalnum()
        if ends_there and not any(map(str.isdigit, other)):
            return letters.split()[-1]
    return ""


def _lines_above(text: str, begin: int, many: int) -> Sequence[str]:
    """Return up to `many` lines above, and not beyond an empty one."""
    first = max(0, begin - many * 200)
    lines = text[first : max(0, begin - 1)].split("\n")[-many:]
    for index in range(len(lines) - 1, -1, -1):
        if not lines[index].strip():
            return lines[index + 1 :]
    return lines


class Statement(Struct, frozen=True, kw_only=True):
    """A text of a notebook that states numbers: a Markdown cell, or an answer of Claude's that a code cell shows.

    `record` is what the answer keeps of its numbers (`answer_record`), if anything. `verdicts` are those given when it was
    finished, by the number as written, and `name` is the answer's in them (`NumbersTraced.answer`). `whole`: the notebook
    holds all that its calls gave, so *not found* can be told.
    """

    cell: Cell
    kind: Literal["markdown", "answer"]
    text: str
    record: Mapping[str, Any] | None = None
    verdicts: Mapping[str, str] | None = None
    whole: bool = True
    name: str = ""


def statements(cells: Sequence[Cell]) -> Iterator[Statement]:
    """Yield the texts of a notebook that state numbers, in its order; cells tagged `numbers-ok` are left out."""
    for cell in cells:
        tags = cell.metadata.get("tags")
        if isinstance(tags, list) and IGNORED_TAG in tags:
            continue
        if cell.cell_type == "markdown":
            yield Statement(cell=cell, kind="markdown", text=cell.source)
        elif text := answer_of(cell):
            ops = [op for output in cell.outputs for op in _ops(_data(output))]
            traced = [op for op in ops if op.get("op") == "numbers"]
            yield Statement(
                cell=cell,
                kind="answer",
                text=text,
                record=_record_of(cell),
                verdicts=_verdicts(traced),
                whole=_is_whole(ops),
                name=str(traced[-1].get("answer", "")) if traced else "",
            )


def _verdicts(traced: Sequence[Mapping[str, Any]]) -> dict[str, str] | None:
    """Return the verdicts on an answer's numbers by its transcript's operations of them; None if there are none."""
    listed = [op.get("numbers") for op in traced]
    numbers = [number for each in listed if isinstance(each, list) for number in each if isinstance(number, Mapping)]
    return {str(number.get("text")): str(number.get("verdict")) for number in numbers} if listed else None


def _is_whole(ops: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a transcript holds the result of each of its calls: files read and long results are left out."""
    calls = {op.get("id") for op in ops if op.get("op") == "tool"}
    kept = {
        op.get("id")
        for op in ops
        if op.get("op") == "tool_end" and isinstance(op.get("result"), str) and LEFT_OUT not in op["result"]
    }
    return bool(ops) and calls <= kept and not any(op.get("op") == "told" for op in ops)


def answer_of(cell: Cell) -> str:
    """Return the text of Claude's answer that the cell shows; empty if it shows none."""
    texts: list[str] = []
    for output in cell.outputs:
        data = _data(output)
        if ops := _ops(data):
            texts += _texts(ops)
        elif _is_answer(output):
            # the prose of an answer that was saved as Markdown alone: without its last line, of model and cost
            markdown = joined(data.get("text/markdown"))
            *paragraphs, last = markdown.rstrip().split("\n\n")
            has_last = last.startswith("*") and last.endswith("*") and paragraphs
            texts.append("\n\n".join(paragraphs) if has_last else markdown)
    return "\n\n".join(text.strip("\n") for text in texts if text.strip())


def _data(output: Output) -> Mapping[str, Any]:
    data = output.get("data")
    return data if isinstance(data, Mapping) else {}


def _ops(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    transcript = data.get(TRANSCRIPT)
    ops = transcript.get("ops") if isinstance(transcript, Mapping) else None
    return [op for op in ops if isinstance(op, Mapping)] if isinstance(ops, list) else []


def _is_answer(output: Output) -> bool:
    metadata = output.get("metadata")
    return isinstance(metadata, Mapping) and isinstance(metadata.get(FIELD), Mapping)


def _record_of(cell: Cell) -> Mapping[str, Any] | None:
    for output in cell.outputs:
        metadata = output.get("metadata")
        ours = metadata.get(FIELD) if isinstance(metadata, Mapping) else None
        record = ours.get(NUMBERS) if isinstance(ours, Mapping) else None
        if isinstance(record, Mapping):
            return record
    return None


def _texts(ops: Sequence[Mapping[str, Any]]) -> list[str]:
    by_block: dict[Any, str] = {}
    for op in ops:
        if op.get("op") == "text" and isinstance(op.get("text"), str):
            block = str(op.get("block"))
            by_block[block] = by_block.get(block, "") + op["text"]
    return list(by_block.values())


def notebook_sources(cells: Sequence[Cell], folder: Path | None = None) -> list[Source]:
    """Return what a notebook's numbers may come from, in its order: outputs, code, results of Claude's calls, files.

    `turn` of each is its cell's position. With `folder`, small text files below it that the code names are sources, too.
    """
    found: list[Source] = []
    for cell in cells:
        if cell.cell_type != "code":
            continue
        name = name_of(cell)
        found += texts_source("code", f"the code of {name}", cell.source, cell)
        found += texts_source("cell", name, output_text(cell.outputs), cell)
        found += _of_calls(cell, name)
    return [*_files(cells, folder), *found] if folder is not None else found


def name_of(cell: Cell) -> str:
    """Return the cell as its user sees it."""
    return cell_name(cell.position, cell.execution_count, cell.source)


def texts_source(
    kind: SourceKind, name: str, text: str, cell: Cell, *, id: str | None = None, path: str = ""
) -> Iterator[Source]:
    """Yield `text` as a source of its cell, if it has numbers."""
    made = source(kind, name, text, turn=cell.position, id=cell.id if id is None else id, path=path)
    if made.values:
        yield made


def output_text(outputs: Sequence[Output]) -> str:
    """Return the text that outputs show, without answers of Claude's: printed, results and displays, no errors."""
    parts: list[str] = []
    for output in outputs:
        if output.get("output_type") == "stream":
            parts.append(joined(output.get("text")))
            continue
        data = _data(output)
        if TRANSCRIPT in data or _is_answer(output):
            continue
        text = next((joined(data[mime]) for mime in ("text/plain", "text/markdown", "text/latex") if mime in data), "")
        if "text/html" in data and (not text or text.startswith("<") or "\n" not in text):
            rows = _ROW_END.sub("\n", joined(data["text/html"])[:FILE_BYTES])
            text += "\n" + html.unescape(_TAG.sub(" ", rows))
        parts.append(text)
    return _TERMINAL_CODES.sub("", "\n".join(part.rstrip("\n") for part in parts if part))


def _of_calls(cell: Cell, name: str) -> Iterator[Source]:
    """Yield the results and the code of the calls that the cell's saved answer shows."""
    number = 0
    for output in cell.outputs:
        data = _data(output)
        tools: dict[Any, str] = {}
        for op in _ops(data):
            if op.get("op") == "tool":
                number += 1
                label = f"{op.get('name')}, call {number} in {name}"
                tools[op.get("id")] = label
                values = op.get("input")
                values = values if isinstance(values, Mapping) else {}
                code = "\n".join(str(values[key]) for key in _CODE_FIELDS if isinstance(values.get(key), str))
                yield from texts_source("code", f"the code of {label}", code, cell, id="")
            elif op.get("op") == "tool_end" and isinstance(op.get("result"), str):
                yield from texts_source(
                    "output", tools.get(op.get("id"), f"a call in {name}"), op["result"], cell, id=""
                )
        if not _ops(data) and _is_answer(output):
            for fence in _FENCE.finditer(joined(data.get("text/markdown"))):
                kind: SourceKind = "output" if fence[2].strip() == "text" else "code"
                yield from texts_source(kind, f"a call in {name}", fence[3], cell, id="")


def _files(cells: Sequence[Cell], folder: Path) -> Iterator[Source]:
    """Yield the small text files below `folder` that the code names."""
    root = folder.resolve()
    named = [
        (match[1], cell) for cell in cells if cell.cell_type == "code" for match in _NAMED_FILE.finditer(cell.source)
    ]
    seen: set[Path] = set()
    for name, cell in named:
        path = (root / name).resolve()
        if path in seen or len(seen) >= 20 or not path.is_relative_to(root):
            continue
        try:
            if not path.is_file() or path.stat().st_size > FILE_BYTES:
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        seen.add(path)
        yield from texts_source("file", name, text, cell, id="", path=name)
