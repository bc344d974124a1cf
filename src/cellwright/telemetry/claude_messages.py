"""A run as the messages of Claude Code and of the Agent SDK: what its command line and `cellwright.claude_agent_sdk` give.

What has no counterpart there is left out; what Claude Code does not know (`Notice`) is a `system` message.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from cellwright.agent.structured_output import AnswerProblem, AnswerType
from cellwright.errors import ErrorCode
from cellwright.events import (
    ContextCompacted,
    Event,
    Notice,
    Retrying,
    RunEnd,
    SubagentEvent,
    TextDelta,
    ThinkingDelta,
    ToolEnd,
    ToolInputDelta,
    TurnEnd,
    UserPrompt,
)
from cellwright.model.models import limits
from cellwright.telemetry.json_lines import number_line
from cellwright.telemetry.run_state import RunState

Message = dict[str, Any]

_SUBTYPES = {
    ErrorCode.MAX_TURNS_REACHED: "error_max_turns",
    ErrorCode.BUDGET_EXCEEDED: "error_max_budget_usd",
}
_OF_API = {
    ErrorCode.API_KEY_MISSING: "authentication_failed",
    ErrorCode.API_KEY_INVALID: "authentication_failed",
    ErrorCode.API_RATE_LIMITED: "rate_limit",
    ErrorCode.API_OVERLOADED: "overloaded",
    ErrorCode.API_NETWORK_ERROR: "server_error",
    ErrorCode.API_REQUEST_INVALID: "invalid_request",
    ErrorCode.CONTEXT_TOO_LONG: "invalid_request",
    ErrorCode.REFUSED: "invalid_request",
}
"""Errors whose text Claude Code gives as the `result` of a run that is a "success" with `is_error`."""


AgentMessages = Literal["none", "calls", "all"]
"""The messages of agents at work that are told: none, their calls with the results, or their text and thinking, too."""


class ClaudeMessages:
    """Turns the events of one run into Claude Code's messages. `facts` gives what `system/init` says of the conversation."""

    def __init__(
        self,
        facts: Callable[[], Mapping[str, Any]],
        answer_type: AnswerType | None = None,
        *,
        partial_messages: bool = False,
        agents: AgentMessages = "none",
    ) -> None:
        self._facts, self._answer_type = facts, answer_type
        self._partial_messages, self._agents = partial_messages, agents
        self._state = RunState()
        self._models: dict[str, Message] = {}
        self._open_block: int | None = None
        self._streams = False
        self._asked_at = 0.0
        self._api_seconds = 0.0

    def messages(self, event: Event) -> Iterator[Message]:
        """The messages that `event` comes to."""
        self._state.take(event)
        for message in self._of(event):
            of = self._state.prompt or self._state.end
            yield {**message, "session_id": "" if of is None else of.session_id, "uuid": str(uuid.uuid4())}

    def _of(self, event: Event) -> Iterator[Message]:  # noqa: C901  one arm for each event
        match event:
            case UserPrompt():
                self._asked_at = event.at
                facts = dict(self._facts())
                mode = {"permissionMode": event.mode}
                yield {"type": "system", "subtype": "init", **facts, "model": event.model, **mode}
            case TextDelta() | ThinkingDelta() | ToolInputDelta():
                if self._partial_messages:
                    yield from map(_stream_event, self._delta(event))
            case TurnEnd():
                self._api_seconds += max(event.at - self._asked_at, 0.0)
                self._asked_at = event.at
                self._count(event.model, event.usage, event.cost_usd)
                yield {"type": "assistant", "message": _assistant(event), "parent_tool_use_id": None}
                if self._streams:
                    yield from map(_stream_event, self._message_end(event))
            case Retrying():
                self._streams, self._open_block = False, None
                yield _retry(event)
            case ToolEnd():
                self._asked_at = event.at
                yield {"type": "user", "message": _tool_result(event), "parent_tool_use_id": None}
            case Notice():
                level = "info" if event.level == "info" else "warning"
                yield {"type": "system", "subtype": "informational", "content": event.message, "level": level}
            case ContextCompacted(state="started"):
                yield {"type": "system", "subtype": "status", "status": "compacting"}
            case ContextCompacted(state="done"):
                about = {"trigger": event.trigger, "pre_tokens": event.tokens_before, "post_tokens": event.tokens_after}
                yield {"type": "system", "subtype": "compact_boundary", "compact_metadata": about}
            case SubagentEvent():
                self._count_agent(event)
                if self._agents != "none":
                    yield from self._of_agent(event)
            case RunEnd():
                self._count_hooks(event)
                yield self._result(event)
            case _:
                pass  # nothing that Claude Code has a message for

    def _of_agent(self, about: SubagentEvent) -> Iterator[Message]:
        """The messages of an agent at work, each with the call that it works for; those of its own agents, too."""
        of_call = {"parent_tool_use_id": about.tool_use_id}
        task = {"task_id": about.agent_id, "tool_use_id": about.tool_use_id}
        match about.event:
            case UserPrompt() as begun:
                words = {"description": begun.prompt, "task_type": "local_agent"}
                yield {"type": "system", "subtype": "task_started", **task, **words}
            case TurnEnd() as turn:
                message = _assistant(turn)
                if self._agents == "calls":
                    calls = [block for block in message["content"] if block["type"] == "tool_use"]
                    message = {**message, "content": calls}
                if message["content"]:
                    yield {"type": "assistant", "message": message, **of_call}
            case ToolEnd() as end:
                yield {"type": "user", "message": _tool_result(end), **of_call}
            case RunEnd() as end:
                counted = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
                usage = {
                    "total_tokens": sum(end.usage.get(name) or 0 for name in counted),
                    "tool_uses": end.tools_succeeded + end.tools_failed,
                    "duration_ms": round(end.duration_ms),
                }
                status = "completed" if end.ok else "stopped" if end.stop_reason == "interrupted" else "failed"
                ended = {"status": status, "output_file": "", "summary": end.text, "usage": usage}
                yield {"type": "system", "subtype": "task_notification", **task, **ended}
            case SubagentEvent() as deeper:
                yield from self._of_agent(deeper)
            case _:
                pass

    def _denials(self) -> list[Message]:
        """The calls that were denied, in the order in which they were."""
        ends = [(item.end, item.call) for item in self._state.calls.values() if item.end is not None]
        denied = [(end, call) for end, call in ends if end.status == "denied"]
        return [
            {
                "tool_name": end.name,
                "tool_use_id": end.tool_use_id,
                "tool_input": dict(call.tool_use["input"]) if call is not None else {},
            }
            for end, call in sorted(denied, key=lambda each: each[0].seq)
        ]

    def _count_agent(self, about: SubagentEvent) -> None:
        """Count an agent's answers: what they cost is part of the total."""
        if isinstance(about.event, TurnEnd):
            self._count(about.event.model, about.event.usage, about.event.cost_usd)
        elif isinstance(about.event, RunEnd):
            self._count_hooks(about.event)
        elif isinstance(about.event, SubagentEvent):
            self._count_agent(about.event)

    def _count_hooks(self, end: RunEnd) -> None:
        for model, spent in end.hook_models.items():
            self._count(model, spent.usage, spent.cost_usd)

    def _count(self, model: str, usage: Mapping[str, Any], cost_usd: float | None) -> None:
        searches = (usage.get("server_tool_use") or {}).get("web_search_requests")
        counted = {
            "inputTokens": usage.get("input_tokens") or 0,
            "outputTokens": usage.get("output_tokens") or 0,
            "cacheReadInputTokens": usage.get("cache_read_input_tokens") or 0,
            "cacheCreationInputTokens": usage.get("cache_creation_input_tokens") or 0,
            "webSearchRequests": searches or 0,
            "costUSD": cost_usd or 0.0,
        }
        before = self._models.get(model, {})
        known = limits(model)
        self._models[model] = {
            **{name: before.get(name, 0) + value for name, value in counted.items()},
            "contextWindow": known.context_window,
            "maxOutputTokens": known.max_output,
        }

    def _delta(self, event: TextDelta | ThinkingDelta | ToolInputDelta) -> Iterator[Message]:
        """The API's own events, made again: what a message is before it begins to stream is not known here."""
        if not self._streams:
            self._streams = True
            started = {
                "type": "message",
                "role": "assistant",
                "model": "" if self._state.prompt is None else self._state.prompt.model,
                "content": [],
            }
            usage = {"input_tokens": 0, "output_tokens": 0}
            empty = {"stop_reason": None, "stop_sequence": None, "usage": usage}
            yield {"type": "message_start", "message": {**started, **empty}}
        if event.index != self._open_block:
            yield from self._close_block()
            self._open_block = event.index
            yield {"type": "content_block_start", "index": event.index, "content_block": _empty_block(event)}
        if delta := _delta_of(event):
            yield {"type": "content_block_delta", "index": event.index, "delta": delta}

    def _close_block(self) -> Iterator[Message]:
        if self._open_block is not None:
            yield {"type": "content_block_stop", "index": self._open_block}
            self._open_block = None

    def _message_end(self, turn: TurnEnd) -> Iterator[Message]:
        self._streams = False
        yield from self._close_block()
        stopped = {"stop_reason": turn.stop_reason, "stop_sequence": None}
        yield {"type": "message_delta", "delta": stopped, "usage": dict(turn.usage)}
        yield {"type": "message_stop"}

    def _result(self, end: RunEnd) -> Message:
        cost = end.session_cost_usd if end.session_cost_usd is not None else end.cost_usd
        numbers = self._state.numbers
        return {
            "type": "result",
            **self._outcome(end),
            "duration_ms": round(end.duration_ms),
            "duration_api_ms": round(self._api_seconds * 1000),
            "num_turns": end.requests,
            "stop_reason": None if end.stop_reason == "error" else end.stop_reason,
            "total_cost_usd": cost,
            "usage": {**_NO_USAGE, **end.usage},
            "modelUsage": self._models,
            "permission_denials": self._denials(),
            **({} if numbers is None else {"numbers": [number_line(number) for number in numbers.numbers]}),
        }

    def _outcome(self, end: RunEnd) -> Message:
        if end.error is None:
            return self._success(end)
        code = ErrorCode(end.error["code"])
        if code in _OF_API:
            status = end.error["details"].get("status")
            failed = {"subtype": "success", "is_error": True, "api_error_status": status}
            return {**failed, "result": f"API Error: {end.error['message']}"}
        subtype = _SUBTYPES.get(code, "error_during_execution")
        if "schema" in end.error["details"]:
            subtype = "error_max_structured_output_retries"
        return {"subtype": subtype, "is_error": True, "errors": [f"{code}: {end.error['message']}"]}

    def _success(self, end: RunEnd) -> Message:
        outcome: Message = {"subtype": "success", "is_error": False, "result": end.text}
        if self._answer_type is None:
            return outcome
        try:
            return {**outcome, "structured_output": self._answer_type.read(end.text)}
        except AnswerProblem as problem:
            return {
                "subtype": "error_max_structured_output_retries",
                "is_error": True,
                "errors": [f"The answer is not a valid {self._answer_type.name}: {problem}."],
            }


