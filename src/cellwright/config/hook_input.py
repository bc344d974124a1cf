"""A call's input as hooks are promised it: with absolute paths, so that a check of a path cannot be led astray."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from cellwright.permissions.rules.rule import EDITORS, READERS

_PATHS = ("file_path", "notebook_path", "path")


def as_documented(event: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The event's input, in which the paths of a file tool's call are absolute."""
    tool_input = fields.get("tool_input")
    if not isinstance(tool_input, Mapping) or fields.get("tool_name") not in READERS | EDITORS:
        return fields
    folder = str(fields.get("cwd") or "")
    absolute = {
        key: os.path.join(folder, os.path.expanduser(path))  # noqa: PTH111, PTH118  what is no path stays a text
        for key in _PATHS
        if isinstance(path := tool_input.get(key), str) and path and "\0" not in path
    }
    return {**fields, "tool_input": {**tool_input, **absolute}} if absolute else fields
