"""The calls of one assistant message: decided on, asked for, run, and answered, each exactly once, whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.agent_setup import NO_CHECKPOINTS, TurnRecord
from cellwright.agent.calls.approval import Allow, Deny
from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.calls.permission_gate import LEAVING, PermissionGate, Verdict
from cellwright.agent.calls.tool_results import (
    EDITORS,
    Outcome,
    ResultRedaction,
    RunningCall,
    bounded,
    edit_note,
    json_of,
)
from cellwright.agent.hooks.run_hooks import RunHooks, context_blocks
from cellwright.agent.thread import tell_waiting, time_limit
from cellwright.agent.tool import Content, Progress, Tool, ToolContext, ToolResult
from cellwright.errors import PASSING_CODES, ErrorCode, ToolError, described, log_fault
from cellwright.events import (
    Call,
    Emit,
    ParallelBatch,
    QuestionKind,
    ToolEnd,
    ToolProgress,
    ToolStart,
    ToolStatus,
)
from cellwright.model.images import admitted, takes_time
from cellwright.sessions.file_changes import CallId, changing_call, forget_outcomes
from cellwright.text import replace_surrogates, replace_surrogates_in, visible, visible_line, without_traceback

if TYPE_CHECKING:
    from cellwright.agent.spending import RunLimits
    from cellwright.sessions.session import Session
    from cellwright.sessions.turn_journal import TurnJournal

logger = logging.getLogger(__name__)

INTERRUPTED = "The user interrupted"
FAILED = "The run ended by a fault"
CUT_OFF = "{cause} before this call was done. It may have had effects already."
NOT_BEGUN = "{cause} before this call began. It was not run."
NOT_RUN = "Not run: {reason}"

DENIED: Mapping[QuestionKind, str] = {
    "permission": "{name} was not allowed: {reason}",
    "question": "The user did not answer: {reason}",
    "plan": "The user does not approve the plan yet: {reason}\n"
    "Plan mode goes on: nothing may be changed. Work the remark in, then show the new plan with {name}.",
}


class _Place(Struct):
    """A call's place. `reads` is None until it is known whether the call only reads."""

    reads: bool | None
    known: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class ParallelCalls:
    """The order of a batch: calls that only read run beside each other, one that does more when those before it are over.

    Of most calls the tool says which they are (`known_to_read`). What a command does shows once hooks have had their word,
    which may have made another command of it; until then those behind it wait.
    """

    def __init__(self, known_to_read: Sequence[bool]) -> None:
        self._places = [_Place(reads or None) for reads in known_to_read]

    @contextlib.contextmanager
    def place(self, index: int) -> Iterator[None]:
        """Hold the place of the call at `index` until it is over, however it ends."""
        place = self._places[index]
        try:
            yield
        finally:
            place.known.set()
            place.ended.set()

    async def may_start(self, index: int, *, reads: bool) -> None:
        """Wait until the call at `index`, of which is known now whether it only `reads`, may run."""
        own = self._places[index]
        own.reads = reads
        own.known.set()
        for before in self._places[:index]:
            if before.reads is None:
                await before.known.wait()
            if not (reads and before.reads):
                await before.ended.wait()


async def start_at_once(*, reads: bool) -> None:
    """Let a call run that shares its batch with none, or keeps its order by itself."""


class MayStart(Protocol):
    """Waits until a call may run, of which is known now whether it only `reads`."""

    async def __call__(self, *, reads: bool) -> None: ...


class CallsSoFar(Struct):
    """The outcome of a run's calls. `stop_reason`: the reason the run must not continue after them, None if it may."""

    succeeded: int = 0
    failed: int = 0
    parallel_batches: list[ParallelBatch] = field(default_factory=list)
    stop_reason: str | None = None


class Changes(Struct):
    """The record and the lock of calls that may change something: agents share them with the run that they work for."""

    record: TurnRecord = NO_CHECKPOINTS
    """The run's record, which is told of each call that runs."""
    one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)


