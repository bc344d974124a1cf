"""Hooks that are Python callables, and the rule by which a `matcher` picks the calls, sources or reasons of an event.

They are given as `Agent(hooks={"PreToolUse": [HookMatcher("Bash", [check])]})`. The shape is the Claude Agent SDK's:
`async check(input, tool_use_id, context) -> dict`, where `input` is the event's JSON and the dict is an answer (`{}`:
nothing to say). `continue_` and `async_` stand for the words that Python has taken.

The rule for a `matcher` is Claude Code's: letters, digits, `_`, `-`, spaces, `,` and `|` alone are names, one or a
list; anything else is a regular expression, searched for. A matcher that cannot be matched in bounded time, or not at
all, matches everything: a hook that guards something rather runs too often.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from cellwright.agent.hooks.hook_answers import blocked, gather_results, read_answer, unread
from cellwright.agent.hooks.protocol import EVENTS, NO_HOOK_RESULT, NO_HOOKS, AwaitedHooks, HookResult, HookRun, Hooks
from cellwright.agent.tool import own_tool_name
from cellwright.errors import CellwrightError, ErrorCode, described, log_fault
from cellwright.text import lazy_pattern

MATCHED_FIELDS = {
    **dict.fromkeys(("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest"), "tool_name"),
    "PermissionDenied": "tool_name",
    "SessionStart": "source",
    "Setup": "trigger",
    "SessionEnd": "reason",
    "Notification": "notification_type",
    "SubagentStart": "agent_type",
    "SubagentStop": "agent_type",
    "PreCompact": "trigger",
    "PostCompact": "trigger",
    "ConfigChange": "source",
    "DirectoryAdded": "source",
    "FileChanged": "file_path",
    "StopFailure": "error",
    "InstructionsLoaded": "load_reason",
    "UserPromptExpansion": "command_name",
    "Elicitation": "mcp_server_name",
    "ElicitationResult": "mcp_server_name",
}
"""The field of the input that a matcher is about; an event that is not here has no matcher."""

LONGEST_MATCHER = 1_000
LONGEST_VALUE = 200
"""Characters: longer matchers and values are not searched with a regular expression."""


_NAMES = lazy_pattern(r"[A-Za-z0-9_\- ,|]*")
_NOT_PLAIN = lazy_pattern(r"\\.|\[(?:\\.|[^\]\\])*\]", re.DOTALL)
_REPEAT = lazy_pattern(r"[*+]|\{\d*,\}|\{\d{2,}")
_REPEATED_GROUP = lazy_pattern(r"\)(?:[*+]|\{)")


def matches(matcher: str, event: str, fields: Mapping[str, Any]) -> bool:
    """Return whether a hook with this `matcher` is told of `event` with the input `fields`."""
    key = MATCHED_FIELDS.get(event)
    if key is None or matcher in ("", "*"):
        return True
    value = str(fields.get(key, ""))
    if event == "FileChanged":
        value = re.split(r"[/\\]", value)[-1]
    if _NAMES.fullmatch(matcher):
        names = [name.strip() for name in re.split(r"[|,]", matcher)]
        return value in names or (key == "tool_name" and value in map(own_tool_name, names))
    return _searched(matcher, value)


def matcher_problem(matcher: str) -> str | None:
    """Explain why `matcher` matches everything without saying so, or return None when it can be followed."""
    if _NAMES.fullmatch(matcher) or matcher == "*":
        return None
    if len(matcher) > LONGEST_MATCHER:
        return f"is longer than {LONGEST_MATCHER:,} characters"
    bare = _NOT_PLAIN.sub("x", matcher)
    tries = max(bare.count("("), bare.count("?"))
    # unbounded repeats in an expression: its worst case grows with the value's length to this power
    # groups, and parts that may be left out: each can double what has to be tried
    if _REPEATED_GROUP.search(bare) or len(_REPEAT.findall(bare)) > 4 or tries > 8:
        return "repeats a group, or repeats too often, so searching with it could take forever"
    try:
        re.compile(_as_python(matcher))
    except (re.error, RecursionError, OverflowError) as error:
        return f"is not a regular expression ({error})"
    return None


@functools.lru_cache(maxsize=512)
def _searched(matcher: str, value: str) -> bool:
    if len(value) > LONGEST_VALUE or matcher_problem(matcher) is not None:
        return True
    return re.search(_as_python(matcher), value) is not None


def _as_python(expression: str) -> str:
    """A JavaScript expression as Python spells it: named groups, and an end that is the end."""
    expression = re.sub(r"\(\?<(?![=!])", "(?P<", expression)
    return re.sub(r"(?<!\\)((?:\\\\)*)\$", r"\1\\Z", expression) if "[" not in expression else expression


logger = logging.getLogger(__name__)

HookCallback = Callable[[dict[str, Any], str | None, dict[str, Any]], Awaitable[Mapping[str, Any] | None]]


GUARDING = frozenset({"PreToolUse", "UserPromptSubmit"})
"""The events for which a callable that does not answer means no, unless it says otherwise."""

_PYTHON_WORDS = {"continue_": "continue", "async_": "async"}


class HookMatcher(Struct, frozen=True):
    """Callables for the calls (or sources, reasons, …) that `matcher` means; None: for all.

    `timeout` is in seconds (default 60). `on_failure` is what an error or a timeout means: "block" or "continue"
    (default: "block" for PreToolUse and UserPromptSubmit, else "continue"). Each callable is
    `async (input: dict, tool_use_id: str | None, context: dict) -> dict | None`, and answers as a hook of Claude Code's.

    >>> async def no_pushes(given, tool_use_id, context):
    ...     if "git push" in given["tool_input"]["command"]:
    ...         return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}
    >>> hooks = {"PreToolUse": [HookMatcher("Bash", [no_pushes], timeout=5)]}
    """

    matcher: str | None = None
    hooks: Sequence[HookCallback] = ()
    timeout: float | None = None
    on_failure: Literal["continue", "block"] | None = None


HookCallbacks = Mapping[str, Sequence[HookMatcher | HookCallback]]


def callback_hooks(given: HookCallbacks) -> Hooks:
    """Hooks of callables. Raises `CellwrightError` CONFIG_INVALID for an event that there is not."""
    if unknown := sorted(set(given) - set(EVENTS)):
        message = f"Hook event {unknown[0]!r} was not found. The events are: {', '.join(EVENTS)}."
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
    made = {
        event: tuple(entry if isinstance(entry, HookMatcher) else HookMatcher(hooks=(entry,)) for entry in entries)
        for event, entries in given.items()
    }
    return CallbackHooks({event: matchers for event, matchers in made.items() if matchers}) if made else NO_HOOKS


class CallbackHooks(AwaitedHooks, Struct, frozen=True):
    """Hooks that are Python callables, by event."""

    by_event: Mapping[str, Sequence[HookMatcher]]

    def listens_to(self, event: str) -> bool:
        return event in self.by_event

    async def fire(self, event: str, fields: Mapping[str, Any], run: HookRun | None) -> HookResult:
        calls = [
            _called(callback, matcher, event, fields)
            for matcher in self.by_event.get(event, ())
            if matches(matcher.matcher or "", event, fields)
            for callback in matcher.hooks
        ]
        return await gather_results(calls) if calls else NO_HOOK_RESULT


async def _called(callback: HookCallback, matcher: HookMatcher, event: str, fields: Mapping[str, Any]) -> HookResult:
    name = f"The hook {getattr(callback, '__qualname__', None) or type(callback).__name__}"
    seconds = 60.0 if matcher.timeout is None else matcher.timeout
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            answer = await callback(dict(fields), fields.get("tool_use_id"), {"signal": None})
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return _failed(matcher, event, f"{name} was cancelled from within")
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001  the last two would end the agent's loop
        if limit.expired():
            return _failed(matcher, event, f"{name} did not answer within {seconds:g} s")
        log_fault(logger, "hook %s raised", name, level=logging.WARNING, foreign=True)
        return _failed(matcher, event, f"{name} raised {described(error)}")
    if answer is None:
        return NO_HOOK_RESULT
    if not isinstance(answer, Mapping):
        what = f"{name} returned {type(answer).__name__} instead of a dict"
        return _failed(matcher, event, what) if matcher.on_failure else unread(event, f"{what} ({event}).")
    plain = {_PYTHON_WORDS.get(key, key): value for key, value in answer.items()}
    return NO_HOOK_RESULT if plain.get("async") is True else read_answer(event, plain, name)


def _failed(matcher: HookMatcher, event: str, what: str) -> HookResult:
    policy = matcher.on_failure or ("block" if event in GUARDING else "continue")
    if policy == "block":
        return blocked(event, f"{what}.")
    return HookResult(problems=(f"{what} ({event}); the run continues without it.",))
