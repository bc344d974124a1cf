"""A notebook as the text it is on disk, changed cell by cell: every byte outside the cell stays.

Format: nbformat 4 (https://nbformat.readthedocs.io/en/latest/format_description.html).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode

WHITE_SPACE = re.compile(r"[ \t\r\n]*")
OPENING = re.compile(r'\s*\{(?:(\r?\n)([ \t]*)|\s*)"(?:[^"\\]|\\.)*"([ \t]*:[ \t]*)')
ESCAPED_CHARACTER = re.compile(r"(?<!\\)(?:\\\\)*\\u(?!00[0-7])")
POSITION = re.compile(r"cell-(\d+)")
IDS_NAMED = 40

decode_at = json.JSONDecoder().raw_decode


class NotANotebook(Exception):
    """The text is no notebook that is understood here; the message says why."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell and where it stands in the text."""

    value: Mapping[str, Any]
    start: int
    stop: int

    @property
    def kind(self) -> str:
        return str(self.value["cell_type"])

    @property
    def source(self) -> str:
        return joined(self.value["source"])


@dataclass(frozen=True, slots=True)
class Style:
    """How the notebook's JSON is written. `indent` None: all on one line."""

    indent: str | None
    line_end: str
    colon: str
    ascii_only: bool


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook's text, its cells, and how it is written."""

    text: str
    minor: int
    cells: tuple[Cell, ...]
    cells_start: int
    cells_stop: int
    style: Style

    def ids(self) -> list[str]:
        """The name of each cell: its id, or `cell-N` (N from 0) where it has none."""
        return [cell_name(cell.value, number) for number, cell in enumerate(self.cells)]

    def find(self, cell_id: str) -> int:
        """The position of a cell by its name; an error that lists the names when there is not exactly one."""
        ids = self.ids()
        if ids.count(cell_id) == 1:
            return ids.index(cell_id)
        known = ", ".join(ids[:IDS_NAMED]) + (" …" if len(ids) > IDS_NAMED else "")
        if cell_id in ids:
            problem = f"There are {ids.count(cell_id)} cells with the id {cell_id}; give them different ids first."
        elif POSITION.fullmatch(cell_id) and int(cell_id[5:]) < len(ids):
            problem = f"That cell has an id: use {ids[int(cell_id[5:])]} instead of {cell_id}."
        else:
            problem = f"There is no cell {cell_id}. The cells are: {known or 'none'}."
        raise ToolError(problem, code=ErrorCode.INVALID_PARAMETERS)

    def with_source(self, position: int, source: str) -> str:
        """The text with another source in a cell. A code cell loses what the old source gave."""
        cell = self.cells[position]
        members = dict(_members(self.text, cell.start))
        values: dict[str, Any] = {"source": _source_like(source, cell.value["source"])}
        if cell.kind == "code":
            values |= {key: empty for key, empty in (("outputs", []), ("execution_count", None)) if key in members}
        changes = [(*members[key], self._written(value, members[key][0])) for key, value in values.items()]
        text = self.text
        for start, stop, new in sorted(changes, reverse=True):
            text = text[:start] + new + text[stop:]
        return text

    def with_type(self, position: int, kind: str, source: str) -> str:
        """The text with a cell of another type and source."""
        cell = self.cells[position]
        extra = {"execution_count", "outputs"} if kind != "code" else {"attachments"}
        value = {key: part for key, part in cell.value.items() if key not in extra}
        value |= {"cell_type": kind, "source": _source_like(source, cell.value["source"])}
        if kind == "code":
            value |= {"execution_count": None, "outputs": []}
        if list(cell.value) == sorted(cell.value):
            value = dict(sorted(value.items()))
        return self.text[: cell.start] + self._written(value, cell.start) + self.text[cell.stop :]

    def with_cell(self, position: int, kind: str, source: str) -> tuple[str, str]:
        """The text with a new cell at `position`, and that cell's name."""
        like = self.cells[0].value["source"] if self.cells else []
        value: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": _source_like(source, like)}
        if kind == "code":
            value |= {"execution_count": None, "outputs": []}
        if self.minor >= 5:
            value["id"] = self._new_id(source)
        value = dict(sorted(value.items()))
        name = cell_name(value, position)
        if not self.cells:
            new = self._written([value], self.cells_start)
            return self.text[: self.cells_start] + new + self.text[self.cells_stop :], name
        if position == 0:
            at, before, after = self.cells[0].start, "", self._between_cells()
        else:
            at, before, after = self.cells[position - 1].stop, self._between_cells(), ""
        written = self._written(value, self.cells[0].start)
        return self.text[:at] + before + written + after + self.text[at:], name

    def without(self, position: int) -> str:
        """The text without a cell."""
        if len(self.cells) == 1:
            return self.text[: self.cells_start] + "[]" + self.text[self.cells_stop :]
        if position == 0:
            start, stop = self.cells[0].start, self.cells[1].start
        else:
            start, stop = self.cells[position - 1].stop, self.cells[position].stop
        return self.text[:start] + self.text[stop:]

    def _new_id(self, source: str) -> str:
        """An id that no cell has; the same for the same call, so that previews and replays agree with it."""
        seed, taken = f"{source}\0{self.text}", self.ids()
        while (new := hashlib.sha256(seed.encode("utf-8", "replace")).hexdigest()[:8]) in taken:
            seed = new
        return new

    def _between_cells(self) -> str:
        if len(self.cells) > 1:
            return self.text[self.cells[0].stop : self.cells[1].start]
        return "," + self.text[self.cells_start + 1 : self.cells[0].start]

    def _written(self, value: Any, at: int) -> str:
        """`value` as JSON in this notebook's style, to stand at `at`."""
        style = self.style
        comma = "," if style.indent is not None or style.colon == ":" else ", "
        text = json.dumps(value, indent=style.indent, separators=(comma, style.colon), ensure_ascii=style.ascii_only)
        line = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return text.replace("\n", style.line_end + line[: len(line) - len(line.lstrip())])


