"""A notebook as the bytes it is on disk, and one of its cells changed in them: every byte outside the cell stays.

A cell is replaced, inserted, deleted or moved, and nothing is written here. The schemas are those that nbformat ships;
compiled by fastjsonschema they take 30 ms, `import nbformat` alone takes a second.
"""

from __future__ import annotations

import codecs
import functools
import hashlib
import importlib.util
import io
import json
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from msgspec import Struct

from cellwright.errors import ErrorCode, ToolError
from cellwright.text import lazy_pattern
from cellwright.tools.files.changes import Diff, diff_texts
from cellwright.tools.files.encodings import UTF_8, Encoding, decode, encode_changed
from cellwright.tools.notebook.notebook_source import (
    BLOCK_BYTES,
    BROKEN,
    CHECKED_BYTES,
    PARSED_BYTES,
    CellList,
    NotANotebook,
    NotebookSource,
    Span,
    joined,
    open_notebook,
    parsed,
)
from cellwright.tools.notebook.open_notebook import CellPosition, CellType, cell_name

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

CELL_KINDS = {
    3: {
        "code": "code_cell",
        "markdown": "markdown_cell",
        "html": "markdown_cell",
        "raw": "raw_cell",
        "heading": "heading_cell",
    },
    4: {"code": "code_cell", "markdown": "markdown_cell", "raw": "raw_cell"},
}
NEWEST_MINOR = 5
KINDS_KEPT = 32
"""Of 23 that there are: the five of nbformat 3 and the three of each minor version of nbformat 4."""

Validator = Callable[[Any], Any]

OUTLINE_CHARS = 60
"""The number of characters of each cell's first line that the diff of a move shows."""


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
        # written like the nearest cell of its type, or else the nearest
        near = sorted(range(len(self.heads)), key=lambda number: abs(number - place.position))
        same = [number for number in near if self.kind(number) == kind]
        model = self.heads[(same or near)[0]] if near else None
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
            # nbformat 3 wants to know it of each code cell
            language = next((str(head["language"]) for head in self.heads if "language" in head), "python")
            value |= {"collapsed": False, "language": language, "outputs": []}
        elif kind == "code":
            value |= {"execution_count": None, "outputs": []}
        return value

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
        written = self._written(value, cells[0].start)
        # the bytes that stand between two cells
        if len(cells) > 1:
            between = self.data[cells[0].stop : cells[1].start]
        else:
            between = b"," + self.data[place.cells.start + 1 : cells[0].start]
        if place.index == 0:
            at = cells[0].start
            return self._changed([(at, at, written + between)])
        at = cells[place.index - 1].stop
        return self._changed([(at, at, between + written)])

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
    opening = OPENING.match(data[:4_096].decode("latin-1").removeprefix("\xef\xbb\xbf"))
    line_end, indent, colon = opening.groups() if opening else (None, None, ": ")
    style = Style(indent, line_end or "\n", colon, data.isascii() and _escapes_characters(data))
    return Notebook(data, source, heads, style)


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


def cell_problem(source: NotebookSource, cell: Mapping[str, Any]) -> str:
    """Find what the schema has against a cell; empty if nothing."""
    kind = str(cell.get("cell_type"))
    definition = CELL_KINDS[source.major].get(kind)
    if definition is None:
        return f"cell_type is {kind!r}, which nbformat {source.major} does not have"
    return _problem(_cell_validator(source.major, source.minor, definition), cell)


