"""A notebook with one of its cells replaced, inserted, deleted or moved: worked out, nothing written.

The schemas are those that nbformat ships; compiled by fastjsonschema they take 30 ms, `import nbformat` alone takes a
second.
"""

from __future__ import annotations

import codecs
import functools
import importlib.util
import json
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.files.diff import Diff, diff_texts
from cellwright.tools.files.formats.encodings import UTF_8, Encoding, decode, encode_changed
from cellwright.tools.notebook.notebook_json import InsertIndex, Notebook, parse_notebook
from cellwright.tools.notebook.notebook_source import BROKEN, CHECKED_BYTES, PARSED_BYTES, NotebookSource, parsed
from cellwright.tools.notebook.notebook_spans import BLOCK_BYTES
from cellwright.tools.notebook.open_notebook import CellPosition, CellType, cell_name

if TYPE_CHECKING:
    from fastjsonschema import JsonSchemaValueException


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
        return {(*_value_if_wrong(error), error.message): error.message for error in found.errors}
    return {}


def _value_if_wrong(error: JsonSchemaValueException) -> tuple[str, ...]:
    """The value, where it is wrong itself; of an object that has too little or too much the names are in the message."""
    return () if error.rule in ("required", "additionalProperties") else (repr(error.value),)


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
    lines = _outline(notebook)
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


def _outline(notebook: Notebook) -> list[str]:
    """A line for each cell; without ids the position would make every line differ."""
    return [
        f"{head.get('id', '')} {notebook.text(number).strip().partition(chr(10))[0][:OUTLINE_CHARS]}".strip()
        for number, head in enumerate(notebook.heads)
    ]


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
