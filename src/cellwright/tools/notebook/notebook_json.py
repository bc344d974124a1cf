"""A notebook as the bytes it is on disk, changed cell by cell: every byte outside the cell stays."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from msgspec import Struct

from cellwright.errors import ErrorCode, ToolError
from cellwright.text import lazy_pattern
from cellwright.tools.notebook.notebook_source import NotebookSource, joined, open_notebook, parsed
from cellwright.tools.notebook.notebook_spans import CellList, NotANotebook, Span

OPENING_BYTES = 4_096
OPENING = lazy_pattern(r'\s*\{(?:(\r?\n)([ \t]*)|\s*)"(?:[^"\\]|\\.)*"([ \t]*:[ \t]*)')
# it begins with what is looked for: then 100 MB are passed in 0.1 s and not in 6
MAYBE_ESCAPED = lazy_pattern(rb"\\u(?!00[0-7])")
LONE_SURROGATE = lazy_pattern("[\ud800-\udfff]")
WHITE_SPACE = lazy_pattern(r"[ \t\r\n]*")
POSITION = lazy_pattern(r"cell-(\d{1,9})")
IDS_NAMED = 40

Change = tuple[int, int, bytes]
"""The replacement of what stands between two places of the file."""

decode_at = json.JSONDecoder().raw_decode


class Style(Struct, frozen=True):
    """The way the notebook's JSON is written. `indent` None: all on one line."""

    indent: str | None
    line_end: str
    colon: str
    ascii_only: bool


class InsertIndex(Struct, frozen=True):
    """The place of a new cell: before the cell that is now number `index` of a list of cells."""

    cells: CellList
    index: int
    position: int
    """Its position in the notebook, all lists counted."""