def new_cell_problems(source: NotebookSource, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> str:
    """Find what the schema has against a changed cell and had not against the old one; empty if nothing."""
    problem = cell_problem(source, after)
    if not problem or before is None or not cell_problem(source, before):
        return problem
    # one problem can hide another, so all of them are compared
    old = _all_problems(source, before)
    return next((words for problem, words in _all_problems(source, after).items() if problem not in old), "")


def _all_problems(source: NotebookSource, cell: Mapping[str, Any]) -> dict[Hashable, str]:
    """All that the schema has against a cell, in words, by what makes one problem the same in another cell."""
    import fastjsonschema  # not needed before the first edit of a notebook

    definition = CELL_KINDS[source.major].get(str(cell.get("cell_type")))
    if definition is None:
        return {"cell_type": cell_problem(source, cell)}
    try:
        _complete_cell_validator(source.major, source.minor, definition)(cell)
    except fastjsonschema.JsonSchemaValuesException as found:
        problems: dict[Hashable, str] = {}
        for error in found.errors:
            # of an object that has too little or too much the names are in the message
            of_object = error.rule in ("required", "additionalProperties")
            problems[(error.message,) if of_object else (repr(error.value), error.message)] = error.message
        return problems
    return {}


def cell_value(source: NotebookSource, position: int) -> Mapping[str, Any]:
    """A cell with its outputs; without them where it is large."""
    cell = source.cells[position]
    if cell.stop - cell.start > PARSED_BYTES:
        return source.head(position)
    return parsed(source.bytes_between(cell.start, cell.stop))


def first_problem(source: NotebookSource) -> str:
    """Find what the schema has against the notebook; empty if nothing. Outputs of very large cells are skipped."""
    problem = _problem(_top_validator(source.major, source.minor), _without_cells(source))
    if problem:
        return problem
    for position in range(len(source.cells)):
        value = cell_value(source, position)
        if problem := cell_problem(source, value):
            return f"{source.name(position, value)}: {problem}"
    return ""


def _without_cells(source: NotebookSource) -> Mapping[str, Any]:
    pieces, at = [], 0
    for cells in source.lists:
        pieces += [source.bytes_between(at, cells.start), b"[]"]
        at = cells.stop
    return parsed(b"".join([*pieces, source.bytes_between(at, source.size)]).removeprefix(b"\xef\xbb\xbf"))


def _problem(validator: Validator, value: Mapping[str, Any]) -> str:
    import fastjsonschema  # not needed before the first edit of a notebook

    try:
        validator(value)
    except fastjsonschema.JsonSchemaValueException as error:
        return str(error.message)
    return ""


@functools.lru_cache(maxsize=KINDS_KEPT)
def _cell_validator(major: int, minor: int, definition: str) -> Validator:
    return _compiled(_cell_schema(major, minor, definition))


@functools.lru_cache(maxsize=KINDS_KEPT)
def _complete_cell_validator(major: int, minor: int, definition: str) -> Validator:
    """A validator that goes on after the first problem."""
    return _compiled(_cell_schema(major, minor, definition), fast_fail=False)


@functools.lru_cache(maxsize=8)
def _top_validator(major: int, minor: int) -> Validator:
    return _compiled(_schema(major, minor))


def _compiled(schema: Mapping[str, Any], *, fast_fail: bool = True) -> Validator:
    import fastjsonschema  # not needed before the first edit of a notebook

    # formats and defaults are no business of a check
    validator: Validator = fastjsonschema.compile(
        dict(schema), use_default=False, use_formats=False, fast_fail=fast_fail
    )
    return validator


def _cell_schema(major: int, minor: int, definition: str) -> dict[str, Any]:
    schema = _schema(major, minor)
    definitions = schema["definitions"]
    return {"$schema": schema["$schema"], "definitions": definitions, **definitions[definition]}


def _schema(major: int, minor: int) -> dict[str, Any]:
    """The schema as nbformat has it; of a minor version from the future the newest that is known."""
    found = importlib.util.find_spec("nbformat")  # finds it without importing it
    assert found is not None  # Cellwright needs it installed
    assert found.submodule_search_locations is not None  # it is a package
    folder = Path(next(iter(found.submodule_search_locations)))
    name = "v3/nbformat.v3" if major == 3 else f"v4/nbformat.v4.{max(0, min(minor, NEWEST_MINOR))}"
    schema: dict[str, Any] = json.loads((folder / f"{name}.schema.json").read_text("utf-8"))
    return schema


class CellEdit(Struct, frozen=True):
    """The notebook as an edit makes it.

    `before` and `after` are what the diff compares (None: there is no cell), `name` and `position` the cell's, then.
    `changed` is its position before and after, as far as its content is new. The `title` names no notebook.
    """

    data: bytes
    name: str
    position: int
    before: str | None
    after: str | None
    title: str
    result: str
    changed: tuple[int | None, int] | None = None

    def diff(self, display_path: str) -> Diff:
        """Build the diff that the user is shown."""
        # a source rarely ends with a line end, and no view should make a point of it
        return diff_texts(_ended(self.before), _ended(self.after) or "", f"{display_path}#{self.name}")


def as_utf_8(data: bytes) -> tuple[Encoding, bytes]:
    """JSON is UTF-8; whoever wrote it otherwise gets it back so."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        # block by block: the text of 100 MB may take 400 MB
        for start in range(0, len(data), BLOCK_BYTES):
            decoder.decode(data[start : start + BLOCK_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        text, encoding = decode(data)
        return encoding, text.encode()
    return UTF_8, data


def on_disk_bytes(utf_8: bytes, encoding: Encoding, display_path: str, before: bytes) -> bytes:
    """A notebook's UTF-8 as its file has it, which held `before`. ToolError where a guessed encoding cannot hold it."""
    if encoding == UTF_8:
        return utf_8
    old = before.removeprefix(encoding.bom).decode(encoding.name)
    return encode_changed(before, old, utf_8.decode(), encoding, display_path)


def _insert_index(notebook: Notebook, to: CellPosition) -> tuple[InsertIndex, str]:
    """Find where a cell goes, and say it in words."""
    if to.where in ("before", "after"):
        place = notebook.place_at(notebook.find(to.anchor_id), after=to.where == "after")
    else:
        place = notebook.end_place(start=to.where == "start")
    return place, in_words(to)


def in_words(to: CellPosition) -> str:
    """`after 3f2a9c1e`, `at the end`."""
    return f"{to.where} {to.anchor_id}" if to.where in ("before", "after") else f"at the {to.where}"


def seen_cell(notebook: Notebook, at: int) -> str:
    """The cell as its user sees it."""
    return cell_name(at, notebook.heads[at].get("execution_count"), notebook.text(at))


def _seen_place(notebook: Notebook, to: CellPosition) -> str:
    if to.where in ("before", "after"):
        return f"{to.where} {seen_cell(notebook, notebook.find(to.anchor_id))}"
    return in_words(to)


def insert_cell(notebook: Notebook, kind: CellType, source: str, to: CellPosition, display_path: str) -> CellEdit:
    """The notebook with a new cell."""
    count = len(notebook.heads)
    place, where = _insert_index(notebook, to)
    data, name = notebook.with_cell(place, kind, source)
    return CellEdit(
        data=data,
        name=name,
        position=place.position,
        before=None,
        after=source,
        title=f"Insert a {kind} cell {_seen_place(notebook, to)}",
        result=f"Inserted {kind} cell {name} {where} of {display_path}: {_at(place.position, count + 1)}.",
        changed=(None, place.position),
    )


def delete_cell(notebook: Notebook, at: int, display_path: str) -> CellEdit:
    """The notebook without the cell at the position `at`."""
    kind, name, count = notebook.kind(at), notebook.ids()[at], len(notebook.heads)
    renamed = any("id" not in head for head in notebook.heads[at + 1 :])
    return CellEdit(
        data=notebook.without(at),
        name=name,
        position=at,
        before=notebook.text(at),
        after=None,
        title=f"Delete {seen_cell(notebook, at)}",
        result=f"Deleted {kind} cell {name}, which was cell {at + 1} of {count} in {display_path}."
        + (" The cells after it are now named by their new positions." if renamed else ""),
    )


def move_cell(notebook: Notebook, at: int, to: CellPosition, display_path: str) -> CellEdit:
    """The notebook with the cell that is at the position `at` elsewhere."""
    kind, name, count = notebook.kind(at), notebook.ids()[at], len(notebook.heads)
    place, where = _insert_index(notebook, to)
    data = notebook.moved(at, place)
    now = place.position - (place.position > at)
    # without ids the position would make every line differ
    lines = [
        f"{head.get('id', '')} {notebook.text(number).strip().partition(chr(10))[0][:OUTLINE_CHARS]}".strip()
        for number, head in enumerate(notebook.heads)
    ]
    moved = lines[:at] + lines[at + 1 :]
    moved.insert(now, lines[at])
    has_id = bool(notebook.heads[at].get("id"))
    new_name = name if has_id else f"cell-{now}"
    renamed = "" if has_id or now == at else " Cells without ids are now named by their new positions."
    result = f"Moved {kind} cell {name} {where} of {display_path}: {_at(now, count)}, {new_name}.{renamed}"
    if now == at:
        result = f"{kind.capitalize()} cell {name} is there already ({_at(now, count)}); nothing was written."
    return CellEdit(
        data=data,
        name=new_name,
        position=now,
        before="\n".join(lines),
        after="\n".join(moved),
        title=f"Move {seen_cell(notebook, at)} {_seen_place(notebook, to)}",
        result=result,
    )


def replace_cell(
    notebook: Notebook, at: int, new_kind: CellType | None, new_source: str | None, display_path: str
) -> CellEdit:
    """The notebook with another source or type of the cell at the position `at`; None: as it is."""
    old_kind, name, old_source = notebook.kind(at), notebook.ids()[at], notebook.text(at)
    kind, source = new_kind or old_kind, old_source if new_source is None else new_source
    if kind == BROKEN:
        raise ToolError(
            f"Cell {name} of {display_path} has no cell_type: give it one (code, markdown or raw).",
            code=ErrorCode.INVALID_PARAMETERS,
        )
    where = f"{kind} cell {name} (cell {at + 1} of {len(notebook.heads)}) in {display_path}"
    cleared = " Its outputs were cleared; it has not been run." if old_kind == "code" else ""
    changed: tuple[int | None, int] | None = (at, at)
    if kind != old_kind:
        data = notebook.with_type(at, kind, source)
        lost = notebook.heads[at].get("attachments") if kind == "code" else None
        attachments = " Its attachments are gone: code cells have none." if lost else ""
        gone = " Its outputs are gone." if old_kind == "code" else ""
        result = f"Changed {where}: it was a {old_kind} cell.{gone}{attachments}"
    elif source != old_source or (not source and notebook.source.missing(at)):
        data = notebook.with_source(at, source)
        result = f"Replaced the source of {where}.{cleared}"
    else:
        data, changed = notebook.data, None
        result = f"The source of {where} is exactly this already; nothing was written."
    title = f"Edit {seen_cell(notebook, at)}"
    return CellEdit(data, name, at, old_source, source, title, result, changed)


def _at(position: int, count: int) -> str:
    return f"it is cell {position + 1} of {count} (index {position})"


def _ended(source: str | None) -> str | None:
    return None if source is None else f"{source}\n"


def check_valid(notebook: Notebook, edit: CellEdit, display_path: str) -> str:
    """A note if the notebook is not valid; an error if it is the edit that makes it so."""
    if edit.data == notebook.data:
        return ""
    new = parse_notebook(edit.data)
    if edit.changed is not None:
        was, now = edit.changed
        before = None if was is None else cell_value(notebook.source, was)
        if problem := new_cell_problems(new.source, before, cell_value(new.source, now)):
            raise ToolError(
                f"{display_path} would no longer be a valid notebook: {problem}. Nothing was written.",
                code=ErrorCode.INVALID_PARAMETERS,
            )
    # in a large notebook the cells that stay as they are are not gone through only to say this
    problem = first_problem(new.source) if len(edit.data) <= CHECKED_BYTES else ""
    return f"\n[The notebook was not quite valid before and is not now: {problem}]" if problem else ""
