"""Each row of the table of Claude Code's fields, played against the tool that it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.tool import Tool, is_chosen
from cellwright.errors import ToolError
from declared_tools import declared, tools_of

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| `(\w+)` \| `([\w.\[\]]+)` \| (ignored|`(\w+)`)", re.MULTILINE)


def rows() -> list[tuple[str, str, str]]:
    """Tool, path of the field, and the field that stands for it here ("" where it is ignored)."""
    page = (DOCS / "coming-from-claude-code.md").read_text("utf-8")
    table = page.partition("## Inputs of tools")[2].partition("\n## ")[0]
    return [(tool, field, own) for tool, field, _, own in ROW.findall(table)]


def with_field(example: Mapping[str, Any], path: str, own: str) -> dict[str, Any]:
    """`example` with the foreign field at `path`, in place of `own` where there is one."""
    outer, _, name = path.rpartition("[].")
    if outer:
        return {**example, outer: [with_field(item, name, own) for item in example[outer]]}
    kept = {key: value for key, value in example.items() if key != own}
    return {**kept, name: example[own] if own else ["anything"]}


def test_every_row_is_taken_as_the_table_says(tmp_path: Path) -> None:
    tools = {tool.name: tool for tool in (*tools_of(tmp_path, tasks=False), *tools_of(tmp_path))}
    assert len(rows()) >= 5
    for name, path, own in rows():
        tool = tools[name]
        example = dict(tool.input_examples[0]) if tool.input_examples else {}
        if own and "[]" not in path and own not in example:  # an example need not have every field
            example[own] = 3 if tool.input_schema["properties"][own]["type"] == "integer" else "x"
        assert check_input(tool, with_field(example, path, own)) == check_input(tool, example), (name, path)


def test_every_alias_and_every_ignored_field_is_in_the_table(tmp_path: Path) -> None:
    tools = {tool.name: tool for tool in (*tools_of(tmp_path, tasks=False), *tools_of(tmp_path))}
    said = {(name, path.rpartition(".")[2]) for name, path, _ in rows()}
    assert {(tool.name, field) for tool in tools.values() for field in foreign_fields(tool)} == said


def test_what_is_one_thing_has_one_word() -> None:
    other = {"name": "symbol", "first_line": "offset", "last_line": "limit"}
    own = {name: set(tool.input_schema.get("properties", ())) for name, tool in declared().items()}
    searching = {name: fields for name, fields in own.items() if is_chosen(declared()[name], "@search")}
    assert {name: found for name, fields in searching.items() if (found := fields & other.keys())} == {}
    # lines by their first and last, as sessions of before have them
    read = {"path": "a.py", "offset": 5, "limit": 2}
    for lines in ({"first_line": 5, "last_line": 6}, {"offset": 5, "last_line": 6}, {"first_line": 5, "limit": 2}):
        assert check_input(declared()["CodeContext"], {"path": "a.py", **lines}) == read, lines


def foreign_fields(tool: Tool) -> set[str]:
    """The fields that the tool takes and its schema does not have."""
    assert tool.input_type is not None, tool.name
    return tool.input_type.foreign_fields()


def test_every_tool_refuses_a_field_that_nobody_has(tmp_path: Path) -> None:
    for tool in tools_of(tmp_path):
        example = dict(tool.input_examples[0]) if tool.input_examples else {}
        with pytest.raises(ToolError, match=r"there is no field nonsense; (the fields are|it takes none)"):
            check_input(tool, {**example, "nonsense": 1})
