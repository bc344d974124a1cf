"""The loop: ask the model, run its tools, ask again, until it has nothing more to do.

The Messages API says what each `stop_reason` asks of a client; the comments at the arms say what happens otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace as variant
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent import run_errors
from cellwright.agent.calls.permission_gate import LEAVING, PermissionGate, Verdict
from cellwright.agent.calls.tool_calls import FAILED, INTERRUPTED, ToolCalls
from cellwright.agent.calls.tool_names import meant_tool
from cellwright.agent.calls.tool_results import ResultRedaction
from cellwright.agent.compaction import Compaction
from cellwright.agent.hooks.make_hooks import as_hooks
from cellwright.agent.hooks.protocol import HookRun
from cellwright.agent.hooks.run_hooks import RunHooks, SubagentHooks
from cellwright.agent.prompt import FullPrompt, Prompt, ReadySteering, Steering, Submit, full_prompt
from cellwright.agent.run_model import RunModel
from cellwright.agent.spending import Spending
from cellwright.agent.structured_output import RunAnswer
from cellwright.agent.subagent import Nesting, Subagent
from cellwright.agent.tool import TOOL_SEARCH, Progress, ToolContext
from cellwright.errors import ApiError, CellwrightError, ErrorCode, fault, log_fault
from cellwright.events import ContextAttached, Emit, Event, EventLog, Notice, Retrying, RunEnd, TurnEnd, UserPrompt
from cellwright.model.images import admitted, takes_time
from cellwright.model.models import limits
from cellwright.model.provider import BlockEnd, MessageStart, Request, request_sent

if TYPE_CHECKING:
    from pathlib import Path

    from cellwright.agent.agent_setup import AgentSetup
from cellwright.sessions.api_messages import GO_ON
from cellwright.sessions.session import Session
from cellwright.sessions.turn_journal import TurnJournal
from cellwright.text import grouped_notices

logger = logging.getLogger(__name__)


class _Stop(Exception):
    def __init__(self, stop_reason: str, error: CellwrightError | None = None) -> None:
        super().__init__(stop_reason)
        self.stop_reason = stop_reason
        self.error = error


class Within(Struct, frozen=True):
    """The run that a subagent works for, and which of its agents it is."""

    run: AgentRun
    subagent: Subagent


class AgentRun:
    """The state of one run; nothing of it outlives the run."""

    def __init__(
        self, agent: AgentSetup, session: Session, emit: Emit, steering: Steering, within: Within | None = None
    ) -> None:
        self.agent = agent
        self.session = session
        self.steering = steering
        self.within = within
        self.ended = False
        self.log = EventLog(emit, session.next_seq)
        self.started = time.perf_counter()
        self.journal = TurnJournal(session)
        main = None if within is None else within.run
        self.spending: Spending = Spending(
            agent.model,
            session,
            agent.limits.budget_usd,
            None if main is None else main.spending,
            agent.limits.shared_budgets,
        )
        self.model = RunModel(agent.model, agent.model_settings, session, self.emit, self.spending)
        self.answer = RunAnswer(agent.final_answer.type)
        self.hooks = RunHooks(
            HookRun(agent, self.emit, self.spending.count_hook_request, self.spending.left),
            session,
            as_hooks(agent.hooks),
            None if within is None else SubagentHooks(within.subagent, within.run.session),
        )
        self.compaction = Compaction(agent, session, self.emit, self.hooks, self.spending, self.model.next)
        proposals = agent.final_answer.proposals
        gate_above = None if main is None else main.calls.gate
        tools = agent.tools if proposals is None else (*agent.tools, proposals.tool)
        starting = next((tool for tool in tools if tool.starts_agents), None)
        older = {} if starting is None else {"Task": starting}  # Claude Code's older name for Agent
        self.calls: ToolCalls = ToolCalls(
            tools=older | {tool.name: tool for tool in tools},
            gate=PermissionGate(agent.policy, agent.can_use_tool, session, self.emit, self.hooks, gate_above),
            session=session,
            journal=self.journal,
            emit=self.emit,
            hooks=self.hooks,
            limits=agent.limits,
            redaction=ResultRedaction(agent.redaction, self.emit),
            context_of=self._tool_context,
        )
        if main is not None and within is not None and not within.subagent.background:
            # what they change is undone with the run's turn, so only one of them changes something at a time
            self.calls.changes = main.calls.changes

    @property
    def depth(self) -> int:
        """The level of the agent; Claude itself has 0."""
        return 0 if self.within is None else self.within.run.depth + 1

    @property
    def agent_now(self) -> AgentSetup:
        """The agent, with the policy in the mode that the session is in now."""
        return variant(self.agent, policy=self.agent.policy.in_mode(self.calls.gate.mode))

    def notify(self, message: str, kind: str) -> None:
        """Tell the hooks of something that the user may want to hear of."""
        self.hooks.notify(message, kind)

    def nested(self, agent: AgentSetup, session: Session, emit: Emit, subagent: Subagent) -> AgentRun:
        """A run of another agent, which works for one of this run's calls."""
        steering = Steering("An agent that works for Claude receives no messages from the user.")
        return AgentRun(agent, session, emit, steering, Within(self, subagent))

    def emit(self, event: Event) -> None:
        self.journal.take(event)
        try:
            self.log.emit(event)
        except Exception:  # noqa: BLE001  a view that fails must not leave a call unanswered, or the run without its end
            log_fault(logger, "a view failed at %s", type(event).__name__)
        # persisted with each transcript line, so that a resumed session never gives a number twice
        self.session.next_seq = self.log.next_seq

    async def _news(self, paths: Sequence[Path] = ()) -> list[dict[str, Any]]:
        """Find what Claude must know with the files that calls have touched, and of what has ended in the background."""
        found = await self.agent.features.after_calls(paths, self.session, self.agent)
        if found:
            self.emit(ContextAttached(tuple(part.as_attached() for part in found)))
        return [dict(block) for part in found for block in part.blocks]

    async def _run_calls(self, calls: Sequence[dict[str, Any]]) -> None:
        """Run `calls` and append one user message that answers them all, also when cancelled on the way."""
        cause, news, steering = INTERRUPTED, list[dict[str, Any]](), ReadySteering()
        try:
            await self.calls.run(calls)
            news = await self._news(self.calls.touched_files())
            if self.calls.so_far.stop_reason is None and self._may_ask:
                steering = await self.steering.for_step(self.hooks.before_steering)
        except LEAVING:
            cause = FAILED
            raise
        finally:
            self.journal.answer_calls([*self.calls.answers(cause), *news, *steering.blocks])
            self.steering.delivered(steering)
            self.calls.forget_file_outcomes()
        if self.calls.unanswered:
            raise _Stop("error", run_errors.not_permitted(self.calls.unanswered, self.calls.gate.unanswered_call))
        if (stopped := self.calls.so_far.stop_reason) is not None:
            raise _Stop("interrupted", CellwrightError(ErrorCode.INTERRUPTED, stopped))

    def _tool_context(self, tool_use_id: str, progress: Progress, verdict: Verdict) -> ToolContext:
        session, gate = self.session, self.calls.gate
        return ToolContext(
            tool_use_id,
            progress,
            session_id=session.id,
            emit=self.emit,
            history=session.said,
            spend=self.spending.count_side_request,
            declared_tools=lambda: json.loads(session.tools),
            set_mode=gate.set_mode,
            mode=gate.mode,
            grant=gate.grant_for_run,
            fire_hooks=self.hooks.fire,
            ask_hooks=self.hooks.objection,
            confinement=verdict.confinement,
            facts=verdict.facts,
            trial=verdict.trial,
            may_read=gate.may_read,
            may_reach=functools.partial(gate.may_reach, tool_use_id),
            ask_user=functools.partial(gate.question, tool_use_id),
            nesting=Nesting(self, tool_use_id),
        )

    async def to_the_end(self, prompt: Prompt | FullPrompt) -> RunEnd:
        try:
            end = await self._until_stopped(prompt)
            await self._note_answer()
        except asyncio.CancelledError:
            self.steering.close()
            self._end("interrupted", CellwrightError(ErrorCode.INTERRUPTED, "Interrupted.", recoverable=True))
            await self.hooks.interrupt()
            raise
        except LEAVING as error:  # whatever it is, the user is told, and the turn has its end
            log_fault(logger, "a run failed")
            end = _Stop("error", fault(error))
        self.steering.close()
        self.hooks.ended = True
        return self._end(end.stop_reason, end.error)

    async def _until_stopped(self, prompt: Prompt | FullPrompt) -> _Stop:
        try:
            await self._begin(prompt)
            while True:
                await self._turn()
        except _Stop as stop:
            end = stop if stop.error is not None else await self._propose(stop)
        except CellwrightError as error:
            with contextlib.suppress(CellwrightError):  # what ended the run is what the user must know
                # what ends an answer that has begun is no refusal of what was asked
                refused = self.spending.requests and not self.journal.is_answering
                if refused and (notice := run_errors.take_back_refused(self.session, error)):
                    self.emit(Notice(notice, "warning"))
            end = _Stop("error", error)
        if end.error is not None:
            await self.hooks.after_failure(end.error, self.answer.text)
        return end

    async def _note_answer(self) -> None:
        """Send what the features find about the answer; their faults do not spoil it."""
        if self.within is not None or not self.answer.text:
            return
        try:
            for event in await self.agent.features.answered(self.answer.text, self.session):
                self.emit(event)
        except LEAVING as error:
            log_fault(logger, "what features say of an answer failed: %s", type(error).__name__)

    async def _propose(self, stop: _Stop) -> _Stop:
        """Offer what the turn proposes; the run's end, another where nobody could be asked."""
        if (proposals := self.agent.final_answer.proposals) is None:
            return stop
        calls = await proposals.calls(self.answer.text, f"{self.session.id}_{self.log.next_seq}")
        while calls:
            calls = proposals.tell(calls, await self.calls.run_beside(calls))
        if self.calls.unanswered:
            return _Stop("error", run_errors.not_permitted(self.calls.unanswered, self.calls.gate.unanswered_call))
        return stop

    async def _begin(self, prompt: Prompt | FullPrompt) -> None:
        agent, seq_before = self.agent, self.log.next_seq
        full = full_prompt(prompt)
        self.model.choose(self.steering.model, self.calls.gate.mode)
        self.emit(UserPrompt(full.text, self.model.name, self.calls.gate.told_mode, self.session.id))
        self.steering.open(self.emit)
        expanded = await self.hooks.before_expansion(full.text, full.expansion)
        full = (await full.with_collected_context()).with_appended("Hooks", "hook", expanded)
        # before anything is written: a prompt that a hook refuses leaves no trace
        full = full.with_appended("Hooks", "hook", await self.hooks.before_prompt(full.text, full.setup))
        if not self.session.has_begun:
            self.session.begin(
                model=agent.model,
                system=[dict(block) for block in agent.system],
                tools=agent.params_of((*agent.tools, *agent.features.tools())),
            )
        self._take_late_tools()
        if self.within is None:
            self.calls.changes.record = agent.checkpoints.begin(self.session, full.text, seq_before)
        self.journal.begin_turn()
        if full.extensions is not None:
            self.emit(full.extensions)
        self._tell_notices(full.notices)
        if (attached := full.attached_event()) is not None:
            self.emit(attached)
        blocks = await self._admitted(full.blocks)
        await self.compaction.before_prompt(self.model.name, blocks)
        self.journal.add_prompt(blocks)

    async def _admitted(self, blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The blocks of the prompt as the API takes them: one picture that it refuses would end the session."""
        if not takes_time(blocks):
            return blocks
        made, reasons = await asyncio.to_thread(admitted, blocks)
        self._tell_notices(reasons)
        return made

    def _tell_notices(self, more: Sequence[str] = ()) -> None:
        """Tell what the session has to say, what is known since its last request too."""
        found, self.session.notices = self.session.notices, []
        for notice in grouped_notices((*found, *more)):
            self.emit(Notice(notice, "warning"))

    def _take_late_tools(self) -> None:
        """Have the tools that are there now be callable, and declared behind the others where that keeps the prefix."""
        late = [tool for tool in self.agent.features.tools() if not self.agent.policy.hides(tool)]
        if not late:
            return
        declared = self.session.tool_names
        if TOOL_SEARCH in declared and limits(self.model.name).tool_search:
            # what is loaded when it is needed is no part of what the cache and thinking blocks are bound to
            new = [replace(tool, defer_loading=True) for tool in late if tool.name not in declared]
            self.session.declare([tool.to_param() for tool in new])
            declared = self.session.tool_names
        self.calls.tools.update({tool.name: tool for tool in late if tool.name in declared})

    async def _turn(self) -> None:
        self._take_late_tools()
        turn = await self._ask()
        calls = [block for block in turn.message["content"] if block["type"] == "tool_use"]
        match turn.stop_reason:
            case "tool_use" if calls:
                self._append(turn)
                await self._run_calls(calls)
            case "end_turn" | "stop_sequence" | "tool_use":
                # an empty answer can follow tool results; sent back, it would be refused
                self._append(turn)
                self._refuse(calls, "the message ended without asking for it.")
                await self._stop_unless_kept(turn.stop_reason)
            case "pause_turn":
                self._append(turn)
                if not self.answer.pause():
                    raise _Stop("pause_turn", CellwrightError(ErrorCode.EXECUTION_ERROR, "The model paused too often."))
            case "max_tokens":
                self._cut_off(turn, calls)
            case "model_context_window_exceeded":
                await self._window_exceeded(turn, calls)
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
        again = self.answer.check.again(self.answer.text, may_ask=self._may_ask)
        blocks = [_text(again)] if again is not None else await self.hooks.before_stop(self.answer.text)
        blocks = blocks or (await self._news() if self._may_ask else [])
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
        self.session.append({"role": "user", "content": await self._admitted([*map(dict, ready.blocks)])})
        self.steering.delivered(ready)
        return True

    async def _ask(self) -> TurnEnd:
        agent = self.agent
        if agent.limits.max_turns is not None and not self._may_ask:
            raise _Stop("max_turns", run_errors.too_many_turns(agent.limits.max_turns))
        self.model.choose(self.steering.model, self.calls.gate.mode)
        await self.compaction.before_request(self.model.name)
        self.spending.requests += 1
        refusal: ApiError | None = None
        summarised = False
        while True:
            request = self._request(await self._reserved_tokens())
            try:
                if (turn := await self._answer(request)) is not None:
                    return turn
            except ApiError as error:
                if not summarised and await self._summarised(error):
                    summarised = True
                elif self._goes_back(error):
                    refusal = refusal or error
                else:
                    raise (error if self.journal.is_answering else refusal or error) from None
            finally:
                self.spending.release()

    def _request(self, max_tokens: int) -> Request:
        agent = self.agent
        return Request(
            model=self.model.name,
            system=self.session.system,
            tools=self.session.tools,
            messages=self.session.encoded,
            max_tokens=max_tokens,
            options=self.model.options(),
            output_format=self.answer.check.output_format,
            summary_as_text=self.journal.summary_as_text,
            clear_tool_results_at=agent.compaction.results_cleared_at(self.model.name),
        )

    async def _summarised(self, error: ApiError) -> bool:
        """Sum up what the API says is too long; False where it says something else, or that is no help."""
        if error.code != ErrorCode.CONTEXT_TOO_LONG or not self.compaction.can_help():
            return False
        self._void_answer(error)
        self.spending.release()  # the summary has to be paid for as well
        return await self.compaction.after_too_long(self.model.name)

    def _goes_back(self, error: ApiError) -> bool:
        """Have the session be a history that the API may take, as it refuses this one; False where there is none.

        What ends an answer that has begun is a cut answer: the history was taken.
        """
        if self.journal.is_answering:
            return False
        if run_errors.is_of_summary(error, self.session) and self._sends_summary_as_text():
            return True
        if self.journal.go_back(error):
            return True
        # whatever the API says of it, its own summary may be at fault
        return run_errors.is_of_compacted(error, self.session) and self._sends_summary_as_text()

    def _sends_summary_as_text(self) -> bool:
        """Send the API's own summary as text from here on; False where that is done already."""
        before, self.journal.summary_as_text = self.journal.summary_as_text, True
        return not before

    async def _answer(self, request: Request) -> TurnEnd | None:
        """The answer; None when the request may not be sent again as it is, or not to this model."""
        try:
            return await self._streamed_answer(request)
        except ApiError as error:
            if not self.model.may_fall_back(error):
                raise
            self._void_answer(error, always=True)
            self.model.fall_back(error.message)
            return None

    def _void_answer(self, error: ApiError, *, always: bool = False) -> None:
        """Tell that what has streamed of the answer is void, as it is asked for again."""
        if always or self.journal.is_answering:
            self.emit(Retrying(1, 1, 0.0, str(error.code), error.message))
            self._count_lost()

    async def _streamed_answer(self, request: Request) -> TurnEnd | None:
        """The answer; None when attempts that failed have spent too much, or are enough to turn to another model."""
        waits, self.spending.sent = False, self.spending.sent + 1
        self._tell_notices()
        request_sent.set(self.agent.features.on_request_sent)
        try:
            async with contextlib.aclosing(self.agent.provider.stream(request)) as events:
                async for event in events:
                    self.spending.sent += waits
                    waits = isinstance(event, Retrying)
                    match event:
                        case MessageStart():
                            self.journal.begin_answer(event)
                            self._tell_gone_back()
                            self.spending.streams(event)
                        case BlockEnd():
                            self.journal.end_block(event)
                        case TurnEnd():
                            self._tell_gone_back()
                            turn = self._with_own_names(self.journal.end_answer(event))
                            self.emit(turn)
                            self.spending.count(turn.usage, turn.cost_usd)
                            self.spending.sent -= turn.replayed
                            self.answer.take(turn.message["content"])
                            return turn
                        case Retrying():
                            self.emit(event)
                            self._count_lost()
                            # the number of times an overloaded model is tried before a fallback is
                            overloaded = event.code == ErrorCode.API_OVERLOADED and event.attempt >= 3
                            if self.model.fallbacks and overloaded:
                                self.model.fall_back(event.message)
                                return None
                            if self.spending.affordable_tokens(self.model.max_tokens) < request.max_tokens:
                                await asyncio.sleep(event.wait_seconds)
                                return None
                        case _:
                            self.spending.streams(event)
                            self.emit(self.journal.add(event))
        except ApiError:
            self.spending.sent += waits
            raise
        raise AssertionError("the provider ended without a TurnEnd")

    def _tell_gone_back(self) -> None:
        if (gone_back := self.journal.taken_back()) is not None:
            self.emit(Notice(gone_back, "warning"))

    def _with_own_names(self, turn: TurnEnd) -> TurnEnd:
        """The answer with the names of the tools that its calls mean: so it is judged, run, shown and kept."""
        content = [
            {**block, "name": meant_tool(block["name"], block["input"], self.calls.tools)}
            if block["type"] == "tool_use" and block["name"] not in self.calls.tools
            else block
            for block in turn.message["content"]
        ]
        return (
            turn if content == turn.message["content"] else replace(turn, message={**turn.message, "content": content})
        )

    def _count_lost(self) -> None:
        if (lost := self.journal.void()) is not None:
            self.spending.count_lost(*lost)

    @property
    def _may_ask(self) -> bool:
        return self.agent.limits.max_turns is None or self.spending.requests < self.agent.limits.max_turns

    async def _reserved_tokens(self) -> int:
        waits = Notice("Another run is at work on the same budget. The next request waits until its own is over.")
        tokens = await self.spending.reserve(self.model.max_tokens, functools.partial(self.emit, waits))
        if not tokens:
            raise _Stop("budget", self.spending.refusal())
        return tokens

    def _append(self, turn: TurnEnd, content: Sequence[dict[str, Any]] | None = None) -> None:
        before = self.session.context_tokens if self.session.last_model == turn.model else 0
        self.journal.keep(turn, turn.message["content"] if content is None else content)
        model = limits(self.agent.model)
        # the part of the model's context window from which on the user is told how full it is
        if (
            model.known
            and before < 0.8 * model.context_window <= turn.context_tokens
            and not self.compaction.can_help()
        ):
            notice = run_errors.nearly_full(turn.context_tokens, model.context_window, turn.model)
            self.emit(Notice(notice, "warning"))

    async def _window_exceeded(self, turn: TurnEnd, calls: Sequence[dict[str, Any]]) -> None:
        """The answer met the window's end: the conversation is summed up, and Claude goes on with it."""
        whole = [block for block in turn.message["content"] if block["type"] != "thinking" or block.get("signature")]
        if any(block["type"] != "thinking" for block in whole):
            self._append(turn, whole)
        else:
            self.session.spend(turn.usage, turn.cost_usd)
        self._refuse(calls, "the context window is full.")
        if not self.compaction.can_help() or not self._may_ask:
            raise _Stop("error", run_errors.context_full())
        if self.session.messages[-1]["role"] == "assistant":
            self.session.append({"role": "user", "content": [_text(GO_ON)]})
        if not await self.compaction.after_too_long(self.model.name):
            raise _Stop("error", run_errors.context_full())

    def _refuse(self, calls: Sequence[dict[str, Any]], reason: str) -> None:
        if calls:
            self.calls.refuse(calls, reason)

    def _cut_off(self, turn: TurnEnd, calls: Sequence[dict[str, Any]]) -> None:
        """The answer met `max_tokens`: a call may be half there, so none is run."""
        # a thinking block without its signature is not whole, and would be refused
        whole = [block for block in turn.message["content"] if block["type"] != "thinking" or block.get("signature")]
        continues = not calls
        if any(block["type"] != "thinking" for block in whole):
            self._append(turn, whole)
            if calls:
                self.calls.refuse(calls, "the message was cut off at the output limit. Send it again in smaller parts.")
            else:
                go_on = self.answer.check.after_cut(GO_ON, may_ask=self._may_ask)
                self.session.append({"role": "user", "content": [_text(go_on)]})
                continues = go_on == GO_ON
        else:
            self.session.spend(turn.usage, turn.cost_usd)
            continues = True  # it begins anew behind what was there
        if not self.answer.cut_off(continues=continues):
            raise _Stop("max_tokens", run_errors.cut_too_often(self.model.max_tokens))
        self.model.allow_longer_answers()
        self.emit(Notice("The answer was cut off at the output limit; Claude continues.", "warning"))

    def _end(self, stop_reason: str, error: CellwrightError | None) -> RunEnd:
        """The one end of every run. What goes wrong in it is told, and keeps nobody from being told of the end."""
        end_turn = functools.partial(self._end_turn, stop_reason)
        note_end = functools.partial(self._note_end, stop_reason, error)
        for step in (
            end_turn,
            self._end_record,
            note_end,
            self.session.settle,
            self.session.flush,
        ):
            try:
                step()
            except LEAVING as failed:  # a broken disk, for one
                log_fault(logger, "a run's end failed")
                stop_reason, error = ("error", fault(failed)) if error is None else (stop_reason, error)
        so_far = self.calls.so_far
        end = RunEnd(
            stop_reason,
            self.answer.text,
            self.spending.usage,
            self.spending.cost_usd,
            self._ms,
            self.spending.sent + self.spending.side_requests,
            so_far.succeeded,
            so_far.failed,
            tuple(so_far.parallel_batches),
            self.session.id,
            self.session.cost_usd,
            error.to_json() if error is not None else None,
            self.spending.hook_models,
        )
        self.emit(end)
        self.ended = True
        return end

    def _end_turn(self, stop_reason: str) -> None:
        if (cut := self.journal.end_turn(stop_reason)) is not None:
            self.spending.count(*cut.spent())
            self.answer.take(cut.content())

    def _note_end(self, stop_reason: str, error: CellwrightError | None) -> None:
        if self.within is None:
            mode = self.session.mode or self.agent.policy.mode
            self.journal.note_end(stop_reason, error, mode, self._ms)

    @property
    def _ms(self) -> float:
        return (time.perf_counter() - self.started) * 1000

    def _end_record(self) -> None:
        # an agent's changes are those of the run that it works for
        if self.within is None and (changed := self.calls.changes.record.end()) is not None:
            self.emit(changed)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


async def run_agent(
    agent: AgentSetup, prompt: Prompt | FullPrompt, session: Session, emit: Emit, *, steering: Steering | None = None
) -> RunEnd:
    """Work on `prompt` in `session` until the model is done; `emit` gets every event, in order, on this thread.

    `steering` holds what the user says meanwhile. Returns the `RunEnd` that was also emitted. Errors that end a run are
    in `RunEnd.error`, not raised. When the task is cancelled, every open call is answered, the run's end is emitted,
    and `CancelledError` goes on.
    """
    return await AgentRun(agent, session, emit, steering or Steering()).to_the_end(prompt)
