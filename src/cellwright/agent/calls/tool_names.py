"""The names of tools: what the built-in ones declare under theirs, and the other names that models remember.

Tools are above, so what they declare is written in `built_in_tools.json`, for the rooms below them and those that have a
name alone; `tests/house/test_written_definitions.py` writes it, and fails if a tool declares something else by now.

Other agents use other names for such tools. A name that a tool has itself is never taken for another. Names are applied
before a call is checked and judged, as those of fields are (`tool_input.py`), so that permissions, hooks and transcripts
know the tool that is meant.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from cellwright.agent.calls.tool_input import snake_case, spelling_of, with_own_fields
from cellwright.agent.tool import AccessKind, Category, ToolAccess

if TYPE_CHECKING:
    from cellwright.agent.tool import Tool


WRITTEN_ACCESS = Path(__file__).with_name("built_in_tools.json")


class WrittenAccess(Struct, frozen=True, omit_defaults=True):
    """The declarations of a tool that a decision rests on."""

    access: ToolAccess
    read_only: bool = False
    category: Category = "other"


@functools.cache
def written_tools() -> Mapping[str, WrittenAccess]:
    """The declarations of every built-in tool."""
    return msgspec.json.decode(WRITTEN_ACCESS.read_bytes(), type=dict[str, WrittenAccess])


def access_of(name: str) -> ToolAccess:
    """Return the access of a built-in tool, by its name; the unknown one of any other.

    >>> access_of("Edit").kind, access_of("NoSuchTool").kind
    ('edit', 'unknown')
    """
    written = written_tools().get(name)
    return ToolAccess() if written is None else written.access


def changes_cells(name: str) -> bool:
    """Return whether it is the tool that edits the cells of a notebook."""
    return access_of(name) == ToolAccess("edit", "notebook_path")


def name_with(kind: AccessKind, field: str) -> str:
    """Return the name of the first built-in tool with this access. Raises StopIteration if there is none.

    >>> name_with("read", "file_path"), name_with("edit", "notebook_path")
    ('Read', 'NotebookEdit')
    """
    return next(name for name, tool in written_tools().items() if tool.access == ToolAccess(kind, field))


def meant_tool(name: str, given: Mapping[str, Any], tools: Mapping[str, Tool]) -> str:
    """The name of the tool that a call of `name` with the input `given` means; `name` itself if none is meant.

    Of the tools that have the name among their `other_names` the likeliest whose fields fit the call is taken; spellings of
    their own names (`todo_write`, `web_fetch`) need none. The name of a server's tool (`mcp__…`) means that tool alone.
    """
    if name in tools or name.startswith("mcp__"):
        return name
    spelling = spelling_of(name)
    own = [tool for tool in tools if not tool.startswith("mcp__")]
    same = [tool for tool in own if spelling_of(tool) == spelling]
    if len(same) > 1:
        return name
    meant = same
    if not same:
        # those first that the name means above all
        snake = snake_case(name)
        known = [tools[tool] for tool in own if snake in tools[tool].other_names]
        meant = [tool.name for tool in sorted(known, key=lambda tool: tuple(tool.other_names).index(snake))]
    for tool in meant:
        schema = tools[tool].input_schema
        fields = schema.get("properties", {})
        named = with_own_fields(given, fields)
        if set(named) <= set(fields) and set(schema.get("required", ())) <= set(named):
            return tool
    return meant[0] if meant else name
