"""Hooks, as the loop sees them: told of an event, they may say no, change what is about to happen, or add what Claude reads.

The events, their fields and what an answer may say are Claude Code's; `config/hooks.py` reads them from settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True)
class HookResult:
    """What all hooks of one event came to together; the default says nothing.

    `behavior` is a decision about a call ("deny" before "ask" before "allow"), `reason` its or the block's reason.
    `block`: what was about to happen must not (a prompt, the end of a turn, a result). `stop` ends the run, for the
    reason it holds. `context` is for Claude to read, `messages` for the user. `updated_input` and `updated_output` stand
    in for the call's input and result. `rules` are allow rules for the session. `interrupt` goes with a denial and ends
    the run.
    """

    behavior: Literal["", "allow", "ask", "deny"] = ""
    reason: str = ""
    block: bool = False
    stop: str | None = None
    context: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    updated_input: Mapping[str, Any] | None = None
    updated_output: Any = None
    rules: tuple[str, ...] = ()
    interrupt: bool = False


NOTHING_SAID = HookResult()


class Hooks(Protocol):
    """The hooks of a run."""

    def listens_to(self, event: str) -> bool:
        """Whether any hook wants to know of `event`; a call without one costs nothing more."""
        ...

    async def fire(self, event: str, fields: Mapping[str, Any], *, tool_name: str = "") -> HookResult:
        """Tell the hooks of `event`, which has `fields` besides the ones every event has, and wait for what they say.

        `tool_name` is given where the event is about a call. Never raises but for a cancellation.
        """
        ...


class NoHooks:
    """Nobody listens."""

    def listens_to(self, event: str) -> bool:
        return False

    async def fire(self, event: str, fields: Mapping[str, Any], *, tool_name: str = "") -> HookResult:
        return NOTHING_SAID


NO_HOOKS: Hooks = NoHooks()
