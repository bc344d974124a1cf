"""Answers of hooks, in Claude Code's JSON, read into a `HookResult`, and merged when several hooks answer.

Parts of an answer that are not understood are reported; if they were about whether a call may run, the user is asked.
Hooks of several origins are told at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from cellwright.agent.calls.tool_results import bounded
from cellwright.agent.hooks.permission_updates import read_updates
from cellwright.agent.hooks.protocol import NOTHING_SAID, HookResult, HookRun, Hooks
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
    said = [result for result in results if result is not NOTHING_SAID]
    if len(said) < 2:
        return said[0] if said else NOTHING_SAID
    behavior = max((result.behavior for result in said), key=_RANK.__getitem__)
    reasons = [r.reason for r in said if r.reason and (r.block or (r.behavior and r.behavior == behavior))]
    stops = [result.stop for result in said if result.stop is not None]
    return HookResult(
        behavior=behavior,
        reason="\n".join(dict.fromkeys(reasons)),
        block=any(result.block for result in said),
        stop="\n".join(dict.fromkeys(stops)) if stops else None,
        context=tuple(text for result in said for text in result.context),
        messages=tuple(text for result in said for text in result.messages),
        problems=tuple(text for result in said for text in result.problems),
        updated_input=_last(result.updated_input for result in said),
        updated_output=_last(result.updated_output for result in said),
        rules=tuple(rule for result in said for rule in result.rules),
        kept_rules=tuple(rule for result in said for rule in result.kept_rules),
        mode=_last(result.mode for result in said),
        interrupt=any(result.interrupt for result in said),
    )


async def all_told(telling: Sequence[Coroutine[Any, Any, HookResult]]) -> HookResult:
    """Run hooks at the same time and merge what they say. Cancelled, it ends when all of them have ended."""
    if len(telling) == 1:
        return await telling[0]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in telling]
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


@dataclass(slots=True)
class _Reader:
    """Reads one answer; collects what is wrong with it."""

    event: str
    answer: Mapping[str, Any]
    source: str
    problems: list[str] = field(default_factory=list)

    def read(self) -> HookResult:
        said = NOTHING_SAID
        if not isinstance(goes_on := self.answer.get("continue", True), bool):
            self._problem(f"`continue` is {goes_on!r}")
        if goes_on is False:
            said = replace(said, stop=self._text(self.answer, "stopReason") or f"{self.source} stopped the run.")
        said = self._decision(said)
        specific = self.answer.get("hookSpecificOutput")
        if specific is not None:
            said = self._specific(said, specific)
        said = self._misplaced(said)
        message = self._text(self.answer, "systemMessage")
        said = replace(said, messages=(message,) if message else ())
        return replace(said, problems=tuple(self.problems)) if self.problems else said

    def _decision(self, said: HookResult) -> HookResult:
        if (decision := self.answer.get("decision")) is None:
            return said
        reason = self._text(self.answer, "reason")
        if self.event == "PreToolUse":
            return self._judged(said, decision, reason, "decision")
        if decision == "block" and self.event in BLOCKABLE:
            return replace(said, block=True, reason=reason or f"{self.source} said no and gave no reason")
        if decision not in ("block", "approve"):
            self._problem(f'`decision` is {decision!r}, where only "block" means something')
        elif decision == "block":
            self._problem(f'`decision: "block"` has no meaning for {self.event}')
        return said

    def _judged(self, said: HookResult, decision: Any, reason: str, key: str) -> HookResult:
        behavior = _DECISIONS.get(decision) if isinstance(decision, str) else None
        if behavior is None:
            self._problem(f"`{key}` is {decision!r}; it is taken as ask")
            behavior = "ask"
        return replace(said, behavior=cast(Literal["allow", "ask", "deny"], behavior), reason=reason)

    def _specific(self, said: HookResult, specific: Any) -> HookResult:
        if not isinstance(specific, Mapping):
            self._problem("`hookSpecificOutput` is not an object")
            return said
        named = specific.get("hookEventName", self.event)
        if named != self.event:
            self._problem(f"`hookEventName` is {named!r}, so what it says of that event counts for nothing")
            return said
        if self.event in _WITH_CONTEXT and (context := self._text(specific, "additionalContext")).strip():
            said = replace(said, context=(context,))
        if self.event in JUDGING and specific.get("permissionDecision") is not None:
            reason = self._text(specific, "permissionDecisionReason")
            said = self._judged(said, specific["permissionDecision"], reason, "permissionDecision")
        if self.event == "PreToolUse":
            return replace(said, updated_input=self._object(specific, "updatedInput"))
        if self.event == "PostToolUse":
            output = specific.get("updatedToolOutput", specific.get("updatedMCPToolOutput"))
            return replace(said, updated_output=output)
        if self.event == "PermissionRequest" and specific.get("decision") is not None:
            return self._request(said, specific["decision"])
        return said

    def _misplaced(self, said: HookResult) -> HookResult:
        """A guard that has its answer one level too high must not be taken for one that says nothing, or yes."""
        decision = self.answer.get("permissionDecision")
        if self.event not in JUDGING or decision is None:
            return said
        self._problem("`permissionDecision` stands outside of `hookSpecificOutput`, where it is taken as ask")
        return said if said.behavior in ("deny", decision) else replace(said, behavior="ask")

    def _request(self, said: HookResult, decision: Any) -> HookResult:
        behavior = decision.get("behavior") if isinstance(decision, Mapping) else None
        if behavior not in ("allow", "deny"):
            self._problem('`decision.behavior` is neither "allow" nor "deny"; the user is asked')
            return said
        if behavior == "deny":
            reason = self._text(decision, "message") or f"{self.source} denied it"
            return replace(said, behavior="deny", reason=reason, interrupt=decision.get("interrupt") is True)
        updates = read_updates(decision.get("updatedPermissions") or ())
        for problem in updates.problems:
            self._problem(problem)
        return replace(
            said,
            behavior="allow",
            updated_input=self._object(decision, "updatedInput"),
            rules=updates.rules,
            kept_rules=updates.kept_rules,
            mode=updates.mode,
        )

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


@dataclass(frozen=True, slots=True)
class HooksTogether:
    """Hooks of several origins, told at the same time."""

    parts: tuple[Hooks, ...]

    def listens_to(self, event: str) -> bool:
        return any(part.listens_to(event) for part in self.parts)

    async def fire(self, event: str, fields: Mapping[str, Any], run: HookRun | None) -> HookResult:
        listening = [part.fire(event, fields, run) for part in self.parts if part.listens_to(event)]
        return await all_told(listening) if listening else NOTHING_SAID

    def arrived(self) -> HookResult:
        return merged([part.arrived() for part in self.parts])

    def waking(self) -> bool:
        return any(part.waking() for part in self.parts)

    async def keep(self, rules: Sequence[str]) -> str:
        return " ".join([problem for part in self.parts if (problem := await part.keep(rules))])
