"""Prompt and agent hooks: a small model is asked about an event and answers `{"ok": true}`, or false and why.

It answers through the run's provider, and what it costs is counted with the run.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace as variant
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from cellwright.agent.hooks.hook_answers import blocked, capped, objects_in, unread
from cellwright.agent.hooks.protocol import NO_HOOK_RESULT, NO_HOOKS, HookResult, HookRun
from cellwright.agent.loop import run_agent
from cellwright.agent.side_request import MAX_TOKENS, SideRequest, text_of
from cellwright.agent.spending.run_spending import NO_SHARED_BUDGETS
from cellwright.agent.tool import ToolContext
from cellwright.config.hooks.command import failed, short
from cellwright.config.hooks.entries import ModelHook
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Event, RunEnd
from cellwright.model.pricing import worst_case_usd
from cellwright.sessions.session import Session

MAX_TURNS = 50
"""Requests that an agent hook may make."""

ANSWER = (
    'Answer with one JSON object and nothing else: {"ok": true} when the condition is met, else '
    '{"ok": false, "reason": "why it is not"}. Add "impossible": true when it can never be met.'
)
_LOOKING = "You check a condition. Look at what you need with your tools, which only read, then answer. " + ANSWER

_ENDING = frozenset({"PostToolUse", "PostToolUseFailure", "PostToolBatch"})
"""The events for which a no ends the run, unless the hook says that Claude shall be told instead."""


async def ask_model(
    hook: ModelHook, event: str, fields: Mapping[str, Any], run: HookRun | None, small_model: str
) -> HookResult:
    """Ask and read the answer. Never raises but for a cancellation."""
    if run is None:
        return failed(hook, event, "has no model to ask outside of a run")
    model = hook.model or small_model
    prompt = _prompt(hook, fields)
    if not hook.looks and not _affordable(prompt, model, run.budget_left()):
        return failed(hook, event, f"was not asked: {model} could cost more than the budget has left")
    try:
        text = await (
            _ask_agent(prompt, model, run, Path(str(fields["cwd"]))) if hook.looks else _ask_model(prompt, model, run)
        )
    except CellwrightError as error:
        return failed(hook, event, f"got no answer from {model}: {error.message}")
    return read_verdict(hook, event, text)


def read_verdict(hook: ModelHook, event: str, text: str) -> HookResult:
    """Translate the model's answer into a result."""
    # it may stand in a fence or between words; of several a no counts
    found = [value for value in objects_in(text) if "ok" in value]
    verdict = next((value for value in found if value["ok"] is not True), found[-1] if found else None)
    if verdict is None or not isinstance(verdict.get("ok"), bool):
        return unread(event, f"The hook `{short(hook.name)}` ({event}) got no verdict from its model: {short(text)}.")
    if verdict["ok"]:
        return NO_HOOK_RESULT
    reason = capped(str(verdict.get("reason") or "")) or f"the condition is not met: {short(hook.prompt)}"
    if event in ("Stop", "SubagentStop") and verdict.get("impossible") is True:
        return HookResult(messages=(f"The hook's condition cannot be met: {reason}",))
    if event == "PermissionRequest":
        return HookResult(behavior="deny", reason=reason)
    if event in _ENDING and not hook.feeds_back:
        return replace(blocked(event, reason), stop=reason)
    return blocked(event, reason)


def _prompt(hook: ModelHook, fields: Mapping[str, Any]) -> str:
    event = json.dumps(fields, ensure_ascii=False, default=str)
    return hook.prompt.replace("$ARGUMENTS", event) if "$ARGUMENTS" in hook.prompt else f"{hook.prompt}\n\n{event}"


def _affordable(prompt: str, model: str, left: float | None) -> bool:
    """Return whether the budget pays for an answer at worst; an agent hook sees to that itself, by request."""
    if left is None:
        return True
    # three bytes a token is more than any text costs
    worst = worst_case_usd(model, len(prompt.encode("utf-8", "replace")) // 3, MAX_TOKENS)
    return worst is not None and worst <= left


async def _ask_model(prompt: str, model: str, run: HookRun) -> str:
    ctx = ToolContext("hook", lambda **_: None, spend=functools.partial(run.spend, model))
    turn = await SideRequest(lambda: run.agent.provider, model).ask(
        [{"role": "user", "content": [{"type": "text", "text": f"{prompt}\n\n{ANSWER}"}]}], ctx
    )
    return text_of(turn)


async def _ask_agent(prompt: str, model: str, run: HookRun, cwd: Path) -> str:
    """The answer of an agent that may look at files first."""
    system = ({"type": "text", "text": _LOOKING},)
    end = await _run_agent(run, prompt, cwd, model, system)
    if end.error is not None:
        raise CellwrightError(ErrorCode(end.error["code"]), end.error["message"])
    return end.text


async def _run_agent(run: HookRun, prompt: str, cwd: Path, model: str, system: Sequence[Mapping[str, Any]]) -> RunEnd:
    """Have an agent answer that has the run's reading tools, its rules and what is left of its budget."""

    def on_event(event: Event) -> None:
        if isinstance(event, RunEnd):
            run.spend(model, event.usage, event.cost_usd)

    agent = variant(
        run.agent,
        model=model,
        system=system,
        tools=tuple(tool for tool in run.agent.tools if tool.read_only and tool.asks == "permission"),
        can_use_tool=None,
        limits=variant(
            run.agent.limits,
            max_turns=MAX_TURNS,
            budget_usd=run.budget_left(),
            shared_budgets=NO_SHARED_BUDGETS,  # `budget_left` looks at them, and the run counts there
        ),
        model_settings=variant(run.agent.model_settings.with_choice(None), plan_model=None),
        final_answer=variant(run.agent.final_answer, proposals=None),
        hooks=NO_HOOKS,
    )
    return await run_agent(agent, prompt, Session.create(cwd, None), on_event)
