"""Hooks as the loop sees them: told of an event, they may refuse it, change it, or add what Claude reads.

The events, their fields and the possible answers are Claude Code's; `docs/hooks.md` lists them. Python callables
become hooks in `callbacks.py`, those of settings files in `config/hooks/hooks.py`; `run_hooks.py` tells them of a
run's events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct, field

from cellwright.events import Emit

if TYPE_CHECKING:
    from cellwright.agent.agent_setup import AgentSetup


EVENTS = (
    *("PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "Notification", "UserPromptSubmit"),
    *("UserPromptExpansion", "SessionStart", "SessionEnd", "Stop", "StopFailure", "SubagentStart", "SubagentStop"),
    *("PreCompact", "PostCompact", "PreModelSwitch", "PostModelSwitch", "PermissionRequest", "PermissionDenied"),
    *("Setup", "TeammateIdle", "TaskCreated", "TaskCompleted", "Elicitation", "ElicitationResult", "ConfigChange"),
    *("WorktreeCreate", "WorktreeRemove", "InstructionsLoaded", "CwdChanged", "FileChanged", "DirectoryAdded"),
    "MessageDisplay",
)
"""All names that Claude Code knows; which of them are fired here is in `docs/hooks.md`."""


class HookResult(Struct, frozen=True):
    """The combined result of all hooks of one event; the default says nothing.

    `behavior` is a decision about a call ("deny" before "ask" before "allow"), `reason` its or the block's reason.
    `block`: what was about to happen must not (a prompt, the end of a turn, a result). `stop` ends the run, for the
    reason it holds. `context` is for Claude to read, `messages` for the user, `problems` tell the user what failed.
    `updated_input` and `updated_output` stand in for the call's input and result. `rules` are allow rules and `mode` is a
    permission mode for the session, which go with an "allow"; `kept_rules` are those of `rules` that later sessions have
    too. `interrupt` goes with a denial and ends the run. `worktree` is the folder that a WorktreeCreate hook made.
    `elicitation` answers an MCP server's question: its `action`, and its `content`. `unread`: a no is in it only because
    an answer could not be understood.
    """

    behavior: Literal["", "allow", "ask", "deny"] = ""
    reason: str = ""
    block: bool = False
    stop: str | None = None
    context: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    updated_input: Mapping[str, Any] | None = None
    updated_output: Any = None
    rules: tuple[str, ...] = ()
    kept_rules: tuple[str, ...] = ()
    mode: str | None = None
    interrupt: bool = False
    worktree: str = ""
    elicitation: Mapping[str, Any] | None = None
    unread: bool = False


NO_HOOK_RESULT = HookResult()


class HookRun(Struct, frozen=True):
    """The part of a run that its hooks may use: its model, what counts their cost, and who hears of them.

    `spend(model, usage, cost_usd)` counts an answer. `budget_left()` is what the run may still spend in US dollars; None: it
    has no budget.
    """

    agent: AgentSetup
    emit: Emit
    spend: Callable[[str, Mapping[str, Any], float | None], None] = field(default=lambda _model, _usage, _cost: None)
    budget_left: Callable[[], float | None] = field(default=lambda: None)


class Hooks(Protocol):
    """The hooks that want to know what happens in a run."""

    def listens_to(self, event: str) -> bool:
        """Return whether any hook wants to know of `event`; what happens without one costs nothing more."""
        ...

    async def fire(self, event: str, fields: Mapping[str, Any], run: HookRun | None) -> HookResult:
        """Tell the hooks of `event`, whose whole input is `fields`, and wait for what they say.

        `run` is None outside of one (SessionEnd). Never raises but for a cancellation, which ends the hooks too.
        """
        ...

    def arrived(self) -> HookResult:
        """Return what hooks that nobody waited for have said since this was last asked."""
        ...

    def waking(self) -> bool:
        """Return whether one of them wants a run to go on for what it said."""
        ...

    async def persist_rules(self, rules: Sequence[str]) -> str:
        """Keep allow rules for later sessions, where the hooks have such a place; gives what went wrong, or ""."""
        ...


class AwaitedHooks:
    """Hooks that are waited for, and keep no rules: nothing of them arrives later."""

    def arrived(self) -> HookResult:
        return NO_HOOK_RESULT

    def waking(self) -> bool:
        return False

    async def persist_rules(self, rules: Sequence[str]) -> str:
        return ""


class NoHooks(AwaitedHooks):
    """Nobody listens."""

    def listens_to(self, event: str) -> bool:
        return False

    async def fire(self, event: str, fields: Mapping[str, Any], run: HookRun | None) -> HookResult:
        return NO_HOOK_RESULT


NO_HOOKS: Hooks = NoHooks()
