"""What the input schemas of the built-in tools share."""

from __future__ import annotations

from typing import Any

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
