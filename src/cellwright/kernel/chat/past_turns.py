"""The turns of a session for panels that did not hear them, drawn from the transcript's messages as operations.

Long results are cut as live ones are; what Claude was told besides the user's words is not shown as their words.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from cellwright.conversation.runs.run import State
from cellwright.errors import CellwrightError, ErrorCode, log_fault
from cellwright.events import (
    CHARS_PER_TOKEN,
    Answered,
    Asked,
    Call,
    ContextCompacted,
    Event,
    Preview,
    QuestionKind,
    RunEnd,
    SubagentEvent,
    ToolEnd,
    ToolStart,
    ToolStatus,
    TurnEnd,
    UserPrompt,
    step_title,
)
from cellwright.features.conversation import Conversation
from cellwright.kernel.chat.conversation_log import RUNS_KEPT, ConversationLog, LoggedRun, past_run
from cellwright.kernel.output.code_displays import smaller_picture
from cellwright.kernel.output.protocol import Op
from cellwright.kernel.output.transcript_ops import (
    DISPLAY_TYPES,
    TranscriptOps,
    answer_op,
    ask_op,
    changed_lines,
    compacted_op,
    cut,
    end_title,
    shown_input,
)
from cellwright.model.models import limits
from cellwright.sessions.api_messages import GO_ON, begins_turn_encoded, is_attached, split_attached
from cellwright.sessions.export import ToolExchange
from cellwright.sessions.session import Session
from cellwright.sessions.transcripts.transcript import (
    COMPACTED,
    NO_MESSAGES,
    in_effect,
    is_boundary,
    is_said,
    read_transcript,
)
from cellwright.sessions.transcripts.transcript_file import Line
from cellwright.telemetry.run_state import text_of
from cellwright.telemetry.view_limits import DRAWN
from cellwright.text import lazy_pattern
from cellwright.tools.planning.tasks import Tasks, add_calls
from cellwright.tools.planning.todos import writes_whole_list

Json = Mapping[str, Any]

_AGENT_ID = lazy_pattern(r"\[agentId: ([A-Za-z0-9][\w-]{0,99});|\bworks in the background as ([A-Za-z0-9][\w-]{0,99});")
MAX_DEPTH = 3

logger = logging.getLogger(__name__)

_TAG = lazy_pattern(r"\s*<([a-z][\w-]*).*", re.DOTALL)

_CHANGES_TASKS = lazy_pattern(rb'"name":"Task(?:Create|Update)"')

PICTURE_CHARS = 200_000
"""A picture among a past turn's results that is still longer, as base64, when it was made smaller is left out."""


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


class PastTurns:
    """Keeps `log` to the session that `conversation` has: what of it is not there is drawn, in a thread of its own.

    On the agent's loop. Nothing is done while no panel is there (`is_needed`).
    """

    def __init__(self, conversation: Conversation, log: ConversationLog, is_needed: Callable[[], bool]) -> None:
        self._conversation = conversation
        self._log = log
        self._is_needed = is_needed
        self._drawing: asyncio.Task[None] | None = None

    def refresh(self) -> None:
        """A panel has come, or the conversation goes on with another session, or with less or more of this one."""
        session = self._conversation.sessions.started
        if session is None:
            return
        self._log.drop([run.id for run in self._log.runs.values() if run.finished and not self._is_of(run, session)])
        if not self._is_needed():
            return
        missing = self._missing(session)
        if self._drawing is not None:
            self._drawing.cancel()
        if missing:
            self._drawing = asyncio.get_running_loop().create_task(self._draw(session, missing))

    def _is_of(self, run: LoggedRun, session: Session) -> bool:
        taken_back = run.session == session.id and run.turn is not None and run.turn > self._log.turns
        return run.home == session.id and not taken_back

    def _missing(self, session: Session) -> set[int]:
        """The numbers of the last turns that no run shows."""
        last = self._log.turns
        shown = {
            turn
            for run in self._log.runs.values()
            if run.session == session.id and run.turn is not None
            for turn in range(run.turn, (run.last_turn or last) + 1)
        }
        return set(range(max(1, last - RUNS_KEPT + 1), last + 1)) - shown

    async def _draw(self, session: Session, missing: set[int]) -> None:
        lines = session.story_lines()
        agents = None if session.path is None else session.path.parent / session.id / "subagents"
        runs = await asyncio.to_thread(past_runs, session.id, lines, missing, agents, session.turn_ends())
        if self._conversation.sessions.started is session:
            self._log.insert_past(runs)


