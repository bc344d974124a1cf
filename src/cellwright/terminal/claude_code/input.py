"""`--input-format stream-json`: user messages as Claude Code reads them, a line of JSON each.

A `control_request` is answered at once: what the Agent SDK begins with is a success, all else is an error that says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from msgspec import Struct

from cellwright.agent.prompt import Prompt
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.terminal.claude_code.output import write_message


class UserMessage(Struct, frozen=True):
    """One message: what the run is asked, and the line as it came."""

    prompt: Prompt
    line: Mapping[str, Any]


def user_messages(stdin: TextIO, stdout: TextIO) -> Iterator[UserMessage]:
    """The messages on `stdin`, until it ends. Raises `CellwrightError` INVALID_PARAMETERS for a line that is none."""
    for number, text in enumerate(stdin, 1):
        if not text.strip():
            continue
        try:
            line = json.loads(text)
        except ValueError as error:
            raise _wrong(number, f"is not JSON: {error}") from None
        if not isinstance(line, dict):
            raise _wrong(number, "is not a JSON object")
        match line.get("type"):
            case "user":
                yield UserMessage(_prompt(line, number), line)
            case "control_request":
                write_message(_response(line), stdout)
            case "control_response" | "keep_alive" | "update_environment_variables":
                pass  # answers to what was not asked
            case kind:
                raise _wrong(number, f"has the type {kind!r}, which is no message that can be read here")


def _prompt(line: Mapping[str, Any], number: int) -> Prompt:
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(block, dict) and "type" in block for block in content):
        raise _wrong(number, "has no `message.content`, a text or a list of content blocks")
    if all(block["type"] == "text" and isinstance(block.get("text"), str) for block in content):
        return "\n".join(block["text"] for block in content)  # a text may mention files
    return content


def _response(line: Mapping[str, Any]) -> dict[str, Any]:
    given = line.get("request")
    request: dict[str, Any] = given if isinstance(given, dict) else {}
    subtype = request.get("subtype")
    answer: dict[str, Any] = {"subtype": "success", "request_id": line.get("request_id"), "response": {}}
    problem = "" if subtype == "initialize" else f"{subtype} is not supported"
    if request.get("hooks"):  # a program that guards calls with them must not believe that it does
        problem = "hooks of a program are not called here; those of settings are"
    if problem:
        answer = {"subtype": "error", "request_id": line.get("request_id"), "error": problem}
    return {"type": "control_response", "response": answer}


def _wrong(number: int, problem: str) -> CellwrightError:
    return CellwrightError(ErrorCode.INVALID_PARAMETERS, f"Line {number} of stdin {problem}.")
