"""The declarations of the built-in tools that permissions and choices of tools rest on, by name.

Tools are above permissions, so what they declare is written in `built_in_tools.json`;
`tests/house/test_written_definitions.py` writes it, and fails if a tool declares something else by now.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from cellwright.agent.tool import Category, ToolAccess

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
    """Return the access of a built-in tool, by its name; the unknown one of any other."""
    written = written_tools().get(name)
    return ToolAccess() if written is None else written.access
