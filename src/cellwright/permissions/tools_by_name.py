"""Built-in tools by their names alone, for programs that ask the policy about a call and have no tool at hand.

Tools are above permissions, so what they declare is written in `built_in_tools.json`;
`tests/house/test_written_definitions.py` writes it, and fails if a tool declares something else by now.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from cellwright.agent.tool import ToolAccess
from cellwright.permissions.rules.rule import own_name

WRITTEN_ACCESS = Path(__file__).with_name("built_in_tools.json")


class WrittenAccess(Struct, frozen=True, omit_defaults=True):
    """The declarations of a tool that a decision rests on."""

    access: ToolAccess
    read_only: bool = False


class NamedTool(Struct, frozen=True):
    """A tool as far as its name says it."""

    name: str
    access: ToolAccess
    read_only: bool = False


def named_tool(name: str) -> NamedTool:
    """Return the built-in tool of that name, or an older name of it; any other tool declares nothing.

    >>> named_tool("Edit").access.kind, named_tool("NoSuchTool").access.kind
    ('edit', 'unknown')
    """
    found = None if name.startswith("mcp__") else _written().get(own_name(name))
    return NamedTool(name, ToolAccess()) if found is None else NamedTool(name, found.access, found.read_only)


@functools.cache
def _written() -> Mapping[str, WrittenAccess]:
    return msgspec.json.decode(WRITTEN_ACCESS.read_bytes(), type=dict[str, WrittenAccess])