class Notebook(Struct, frozen=True):
    """A notebook's bytes, its cells (`heads`: without their outputs), and how it is written."""

    data: bytes
    source: NotebookSource
    heads: tuple[Mapping[str, Any], ...]
    style: Style

    def ids(self) -> list[str]:
        """The name of each cell: its id, or `cell-N` (N from 0) where it has none."""
        return [self.source.name(number, head) for number, head in enumerate(self.heads)]

    def kind(self, position: int) -> str:
        return str(self.heads[position]["cell_type"])

    def text(self, position: int) -> str:
        """The source of a cell."""
        return joined(self.heads[position][self.source.source_key(self.kind(position))])

    def find(self, cell_id: str) -> int:
        """The position of a cell by its name; an error that lists the names when there is not exactly one.

        A cell whose id another one has, too, is found by its place, as one without an id is.
        """
        ids = self.ids()
        if ids.count(cell_id) == 1:
            return ids.index(cell_id)
        at = int(cell_id[5:]) if POSITION.fullmatch(cell_id) else len(ids)
        if at < len(ids) and ids.count(ids[at]) > 1:
            return at
        known = ", ".join(ids[:IDS_NAMED]) + (" …" if len(ids) > IDS_NAMED else "")
        if cell_id in ids:
            places = [f"cell-{position}" for position, name in enumerate(ids) if name == cell_id]
            shown = ", ".join(places[:IDS_NAMED]) + (" …" if len(places) > IDS_NAMED else "")
            problem = f"There are {len(places)} cells with the id {cell_id}; here use one of {shown}."
        elif at < len(ids):
            problem = f"That cell has an id: use {ids[at]} instead of {cell_id}."
        else:
            problem = f"Cell {cell_id} was not found. The cells are: {known or 'none'}."
        raise ToolError(problem, code=ErrorCode.INVALID_PARAMETERS)

    def place_at(self, position: int, *, after: bool) -> InsertIndex:
        """The place before or after a cell, in the list that it is in."""
        index = position
        for cells in self.source.lists:
            if index < len(cells.cells):
                return InsertIndex(cells, index + after, position + after)
            index -= len(cells.cells)
        raise IndexError(position)

    def end_place(self, *, start: bool) -> InsertIndex:
        """The place before all cells, or after them."""
        if start:
            return InsertIndex(self.source.lists[0], 0, 0)
        last = self.source.lists[-1]
        return InsertIndex(last, len(last.cells), len(self.heads))

    def with_source(self, position: int, source: str) -> bytes:
        """The notebook with another source in a cell. A code cell loses what the old source gave."""
        kind = self.kind(position)
        key = self.source.source_key(kind)
        members = self._members(position)
        if key not in members:
            return self.with_members(position, {key: source})
        values: dict[str, Any] = {key: _source_like(source, self.heads[position][key])}
        if kind == "code":
            values |= {name: new for name, new in (("outputs", []), (self.source.count_key, None)) if name in members}
        return self._changed([(*members[name], self._written(new, members[name][0])) for name, new in values.items()])

    def with_type(self, position: int, kind: str, source: str) -> bytes:
        """The notebook with a cell of another type and source; what only the old type has is gone."""
        head, cell = self.heads[position], self.source.cells[position]
        like = head[self.source.source_key(self.kind(position))]
        value = self._new_cell(kind, _source_like(source, like))
        kept = {"metadata", "id"} | ({"attachments"} if kind != "code" else set())
        value |= {key: part for key, part in head.items() if key in kept}
        value = _ordered(value, head)
        return self._changed([(cell.start, cell.stop, self._written(value, cell.start))])

    def with_members(self, position: int, values: Mapping[str, Any]) -> bytes:
        """The notebook with other values for some keys of a cell, which may be new there."""
        members = self._members(position)
        if values.keys() <= members.keys():
            return self._changed([(*members[key], self._written(new, members[key][0])) for key, new in values.items()])
        head, cell = self.heads[position], self.source.cells[position]
        whole = {**parsed(self.source.bytes_between(cell.start, cell.stop)), **values}
        return self._changed([(cell.start, cell.stop, self._written(_ordered(whole, head), cell.start))])

    def with_cell(self, place: InsertIndex, kind: str, source: str, requested_id: str = "") -> tuple[bytes, str]:
        """The notebook with a new cell, and that cell's name: the one that is `requested_id`, if it can have it."""
        model = self._model(place.position, kind)
        like: Any = [] if model is None else model[self.source.source_key(str(model["cell_type"]))]
        value = self._new_cell(kind, _source_like(source, like))
        if self.source.major == 4 and self.source.minor >= 5:
            value["id"] = (
                requested_id
                if requested_id and requested_id not in self.ids()
                else self._new_id(source, set(self.ids()))
            )
        value = _ordered(value, model or {})
        return self._with_value(place, value), self.source.name(place.position, value)

    def with_ids(self) -> tuple[bytes, int]:
        """The notebook with an id for each cell that has none and should have one, from nbformat 4.5 on; how many."""
        if (self.source.major, self.source.minor) < (4, 5):
            return self.data, 0
        taken, changes = {str(head.get("id")) for head in self.heads}, []
        for position, (head, cell) in enumerate(zip(self.heads, self.source.cells, strict=True)):
            if "id" in head:
                continue
            new = self._new_id(f"{position}\0{self.text(position)}", taken)
            taken.add(new)
            whole = {**parsed(self.source.bytes_between(cell.start, cell.stop)), "id": new}
            changes.append((cell.start, cell.stop, self._written(_ordered(whole, head), cell.start)))
        return self._changed(changes), len(changes)

    def without(self, position: int) -> bytes:
        """The notebook without a cell."""
        place = self.place_at(position, after=False)
        cells = place.cells.cells
        if len(cells) == 1:
            return self._changed([(place.cells.start, place.cells.stop, b"[]")])
        if place.index == 0:
            return self._changed([(cells[0].start, cells[1].start, b"")])
        return self._changed([(cells[place.index - 1].stop, cells[place.index].stop, b"")])

    def moved(self, position: int, place: InsertIndex) -> bytes:
        """The notebook with a cell at another place of the same list; what stands between the cells stays there."""
        here = self.place_at(position, after=False)
        if here.cells is not place.cells:
            raise ToolError(
                "The two places are in different worksheets of this nbformat 3 notebook. Insert the cell there and "
                "delete it here.",
                code=ErrorCode.INVALID_PARAMETERS,
            )
        spans = here.cells.cells
        order = list(range(len(spans)))
        order.remove(here.index)
        order.insert(place.index - (place.index > here.index), here.index)
        return self._changed(
            [
                (span.start, span.stop, self.data[spans[now].start : spans[now].stop])
                for was, (span, now) in enumerate(zip(spans, order, strict=True))
                if was != now
            ]
        )

    def _members(self, position: int) -> dict[str, Span]:
        """Find where the values of a cell's keys stand in the file."""
        head, outputs = self.source.head_text(position)
        cell = self.source.cells[position]
        # one character a byte, so that places in the text are places in the file
        spans = dict(_members(head.decode("latin-1"), 0))
        if outputs is None or cell.outputs is None:
            return {key: (cell.start + start, cell.start + stop) for key, (start, stop) in spans.items()}
        left_out = cell.outputs[1] - cell.outputs[0] - 2
        return {
            key: (
                cell.start + start + (left_out if start > outputs[0] else 0),
                cell.start + stop + (left_out if stop > outputs[0] else 0),
            )
            for key, (start, stop) in spans.items()
        }

    def _new_cell(self, kind: str, source: str | list[str]) -> dict[str, Any]:
        value: dict[str, Any] = {"cell_type": kind, "metadata": {}, self.source.source_key(kind): source}
        if kind == "code" and self.source.major == 3:
            value |= {"collapsed": False, "language": self._language(), "outputs": []}
        elif kind == "code":
            value |= {"execution_count": None, "outputs": []}
        return value

    def _language(self) -> str:
        """Return the language, which nbformat 3 wants to know of each code cell."""
        return next((str(head["language"]) for head in self.heads if "language" in head), "python")

    def _model(self, position: int, kind: str) -> Mapping[str, Any] | None:
        """The cell that a new one is written like: the nearest of its type, or else the nearest."""
        near = sorted(range(len(self.heads)), key=lambda number: abs(number - position))
        same = (number for number in near if self.kind(number) == kind)
        number = next(same, near[0] if near else None)
        return None if number is None else self.heads[number]

    def _new_id(self, source: str, taken: Set[str]) -> str:
        """An id that is not `taken`; the same for the same call, so that previews and replays agree with it."""
        seed = f"{source}\0{self.source.sha256}"
        while (new := hashlib.sha256(seed.encode("utf-8", "replace")).hexdigest()[:8]) in taken:
            seed = new
        return new

    def _with_value(self, place: InsertIndex, value: Mapping[str, Any]) -> bytes:
        cells = place.cells.cells
        if not cells:
            new = self._written([value], place.cells.start)
            return self._changed([(place.cells.start, place.cells.stop, new)])
        written, between = self._written(value, cells[0].start), self._between(place.cells)
        if place.index == 0:
            at = cells[0].start
            return self._changed([(at, at, written + between)])
        at = cells[place.index - 1].stop
        return self._changed([(at, at, between + written)])

    def _between(self, cells: CellList) -> bytes:
        """Return the bytes that stand between two cells."""
        if len(cells.cells) > 1:
            return self.data[cells.cells[0].stop : cells.cells[1].start]
        return b"," + self.data[cells.start + 1 : cells.cells[0].start]

    def _written(self, value: Any, at: int) -> bytes:
        """`value` as JSON in this notebook's style, to stand at `at`."""
        style = self.style
        comma = "," if style.indent is not None or style.colon == ":" else ", "
        text = json.dumps(value, indent=style.indent, separators=(comma, style.colon), ensure_ascii=style.ascii_only)
        line = self.data[self.data.rfind(b"\n", 0, at) + 1 : at]
        indentation = line[: len(line) - len(line.lstrip())].decode("ascii")
        text = text.replace("\n", style.line_end + indentation)
        # half of a pair has no bytes in UTF-8; a notebook may hold it as an escape
        return LONE_SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text).encode()

    def _changed(self, changes: Sequence[Change]) -> bytes:
        view, at = memoryview(self.data), 0
        pieces: list[bytes | memoryview] = []
        for start, stop, new in sorted(changes):
            pieces += [view[at:start], new]
            at = stop
        return b"".join([*pieces, view[at:]])


