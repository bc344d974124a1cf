"""Answers of hooks, in Claude Code's JSON, read into a `HookResult`, and merged when several hooks answer.

Parts of an answer that are not understood are reported; if they were about whether a call may run, the user is asked.
Hooks of several origins are told at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.calls.tool_results import bounded
from cellwright.agent.hooks.hook_result import NO_HOOK_RESULT, HookResult
from cellwright.agent.hooks.permission_updates import read_updates
from cellwright.agent.hooks.protocol import HookRun, Hooks
from cellwright.text import replace_surrogates, replace_surrogates_in

LONGEST_TEXT = 10_000
"""Characters of one text of an answer; of a longer one Claude gets start and end, and the file that holds the whole."""

BLOCKABLE = frozenset(
    {
        *("UserPromptSubmit", "UserPromptExpansion", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "Stop"),
        *("SubagentStop", "ConfigChange", "PreCompact", "TaskCreated", "TaskCompleted", "TeammateIdle"),
        *("Elicitation", "ElicitationResult"),
    }
)
"""Events where exit code 2 and `decision: "block"` keep something from happening, or tell Claude what is wrong."""

JUDGING = frozenset({"PreToolUse", "PreModelSwitch"})
"""The events for which a hook decides by `permissionDecision`."""

_WITH_CONTEXT = frozenset(
    {
        *(
            "PreToolUse",
            "PostToolUse",
            "PostToolUseFailure",
            "PostToolBatch",
            "UserPromptSubmit",
            "SessionStart",
            "Stop",
        ),
        *("UserPromptExpansion", "SubagentStart", "SubagentStop", "PostModelSwitch", "Setup"),
    }
)
_DECISIONS = {"allow": "allow", "deny": "deny", "ask": "ask", "defer": "ask", "approve": "allow", "block": "deny"}
# `defer` hands a call to a program that drives a headless run; here somebody is asked, or nobody is and it is denied
_RANK = {"": 0, "allow": 1, "ask": 2, "deny": 3}


def blocked(event: str, reason: str) -> HookResult:
    """Translate exit code 2 for `event` into a result: no, for this reason."""
    reason = capped(reason.strip()) or "a hook said no and gave no reason"
    if event in JUDGING:
        return HookResult(behavior="deny", reason=reason)
    if event in BLOCKABLE:
        return HookResult(block=True, reason=reason)
    return HookResult(messages=(reason,))


def read_answer(event: str, answer: Mapping[str, Any], source: str) -> HookResult:
    """The meaning of a hook's JSON `answer` to `event`; `source` names the hook where something in it is wrong."""
    try:
        whole = replace_surrogates_in(dict(answer))
    except RecursionError:
        return HookResult(problems=(f"{source}, asked about {event}: its answer is nested too deeply.",))
    return _Reader(event, whole, source).read()


def merged(results: Sequence[HookResult]) -> HookResult:
    """Merge `results` into one: the strictest decision, all that is said, and the later of two new inputs."""
    found = [result for result in results if result is not NO_HOOK_RESULT]
    if len(found) < 2:
        return found[0] if found else NO_HOOK_RESULT
    behavior = max((result.behavior for result in found), key=_RANK.__getitem__)
    reasons = [r.reason for r in found if r.reason and (r.block or (r.behavior and r.behavior == behavior))]
    stops = [result.stop for result in found if result.stop is not None]
    return HookResult(
        behavior=behavior,
        reason="\n".join(dict.fromkeys(reasons)),
        block=any(result.block for result in found),
        stop="\n".join(dict.fromkeys(stops)) if stops else None,
        context=tuple(text for result in found for text in result.context),
        messages=tuple(text for result in found for text in result.messages),
        problems=tuple(text for result in found for text in result.problems),
        updated_input=_last(result.updated_input for result in found),
        updated_output=_last(result.updated_output for result in found),
        rules=tuple(rule for result in found for rule in result.rules),
        kept_rules=tuple(rule for result in found for rule in result.kept_rules),
        mode=_last(result.mode for result in found),
        interrupt=any(result.interrupt for result in found),
        worktree=_last(result.worktree or None for result in found) or "",
        elicitation=_last(result.elicitation for result in found),
    )


async def gather_results(calls: Sequence[Coroutine[Any, Any, HookResult]]) -> HookResult:
    """Run hooks at the same time and merge what they say. Cancelled, it ends when all of them have ended."""
    if len(calls) == 1:
        return await calls[0]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in calls]
    return merged([task.result() for task in tasks])


def capped(text: str) -> str:
    """A text of an answer, in the length that Claude and the user get of it."""
    text = replace_surrogates(text)
    if len(text) <= LONGEST_TEXT:
        return text
    short = bounded(text, LONGEST_TEXT)
    assert isinstance(short, str)
    return short


def _last(values: Iterator[Any]) -> Any:
    found = None
    for value in values:
        found = found if value is None else value
    return found