def past_runs(
    session_id: str,
    lines: Sequence[Line],
    requested: set[int],
    agents: Path | None = None,
    turn_ends: Mapping[int, Json] | None = None,
) -> list[LoggedRun]:
    """The turns with these numbers (from 1) of a session whose lines in effect are `lines`.

    The transcripts of the agents that worked in it are in the folder `agents`, where they are kept. `turn_ends` tells
    how its turns ended, as `Session.turn_ends` does: an older transcript does not know it.
    """
    tasks = Tasks()
    starts = [at for at, line in enumerate(lines) if begins_turn_encoded(line.message)]
    ends = [*starts[1:], len(lines)]
    runs: list[LoggedRun] = []
    for turn, (start, end) in enumerate(zip(starts, ends, strict=False), 1):
        try:
            has_tasks = any(_CHANGES_TASKS.search(line.message) for line in lines[start:end])
            if has_tasks:
                add_calls(tasks, [json.loads(line.message) for line in lines[start:end]])
            if turn not in requested:
                continue
            ended = (turn_ends or {}).get(lines[start].meta["seq"], {})
            todos = tasks.todos() if has_tasks else ()
            runs.append(_past_run(session_id, turn, lines[start:end], agents, ended, todos))
        except NO_MESSAGES:
            log_fault(logger, "turn %d of the session %s cannot be drawn", turn, session_id, level=logging.WARNING)
    return runs


def _past_run(
    session_id: str, turn: int, lines: Sequence[Line], agents: Path | None, ended: Json, todos: Sequence[Json]
) -> LoggedRun:
    first, *rest = lines
    blocks = _blocks(json.loads(first.message)["content"])
    words, attached = split_attached([str(block["text"]) for block in blocks if block["type"] == "text"])
    asked_at = float(first.meta["at"])
    end = _end(asked_at, rest, ended)
    no_changes = {"op": "changes", "files": [], "cells": [], "effects": [], "not_kept": []}
    ops = [
        *_ops(session_id, asked_at, lines, agents, attached, str(ended.get("mode", ""))),
        *([{"op": "todos", "todos": [dict(todo) for todo in todos]}] if todos else []),
        *map(_notice, ended.get("notices", ())),
        *([{**no_changes, **ended["changes"]}] if "changes" in ended else []),
        end,
    ]
    state: State = "done" if end["error"] is None else "failed"
    if end["stop_reason"] == "interrupted":
        state = "interrupted"
    return past_run(session_id, turn, "\n".join(words).strip("\n"), asked_at, ops, state)


def _end(asked_at: float, lines: Sequence[Line], ended: Json) -> Op:
    costs = [line.meta.get("cost_usd") for line in lines if "usage" in line.meta]
    return {
        "op": "end",
        "stop_reason": ended.get("stop_reason", "end_turn"),
        "cost_usd": None if None in costs else sum(filter(None, costs)),
        "session_cost_usd": None,
        "ms": ended.get("ms", (float(lines[-1].meta["at"]) - asked_at) * 1000 if lines else 0.0),
        "error": ended.get("error"),
    }


def _notice(notice: Json) -> Op:
    return {"op": "notice", "level": notice["level"], "text": notice["text"]}


