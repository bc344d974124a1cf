"""The texts of a notebook: what it states (Markdown cells, saved answers of Claude's) and what its cells gave."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from cellwright.features.numbers.sources import Source, SourceKind, source
from cellwright.sessions.provenance import FIELD, NUMBERS
from cellwright.text import lazy_pattern
from cellwright.tools.notebook.notebook_source import joined
from cellwright.tools.notebook.open_notebook import Cell, Output, cell_name

TRANSCRIPT = "application/vnd.cellwright.transcript+json"
"""The MIME type of a saved answer's transcript."""
IGNORED_TAG = "numbers-ok"
"""The tag of a cell whose numbers are known from elsewhere: they are not checked."""
LEFT_OUT = "characters more are in the session's transcript"
"""Stands in a saved result of which the notebook keeps a part."""
MOST_FILES = 20
FILE_BYTES = 400_000

_TERMINAL_CODES = lazy_pattern(r"\x1b(?:\[[0-9;?]{0,40}[ -/]{0,8}[@-~])")
_TAG = lazy_pattern(r"<(?:style|script)\b.{0,20000}?</(?:style|script)>|<[^<>]{0,2000}>", re.DOTALL)
_ROW_END = lazy_pattern(r"</tr>|<br\s?/?>|</p>|</div>|</h\d>", re.IGNORECASE)
_FENCE = lazy_pattern(r"^(`{3,20})([^`\n]{0,40})\n(.{0,200000}?)^\1\s{0,8}$", re.DOTALL | re.MULTILINE)
_NAMED_FILE = lazy_pattern(r"[\"']([^\"'\n]{1,200}\.(?:csv|tsv|txt|json|jsonl|md|dat))[\"']")
_CODE_FIELDS = ("code", "command", "content", "new_string", "new_source", "source", "patch")


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
            texts.append(_of_markdown(joined(data.get("text/markdown"))))
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


def _of_markdown(markdown: str) -> str:
    """Return the prose of an answer that was saved as Markdown alone: without its last line, of model and cost."""
    *paragraphs, last = markdown.rstrip().split("\n\n")
    return "\n\n".join(paragraphs) if last.startswith("*") and last.endswith("*") and paragraphs else markdown


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
            text += "\n" + _of_html(joined(data["text/html"]))
        parts.append(text)
    return _TERMINAL_CODES.sub("", "\n".join(part.rstrip("\n") for part in parts if part))


def _of_html(text: str) -> str:
    text = text[:FILE_BYTES]
    return html.unescape(_TAG.sub(" ", _ROW_END.sub("\n", text)))


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
        if path in seen or len(seen) >= MOST_FILES or not path.is_relative_to(root):
            continue
        try:
            if not path.is_file() or path.stat().st_size > FILE_BYTES:
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        seen.add(path)
        yield from texts_source("file", name, text, cell, id="", path=name)