class MessageCalls(Struct):
    """The calls of one message while they are run, and what is known of each, by its id.

    `answered_early`: a result is written down while others are still open.
    """

    calls: Sequence[dict[str, Any]] = ()
    answered_early: bool = True
    not_run: str = ""
    """The answer to the calls that do not run, as one before them says."""
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    hook_blocks: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The words of hooks on a call; under "" on all."""
    inputs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    running: dict[str, RunningCall] = field(default_factory=dict)


class ToolCalls(Struct):
    """Runs the calls of one message after another, and counts what became of them for the run's end."""

    tools: dict[str, Tool]
    gate: PermissionGate
    session: Session
    journal: TurnJournal
    emit: Emit
    hooks: RunHooks
    limits: RunLimits
    redaction: ResultRedaction
    context_of: Callable[[str, Progress, Verdict], ToolContext]
    """Makes a call's link to the run, by its id."""
    changes: Changes = field(default_factory=Changes)
    so_far: CallsSoFar = field(default_factory=CallsSoFar)
    message: MessageCalls = field(default_factory=MessageCalls)

    @property
    def unanswered(self) -> str:
        """The denial that ends the run, or nothing."""
        return self.gate.unanswered if self.limits.ends_when_denied else ""

    async def run(self, calls: Sequence[dict[str, Any]]) -> None:
        """Run `calls`, of one message. Call `answers` behind it, also when it is cancelled on the way."""
        self.message = message = MessageCalls(calls)
        known = [(self.tools.get(tool_use["name"]), tool_use) for tool_use in calls]
        self.gate.calls = [(tool, tool_use) for tool, tool_use in known if tool is not None]
        for batch, parallel in self._batches(calls):
            if self.so_far.stop_reason is not None:
                message.not_run = NOT_RUN.format(reason=self.so_far.stop_reason)
                break
            await self._run_batch(batch, parallel=parallel)
            if self.unanswered:
                self.so_far.stop_reason = self.unanswered
        await self._after_all()

    def answers(self, cause: str) -> list[dict[str, Any]]:
        """The blocks that answer the calls of the message: results, then what hooks said.

        A call without a result was cut off, by `cause`.
        """
        message = self.message
        self._end_open_calls(cause)
        ids = [tool_use["id"] for tool_use in message.calls]
        hook_blocks = [block for key in (*ids, "") for block in message.hook_blocks.get(key, ())]
        return [*(message.results[each] for each in ids), *hook_blocks]

    def forget_file_outcomes(self) -> None:
        """The results are written: what the calls did to files need not be known besides."""
        if any(_edits_files(self.tools.get(tool_use["name"])) for tool_use in self.message.calls):
            forget_outcomes(self.session.id)

    async def run_beside(self, calls: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Run `calls` that stand in no message, one after another; their results, by id, are in none either.

        Each has its end, also when cancelled on the way.
        """
        self.message = MessageCalls(calls, answered_early=False)
        try:
            for tool_use in calls:
                if self.so_far.stop_reason is None and not self.unanswered:
                    await self._run_batch([tool_use], parallel=False)
        finally:
            self._end_open_calls(INTERRUPTED)
            forget_outcomes(self.session.id)
        return self.message.results

    def _end_open_calls(self, cause: str) -> None:
        for tool_use in self.message.calls:
            if tool_use["id"] not in self.message.results:
                self._end(tool_use, self._cut_off(tool_use["id"], cause))

    async def _after_all(self) -> None:
        """Tell hooks of all calls of the message, and have what hooks said meanwhile go with the results."""
        message = self.message
        hook_result = await self.hooks.after_batch(
            {
                "tool_name": tool_use["name"],
                "tool_input": message.inputs.get(tool_use["id"], tool_use["input"]),
                "tool_use_id": tool_use["id"],
                "tool_response": message.results[tool_use["id"]]["content"],
            }
            for tool_use in message.calls
            if tool_use["id"] in message.results
        )
        if hook_result.block or hook_result.stop is not None:
            self.so_far.stop_reason = hook_result.stop or hook_result.reason
        blocks = context_blocks("PostToolBatch hook", hook_result.context)
        message.hook_blocks[""] = blocks + context_blocks("Hook", self.hooks.arrived().context)

    def touched_files(self) -> list[Path]:
        """The files that the calls have read or changed, by the field in which each tool takes its path."""
        message, touched = self.message, dict[Path, None]()
        for tool_use in message.calls:
            tool, result = self.tools.get(tool_use["name"]), message.results.get(tool_use["id"])
            if tool is None or result is None or result.get("is_error") or tool.access.kind not in ("read", "edit"):
                continue
            path = message.inputs.get(tool_use["id"], tool_use["input"]).get(tool.access.field)
            if isinstance(path, str) and path:
                touched[Path(os.path.normpath(self.session.cwd / path))] = None
        return list(touched)

    def refuse(self, calls: Sequence[dict[str, Any]], reason: str) -> None:
        """Answer `calls` without running any: the message they are in was cut short."""
        self.message = MessageCalls(calls)
        for tool_use in calls:
            self._end(tool_use, _failure(NOT_RUN.format(reason=reason), "error", ErrorCode.INVALID_PARAMETERS))
        self.journal.answer_calls(self.answers(INTERRUPTED))

    def _batches(self, calls: Sequence[dict[str, Any]]) -> Iterator[tuple[list[dict[str, Any]], bool]]:
        """Neighbouring calls that read (True), or ask together, in one batch; others alone; in the message's order."""
        left = deque(calls)
        while left:
            batch = [left.popleft()]
            # found out for each batch when its turn comes: what a command does depends on the folder it starts in
            together = self._company(batch[0]) if left else None
            while together is not None and left and self._company(left[0]) == together:
                batch.append(left.popleft())
            yield batch, together == "reading" and len(batch) > 1

    def _company(self, tool_use: Mapping[str, Any]) -> str | None:
        """Name the kind of calls that a call may share a batch with."""
        tool = self.tools.get(tool_use["name"])
        if tool is None:
            return None
        if tool.works_beside:
            return "reading"
        if tool.asks_together:
            return "asking"
        return "reading" if self.gate.foresees_reading(tool, tool_use["input"]) else None

    async def _run_batch(self, batch: list[dict[str, Any]], *, parallel: bool) -> None:
        side_by_side = self.limits.max_parallel_tools if parallel else 1
        expected = self.session.call_times.estimate([tool_use["name"] for tool_use in batch], side_by_side)
        self.emit(ToolStart(tuple(self._card(tool_use) for tool_use in batch), parallel, expected))
        if parallel:
            with self._batch_counted(batch):
                # a tool that only reads is known to, of others it shows with the verdict
                tools = [self.tools.get(tool_use["name"]) for tool_use in batch]
                reads = [tool is not None and tool.works_beside for tool in tools]
                await self._run_together(batch, side_by_side, ParallelCalls(reads))
        else:
            await self._run_together(batch, len(batch), None)

    @contextlib.contextmanager
    def _batch_counted(self, batch: Sequence[Mapping[str, Any]]) -> Iterator[None]:
        """Take the time of a parallel batch, and count how its calls end."""
        started, succeeded = time.perf_counter(), self.so_far.succeeded
        try:
            yield
        finally:
            ids = tuple(tool_use["id"] for tool_use in batch)
            ms = (time.perf_counter() - started) * 1000
            # what was cut off has no end yet, and will be no success
            succeeded = self.so_far.succeeded - succeeded
            self.so_far.parallel_batches.append(ParallelBatch(ids, ms, succeeded, len(ids) - succeeded))

    async def _run_together(
        self,
        batch: Sequence[dict[str, Any]],
        at_once: int,
        order: ParallelCalls | None,
    ) -> None:
        slots, message = asyncio.Semaphore(at_once), self.message

        async def run_one(index: int, tool_use: dict[str, Any]) -> None:
            # slots are given in the batch's order: a call never waits for one that has none
            async with slots:
                with contextlib.nullcontext() if order is None else order.place(index):
                    may_start = start_at_once if order is None else functools.partial(order.may_start, index)
                    outcome = await self._outcome(tool_use, may_start)
                    # pictures as the API takes them, whichever tool or hook they are of
                    if not isinstance(outcome.content, str) and takes_time(outcome.content):
                        content, _ = await asyncio.to_thread(admitted, outcome.content)
                        outcome = replace(outcome, content=content)
                    self._end(tool_use, outcome)
                if message.answered_early and len(message.results) < len(message.calls):
                    self.journal.note_result(message.results[tool_use["id"]])

        if len(batch) == 1:
            await run_one(0, batch[0])
            return
        async with asyncio.TaskGroup() as group:
            for index, tool_use in enumerate(batch):
                group.create_task(run_one(index, tool_use))

    def _card(self, tool_use: Mapping[str, Any]) -> Call:
        tool = self.tools.get(tool_use["name"])
        return Call(tool_use, _title(tool, tool_use), tool is not None and tool.read_only)

    def _end(self, tool_use: Mapping[str, Any], outcome: Outcome) -> None:
        ok = outcome.status == "success"
        self.so_far.succeeded += ok
        self.so_far.failed += not ok
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": tool_use["id"], "content": outcome.content}
        if not ok:
            result["is_error"] = True
        self.message.results[tool_use["id"]] = result
        self.message.running.pop(tool_use["id"], None)
        self.journal.note_shown(tool_use["id"], _shown(outcome, self._card(tool_use).title))
        error = outcome.error
        if error:  # as programs get it: with its call, and whether the same may work later
            error = {**error, "recoverable": error["code"] in PASSING_CODES, "tool_call_id": tool_use["id"]}
        self.emit(
            ToolEnd(
                tool_use["id"],
                tool_use["name"],
                outcome.status,
                outcome.content,
                outcome.duration_ms,
                outcome.display,
                error,
                outcome.structured,
            )
        )

    def _cut_off(self, tool_use_id: str, cause: str) -> Outcome:
        """The outcome of a call that will have no other: with what it has shown, where it had begun."""
        running = self.message.running.get(tool_use_id)
        if running is None:
            return _failure(self.message.not_run or NOT_BEGUN.format(cause=cause), "interrupted", ErrorCode.INTERRUPTED)
        message = CUT_OFF.format(cause=cause)
        if shown := running.shown:
            message += f"\nIts output so far:\n{shown}"
        message = str(bounded(message, running.tool.limits.result_chars))
        outcome = _failure(message, "interrupted", ErrorCode.INTERRUPTED)
        outcome = replace(outcome, duration_ms=running.duration_ms)
        return self.redaction.clean_at_once(running.tool, running.input, outcome)

    def _missing(self, name: str) -> str:
        """The answer to a call of a tool that is not there: never was, or not any more."""
        declared = {str(each["name"]) for each in json.loads(self.session.tools)}
        names = ", ".join(sorted(self.tools.keys() & declared)) or "none"
        if name in declared:
            gone = "was there earlier in this session and is gone now: another version, place or server has other tools"
            return f"{name} {gone}. Nothing was run. Do it with one of these, or say what you cannot do: {names}."
        return f"Tool {name} was not found. The tools are: {names}."

    async def _outcome(self, tool_use: Mapping[str, Any], may_start: MayStart) -> Outcome:
        tool = self.tools.get(tool_use["name"])
        if tool is None:
            of_server = tool_use["name"].startswith("mcp__")
            code = ErrorCode.MCP_TOOL_NOT_FOUND if of_server else ErrorCode.TOOL_NOT_FOUND
            return _failure(self._missing(tool_use["name"]), "error", code)
        try:
            tool_use = {**tool_use, "input": check_input(tool, tool_use["input"])}
            if tool.limits.calls_per_minute is not None:
                self.session.call_rate.count(tool.name, tool.limits.calls_per_minute)
            verdict = await self.gate.verdict(tool, tool_use)
        except ToolError as error:
            return _failure(error.message, "error", error.code, error.details)
        except LEAVING as error:
            # a preview, facts, a rule: whatever was to find out what the call does
            log_fault(logger, "the call of %s could not be judged", tool.name, level=logging.WARNING)
            unknown = f"It could not be found out what this call of {tool.name} would do, so it was not run"
            return _failure(f"{unknown}: {described(error)}", "error", ErrorCode.EXECUTION_ERROR)
        self.message.inputs[tool_use["id"]] = verdict.input
        self._add(tool_use, "PreToolUse", verdict.context)
        if isinstance(verdict.answer, Deny):
            if verdict.answer.interrupt:
                self.so_far.stop_reason = verdict.answer.reason
            return _denied(tool, verdict.answer)
        await may_start(reads=tool.works_beside or verdict.works_beside)
        outcome = await self._run_call(tool, tool_use, verdict)
        if outcome.refused:
            # nobody waits for the call while the user is asked about it
            verdict, outcome = await self._after_trial(tool, tool_use, verdict, outcome)
        if not verdict.edited or not isinstance(verdict.answer, Allow) or tool.asks != "permission":
            return outcome
        user, hook = EDITORS
        return _with_note(outcome, edit_note(hook if verdict.answer.by == "hook" else user, verdict.input))

    async def _run_call(self, tool: Tool, tool_use: Mapping[str, Any], verdict: Verdict) -> Outcome:
        """Run an allowed call; hooks hear of its end, unless it was tried and needs more."""
        works_beside = tool.works_beside or verdict.works_beside
        # a command that only reads has nothing that could be taken back
        record = NO_CHECKPOINTS if tool.has_agents_work or verdict.works_beside else self.changes.record
        waits = not works_beside and self.changes.one_at_a_time.locked()
        async with contextlib.nullcontext() if works_beside else self.changes.one_at_a_time:
            if waits and isinstance((verdict := self.gate.judged_again(tool, verdict)).answer, Deny):
                return _denied(tool, verdict.answer)
            await record.before_call(tool, verdict.input)
            outcome = await self._call(tool, tool_use["id"], verdict)
            if not outcome.refused:
                outcome = await self._after(tool, tool_use, verdict.input, outcome)
            await record.after_call(tool)
        return outcome

    async def _after_trial(
        self, tool: Tool, tool_use: Mapping[str, Any], tried: Verdict, outcome: Outcome
    ) -> tuple[Verdict, Outcome]:
        """Ask about a call that was refused what it needs, and run it again with a yes; else its first result counts."""
        confined = tried.confinement
        bounds = "changes in the session's folders" if confined and confined.write else "reading"
        # characters of what a trial was refused, in a question
        needs = visible_line("; ".join(outcome.refused), 300)
        refused = f"The sandbox allowed only {bounds} and blocked {needs} after {outcome.duration_ms / 1000:.1f} s."
        try:
            verdict = await self.gate.after_trial(tool, tool_use, tried.input, refused)
        except ToolError as error:  # in the input as the user changed it
            verdict = Verdict(Deny(error.message, "policy"), tried.input)
        if isinstance(verdict.answer, Deny):
            if verdict.answer.interrupt:
                self.so_far.stop_reason = verdict.answer.reason
            outcome = _not_run_again(replace(outcome, refused=()), refused, verdict.answer.reason)
            # hooks hear how the trial ended; everybody else that the call was denied
            outcome = await self._after(tool, tool_use, tried.input, outcome)
            denial = {"code": str(ErrorCode.PERMISSION_DENIED), "message": verdict.answer.reason, "details": {}}
            return verdict, replace(outcome, status="denied", error=denial)
        self.message.inputs[tool_use["id"]] = verdict.input
        self.emit(self.message.running[tool_use["id"]].again(tool_use["id"]))
        return verdict, await self._run_call(tool, tool_use, replace(verdict, trial=False))

    async def _after(
        self, tool: Tool, tool_use: Mapping[str, Any], tool_input: Mapping[str, Any], outcome: Outcome
    ) -> Outcome:
        outcome, hook_result = await self.hooks.after_call(tool, tool_use, tool_input, outcome)
        if hook_result.stop is not None:
            self.so_far.stop_reason = hook_result.stop
        event = "PostToolUse" if outcome.status == "success" else "PostToolUseFailure"
        objection = (hook_result.reason,) if hook_result.block else ()
        self._add(tool_use, event, (*objection, *hook_result.context))
        return outcome

    def _add(self, tool_use: Mapping[str, Any], event: str, texts: Sequence[str]) -> None:
        """Have Claude read what hooks said of a call, after its result."""
        if texts:
            self.message.hook_blocks.setdefault(tool_use["id"], []).extend(
                context_blocks(f"{event}:{tool_use['name']} hook", texts)
            )

    async def _call(self, tool: Tool, tool_use_id: str, verdict: Verdict) -> Outcome:
        tool_input = dict(verdict.input)
        if not tool.read_only:
            # what is about to happen must be known after a crash
            self.session.flush()
        moves = self.hooks.listens_to("CwdChanged")
        folder = verdict.facts.get("cwd") if moves else None
        # stays there when the call is cut off: who answers it then says how far it came
        running = self.message.running[tool_use_id] = RunningCall(tool, tool_input)
        outcome = await self._guarded(
            tool, tool_input, self.context_of(tool_use_id, self._progress_of(running, tool_use_id), verdict)
        )
        outcome = replace(outcome, duration_ms=running.duration_ms)
        if outcome.status == "success":
            self.session.call_times.add(tool.name, outcome.duration_ms / 1000)
        # before anybody sees it who passes it on: hooks, the transcript, the model
        outcome = await self.redaction.clean(tool, tool_input, outcome)
        if folder is not None and tool.facts is not None:
            now = tool.facts(tool_input).get("cwd")
            if now is not None and str(now) != folder:
                moved = await self.hooks.after_move(str(folder), str(now))
                self.so_far.stop_reason = moved.stop if moved.stop is not None else self.so_far.stop_reason
        return outcome

    async def _guarded(self, tool: Tool, tool_input: dict[str, Any], ctx: ToolContext) -> Outcome:
        """The tool's result within its time limit; everything it may raise becomes something Claude can read."""
        of_all = None if tool.has_agents_work else self.limits.tool_timeout  # each call of an agent has that limit
        limits = [seconds for seconds in (tool.limits.seconds, of_all) if seconds is not None]
        try:
            async with time_limit(min(limits, default=None)) as limit:
                with _reporting_waits(ctx), _known_after_a_crash(tool, ctx):
                    return _success(tool, await tool.call(tool_input, ctx))
        except ToolError as error:
            status: ToolStatus = "timeout" if error.code == ErrorCode.EXECUTION_TIMEOUT else "error"
            message = str(bounded(error.message, tool.limits.result_chars))
            return _failure(message, status, error.code, error.details)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling() > 0:
                raise  # the run itself is being cancelled, and not only something that the tool waited for
            return _failure(f"{tool.name} was cancelled from within.", "error", ErrorCode.EXECUTION_ERROR)
        except LEAVING as error:
            if limit.expired:
                return _timed_out(tool.name, min(limits))
            log_fault(logger, "tool %s raised", tool.name, level=logging.WARNING)
            return _failure(f"{tool.name} raised {described(error)}", "error", ErrorCode.EXECUTION_ERROR)

    def _progress_of(self, running: RunningCall, tool_use_id: str) -> Progress:
        loop = asyncio.get_running_loop()

        def show(event: ToolProgress) -> None:
            running.take(event)
            self.emit(event)

        def progress(
            text: str = "",
            message: str = "",
            fraction: float | None = None,
            output: Mapping[str, Any] | None = None,
            place: Mapping[str, Any] | None = None,
        ) -> None:
            event = ToolProgress(
                tool_use_id,
                replace_surrogates(text),
                replace_surrogates(message),
                fraction,
                replace_surrogates_in(output),
                replace_surrogates_in(place),
            )
            try:
                on_loop = asyncio.get_running_loop() is loop
            except RuntimeError:
                on_loop = False
            if on_loop:
                show(event)
            else:
                loop.call_soon_threadsafe(show, event)

        return progress


def _shown(outcome: Outcome, title: str) -> dict[str, Any]:
    """The call as it is shown, as far as its result does not say it; short texts of the call's own display alone."""
    display = outcome.display or {}
    kept = {name: display[name] for name in ("diff", "plan", "answers") if name in display}
    # so much of a diff or a plan is kept to be shown again
    short = {name: value[:20_000] if isinstance(value, str) else value for name, value in kept.items()}
    code = {} if outcome.error is None else {"code": outcome.error["code"]}
    title = str(display.get("title") or title)
    return {"title": title, "status": outcome.status, "ms": round(outcome.duration_ms), **code, **short}


@contextlib.contextmanager
def _reporting_waits(ctx: ToolContext) -> Iterator[None]:
    token = tell_waiting.set(lambda text: ctx.progress(message=text))
    try:
        yield
    finally:
        tell_waiting.reset(token)


@contextlib.contextmanager
def _known_after_a_crash(tool: Tool, ctx: ToolContext) -> Iterator[None]:
    """Have what the call changes in files written down as its own."""
    token = changing_call.set(CallId(ctx.session_id, ctx.tool_use_id) if _edits_files(tool) else None)
    try:
        yield
    finally:
        changing_call.reset(token)


def _edits_files(tool: Tool | None) -> bool:
    return tool is not None and tool.access.edits_files


def _title(tool: Tool | None, tool_use: Mapping[str, Any]) -> str:
    if tool is not None and tool.title is not None:
        try:
            return visible(tool.title(tool_use["input"]))
        except (KeyError, TypeError, ValueError):
            pass  # the input was not checked yet; its card still needs a name
    return str(tool_use["name"])


def _failure(message: str, status: ToolStatus, code: ErrorCode, details: Mapping[str, Any] | None = None) -> Outcome:
    # the API refuses an empty result, and with it the conversation
    message = replace_surrogates(message) if message.strip() else "It failed, and did not say why."
    return Outcome(
        message, status, {"code": str(code), "message": message, "details": replace_surrogates_in(dict(details or {}))}
    )


def _timed_out(name: str, seconds: float) -> Outcome:
    return _failure(
        f"{name} was stopped after {seconds:g} s, its time limit. Narrow the call down, or split it.",
        "timeout",
        ErrorCode.EXECUTION_TIMEOUT,
        {"requested_timeout": seconds, "actual_execution_time": seconds},
    )


def _denied(tool: Tool, denial: Deny) -> Outcome:
    by_the_user = denial.by not in ("policy", "hook")
    denial_text = DENIED[tool.asks] if by_the_user else DENIED["permission"]
    return _failure(denial_text.format(name=tool.name, reason=denial.reason), "denied", ErrorCode.PERMISSION_DENIED)


def _success(tool: Tool, value: ToolResult | Content) -> Outcome:
    result = value if isinstance(value, ToolResult) else ToolResult(value)
    content = replace_surrogates_in(bounded(result.content, tool.limits.result_chars))
    display = replace_surrogates_in(result.display)
    structured = json_of(result.structured, tool.name)
    if not result.is_error:
        return Outcome(content, "success", None, display, structured=structured, refused=result.refused)
    text = (
        content
        if isinstance(content, str)
        else "\n".join(str(block["text"]) for block in content if block.get("type") == "text")
    )
    error = {"code": str(ErrorCode.EXECUTION_ERROR), "message": without_traceback(text)[-2000:], "details": {}}
    return Outcome(content, "error", error, display, structured=structured, refused=result.refused)


def _not_run_again(outcome: Outcome, refused: str, reason: str) -> Outcome:
    """The result of a trial that stays: Claude must know why it failed, and that nothing of it has an effect."""
    note = f"[{refused} It changed nothing, and did not run again: {reason}]"
    content: Content = (
        f"{outcome.content}\n{note}"
        if isinstance(outcome.content, str)
        else [*outcome.content, {"type": "text", "text": note}]
    )
    return replace(outcome, content=content)


def _with_note(outcome: Outcome, note: str) -> Outcome:
    """Claude must know that what ran is not what it asked for."""
    content: Content = (
        f"{note}\n{outcome.content}"
        if isinstance(outcome.content, str)
        else [{"type": "text", "text": note}, *outcome.content]
    )
    return replace(outcome, content=content)
