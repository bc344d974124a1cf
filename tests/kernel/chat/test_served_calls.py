"""Tools that other agents call in a kernel."""

from __future__ import annotations

from typing import Any

from cellwright.kernel.cells.notebook_run import notebook_run_tool
from cellwright.kernel.execute.python_tool import python_tool
from cellwright.kernel.namespace.variables_tool import variables_tool
from cellwright.tools.mcp.kernel_tools import KERNEL_TOOLS, kernel_tools

WHICH = {"notebook_path", "kernel_id"}
NOT_OFFERED = {"below", "above"}
"""Places beside the cell that asks: agents ask from none."""


def form(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without its words; the type of choices is clear without it."""
    left_out = {"description", "default", *(["type"] if "enum" in schema else [])}
    plain = {name: part for name, part in schema.items() if name not in left_out}
    if "enum" in plain:
        plain["enum"] = [choice for choice in plain["enum"] if choice not in NOT_OFFERED]
    return plain


def test_they_are_offered_with_the_kernels_own_input() -> None:
    nothing: Any = None
    own = {
        tool.name: tool
        for tool in (
            python_tool(nothing, nothing, in_kernel=True),
            variables_tool(nothing, nothing),
            notebook_run_tool(_NoRunner()),  # type: ignore[arg-type]
        )
    }
    wrong = []
    for tool in kernel_tools(KERNEL_TOOLS, by_id=True):
        offered = {name: form(schema) for name, schema in tool.properties.items() if name not in WHICH}
        there = {
            name: form(schema)
            for name, schema in own[tool.name].input_schema["properties"].items()
            if name not in WHICH
        }
        if (offered, tool.read_only) != (there, own[tool.name].read_only):
            wrong.append((tool.name, offered, there))
    assert wrong == []


class _NoRunner:
    """Stands where no cell is run."""

    prepare = facts = preview = run = None
