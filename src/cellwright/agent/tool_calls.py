"""The calls of one assistant message: decided on, asked for, run, and answered, each exactly once, whatever happens."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cellwright.agent.approval import Allow, CanUseTool, Decision, Deny, Policy, ToolUse
from cellwright.agent.input_schema import check_input
from cellwright.agent.tool import Content, Tool, ToolContext, ToolError, ToolResult
from cellwright.agent.whole_text import whole_strings, whole_text
from cellwright.errors import ErrorCode
from cellwright.events import Answered, Asked, Call, Emit, Preview, ToolEnd, ToolProgress, ToolStart, ToolStatus

if TYPE_CHECKING:
    from cellwright.agent.session import Session

logger = logging.getLogger(__name__)

LEAVING = (Exception, SystemExit, KeyboardInterrupt)
"""What others' code may raise. The last two would end the agent's loop, and whoever waits for it would hang."""

INTERRUPTED = "The user interrupted before this call was done. It may have had effects already."
NOT_RUN = "Not run: {reason}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended: what the model reads, what the views show."""

    content: Content
    status: ToolStatus
    error: Mapping[str, Any] | None = None
    display: Mapping[str, Any] | None = None
    duration_ms: float = 0.0


@dataclass(slots=True)
class ToolCalls:
    """Runs the calls of one message after another; counts what became of them for the run's end."""

    tools: Mapping[str, Tool]
    policy: Policy
    can_use_tool: CanUseTool | None
    session: Session
    emit: Emit
    max_parallel: int
    timeout: float | None
    succeeded: int = 0
    failed: int = 0
    parallel_batches: int = 0
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _question_ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def run(self, calls: Sequence[dict[str, Any]]) -> None:
        """Run `calls` and append one user message that answers them all, also when cancelled on the way."""
        results: dict[str, dict[str, Any]] = {}
        try:
            for batch in self._batches(calls):
                await self._run_batch(batch, results)
        finally:
            for tool_use in calls:
                if tool_use["id"] not in results:
                    self._end(tool_use, _failure(INTERRUPTED, "interrupted", ErrorCode.INTERRUPTED), results)
            self.session.append({"role": "user", "content": [results[tool_use["id"]] for tool_use in calls]})

    def refuse(self, calls: Sequence[dict[str, Any]], reason: str) -> None:
        """Answer `calls` without running any: the message they are in was cut short."""
        results: dict[str, dict[str, Any]] = {}
        for tool_use in calls:
            outcome = _failure(NOT_RUN.format(reason=reason), "error", ErrorCode.INVALID_PARAMETERS)
            self._end(tool_use, outcome, results)
        self.session.append({"role": "user", "content": [results[tool_use["id"]] for tool_use in calls]})

    def _batches(self, calls: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
        """Neighbouring read-only calls together, every other call alone, in the message's order."""
        for read_only, group in itertools.groupby(calls, key=self._is_read_only):
            if read_only:
                yield list(group)
            else:
                yield from ([call] for call in group)

    def _is_read_only(self, tool_use: Mapping[str, Any]) -> bool:
        tool = self.tools.get(tool_use["name"])
        return tool is not None and tool.read_only

    async def _run_batch(self, batch: list[dict[str, Any]], results: dict[str, dict[str, Any]]) -> None:
        parallel = len(batch) > 1
        self.parallel_batches += parallel
        self.emit(ToolStart(tuple(self._card(tool_use) for tool_use in batch), parallel))
        slots = asyncio.Semaphore(self.max_parallel)

        async def run_one(tool_use: dict[str, Any]) -> None:
            async with slots:
                self._end(tool_use, await self._outcome(tool_use), results)

        if not parallel:
            await run_one(batch[0])
            return
        async with asyncio.TaskGroup() as group:
            for tool_use in batch:
                group.create_task(run_one(tool_use))

    def _card(self, tool_use: Mapping[str, Any]) -> Call:
        tool = self.tools.get(tool_use["name"])
        return Call(tool_use, _title(tool, tool_use), tool is not None and tool.read_only)

    def _end(self, tool_use: Mapping[str, Any], outcome: Outcome, results: dict[str, dict[str, Any]]) -> None:
        ok = outcome.status == "success"
        self.succeeded += ok
        self.failed += not ok
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": tool_use["id"], "content": outcome.content}
        if not ok:
            result["is_error"] = True
        results[tool_use["id"]] = result
        self.emit(
            ToolEnd(
                tool_use["id"],
                tool_use["name"],
                outcome.status,
                outcome.content,
                outcome.duration_ms,
                outcome.display,
                outcome.error,
            )
        )

    async def _outcome(self, tool_use: Mapping[str, Any]) -> Outcome:
        tool = self.tools.get(tool_use["name"])
        if tool is None:
            names = ", ".join(sorted(self.tools)) or "none"
            message = f"There is no tool named {tool_use['name']}. The tools are: {names}."
            return _failure(message, "error", ErrorCode.TOOL_NOT_FOUND)
        tool_input: Mapping[str, Any] = tool_use["input"]
        try:
            check_input(tool, tool_input)
            permission = await self._permission(tool, tool_use)
            if isinstance(permission, Outcome):
                return permission
            if permission.updated_input is not None:
                tool_input = permission.updated_input
                check_input(tool, tool_input)
        except ToolError as error:
            return _failure(error.message, "error", error.code, error.details)
        outcome = await self._call(tool, tool_use["id"], dict(tool_input))
        return _with_note(outcome, tool_input) if permission.updated_input is not None else outcome

    async def _permission(self, tool: Tool, tool_use: Mapping[str, Any]) -> Allow | Outcome:
        """The decision on a call, asking the user where the policy says so; an `Outcome` when it may not run."""
        decision = self._decide(tool, tool_use["input"])
        if decision.behavior == "allow":
            return Allow(by="policy")
        if decision.behavior == "deny":
            return _denied(tool.name, decision.reason)
        answer = await self._ask(tool, tool_use, decision)
        if isinstance(answer, Deny):
            return _denied(tool.name, answer.reason or "the user said no")
        if answer.rule and answer.scope != "once":
            self.session.granted = (*self.session.granted, answer.rule)
        if answer.updated_input is not None:
            again = self._decide(tool, answer.updated_input)
            if again.behavior == "deny":
                return _denied(tool.name, again.reason)
        return answer

    def _decide(self, tool: Tool, tool_input: Mapping[str, Any]) -> Decision:
        policy = self.policy.allowing(self.session.granted) if self.session.granted else self.policy
        return policy.decide(tool.name, tool_input, read_only=tool.read_only)

    async def _ask(self, tool: Tool, tool_use: Mapping[str, Any], decision: Decision) -> Allow | Deny:
        """One question at a time; what was allowed for the session meanwhile is not asked again."""
        async with self._asking:
            now = self._decide(tool, tool_use["input"])
            if now.behavior == "allow":
                return Allow(by="policy")
            question_id = f"{self.session.id}-{self.session.next_seq}-{next(self._question_ids)}"
            preview = await _preview(tool, tool_use["input"])
            self.emit(Asked(question_id, tool_use, preview, decision.reason, decision.suggestions))
            if self.can_use_tool is None:
                answer: Allow | Deny = Deny(nobody_to_ask(decision), by="policy")
            else:
                use = ToolUse(tool_use["id"], tool.name, tool_use["input"], decision, preview, question_id)
                answer = await self._answer(use, self.can_use_tool)
            self.emit(_answered(question_id, str(tool_use["id"]), answer))
            return answer

    async def _answer(self, use: ToolUse, can_use_tool: CanUseTool) -> Allow | Deny:
        try:
            return await can_use_tool(use)
        except asyncio.CancelledError:
            self.emit(Answered(use.question_id, use.id, "deny", "policy", reason="interrupted"))
            raise
        except LEAVING as error:
            logger.warning("can_use_tool raised", exc_info=True)
            return Deny(f"can_use_tool raised {type(error).__name__}: {error}")

    async def _call(self, tool: Tool, tool_use_id: str, tool_input: dict[str, Any]) -> Outcome:
        if not tool.read_only:
            # what is about to happen must be known after a crash
            self.session.flush()
        started = time.perf_counter()
        outcome = await self._guarded(tool, tool_input, ToolContext(tool_use_id, self._progress_of(tool_use_id)))
        return replace(outcome, duration_ms=(time.perf_counter() - started) * 1000)

    async def _guarded(self, tool: Tool, tool_input: dict[str, Any], ctx: ToolContext) -> Outcome:
        """The tool's result within its time limit; everything it may raise becomes something Claude can read."""
        limits = [seconds for seconds in (tool.limits.seconds, self.timeout) if seconds is not None]
        limit = asyncio.timeout(min(limits, default=None))
        try:
            async with limit:
                return _success(tool, await tool.call(tool_input, ctx))
        except ToolError as error:
            status: ToolStatus = "timeout" if error.code == ErrorCode.EXECUTION_TIMEOUT else "error"
            return _failure(error.message, status, error.code, error.details)
        except asyncio.CancelledError:
            if _being_cancelled():
                raise
            return _failure(f"{tool.name} was cancelled from within.", "error", ErrorCode.EXECUTION_ERROR)
        except LEAVING as error:
            if limit.expired():
                return _timed_out(tool.name, min(limits))
            logger.warning("tool %s raised", tool.name, exc_info=True)
            message = "".join(traceback.format_exception_only(error)).strip()
            return _failure(f"{tool.name} raised {message}", "error", ErrorCode.EXECUTION_ERROR)

    def _progress_of(self, tool_use_id: str) -> Any:
        loop = asyncio.get_running_loop()
        emit = self.emit

        def progress(
            text: str = "",
            message: str = "",
            fraction: float | None = None,
            output: Mapping[str, Any] | None = None,
        ) -> None:
            event = ToolProgress(tool_use_id, whole_text(text), whole_text(message), fraction, whole_strings(output))
            try:
                on_loop = asyncio.get_running_loop() is loop
            except RuntimeError:
                on_loop = False
            if on_loop:
                emit(event)
            else:
                loop.call_soon_threadsafe(emit, event)

        return progress


def _being_cancelled() -> bool:
    """Whether it is the run that is cancelled, and not only something that a tool waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _title(tool: Tool | None, tool_use: Mapping[str, Any]) -> str:
    if tool is not None and tool.title is not None:
        try:
            return tool.title(tool_use["input"])
        except (KeyError, TypeError, ValueError):
            pass  # the input was not checked yet; its card still needs a name
    return str(tool_use["name"])


async def _preview(tool: Tool, tool_input: Mapping[str, Any]) -> Preview:
    if tool.preview is None:
        return Preview(f"Run the tool {tool.name}", _input_lines(tool_input))
    return await tool.preview(tool_input)


def _input_lines(tool_input: Mapping[str, Any]) -> str:
    return "\n".join(f"{key}: {value}" for key, value in tool_input.items())


def nobody_to_ask(decision: Decision) -> str:
    """Why a call that must be asked for is denied where nobody can be asked, and the rule that would allow it."""
    rules = [suggestion.rule for suggestion in decision.suggestions if suggestion.rule]
    way_out = f" The rule {rules[-1]} would allow it." if rules else ""
    return f"{decision.reason} There is nobody to ask here.{way_out}"


def _answered(question_id: str, tool_use_id: str, answer: Allow | Deny) -> Answered:
    if isinstance(answer, Deny):
        return Answered(question_id, tool_use_id, "deny", answer.by, reason=answer.reason)
    return Answered(
        question_id,
        tool_use_id,
        "allow",
        answer.by,
        answer.scope,
        rule=answer.rule,
        edited=answer.updated_input is not None,
        updated_input=answer.updated_input,
    )


def _failure(message: str, status: ToolStatus, code: ErrorCode, details: Mapping[str, Any] | None = None) -> Outcome:
    message = whole_text(message)
    return Outcome(
        message, status, {"code": str(code), "message": message, "details": whole_strings(dict(details or {}))}
    )


def _timed_out(name: str, seconds: float) -> Outcome:
    return _failure(
        f"{name} was stopped after {seconds:g} s, its time limit. Narrow the call down, or split it.",
        "timeout",
        ErrorCode.EXECUTION_TIMEOUT,
        {"requested_timeout": seconds, "actual_execution_time": seconds},
    )


def _denied(name: str, reason: str) -> Outcome:
    return _failure(f"{name} was not allowed: {reason}", "denied", ErrorCode.PERMISSION_DENIED)


def _success(tool: Tool, value: ToolResult | Content) -> Outcome:
    result = value if isinstance(value, ToolResult) else ToolResult(value)
    content = whole_strings(_bounded(result.content, tool.limits.result_chars))
    display = whole_strings(result.display)
    if not result.is_error:
        return Outcome(content, "success", None, display)
    text = content if isinstance(content, str) else _text_of(content)
    error = {"code": str(ErrorCode.EXECUTION_ERROR), "message": text[-2000:], "details": {}}
    return Outcome(content, "error", error, display)


def _bounded(content: Content, limit: int) -> Content:
    """Never empty (the API refuses it), never longer than the tool's limit; what was cut is said."""
    if isinstance(content, str):
        if len(content) <= limit:
            return content if content.strip() else "(no output)"
        cut = len(content) - limit
        return f"{content[: limit // 2]}\n[… {cut:,} characters left out …]\n{content[-(limit - limit // 2) :]}"
    blocks = [
        {**block, "text": _bounded(block["text"], limit)} if block.get("type") == "text" else block for block in content
    ]
    return blocks or "(no output)"


def _text_of(content: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(str(block["text"]) for block in content if block.get("type") == "text")


def _with_note(outcome: Outcome, tool_input: Mapping[str, Any]) -> Outcome:
    """Claude must know that what ran is not what it asked for."""
    note = f"[The user edited this call before it ran. Its input was:\n{_input_lines(tool_input)}]"
    content: Content = (
        f"{note}\n{outcome.content}"
        if isinstance(outcome.content, str)
        else [{"type": "text", "text": note}, *outcome.content]
    )
    return Outcome(content, outcome.status, outcome.error, outcome.display, outcome.duration_ms)
