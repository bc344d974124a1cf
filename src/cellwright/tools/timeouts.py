"""`timeout_seconds`, the field with which Claude gives a search, Git or code tool more or less time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellwright.agent.tool import ToolLimits

LEAST_SECONDS = 5
MOST_SECONDS = 120
GRACE_SECONDS = 5
"""A tool ends its child itself and tells what came so far; the limit from outside is for when that fails."""


def timeout_field(default: float, most: int = MOST_SECONDS) -> dict[str, Any]:
    """The field's schema."""
    return {
        "type": "integer",
        "minimum": LEAST_SECONDS,
        "maximum": most,
        "description": f"Seconds it may take, {default:g} by default.",
    }


def timeout_of(tool_input: Mapping[str, Any], default: float) -> float:
    """How long a call may take, in seconds."""
    return float(tool_input.get("timeout_seconds", default))


def timed_limits(most: int = MOST_SECONDS, *, results: int | None = None) -> ToolLimits:
    """The limits of a tool that keeps `timeout_seconds` itself."""
    return ToolLimits(seconds=most + GRACE_SECONDS, results=results)
