"""A call's result in the shapes that Claude Code gives to hooks, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellwright.agent.calls.tool_results import bounded
from cellwright.agent.tool import Content, ToolLimits

WRITERS = frozenset({"Write", "Edit", "MultiEdit", "EditSymbol", "NotebookEdit"})

MOST_CHARS = ToolLimits().result_chars


def response_of(
    tool_name: str, tool_input: Mapping[str, Any], content: Content, display: Mapping[str, Any] | None
) -> dict[str, Any]:
    """`tool_response` of a PostToolUse event: what the views were shown, and the fields that hooks look for."""
    text = _text_of(content)
    shown = dict(display or {})
    if tool_name == "Bash":
        return {**shown, "stdout": text, "stderr": "", "interrupted": False, "isImage": False}
    path = str(tool_input.get("file_path") or tool_input.get("notebook_path") or "")
    if tool_name in WRITERS:
        return {**shown, "filePath": path, "success": True, "content": text}
    if tool_name == "Read" and isinstance(content, str):
        return {**shown, "type": "text", "file": {"filePath": path, "content": text}}
    return {**shown, "content": content}


def updated_content(updated: Any) -> Content | None:
    """The content that a hook's `updatedToolOutput` says, in any of the shapes above; None where it says none."""
    if isinstance(updated, Mapping):
        file = updated.get("file")
        of_file = file.get("content") if isinstance(file, Mapping) else None
        updated = _shell_output(updated) or updated.get("content") or of_file
    if isinstance(updated, str):
        return bounded(updated, MOST_CHARS)
    if isinstance(updated, list) and updated and all(_is_block(block) for block in updated):
        return bounded([{"type": "text", "text": block["text"]} for block in updated], MOST_CHARS)
    return None


def _shell_output(updated: Mapping[str, Any]) -> str:
    parts = [updated.get("stdout"), updated.get("stderr")]
    return "\n".join(part for part in parts if isinstance(part, str) and part)


def _is_block(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "text" and isinstance(block.get("text"), str)


def _text_of(content: Content) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(block["text"]) for block in content if block.get("type") == "text")
