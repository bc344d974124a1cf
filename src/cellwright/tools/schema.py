"""What the input schemas of the built-in tools share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
