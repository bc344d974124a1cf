"""Validation of a notebook by nbformat's schemas, cell by cell, so that an edit answers for its own cell only.

The schemas are those that nbformat ships; compiled by fastjsonschema they take 30 ms, `import nbformat` alone takes a
second.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cellwright.tools.notebook.notebook_source import PARSED_BYTES, NotebookSource, parsed

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
