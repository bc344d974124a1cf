"""The loop: ask the model, run its tools, ask again, until it has nothing more to do.

The Messages API says what each `stop_reason` asks of a client; the comments at the arms say what happens otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cellwright.agent import run_errors
from cellwright.agent.budget import PartialUsage, Spending
from cellwright.agent.calls.permission_gate import PermissionGate
from cellwright.agent.calls.redaction import ResultRedaction
from cellwright.agent.calls.tool_calls import ToolCalls
from cellwright.agent.hooks.protocol import HookRun, as_hooks
from cellwright.agent.hooks.run_hooks import RunHooks
from cellwright.agent.prompt import FullPrompt, Prompt, full_prompt
from cellwright.agent.steering import ReadySteering, Steering, Submit
from cellwright.agent.structured_output.answer import AnswerCheck
from cellwright.agent.turn_record import NO_CHECKPOINTS, TurnRecord
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Emit, Event, EventLog, Notice, Retrying, RunEnd, TurnEnd, UserPrompt
from cellwright.model.models import limits
from cellwright.model.provider import MessageStart, Request

if TYPE_CHECKING:
    from cellwright.agent.agent import Agent
from cellwright.sessions.session import Session
from cellwright.sessions.turns import GO_ON

logger = logging.getLogger(__name__)

MAX_PAUSES = 10
"""The number of times a `pause_turn` is answered by going on before the run is given up."""

MAX_CONTINUATIONS = 3
"""The number of times an answer that met the output limit is taken up again."""


class _Stop(Exception):
    def __init__(self, stop_reason: str, error: CellwrightError | None = None) -> None:
        super().__init__(stop_reason)
        self.stop_reason = stop_reason
        self.error = error


class AgentRun:
    """The state of one run; nothing of it outlives the run."""

    def __init__(self, agent: Agent, session: Session, emit: Emit, steering: Steering) -> None:
        self.agent = agent
        self.session = session
        self.steering = steering
        self.log = EventLog(emit, session.next_seq)
        self.seq_before = session.next_seq
        self.record: TurnRecord = NO_CHECKPOINTS
        self.started = time.perf_counter()
        self.requests = 0
        self.pauses = 0
        self.continuations = 0
        self.max_tokens = min(agent.max_tokens, limits(agent.model).max_output)
        self.spending = Spending(agent.model, session, agent.budget_usd)
        self.text = ""
        self.answer = AnswerCheck(agent.answer_type)
        self.hooks = RunHooks(
            HookRun(agent, self.emit, self.spending.count_side_request, self.spending.left),
            session,
            as_hooks(agent.hooks),
        )
        self.calls = ToolCalls(
            tools={tool.name: tool for tool in agent.tools},
            gate=PermissionGate(agent.policy, agent.can_use_tool, session, self.emit, self.hooks),
            session=session,
            emit=self.emit,
            spend=self.spending.count_side_request,
            max_parallel=agent.max_parallel_tools,
            timeout=agent.tool_timeout,
            hooks=self.hooks,
            redaction=ResultRedaction(agent.redaction, self.emit),
            steering=steering,
            may_go_on=lambda: self._may_ask,
        )

    def emit(self, event: Event) -> None:
        try:
            self.log.emit(event)
        except Exception:
            # a view that fails must not leave a call unanswered, or the run without its end
            logger.exception("a view failed at %s", type(event).__name__)
        # persisted with each transcript line, so that a resumed session never gives a number twice
        self.session.next_seq = self.log.next_seq

    async def to_the_end(self, prompt: Prompt | FullPrompt) -> RunEnd:
        try:
            end = await self._until_stopped(prompt)
        except asyncio.CancelledError:
            self.steering.close()
            self._end("interrupted", CellwrightError(ErrorCode.INTERRUPTED, "Interrupted.", recoverable=True))
            await self.hooks.interrupt()
            raise
        self.steering.close()
        self.hooks.ended = True
        return self._end(end.stop_reason, end.error)

    async def _until_stopped(self, prompt: Prompt | FullPrompt) -> _Stop:
        try:
            await self._begin(prompt)
            while True:
                await self._turn()
        except _Stop as stop:
            end = stop
        except CellwrightError as error:
            with contextlib.suppress(CellwrightError):  # what ended the run is what the user must know
                if self.requests and (notice := run_errors.take_back_refused(self.session, error)):
                    self.emit(Notice(notice, "warning"))
            end = _Stop("error", error)
        if end.error is not None:
            await self.hooks.after_failure(end.error, self.text)
        return end

    async def _begin(self, prompt: Prompt | FullPrompt) -> None:
        agent = self.agent
        full = full_prompt(prompt)
        self.emit(UserPrompt(full.text, agent.model, self.session.mode or agent.policy.mode, self.session.id))
        self.steering.open(self.emit)
        full = await full.with_collected_context()
        # before anything is written: a prompt that a hook refuses leaves no trace
        full = full.with_appended("Hooks", "hook", await self.hooks.before_prompt(full.text))
        self.session.begin(
            model=agent.model,
            system=[dict(block) for block in agent.system],
            tools=agent.tool_params,
        )
        self.calls.record = self.record = agent.checkpoints.begin(self.session, full.text, self.seq_before)
        # a full disk may have kept results from being written when their calls had run
        self.session.repair()
        for notice in (*self.session.notices, *full.notices):
            self.emit(Notice(notice, "warning"))
        self.session.notices.clear()
        if (attached := full.attached_event()) is not None:
            self.emit(attached)
        self.session.append({"role": "user", "content": full.blocks})

    async def _turn(self) -> None:
        turn = await self._ask()
        calls = [block for block in turn.message["content"] if block["type"] == "tool_use"]
        match turn.stop_reason:
            case "tool_use" if calls:
                self._append(turn)
                await self.calls.run(calls)
                if self.calls.stop_reason is not None:
                    raise _Stop("interrupted", CellwrightError(ErrorCode.INTERRUPTED, self.calls.stop_reason))
            case "end_turn" | "stop_sequence" | "tool_use":
                # an empty answer can follow tool results; sent back, it would be refused
                self._append(turn)
                self._refuse(calls, "the message ended without asking for it.")
                await self._stop_unless_kept(turn.stop_reason)
            case "pause_turn":
                self._append(turn)
                self._pause()
            case "max_tokens":
                self._cut_off(turn, calls)
            case "model_context_window_exceeded":
                self._append(turn)
                self._refuse(calls, "the context window is full.")
                raise _Stop("error", run_errors.context_full())
            case "refusal":
                # what streamed is void and must not go back; the prompt stays, so that it can be put differently
                self.session.spend(turn.usage, turn.cost_usd)
                raise _Stop("refusal", run_errors.refused(turn))
            case _:
                self._append(turn)
                self._refuse(calls, f"the model stopped with {turn.stop_reason!r}, which is unknown here.")
                self.emit(Notice(f"The model stopped with {turn.stop_reason!r}, which is unknown here.", "warning"))
                raise _Stop(str(turn.stop_reason))

    async def _stop_unless_kept(self, stop_reason: str) -> None:
        if await self._user_goes_on(self.steering.for_step):
            return
        again = self.answer.again(self.text, may_ask=self._may_ask)
        blocks = [_text(again)] if again is not None else await self.hooks.before_stop(self.text)
        if blocks:
            self.session.append({"role": "user", "content": blocks})
        # hooks take their time: the user may have said something meanwhile
        elif not (
            await self._user_goes_on(self.steering.for_step) or await self._user_goes_on(self.steering.for_next_prompt)
        ):
            raise _Stop(stop_reason)

    async def _user_goes_on(self, next_steering: Callable[[Submit], Awaitable[ReadySteering]]) -> bool:
        """Return whether the run goes on, instead of ending, with new words of the user; Claude has them then."""
        ready = await next_steering(self.hooks.before_steering) if self._may_ask else ReadySteering()
        if not ready.texts:
            return False
        self.session.append({"role": "user", "content": [*ready.blocks]})
        self.steering.delivered(ready)
        return True

    async def _ask(self) -> TurnEnd:
        agent = self.agent
        if agent.max_turns is not None and not self._may_ask:
            raise _Stop("max_turns", run_errors.too_many_turns(agent.max_turns))
        self.requests += 1
        while True:
            request = Request(
                model=agent.model,
                system=self.session.system,
                tools=self.session.tools,
                messages=self.session.encoded,
                max_tokens=self._affordable_tokens(),
                effort=agent.effort,
                output_format=self.answer.output_format,
            )
            if (turn := await self._answer(request)) is not None:
                return turn

    async def _answer(self, request: Request) -> TurnEnd | None:
        """The answer; None when attempts that failed have spent so much that the request may not be sent again as it is."""
        answer = PartialUsage()
        try:
            async with contextlib.aclosing(self.agent.provider.stream(request)) as events:
                async for event in events:
                    if isinstance(event, MessageStart):
                        answer.begin(event)
                        continue
                    self.emit(event)
                    if isinstance(event, TurnEnd):
                        answer.end()
                        self._count(event)
                        return event
                    if not isinstance(event, Retrying):
                        answer.add(event)
                        continue
                    self._count_lost(answer)
                    if self._affordable_tokens() < request.max_tokens:
                        await asyncio.sleep(event.wait_seconds)
                        return None
        finally:
            self._count_lost(answer)
        raise AssertionError("the provider ended without a TurnEnd")

    def _count(self, turn: TurnEnd) -> None:
        self.spending.count(turn.usage, turn.cost_usd)
        self.text = "".join(block["text"] for block in turn.message["content"] if block["type"] == "text")

    def _count_lost(self, answer: PartialUsage) -> None:
        if (lost := answer.lost()) is not None:
            self.spending.count_side_request(*lost)

    @property
    def _may_ask(self) -> bool:
        return self.agent.max_turns is None or self.requests < self.agent.max_turns

    def _affordable_tokens(self) -> int:
        tokens = self.spending.affordable_tokens(self.max_tokens)
        if not tokens:
            raise _Stop("budget", run_errors.budget_spent(self.agent.budget_usd or 0.0, self.spending.cost_usd or 0.0))
        return tokens

    def _append(self, turn: TurnEnd) -> None:
        if turn.message["content"]:
            self.session.append(
                turn.message,
                usage=dict(turn.usage),
                model=turn.model,
                cost_usd=turn.cost_usd,
                context_tokens=turn.context_tokens,
            )
        else:
            self.session.spend(turn.usage, turn.cost_usd)

    def _refuse(self, calls: Sequence[dict[str, Any]], reason: str) -> None:
        if calls:
            self.calls.refuse(calls, reason)

    def _pause(self) -> None:
        self.pauses += 1
        if self.pauses > MAX_PAUSES:
            raise _Stop("pause_turn", CellwrightError(ErrorCode.EXECUTION_ERROR, "The model paused too often."))

    def _cut_off(self, turn: TurnEnd, calls: Sequence[dict[str, Any]]) -> None:
        """The answer met `max_tokens`: a call may be half there, so none is run."""
        self.continuations += 1
        # a thinking block without its signature is not whole, and would be refused
        whole = [block for block in turn.message["content"] if block["type"] != "thinking" or block.get("signature")]
        if any(block["type"] != "thinking" for block in whole):
            self._append(replace(turn, message={**turn.message, "content": whole}))
            if calls:
                self.calls.refuse(calls, "the message was cut off at the output limit. Send it again in smaller parts.")
            else:
                go_on = self.answer.after_cut(GO_ON, may_ask=self._may_ask)
                self.session.append({"role": "user", "content": [_text(go_on)]})
        else:
            self.session.spend(turn.usage, turn.cost_usd)
        if self.continuations > MAX_CONTINUATIONS:
            raise _Stop("max_tokens", run_errors.cut_too_often(self.max_tokens))
        self.max_tokens = min(self.max_tokens * 2, limits(self.agent.model).max_output)
        self.emit(Notice("The answer was cut off at the output limit; Claude goes on.", "warning"))

    def _end(self, stop_reason: str, error: CellwrightError | None) -> RunEnd:
        if (changed := self.record.end()) is not None:
            self.emit(changed)
        try:
            self.session.settle()
            self.session.flush()
        except CellwrightError as unflushed:
            # every run has its end, also on a broken disk
            stop_reason, error = ("error", unflushed) if error is None else (stop_reason, error)
        end = RunEnd(
            stop_reason,
            self.text,
            self.spending.usage,
            self.spending.cost_usd,
            (time.perf_counter() - self.started) * 1000,
            self.requests,
            self.calls.succeeded,
            self.calls.failed,
            self.calls.parallel_batches,
            self.session.id,
            self.session.cost_usd,
            error.to_json() if error is not None else None,
        )
        self.emit(end)
        return end


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