def _ops(
    session_id: str, asked_at: float, lines: Sequence[Line], agents: Path | None, attached: Sequence[str], mode: str
) -> Iterator[Op]:
    prompt, *lines = lines
    model = next((str(line.meta["model"]) for line in reversed(lines) if "model" in line.meta), "")
    yield {"op": "run", "model": model, "mode": mode, "session": session_id, "started": asked_at}
    yield from map(_notice, prompt.meta.get("notices", ()))
    if attached:
        yield _told(attached)
    block, open_calls = 0, dict[str, PastCall]()
    shown = {call: facts for line in lines for call, facts in line.meta.get("calls", {}).items()}
    drawn_agents: list[Op] = []
    agent_cards = TranscriptOps(drawn_agents.append)
    for number, line in enumerate(lines):
        if is_boundary(line):
            yield _compacted(line, lines[number + 1 : number + 2])
        if not is_said(line):
            continue
        yield from map(_notice, line.meta.get("notices", ()))
        message = json.loads(line.message)
        at = float(line.meta["at"])
        for part in _blocks(message["content"]):
            if message["role"] == "assistant":
                yield from _block_ops(part, block, at, open_calls, shown)
                block += 1
            else:
                if agents is not None and (call := open_calls.get(str(part.get("tool_use_id")))):
                    ended = replace(call, result=text_of(part.get("content") or ""), failed=part.get("is_error", False))
                    for event in past_agent_events(ended, agents):
                        agent_cards.emit(event)
                    yield from drawn_agents
                    drawn_agents.clear()
                yield from _result(part, at, open_calls, shown)
        if "usage" in line.meta:
            yield _turn(line)


def _compacted(boundary: Line, behind: Sequence[Line]) -> Op:
    about = boundary.meta[COMPACTED]
    after = next((line for line in behind if not is_said(line)), boundary).meta.get("context_tokens", 0)
    cost = about.get("cost_usd")
    return compacted_op(
        ContextCompacted("done", about["trigger"], about["tokens_before"], after, cost, str(about.get("summary", "")))
    )


def _told(attached: Sequence[str]) -> Op:
    """Draw what Claude was told besides the user's words, each part by the name of its tag."""
    parts = [
        {
            "title": _TAG.sub(r"\1", text).replace("-", " ").capitalize() if _TAG.match(text) else "Context",
            "kind": "context",
            "text": cut(text, DRAWN.context),
            "chars": len(text),
            "tokens": len(text) // CHARS_PER_TOKEN,
        }
        for text in attached
    ]
    return {"op": "told", "tokens": sum(part["tokens"] for part in parts), "parts": parts}


def _block_ops(
    part: Json, block: int, at: float, open_calls: dict[str, PastCall], shown: Mapping[str, Json]
) -> Iterator[Op]:
    match part["type"]:
        case "text" if str(part["text"]).strip():
            yield {"op": "text", "block": block, "text": part["text"]}
        case "thinking" if str(part["thinking"]).strip():
            yield {"op": "thinking", "block": block, "text": part["thinking"], "at": at}
        case "tool_use" | "server_tool_use":
            open_calls[str(part["id"])] = PastCall(part, at)
            title = shown.get(str(part["id"]), {}).get("title") or ToolExchange(str(part["name"]), part["input"]).title
            yield {
                "op": "tool",
                "id": part["id"],
                "name": part["name"],
                "title": step_title(str(part["name"]), title, "running"),
                "input": shown_input(str(part["name"]), part["input"]),
                "parallel": False,
                "estimate": None,
                "at": at,
            }
        case kind if kind.endswith("_tool_result"):
            yield _tool_end(part, at, open_calls, "", {})