def parse_notebook(data: bytes) -> Notebook:
    """Take a notebook's bytes (UTF-8) apart. Raises `NotANotebook`, `NotText`."""
    source = open_notebook(io.BytesIO(data), len(data), lambda: False)
    heads = tuple(source.head(position) for position in range(len(source.cells)))
    return Notebook(data, source, heads, _style(data))


def notebook_content(text: str) -> dict[str, Any]:
    """The JSON of a notebook (nbformat 4), with all that is relied on here checked. Raises `NotANotebook`."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotANotebook(f"its JSON is broken: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
        raise NotANotebook("it has no list of cells (nbformat 3 and older are not supported)")
    if content.get("nbformat") != 4:
        raise NotANotebook(f"its nbformat is {content.get('nbformat')!r}; 4 is supported")
    for number, cell in enumerate(content["cells"], 1):
        if not (isinstance(cell, dict) and isinstance(cell.get("cell_type"), str) and "source" in cell):
            raise NotANotebook(f"cell {number} has no cell_type or no source")
    return content


def _source_like(source: str, like: Any) -> str | list[str]:
    """`source` as a list of lines or as one string, as `like` is. Lines as nbformat's own writer splits them."""
    return source if isinstance(like, str) else source.splitlines(keepends=True)


def _ordered(value: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """The keys in the order that they have in `like`; sorted where that is sorted, as nbformat's own writer does."""
    order = list(like)
    if order == sorted(order):
        return dict(sorted(value.items()))
    return dict(sorted(value.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)))


def _style(data: bytes) -> Style:
    opening = OPENING.match(data[:OPENING_BYTES].decode("latin-1").removeprefix("\xef\xbb\xbf"))
    line_end, indent, colon = opening.groups() if opening else (None, None, ": ")
    return Style(indent, line_end or "\n", colon, data.isascii() and _escapes_characters(data))


def _escapes_characters(data: bytes) -> bool:
    """Return whether there is a character beyond ASCII as an escape. A backslash that is escaped itself escapes nothing."""
    for found in MAYBE_ESCAPED.finditer(data):
        first = found.start()
        while data[first - 1 : first] == b"\\":
            first -= 1
        if (found.start() - first) % 2 == 0:
            return True
    return False


def _members(text: str, start: int) -> Iterator[tuple[str, Span]]:
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


def _after_space(text: str, at: int) -> int:
    found = WHITE_SPACE.match(text, at)
    assert found is not None  # it matches nothing, too
    return found.end()
