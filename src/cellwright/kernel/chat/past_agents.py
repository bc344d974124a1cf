"""The cards of agents that worked in past turns, drawn from the agents' own transcripts, which are beside the session's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Call, Event, RunEnd, SubagentEvent, ToolEnd, ToolStart, ToolStatus, TurnEnd, UserPrompt
from cellwright.sessions.api_messages import begins_turn_encoded
from cellwright.sessions.export import ToolExchange
from cellwright.sessions.transcripts.transcript import NO_MESSAGES, in_effect, is_said, read_transcript
from cellwright.sessions.transcripts.transcript_file import Line
from cellwright.telemetry.run_state import text_of
from cellwright.text import lazy_pattern

Json = Mapping[str, Any]

_AGENT_ID = lazy_pattern(r"\[agentId: ([A-Za-z0-9][\w-]{0,99});|\bworks in the background as ([A-Za-z0-9][\w-]{0,99});")
MAX_DEPTH = 3


class PastCall(Struct, frozen=True):
    """A call in a transcript, which an agent may have worked for: its `tool_use` block, when it began, its result."""

    tool_use: Json
    at: float
    result: str = ""
    failed: bool = False


def past_agent_events(call: PastCall, folder: Path, depth: int = 0) -> Iterator[SubagentEvent]:
    """Yield what the agent did that worked for `call`, if one did whose transcript is in `folder`."""
    found = list(_AGENT_ID.finditer(call.result))
    if not found or depth >= MAX_DEPTH:
        return
    agent_id = next(filter(None, found[-1].groups()))
    kind = str(call.tool_use["input"].get("subagent_type") or "general-purpose")
    path = folder / f"{agent_id}.jsonl"
    try:
        # the first line of this work: an agent that is gone on with has more than one
        lines = _work(in_effect(read_transcript(path).lines), call.at)
        events = list(_events(lines, call, folder / agent_id / "subagents", depth))
    except (OSError, CellwrightError, *NO_MESSAGES):
        return  # the call is drawn without its agent
    for event in events:
        yield SubagentEvent(str(call.tool_use["id"]), agent_id, kind, event)


def _work(lines: Sequence[Line], began: float) -> list[Line]:
    starts = [at for at, line in enumerate(lines) if begins_turn_encoded(line.message)]
    ends = [*starts[1:], len(lines)]
    return next(
        (list(lines[start:end]) for start, end in zip(starts, ends, strict=True) if lines[start].meta["at"] >= began),
        [],
    )


def _events(lines: Sequence[Line], call: PastCall, folder: Path, depth: int) -> Iterator[Event]:
    if not lines:
        return
    began = float(lines[0].meta["at"])
    yield UserPrompt("", at=began)
    usage: dict[str, int] = {}
    costs: list[float | None] = []
    open_calls: dict[str, tuple[Json, float]] = {}
    for line in filter(is_said, lines[1:]):
        message, at = json.loads(line.message), float(line.meta["at"])
        if message["role"] == "assistant":
            yield from _answer(message, line)
            usage = _sum(usage, line.meta.get("usage", {}))
            costs.append(line.meta.get("cost_usd"))
            open_calls |= {str(block["id"]): (block, at) for block in _calls(message)}
            continue
        for block in message["content"]:
            if block["type"] == "tool_result" and (known := open_calls.pop(str(block["tool_use_id"]), None)):
                inner = PastCall(known[0], known[1], text_of(block.get("content") or ""), bool(block.get("is_error")))
                for event in past_agent_events(inner, folder, depth + 1):
                    yield event
                    if isinstance(event.event, RunEnd):  # what it took is its agent's
                        usage = _sum(usage, event.event.usage)
                        costs.append(event.event.cost_usd)
                status: ToolStatus = "error" if inner.failed else "success"
                yield ToolEnd(str(known[0]["id"]), str(known[0]["name"]), status, "", (at - known[1]) * 1000)
    stopped = call.result.startswith("The user stopped the agent") or bool(open_calls)
    reason = "interrupted" if stopped else "error" if call.failed else "end_turn"
    error = {"code": ErrorCode.INTERRUPTED, "message": ""} if reason != "end_turn" else None
    seconds = float(lines[-1].meta["at"]) - began
    cost = None if None in costs else sum(filter(None, costs))
    yield RunEnd(reason, "", usage, cost, seconds * 1000, len(costs), 0, 0, error=error)


def _sum(usage: Mapping[str, int], more: Json) -> dict[str, int]:
    counts = {name: value for name, value in more.items() if isinstance(value, int)}
    return {name: usage.get(name, 0) + counts.get(name, 0) for name in (*usage, *counts)}


def _answer(message: Json, line: Line) -> Iterator[Event]:
    model, usage = str(line.meta.get("model", "")), line.meta.get("usage", {})
    yield TurnEnd(dict(message), None, usage, model, cost_usd=line.meta.get("cost_usd"))
    if calls := _calls(message):
        titled = (Call(block, ToolExchange(str(block["name"]), block["input"]).title) for block in calls)
        yield ToolStart(tuple(titled))


def _calls(message: Json) -> list[Json]:
    content = message["content"]
    return [] if isinstance(content, str) else [block for block in content if block["type"] == "tool_use"]
