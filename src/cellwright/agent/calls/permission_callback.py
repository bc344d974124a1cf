"""A program's `can_use_tool`: with one argument, as ours is called, or with the three of claude-agent-sdk's.

Its answers are `Allow` and `Deny`, or what the SDK has for them: a dict or an object with `behavior`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from cellwright.agent.calls.approval import Allow, CanUseTool, Deny, ToolUse
from cellwright.agent.hooks.hook_answers import offered_updates, read_updates

AskWithContext = Callable[[str, dict[str, Any], "ToolPermissionContext"], Awaitable[Any]]
PermissionCallback = CanUseTool | AskWithContext

ANSWERS = "Allow() or Deny(reason), or a dict or object whose `behavior` is 'allow' or 'deny'"


class ToolPermissionContext(Struct, frozen=True):
    """The third argument of a `can_use_tool` that takes three, with the names of claude-agent-sdk.

    `suggestions` are permission updates as dicts, to be given back as `updatedPermissions`; `signal` is set when the
    question is withdrawn, because the run was interrupted; `agent_id` is None for Claude itself; `decision_reason` says why
    it is asked, `title` and `description` what a person would be shown.

    >>> async def can_use_tool(tool_name, tool_input, context: ToolPermissionContext):
    ...     return {"behavior": "allow", "updatedPermissions": context.suggestions}
    """

    signal: asyncio.Event
    suggestions: list[dict[str, Any]]
    tool_use_id: str
    agent_id: str | None = None
    blocked_path: str | None = None
    decision_reason: str | None = None
    title: str | None = None
    display_name: str | None = None
    description: str | None = None


def permission_callback(given: PermissionCallback) -> CanUseTool:
    """`given` as the loop calls it, with one argument. Raises TypeError for what cannot be called so.

    >>> import asyncio
    >>> from cellwright.agent.calls.approval import Decision
    >>> from cellwright.events import Preview
    >>> async def no_deletions(name, tool_input, context):
    ...     return {"behavior": "deny", "message": f"{name} is not for this"}
    >>> use = ToolUse("toolu_1", "Bash", {"command": "rm a"}, Decision("ask", "No rule allows it."), Preview("rm a"))
    >>> asyncio.run(permission_callback(no_deletions)(use)).reason
    'Bash is not for this'
    """
    ask: Callable[..., Any] = given
    takes_three = _takes_three(given)

    async def can_use_tool(use: ToolUse) -> Allow | Deny:
        if not takes_three:
            return as_answer(await _awaited(ask(use)))
        context = _context(use)
        try:
            return as_answer(await _awaited(ask(use.name, dict(use.input), context)))
        except asyncio.CancelledError:
            context.signal.set()
            raise

    return can_use_tool


def as_answer(given: Any) -> Allow | Deny:
    """The answer that a callback gave. Raises TypeError for what is none.

    >>> as_answer({"behavior": "allow", "updatedInput": {"command": "ls"}}).updated_input
    {'command': 'ls'}
    >>> as_answer({"behavior": "deny", "message": "no", "interrupt": True}).interrupt
    True
    """
    if isinstance(given, Allow | Deny):
        return given
    match _field(given, "behavior"):
        case "allow":
            return _allow(_field(given, "updatedInput", "updated_input"), _updates(given))
        case "deny":
            return Deny(str(_field(given, "message") or ""), interrupt=_field(given, "interrupt") is True)
        case _:
            raise TypeError(f"can_use_tool returned {given!r:.200}; it returns {ANSWERS}")


def _allow(updated_input: Any, updates: list[Any]) -> Allow:
    if updated_input is not None and not isinstance(updated_input, Mapping):
        raise TypeError(f"can_use_tool returned updatedInput {updated_input!r:.200}; it is a dict")
    read = read_updates(updates)
    problems = list(read.problems)
    if read.kept_rules:
        problems.append(
            f"{', '.join(read.kept_rules)}: holds for this session; a program's answers are kept in no file"
        )
    notice = f"can_use_tool: {'; '.join(problems)}." if problems else ""
    return Allow(updated_input, "session" if read.rules else "once", read.rules, notice=notice, mode=read.mode)


def _updates(given: Any) -> list[Any]:
    """The permission updates of an answer, as JSON has them."""
    updates = _field(given, "updatedPermissions", "updated_permissions") or ()
    if isinstance(updates, str | Mapping) or not isinstance(updates, Sequence):
        raise TypeError(
            f"can_use_tool returned updatedPermissions {updates!r:.200}; it is a list of permission updates"
        )
    return [update.to_dict() if hasattr(update, "to_dict") else update for update in updates]


def _field(given: Any, *names: str) -> Any:
    """The first of these that there is, as a key or as an attribute."""
    for name in names:
        value = given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)
        if value is not None:
            return value
    return None


async def _awaited(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


def _context(use: ToolUse) -> ToolPermissionContext:
    return ToolPermissionContext(
        signal=asyncio.Event(),
        suggestions=offered_updates(each for each in use.decision.suggestions if each.rules),
        tool_use_id=use.id,
        agent_id=use.agent_id or None,
        decision_reason=use.decision.reason or None,
        title=use.preview.title or None,
        display_name=use.name,
        description=use.preview.detail or None,
    )


def _takes_three(given: Any) -> bool:
    """Return whether it is called with the tool's name, its input and a context. Raises TypeError."""
    if not callable(given):
        message = (
            f"can_use_tool is {given!r:.200}; it is a coroutine function of a ToolUse, or of (name, input, context)"
        )
        raise TypeError(message)
    try:
        signature = inspect.signature(given)
    except ValueError:  # made in C: it says nothing
        return False
    for count in (1, 3):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count == 3
    raise TypeError(
        f"can_use_tool takes {signature}; it takes one argument, a ToolUse, or three: the tool's name, its input, a context"
    )