def parse_notebook(text: str) -> Notebook:
    """Take a notebook's text apart. Raises `NotANotebook`."""
    content = notebook_content(text)
    cells_start, cells_stop = dict(_members(text, WHITE_SPACE.match(text).end()))["cells"]  # type: ignore[union-attr]
    spans = _items(text, cells_start)
    return Notebook(
        text=text,
        minor=int(content.get("nbformat_minor", 0)),
        cells=tuple(Cell(value, *span) for value, span in zip(content["cells"], spans, strict=True)),
        cells_start=cells_start,
        cells_stop=cells_stop,
        style=_style(text),
    )


def notebook_content(text: str) -> dict[str, Any]:
    """The JSON of a notebook, with all that is relied on here checked. Raises `NotANotebook`."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise NotANotebook(f"its JSON is broken: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
        raise NotANotebook("it has no list of cells (nbformat 3 and older are not supported)")
    if content.get("nbformat") != 4:
        raise NotANotebook(f"its nbformat is {content.get('nbformat')!r}; 4 is supported")
    for number, cell in enumerate(content["cells"], 1):
        if not (isinstance(cell, dict) and isinstance(cell.get("cell_type"), str) and "source" in cell):
            raise NotANotebook(f"cell {number} has no cell_type or no source")
    return content


def cell_name(cell: Mapping[str, Any], position: int) -> str:
    """How a cell is named to the model."""
    return str(cell.get("id") or f"cell-{position}")


def joined(text: Any) -> str:
    """A multi-line string of nbformat: a string, or a list of them."""
    if isinstance(text, list):
        return "".join(part for part in text if isinstance(part, str))
    return text if isinstance(text, str) else ""


def _source_like(source: str, like: Any) -> str | list[str]:
    """`source` as a list of lines or as one string, as `like` is. Lines as nbformat's own writer splits them."""
    return source if isinstance(like, str) else source.splitlines(keepends=True)


def _style(text: str) -> Style:
    opening = OPENING.match(text)
    line_end, indent, colon = opening.groups() if opening else (None, None, ": ")
    escaped = text.isascii() and ESCAPED_CHARACTER.search(text) is not None
    return Style(indent, line_end or "\n", colon, escaped)


def _members(text: str, start: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """The keys of the JSON object that begins at `start`, and where their values stand. `text` is known to be JSON."""
    at = _after_space(text, start + 1)
    while text[at] != "}":
        key, at = decode_at(text, at)
        value_start = _after_space(text, _after_space(text, at) + 1)
        value_stop = decode_at(text, value_start)[1]
        yield key, (value_start, value_stop)
        at = _after_space(text, value_stop)
        if text[at] == ",":
            at = _after_space(text, at + 1)


def _items(text: str, start: int) -> list[tuple[int, int]]:
    """Where the items of the JSON array that begins at `start` stand."""
    items = []
    at = _after_space(text, start + 1)
    while text[at] != "]":
        stop = decode_at(text, at)[1]
        items.append((at, stop))
        at = _after_space(text, stop)
        if text[at] == ",":
            at = _after_space(text, at + 1)
    return items


def _after_space(text: str, at: int) -> int:
    found = WHITE_SPACE.match(text, at)
    assert found is not None  # it matches nothing, too
    return found.end()
