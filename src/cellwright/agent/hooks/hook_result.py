"""The combined result of all hooks of one event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct


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
