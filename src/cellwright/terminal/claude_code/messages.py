"""Claude Code's messages on a program's streams: those that are read, those that are written, and a tool that answers.

`--input-format stream-json` reads user messages, a line of JSON each. A `control_request` is answered at once: what the
Agent SDK begins with is a success, all else is an error that says so. `--permission-prompt-tool`: a tool of an MCP server
answers in the user's place. What is written is in `telemetry/claude_messages.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from msgspec import Struct

from cellwright.agent.calls.approval import CanUseTool, Deny
from cellwright.agent.calls.permission_callback import ToolPermissionContext, permission_callback
from cellwright.agent.prompt import Prompt
from cellwright.agent.structured_output import AnswerType
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.events import Event, RunEnd
from cellwright.telemetry.claude_messages import ClaudeMessages, Message, page_result
from cellwright.terminal.views.plain_view import Unseen

if TYPE_CHECKING:
    from cellwright.config.hooks.asked_hooks import CallMcpTool


class ClaudeOutput(Struct, frozen=True, kw_only=True):
    """The things that such an output needs besides the events. `facts` gives what `system/init` says of the conversation."""

    out: TextIO
    facts: Callable[[], Mapping[str, Any]]
    answer_type: AnswerType | None = None
    partial_messages: bool = False

    def messages(self) -> ClaudeMessages:
        """Make the projection of a run's events."""
        return ClaudeMessages(self.facts, self.answer_type, partial_messages=self.partial_messages)


class ClaudeStreamView(Unseen):
    """A line for each message, as it comes."""

    def __init__(self, output: ClaudeOutput) -> None:
        self._out = output.out
        self._projection = output.messages()

    def emit(self, event: Event) -> None:
        for message in self._projection.messages(event):
            write_message(message, self._out)


class ClaudeJsonView(Unseen):
    """The result when the run is over, or with `all_messages` every message in one array."""

    def __init__(self, output: ClaudeOutput, *, all_messages: bool) -> None:
        self._out = output.out
        self._projection = output.messages()
        self._all_messages = all_messages
        self._messages: list[Message] = []

    def emit(self, event: Event) -> None:
        self._messages += self._projection.messages(event)
        if isinstance(event, RunEnd):
            shown: Any = self._messages if self._all_messages else self._messages[-1]
            write_message(shown, self._out)


def write_message(message: Any, out: TextIO) -> None:
    """Write it in one line as JavaScript does, since scripts look for `"type":"result"` with grep."""
    is_ascii = "utf" not in (out.encoding or "").lower()
    print(json.dumps(message, ensure_ascii=is_ascii, separators=(",", ":")), file=out, flush=True)


def write_page(text: str, session_id: str, out: TextIO) -> None:
    """Write a command's page as the result of a run."""
    write_message(page_result(text, session_id), out)


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


def answers_of(name: str, call: CallMcpTool) -> CanUseTool:
    """A callback that asks the tool `name` (`mcp__SERVER__TOOL`) about each call, and denies it without an answer."""
    server, _, tool = name.removeprefix("mcp__").partition("__")

    async def ask(tool_name: str, tool_input: dict[str, Any], context: ToolPermissionContext) -> Any:
        about = {"tool_name": tool_name, "input": tool_input, "tool_use_id": context.tool_use_id}
        try:
            text = await call(server, tool, about)
        except (LookupError, ToolError, CellwrightError) as error:
            return Deny(f"{name} could not be asked: {error}")
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or answer.get("behavior") not in ("allow", "deny"):
            return Deny(f"{name} gave no answer with `behavior` allow or deny: {text[:200]}")
        return answer

    return permission_callback(ask)
