"""The declarations of the built-in tools that rooms below them, and those that have a name alone, choose by.

Tools are above, so what they declare is written in `built_in_tools.json`;
`tests/house/test_written_definitions.py` writes it, and fails if a tool declares something else by now.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from cellwright.agent.tool import AccessKind, Category, ToolAccess

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
