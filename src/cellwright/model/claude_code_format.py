"""The same conversation in our words and in Claude Code's: names of tools, results, the history as a session file."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cellwright.model.betas import all_loaded, with_summary_as_text, without_references
from cellwright.model.provider import Request

SERVER = "cellwright"
"""The name of the MCP server that offers our tools."""

PREFIX = f"mcp__{SERVER}__"
MAX_NAME = 64
"""The characters that the API takes in a tool's name."""

GO_ON = "Go on from the results above."
"""The prompt behind a history that ends with results: the program answers prompts only."""

FORMAT_VERSION = "2.1.330"
"""The version of the program whose session files ours are like."""

_DIGEST = 8

Message = Mapping[str, Any]


def wire_name(name: str) -> str:
    """The name under which the model knows our tool `name` in Claude Code; one that is too long is cut, and stays unique.

    >>> wire_name("Read")
    'mcp__cellwright__Read'
    """
    if len(PREFIX + name) <= MAX_NAME:
        return PREFIX + name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{(PREFIX + name)[: MAX_NAME - _DIGEST - 1]}_{digest}"


def tool_definitions(tools: bytes) -> list[dict[str, Any]]:
    """The definitions of our tools; those that the API itself runs are left out, since the program has no such."""
    return [tool for tool in json.loads(all_loaded(tools) or b"[]") if "input_schema" in tool]


def system_text(request: Request) -> str:
    """The system prompt of `request` as one text. The program has no structured output: the format is asked for in words."""
    parts = [block["text"] for block in json.loads(request.system or b"[]")]
    if request.output_format is not None:
        schema = json.dumps(request.output_format.get("schema", request.output_format), ensure_ascii=False)
        parts.append(
            "When you are done, answer with one JSON value that fits this JSON schema. Write nothing before "
            f"it, nothing behind it, and no fence around it:\n{schema}"
        )
    return "\n\n".join(parts)


def as_told(messages: Sequence[bytes]) -> list[dict[str, Any]]:
    """The messages as the program can be told them: its names for tools, and no block that only the API's own way has."""
    plain = without_references(list(with_summary_as_text(messages)))
    return [{**message, "content": _blocks(message["content"])} for message in map(json.loads, plain)]


def _blocks(content: str | Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [_block(block) for block in content]


def _block(block: Mapping[str, Any]) -> dict[str, Any]:
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    kind = bare["type"]
    if kind == "tool_use":
        return {**bare, "name": wire_name(bare["name"])}
    if kind == "tool_result" and isinstance(bare.get("content"), list):
        return {**bare, "content": [_block(inner) for inner in bare["content"]]}
    if kind == "server_tool_use" or kind.endswith("_tool_result"):
        return {"type": "text", "text": f"[{json.dumps(bare, ensure_ascii=False)}]"}
    return bare


def has_results(message: Message) -> bool:
    """Return whether the message holds results of calls."""
    return any(block["type"] == "tool_result" for block in message["content"])


def history_and_prompt(messages: Sequence[Message]) -> tuple[Sequence[Message], list[dict[str, Any]]]:
    """The past that a new program is told, and the content of the prompt that it answers.

    Results of calls stand in the past, since only the program's own calls could be answered with them. Thinking is left out:
    it is bound to what stood before it, and the program's own words about the machine move to the newest prompt.
    """
    *before, last = messages
    results = has_results(last)
    past = []
    for message in messages if results else before:
        kept = [block for block in message["content"] if block["type"] not in ("thinking", "redacted_thinking")]
        past.append({**message, "content": kept})
    prompt = [{"type": "text", "text": GO_ON}] if results else list(last["content"])
    return [message for message in past if message["content"]], prompt


def session_lines(messages: Iterable[Message], *, session_id: str, cwd: str, model: str) -> str:
    """The messages as a session file of Claude Code, which `--resume` reads; the fields are those its own files have."""
    lines: list[str] = []
    parent: str | None = None
    for message in messages:
        own = str(uuid.uuid4())
        line = {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": cwd,
            "sessionId": session_id,
            "version": FORMAT_VERSION,
            "type": message["role"],
            "uuid": own,
            "timestamp": "2026-01-01T00:00:00.000Z",
            "message": _kept(message, own, model),
        }
        lines.append(json.dumps(line, ensure_ascii=False))
        parent = own
    return "\n".join(lines) + "\n"


def _kept(message: Message, own: str, model: str) -> dict[str, Any]:
    said = {"role": message["role"], "content": message["content"]}
    if message["role"] == "user":
        return said
    usage = {"input_tokens": 0, "output_tokens": 0}
    ending = {"stop_reason": "end_turn", "stop_sequence": None}
    return {"id": f"msg_{own}", "type": "message", "model": model, **said, **ending, "usage": usage}


def results_of(message: Message, calls: Sequence[str]) -> dict[str, dict[str, Any]] | None:
    """The result of each of `calls` (ids), as MCP has results; what `message` says besides stands behind the last.

    None where the message is no answer to all of them, or says what an MCP result does not hold: the program is told it
    as its past then.
    """
    given = {block["tool_use_id"]: block for block in message["content"] if block["type"] == "tool_result"}
    besides = [block for block in message["content"] if block["type"] != "tool_result"]
    if set(given) != set(calls):
        return None
    results: dict[str, dict[str, Any]] = {}
    for call in calls:
        blocks = _blocks(given[call].get("content") or [])
        content = _mcp_content([*blocks, *besides] if call == calls[-1] else blocks)
        if content is None:
            return None
        results[call] = {"content": content, "isError": bool(given[call].get("is_error"))}
    return results


def _mcp_content(blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
    content: list[dict[str, Any]] = []
    for block in blocks:
        match block:
            case {"type": "text", "text": str(text)}:
                content.append({"type": "text", "text": text})
            case {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}:
                content.append({"type": "image", "mimeType": media_type, "data": data})
            case _:
                return None
    # an image in a result that is an error is dropped by the program, and an empty result gets words of its own
    return content
