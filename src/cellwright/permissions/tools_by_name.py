"""Built-in tools by their names alone, for programs that ask the policy about a call and have no tool at hand."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from cellwright.agent.calls.written_tools import written_tools
from cellwright.agent.tool import Category, ToolAccess, is_chosen
from cellwright.permissions.rules.rule import own_name


class NamedTool(Struct, frozen=True):
    """A tool as far as its name says it."""

    name: str
    access: ToolAccess
    read_only: bool = False
    category: Category = "other"


def named_tool(name: str) -> NamedTool:
    """Return the built-in tool of that name, or an older name of it; any other tool declares nothing.

    >>> named_tool("Edit").access.kind, named_tool("NoSuchTool").access.kind
    ('edit', 'unknown')
    """
    found = None if name.startswith("mcp__") else written_tools().get(own_name(name))
    if found is None:
        return NamedTool(name, ToolAccess())
    return NamedTool(name, found.access, found.read_only, found.category)


def chosen_names(choices: Iterable[str]) -> tuple[str, ...]:
    """The names of the built-in tools that `choices` mean, in their order; a choice that means none stands for itself.

    >>> chosen_names(["@edit", "Bash", "Nothing"])[-3:]
    ('Write', 'Bash', 'Nothing')
    """
    tools = [named_tool(name) for name in written_tools()]
    found = ([tool.name for tool in tools if is_chosen(tool, choice)] or [choice] for choice in choices)
    return tuple(dict.fromkeys(name for names in found for name in names))