_NO_USAGE = {
    "input_tokens": 0,
    "output_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}


def _stream_event(event: Message) -> Message:
    return {"type": "stream_event", "event": event, "parent_tool_use_id": None}


def _assistant(turn: TurnEnd) -> Message:
    return {
        "id": turn.message_id,
        "type": "message",
        "role": "assistant",
        "model": turn.model,
        "content": turn.message["content"],
        "stop_reason": turn.stop_reason,
        "stop_sequence": None,
        "usage": dict(turn.usage),
    }


def _tool_result(end: ToolEnd) -> Message:
    result = {"type": "tool_result", "tool_use_id": end.tool_use_id, "content": end.content}
    failed = {} if end.status == "success" else {"is_error": True}
    return {"role": "user", "content": [{**result, **failed}]}


def _retry(event: Retrying) -> Message:
    return {
        "type": "system",
        "subtype": "api_retry",
        "attempt": event.attempt,
        "max_retries": event.max_attempts,
        "retry_delay_ms": round(event.wait_seconds * 1000),
        "error_status": None,
        "error": _OF_API.get(ErrorCode(event.code), "unknown"),
    }


def _empty_block(event: TextDelta | ThinkingDelta | ToolInputDelta) -> Message:
    match event:
        case TextDelta():
            return {"type": "text", "text": ""}
        case ThinkingDelta():
            return {"type": "thinking", "thinking": "", "signature": ""}
        case ToolInputDelta():
            return {"type": "tool_use", "id": event.tool_use_id, "name": event.name, "input": {}}


def _delta_of(event: TextDelta | ThinkingDelta | ToolInputDelta) -> Message | None:
    match event:
        case TextDelta():
            return {"type": "text_delta", "text": event.text}
        case ThinkingDelta():
            return {"type": "thinking_delta", "thinking": event.text}
        case ToolInputDelta():
            partial = event.partial_json
            return {"type": "input_json_delta", "partial_json": partial} if partial else None


def page_result(text: str, session_id: str) -> Message:
    """The result of a prompt that was a slash command: no model was asked."""
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "duration_ms": 0,
        "duration_api_ms": 0,
        "num_turns": 0,
        "result": text,
        "stop_reason": None,
        "session_id": session_id,
        "total_cost_usd": 0.0,
        "usage": dict(_NO_USAGE),
        "modelUsage": {},
        "permission_denials": [],
        "uuid": str(uuid.uuid4()),
    }