def _result(part: Json, at: float, open_calls: dict[str, PastCall], shown: Mapping[str, Json]) -> Iterator[Op]:
    if part["type"] == "text" and not is_attached(text := str(part["text"])) and text != GO_ON:
        # the user's words while the run went on
        yield {"op": "steer", "id": "", "text": text, "state": "delivered", "how": "steer", "at": at}
    if part["type"] != "tool_result":
        return
    call = open_calls.get(str(part["tool_use_id"]))
    content = part.get("content") or []
    for block in () if isinstance(content, str) else content:
        source = block.get("source", {})
        if block["type"] != "image" or (kind := str(source.get("media_type", ""))) not in DISPLAY_TYPES:
            continue
        if len(data := smaller_picture(kind, str(source.get("data", "")))) <= PICTURE_CHARS:
            yield {"op": "display", "id": part["tool_use_id"], "data": {kind: data}}
    facts = shown.get(str(part["tool_use_id"]), {})
    yield from _answered(str(part["tool_use_id"]), call, facts, at)
    yield _tool_end(part, at, open_calls, text_of(content), facts)
    todos = None if call is None else call.tool_use["input"].get("todos")
    if call is not None and writes_whole_list(call.tool_use) and isinstance(todos, list):
        yield {"op": "todos", "todos": todos}


def _permitted(call_id: str, call: PastCall, facts: Json, at: float) -> Iterator[Op]:
    """The decision about a call, and what the user said when they were asked."""
    if decided := facts.get("decided"):
        yield {"op": "decided", "tool": call_id, "rule": "", **decided}
    for number, reply in enumerate(facts.get("asked", ())):
        question = f"past-{call_id}-{number}"
        yield ask_op(Asked(question, call.tool_use, Preview(reply["title"]), "", at=at))
        yield {
            **{"op": "answered", "question": question, "tool": call_id, "reason": "", "rules": [], "edited": False},
            **{name: value for name, value in reply.items() if name != "title"},
            "input": None,
        }


def _answered(call_id: str, call: PastCall | None, facts: Json, at: float) -> Iterator[Op]:
    """The permission of the call; the user's answers to Claude's questions, and their yes to a plan."""
    if call is not None:
        yield from _permitted(call_id, call, facts, at)
    answers, plan = facts.get("answers"), facts.get("plan")
    if call is None or (answers is None and plan is None):
        return
    kind: QuestionKind = "plan" if answers is None else "question"
    given = {"decision": "approve", "plan": plan} if answers is None else {"answers": answers}
    preview = Preview("Approve the plan" if answers is None else str(next(iter(answers), "Claude asks")))
    yield ask_op(Asked(f"past-{call_id}", call.tool_use, preview, "", (), kind, at=at))
    yield answer_op(Answered(f"past-{call_id}", call_id, "allow", "policy", updated_input=given), kind)


def _tool_end(part: Json, at: float, open_calls: dict[str, PastCall], text: str, facts: Json) -> Op:
    failed = part.get("is_error", False)
    call = open_calls.pop(str(part["tool_use_id"]), None)
    began = at if call is None else call.at
    code = facts.get("code", "EXECUTION_ERROR")
    name, tool_input = ("", {}) if call is None else (str(call.tool_use["name"]), call.tool_use["input"])
    status = str(facts.get("status") or ("error" if failed else "success"))
    return {
        "op": "tool_end",
        "id": part["tool_use_id"],
        "status": status,
        "ms": facts.get("ms", (at - began) * 1000),
        "result": cut(text, DRAWN.result),
        "diff": facts.get("diff"),
        "lines": changed_lines(facts["diff"]) if isinstance(facts.get("diff"), str) else None,
        "error": {"code": code, "message": cut(text, DRAWN.result)} if failed else None,
        "title": end_title(name, facts.get("title") or (name and ToolExchange(name, tool_input).title), status),
    }


def _turn(line: Line) -> Op:
    usage, model = line.meta["usage"], limits(str(line.meta.get("model", "")))
    return {
        "op": "turn",
        "cost_usd": line.meta.get("cost_usd"),
        "context_tokens": line.meta.get("context_tokens", 0),
        "context_window": model.context_window if model.known else None,
        "input_tokens": (usage.get("input_tokens") or 0) + (usage.get("cache_creation_input_tokens") or 0),
        "output_tokens": usage.get("output_tokens") or 0,
        "cache_read_tokens": usage.get("cache_read_input_tokens") or 0,
    }


def _blocks(content: str | Sequence[Json]) -> Sequence[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
