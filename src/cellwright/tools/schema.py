"""What the input schemas of the built-in tools share.

`timeout_seconds`, the field with which Claude gives a search, Git or code tool more or less time.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cellwright.agent.tool import ToolLimits
from cellwright.tools.paths import shown_path

FILE_PATH = {
    "type": "string",
    "minLength": 1,
    "description": "The file: an absolute path, or one relative to the working directory.",
}


def object_schema(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """The schema of a tool's input (JSON Schema draft 2020-12) with exactly these fields."""
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def counted(number: int, noun: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def path_field(description: str) -> dict[str, Any]:
    """A field for the path of a file or folder."""
    return {"type": "string", "minLength": 1, "description": description}


def globs_field(description: str) -> dict[str, Any]:
    """A field for globs of what is to be left out."""
    return {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 50, "description": description}


def in_folder(cwd: Path, tool_input: Mapping[str, Any]) -> str:
    """` in FOLDER` for the title of a call with a `path`."""
    return f" in {shown_path(cwd, cwd / str(tool_input['path']))}" if "path" in tool_input else ""


MIN_SECONDS = 5
MAX_SECONDS = 120
GRACE_SECONDS = 5
"""A tool ends its child itself and tells what came so far; the limit from outside is for when that fails."""


def timeout_field(default: float, most: int = MAX_SECONDS) -> dict[str, Any]:
    """The field's schema."""
    return {
        "type": "integer",
        "minimum": MIN_SECONDS,
        "maximum": most,
        "description": f"Seconds it may take, {default:g} by default.",
    }


def timeout_of(tool_input: Mapping[str, Any], default: float) -> float:
    """How long a call may take, in seconds."""
    return float(tool_input.get("timeout_seconds", default))


def timed_limits(most: int = MAX_SECONDS, *, results: int | None = None) -> ToolLimits:
    """The limits of a tool that keeps `timeout_seconds` itself."""
    return ToolLimits(seconds=most + GRACE_SECONDS, results=results)
