"""The test for calls with effects that cannot be taken back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cellwright.agent.tool import Tool
from cellwright.permissions.policy import PermissionPolicy
from cellwright.text import visible_line

_TAKEN_BACK = ("files", "notebooks", "search", "planning")
"""Categories whose tools have no effects but changed files and cells, unless one says that it has."""


def effect_of(tool: Tool, tool_input: Mapping[str, Any], roots: Sequence[Path]) -> str:
    """The title of a call that has effects besides changed files and cells; empty for one that has none.

    A command counts unless it only reads. What is not known counts.
    """
    said = tool.has_effects() if callable(tool.has_effects) else tool.has_effects
    if not (tool.category not in _TAKEN_BACK if said is None else said):
        return ""
    if tool.read_only and tool.category != "web":
        return ""
    if tool.access.kind == "shell" and _only_reads(tool, tool_input, roots):
        return ""
    return visible_line(f"{tool.name}: {_title(tool, tool_input)}".removesuffix(": "), 200)


def _title(tool: Tool, tool_input: Mapping[str, Any]) -> str:
    if isinstance(command := tool_input.get("command"), str):
        return command
    try:
        return tool.title(tool_input) if tool.title is not None else ""
    except Exception:  # noqa: BLE001  a title is the tool's own code, which may fail as it likes
        return ""


def _only_reads(tool: Tool, tool_input: Mapping[str, Any], roots: Sequence[Path]) -> bool:
    facts = tool.facts(tool_input) if tool.facts is not None else {}
    # without a rule, what is allowed is what changes nothing
    decision = PermissionPolicy(roots=tuple(roots), cwd=roots[0]).decide(tool, {**tool_input, **facts})
    return decision.behavior == "allow"
