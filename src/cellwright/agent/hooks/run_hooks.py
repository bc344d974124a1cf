"""The hooks of one run: what each event tells them, and what becomes of what they say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.calls.tool_results import response_of, updated_content
from cellwright.agent.hooks.protocol import NO_HOOK_RESULT, NO_HOOKS, HookResult, HookRun, Hooks
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Notice
from cellwright.model.models import canonical
from cellwright.model.pricing import worst_case_usd
from cellwright.text import replace_surrogates

if TYPE_CHECKING:
    from cellwright.agent.calls.tool_results import Outcome
    from cellwright.agent.subagent import Subagent
    from cellwright.agent.tool import Tool
    from cellwright.sessions.session import Session

MAX_BLOCKED_STOPS = 8
"""The number of times hooks may keep a run from ending; then it ends all the same."""


_going_out: set[asyncio.Task[HookResult]] = set()
# asyncio keeps no task alive; notifications outlive the run they tell of

_API_ERRORS = {
    ErrorCode.API_RATE_LIMITED: "rate_limit",
    ErrorCode.API_OVERLOADED: "overloaded",
    ErrorCode.API_KEY_INVALID: "authentication_failed",
    ErrorCode.API_KEY_MISSING: "authentication_failed",
    ErrorCode.API_REQUEST_INVALID: "invalid_request",
    ErrorCode.API_NETWORK_ERROR: "unknown",
    ErrorCode.CONTEXT_TOO_LONG: "invalid_request",
}


class SubagentHooks(Struct, frozen=True):
    """The agent whose run it is, where it works for another, and the session that it works for."""

    agent: Subagent
    main: Session


class RunHooks(Struct):
    """Tells the hooks of a run what happens in it, and shows the user what they say.

    Where an agent works for another (`subagent`), its prompt and end are SubagentStart and SubagentStop.
    """

    run: HookRun
    session: Session
    hooks: Hooks = NO_HOOKS
    subagent: SubagentHooks | None = None
    blocked_stops: int = 0
    ended: bool = False
    _reported_problems: set[str] = field(default_factory=set)
    _notifying: list[asyncio.Task[HookResult]] = field(default_factory=list)

    def listens_to(self, event: str) -> bool:
        return self.hooks.listens_to(event)

    async def fire(self, event: str, fields: Mapping[str, Any]) -> HookResult:
        """Tell the hooks of `event`, with `fields` besides the ones every event has, and show what they say."""
        if not self.hooks.listens_to(event):
            return NO_HOOK_RESULT
        result = await self.hooks.fire(event, {**self._common(event), **fields}, self.run)
        self.show(result)
        return result

    def show(self, result: HookResult) -> None:
        """Show the user what hooks have to tell; a run that is over shows nothing more."""
        if self.ended:
            return
        for message in result.messages:
            self.run.emit(Notice(message))
        for problem in result.problems:
            if problem not in self._reported_problems:
                self._reported_problems.add(problem)
                self.run.emit(Notice(problem, "warning"))

    def notify(self, message: str, kind: str) -> None:
        """Tell Notification hooks; nobody waits for them."""
        if self.hooks.listens_to("Notification"):
            fields = {"message": message, "title": "Cellwright", "notification_type": kind}
            task = asyncio.get_running_loop().create_task(self.fire("Notification", fields))
            self._notifying.append(task)
            _going_out.add(task)
            task.add_done_callback(_going_out.discard)

    async def interrupt(self) -> None:
        """The run was interrupted: what nobody waits for ends too."""
        self.ended = True
        for task in self._notifying:
            task.cancel()
        await asyncio.gather(*self._notifying, return_exceptions=True)

    async def before_prompt(self, prompt: str, setup: str) -> list[dict[str, Any]]:
        """Collect what Claude is told with the user's words. Raises `CellwrightError` when a hook holds them back.

        `setup` as in `FullPrompt`.
        """
        if self.hooks is NO_HOOKS:
            self.session.started_by = ""
            return []
        if self.subagent is not None:
            begun = await self.fire("SubagentStart", {})
            _refuse_if_stopped("SubagentStart", begun)
            return context_blocks("SubagentStart hook", begun.context)
        blocks = context_blocks("Hook", self.arrived().context)
        if source := self.session.started_by:
            if setup:
                prepared = await self.fire("Setup", {"trigger": setup})
                blocks += context_blocks("Setup hook", prepared.context)
            started = await self.fire("SessionStart", {"source": source, "model": self.run.agent.model})
            _refuse_if_stopped("SessionStart", started)
            blocks += context_blocks("SessionStart hook", started.context)
        blocks += context_blocks("PostModelSwitch hook", await self._model_switch())
        submitted = await self.fire("UserPromptSubmit", {"prompt": prompt, "source": "user"})
        _refuse_if_stopped("UserPromptSubmit", submitted)
        # a session whose first prompt is kept back has not started: what it is told at its start is told with the next
        self.session.started_by = ""
        return blocks + context_blocks("UserPromptSubmit hook", submitted.context)

    async def before_expansion(self, prompt: str, expansion: Mapping[str, Any] | None) -> list[dict[str, Any]]:
        """Collect what Claude is told with a prompt that calls a skill; raises as `before_prompt`."""
        if expansion is None or self.subagent is not None:
            return []
        result = await self.fire("UserPromptExpansion", {**expansion, "prompt": prompt})
        _refuse_if_stopped("UserPromptExpansion", result)
        return context_blocks("UserPromptExpansion hook", result.context)

    async def before_steering(self, text: str) -> list[dict[str, Any]]:
        """Collect what Claude is told with words that the user adds to an ongoing run; raises as `before_prompt`."""
        submitted = await self.fire("UserPromptSubmit", {"prompt": replace_surrogates(text), "source": "user"})
        _refuse_if_stopped("UserPromptSubmit", submitted)
        return context_blocks("UserPromptSubmit hook", submitted.context)

    async def _model_switch(self) -> tuple[str, ...]:
        """Tell of another model than the session's last; gives what Claude is told of it."""
        before, to = self.session.last_model, self.run.agent.model
        listened = self.hooks.listens_to("PreModelSwitch") or self.hooks.listens_to("PostModelSwitch")
        if not before or not listened or canonical(before) == canonical(to):
            return ()
        tokens = self.session.context_tokens
        fields = {
            "from_model": before,
            "to_model": to,
            "requested_model": to,
            "source": "command",
            "context_tokens": tokens,
            # the time for which the API keeps a session's messages in its cache
            "prompt_cache_warm": self.session.idle_seconds < 300.0,
            "cache_ttl": "5m",
            "estimated_cache_write_usd": worst_case_usd(to, tokens, 0),
        }
        result = await self.fire("PreModelSwitch", fields)
        _refuse_if_stopped("PreModelSwitch", result)
        if result.behavior in ("deny", "ask"):
            why = result.reason or "no reason was given"
            message = f"A PreModelSwitch hook keeps this session on {before}: {why} Nothing was sent."
            raise CellwrightError(ErrorCode.PERMISSION_DENIED, message, recoverable=True)
        return (await self.fire("PostModelSwitch", fields)).context

    async def after_call(
        self, tool: Tool, tool_use: Mapping[str, Any], tool_input: Mapping[str, Any], outcome: Outcome
    ) -> tuple[Outcome, HookResult]:
        """Tell the hooks of a call, and return what the call comes to then and what they say."""
        fields = {
            "tool_name": tool.name,
            "tool_input": tool_input,
            "tool_use_id": tool_use["id"],
            "duration_ms": round(outcome.duration_ms),
        }
        if outcome.status != "success":
            error = str((outcome.error or {}).get("message", ""))
            code = outcome.structured.get("exit_code") if isinstance(outcome.structured, dict) else None
            error = (
                f"Exit code {code}\n{error.partition(chr(10))[2]}" if error.startswith(f"Exit code {code}") else error
            )
            return outcome, await self.fire("PostToolUseFailure", {**fields, "error": error, "is_interrupt": False})
        if not self.hooks.listens_to("PostToolUse"):
            return outcome, NO_HOOK_RESULT
        structured = outcome.structured if isinstance(outcome.structured, dict) else {}
        response = response_of(tool, tool_input, outcome.content, {**structured, **(outcome.display or {})})
        result = await self.fire("PostToolUse", {**fields, "tool_response": response})
        if result.updated_output is not None:
            content = updated_content(result.updated_output)
            if content is not None:
                # what a hook takes out of the result must not be in it for programs
                return replace(outcome, content=content, structured=None), result
            self.run.emit(
                Notice(f"A PostToolUse hook's new output does not have the shape of {tool.name}'s.", "warning")
            )
        return outcome, result

    async def after_batch(self, calls: Iterable[Mapping[str, Any]]) -> HookResult:
        """Tell of all calls of a message; `block` keeps the run from going on."""
        return await self.fire("PostToolBatch", {"tool_calls": list(calls)})

    async def before_stop(self, last_message: str) -> list[dict[str, Any]]:
        """Return what Claude goes on with instead of ending here; nothing when it may end."""
        fields = {"stop_hook_active": self.blocked_stops > 0, "last_assistant_message": last_message}
        if self.subagent is None:
            result = await self.fire("Stop", fields)
        else:
            transcript = {"agent_transcript_path": str(self.session.path or "")}
            result = await self.fire("SubagentStop", {**fields, **transcript})
        if result.stop is not None:
            self.run.emit(Notice(result.stop))
            return []
        waking = self.arrived().context if self.hooks.waking() else ()
        reasons = (f"Stop hook feedback:\n{result.reason}",) if result.block else ()
        blocks = [*_texts(reasons), *context_blocks("Stop hook", result.context), *context_blocks("Hook", waking)]
        if blocks and self.blocked_stops == MAX_BLOCKED_STOPS:
            message = f"Stop hooks kept Claude from ending {MAX_BLOCKED_STOPS} times; now it ends."
            self.run.emit(Notice(message, "warning"))
            return []
        self.blocked_stops += bool(blocks)
        return blocks

    async def after_failure(self, error: CellwrightError, last_message: str) -> None:
        """Tell StopFailure hooks that the API ended the run."""
        kind = "max_output_tokens" if error.details.get("max_tokens") else _API_ERRORS.get(error.code)
        if kind is not None:
            fields = {"error": kind, "error_details": error.message, "last_assistant_message": last_message}
            await self.fire("StopFailure", fields)

    async def persist_rules(self, rules: Sequence[str]) -> None:
        """Keep allow rules that a hook has given for later sessions."""
        if rules and (problem := await self.hooks.persist_rules(rules)):
            self.run.emit(Notice(problem, "warning"))

    async def objection(self, event: str, fields: Mapping[str, Any]) -> str:
        """Return the hooks' reason against `event`, which a call is about to bring about; "" when they have none."""
        result = await self.fire(event, fields)
        if result.block or result.stop is not None:
            return result.reason or result.stop or "a hook said no and gave no reason"
        return ""

    async def after_move(self, old: str, new: str) -> HookResult:
        """Tell of the folder that a shell command went to."""
        return await self.fire("CwdChanged", {"old_cwd": old, "new_cwd": new})

    def arrived(self) -> HookResult:
        """Show and return what hooks that nobody waited for have said meanwhile."""
        result = self.hooks.arrived()
        self.show(result)
        return result

    def _common(self, event: str) -> dict[str, Any]:
        agent, subagent = self.run.agent, self.subagent
        common = session_fields(event, self.session, agent.policy.mode)
        if subagent is not None:
            common |= {"session_id": subagent.main.id, "transcript_path": str(subagent.main.path or "")}
            common |= {"agent_id": subagent.agent.id, "agent_type": subagent.agent.type}
        return common | {name: {"level": level} for name, level in agent.model_settings.chosen.items() if level}


def session_fields(event: str, session: Session, mode: str) -> dict[str, Any]:
    """Build the fields common to all events; `mode` is the permission mode where the session has none of its own."""
    return {
        "session_id": session.id,
        "transcript_path": str(session.path or ""),
        "cwd": str(session.cwd),
        "hook_event_name": event,
        "permission_mode": session.mode or mode,
    }


def context_blocks(source: str, texts: Iterable[str]) -> list[dict[str, Any]]:
    """Wrap what hooks add for Claude to read in blocks of a user message."""
    return _texts(f"<system-reminder>\n{source} additional context: {text}\n</system-reminder>" for text in texts)


def _texts(texts: Iterable[str]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": replace_surrogates(text)} for text in texts]


def _refuse_if_stopped(event: str, result: HookResult) -> None:
    if result.block or result.stop is not None:
        why = result.reason or result.stop or "no reason was given"
        message = f"A {event} hook kept the prompt from being sent: {why}"
        raise CellwrightError(ErrorCode.PERMISSION_DENIED, message, recoverable=True)