class _Reader(Struct):
    """Reads one answer; collects what is wrong with it."""

    event: str
    answer: Mapping[str, Any]
    source: str
    problems: list[str] = field(default_factory=list)

    def read(self) -> HookResult:
        result = NO_HOOK_RESULT
        if not isinstance(goes_on := self.answer.get("continue", True), bool):
            self._problem(f"`continue` is {goes_on!r}")
        if goes_on is False:
            result = replace(result, stop=self._text(self.answer, "stopReason") or f"{self.source} stopped the run.")
        result = self._decision(result)
        specific = self.answer.get("hookSpecificOutput")
        if specific is not None:
            result = self._specific(result, specific)
        result = self._misplaced(result)
        message = self._text(self.answer, "systemMessage")
        result = replace(result, messages=(message,) if message else ())
        return replace(result, problems=tuple(self.problems)) if self.problems else result

    def _decision(self, result: HookResult) -> HookResult:
        if (decision := self.answer.get("decision")) is None:
            return result
        reason = self._text(self.answer, "reason")
        if self.event == "PreToolUse":
            return self._judged(result, decision, reason, "decision")
        if decision == "block" and self.event in BLOCKABLE:
            return replace(result, block=True, reason=reason or f"{self.source} said no and gave no reason")
        if decision not in ("block", "approve"):
            self._problem(f'`decision` is {decision!r}, where only "block" means something')
        elif decision == "block":
            self._problem(f'`decision: "block"` has no meaning for {self.event}')
        return result

    def _judged(self, result: HookResult, decision: Any, reason: str, key: str) -> HookResult:
        behavior = _DECISIONS.get(decision) if isinstance(decision, str) else None
        if behavior is None:
            self._problem(f"`{key}` is {decision!r}; it is taken as ask")
            behavior = "ask"
        return replace(result, behavior=cast(Literal["allow", "ask", "deny"], behavior), reason=reason)

    def _specific(self, result: HookResult, specific: Any) -> HookResult:
        if not isinstance(specific, Mapping):
            self._problem("`hookSpecificOutput` is not an object")
            return result
        named = specific.get("hookEventName", self.event)
        if named != self.event:
            self._problem(f"`hookEventName` is {named!r}, so what it says of that event counts for nothing")
            return result
        if self.event in _WITH_CONTEXT and (context := self._text(specific, "additionalContext")).strip():
            result = replace(result, context=(context,))
        if self.event in JUDGING and specific.get("permissionDecision") is not None:
            reason = self._text(specific, "permissionDecisionReason")
            result = self._judged(result, specific["permissionDecision"], reason, "permissionDecision")
        if self.event == "PreToolUse":
            return replace(result, updated_input=self._object(specific, "updatedInput"))
        if self.event == "PostToolUse":
            output = specific.get("updatedToolOutput", specific.get("updatedMCPToolOutput"))
            return replace(result, updated_output=output)
        if self.event in ("Elicitation", "ElicitationResult"):
            return replace(result, elicitation=self._elicitation(specific))
        if self.event == "WorktreeCreate":
            return replace(result, worktree=self._text(specific, "worktreePath"))
        if self.event == "PermissionRequest" and specific.get("decision") is not None:
            return self._request(result, specific["decision"])
        return result

    def _misplaced(self, result: HookResult) -> HookResult:
        """A guard that has its answer one level too high must not be taken for one that says nothing, or yes."""
        decision = self.answer.get("permissionDecision")
        if self.event not in JUDGING or decision is None:
            return result
        self._problem("`permissionDecision` stands outside of `hookSpecificOutput`, where it is taken as ask")
        return result if result.behavior in ("deny", decision) else replace(result, behavior="ask")

    def _request(self, result: HookResult, decision: Any) -> HookResult:
        behavior = decision.get("behavior") if isinstance(decision, Mapping) else None
        if behavior not in ("allow", "deny"):
            self._problem('`decision.behavior` is neither "allow" nor "deny"; the user is asked')
            return result
        if behavior == "deny":
            reason = self._text(decision, "message") or f"{self.source} denied it"
            return replace(result, behavior="deny", reason=reason, interrupt=decision.get("interrupt") is True)
        updates = read_updates(decision.get("updatedPermissions") or ())
        for problem in updates.problems:
            self._problem(problem)
        return replace(
            result,
            behavior="allow",
            updated_input=self._object(decision, "updatedInput"),
            rules=updates.rules,
            kept_rules=updates.kept_rules,
            mode=updates.mode,
        )

    def _elicitation(self, specific: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if (action := specific.get("action")) is None:
            return None
        if action not in ("accept", "decline", "cancel"):
            self._problem(f"`action` is {action!r}, not accept, decline or cancel; it counts for nothing")
            return None
        return {"action": action, "content": self._object(specific, "content")}

    def _text(self, values: Mapping[str, Any], key: str) -> str:
        value = values.get(key)
        if value is None or isinstance(value, str):
            return capped(value or "")
        self._problem(f"`{key}` is not a text")
        return ""

    def _object(self, values: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
        value = values.get(key)
        if value is None or isinstance(value, Mapping):
            return value
        self._problem(f"`{key}` is not an object; the call is left as it was")
        return None

    def _problem(self, what: str) -> None:
        self.problems.append(f"{self.source}, asked about {self.event}: {what}.")


class HooksTogether(Struct, frozen=True):
    """Hooks of several origins, told at the same time; `parts` may grow."""

    parts: Sequence[Hooks]

    def listens_to(self, event: str) -> bool:
        return any(part.listens_to(event) for part in self.parts)

    async def fire(self, event: str, fields: Mapping[str, Any], run: HookRun | None) -> HookResult:
        listening = [part.fire(event, fields, run) for part in self.parts if part.listens_to(event)]
        return await gather_results(listening) if listening else NO_HOOK_RESULT

    def arrived(self) -> HookResult:
        return merged([part.arrived() for part in self.parts])

    def waking(self) -> bool:
        return any(part.waking() for part in self.parts)

    async def persist_rules(self, rules: Sequence[str]) -> str:
        return " ".join([problem for part in self.parts if (problem := await part.persist_rules(rules))])
