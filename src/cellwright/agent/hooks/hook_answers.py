"""Answers of hooks: found in what one printed, read into a `HookResult`, and merged when several hooks answer.

A profile's greeting, a byte order mark, colours and log lines must not hide a no. What is whole is read; what begins like
an answer and is none is reported as an attempt, so that a guard's no that nobody understands is not taken for a yes.

Parts of an answer that are not understood are reported; if they were about whether a call may run, the user is asked.
Hooks of several origins are told at the same time.

A hook may change permissions by Claude Code's PermissionUpdate objects. Only grants are taken: allow rules (for the
session; those for the user's own settings of the project are kept there too) and a mode that is not the one without
questions. The rest is refused, and said.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.calls.tool_results import bounded
from cellwright.agent.hooks.protocol import NO_HOOK_RESULT, HookResult, HookRun, Hooks
from cellwright.events import Suggestion
from cellwright.text import lazy_pattern, replace_surrogates, replace_surrogates_in

_NOISE = lazy_pattern(
    "[\0\ufeff]"  # zeros are the other half of UTF-16
    r"|\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])|\x9b[0-?]*[ -/]*[@-~]"
)
_KEYS = frozenset(
    {
        *("decision", "permissiondecision", "hookspecificoutput", "continue", "stopreason", "systemmessage"),
        *("suppressoutput", "additionalcontext"),
    }
)
_ATTEMPT = lazy_pattern(
    r"(?is)\{[^{}]{0,400}?(?:decision|hook_?specific_?output|\bcontinue|stop_?reason|\bbehavior)[\"'\\]*\s*[:=]"
)
_NO_IN_A_WORD = frozenset(
    {"deny", "denied", "block", "blocked", "reject", "rejected", "refuse", "refused", "forbid", "forbidden"}
)

Attempt = Literal["", "line", "whole", "answer"]
"""The likeness to an answer of text that is no JSON: a line or all of it begins like one, or it has an answer's keys."""

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

REFUSABLE = BLOCKABLE | JUDGING | {"PermissionRequest"}
"""The events to which a hook can say no."""

GUARDED = REFUSABLE - {"PostToolUse", "PostToolUseFailure", "PostToolBatch", "TeammateIdle"}
"""The events where a no keeps something from happening: there an answer that cannot be understood is one."""

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

SETTABLE_MODES = ("default", "acceptEdits", "plan", "dontAsk")
"""The modes that a hook may put a session into."""

_RULE = lazy_pattern(r"([^()]+)\((.*)\)", re.DOTALL)


class Printed(Struct, frozen=True):
    """A hook's output: its `answers`, the text around them, and whether it has an `attempt` that cannot be read."""

    answers: tuple[Mapping[str, Any], ...] = ()
    rest: str = ""
    attempt: Attempt = ""


class _Contradiction(ValueError):
    """An object says two things under one name."""


def as_name(key: object) -> str:
    """A key in the one spelling in which keys are compared when they are misspelled."""
    return str(key).casefold().replace("_", "").replace("-", "").replace(" ", "")


def read_printed(text: str) -> Printed:
    """Find the answers in `text`."""
    text = _NOISE.sub("", text).lstrip("\ufffd").strip()  # of a UTF-16 mark, read as UTF-8
    if not text:
        return Printed()
    answers: list[Mapping[str, Any]] = []
    rest: list[str] = []
    attempt: Attempt = "answer" if text.strip("\"'`.! \t").casefold() in _NO_IN_A_WORD else ""
    at = 0
    for begin, end, value in _objects(text):
        if value is None:
            attempt = max(attempt, _looks(text, begin), key=_MORE.index)
        elif begin == 0 and end == len(text):
            return Printed((value,))
        elif any(as_name(key) in _KEYS for key in value):
            answers.append(value)
            rest.append(text[at:begin])
            at = end
    if not answers:
        return Printed(rest=text, attempt=attempt)
    around = " ".join(part.strip(" \t\r\n,[]") for part in (*rest, text[at:])).strip()
    return Printed(tuple(answers), around, attempt)


def objects_in(text: str) -> Iterator[Mapping[str, Any]]:
    """Every JSON object in `text` that is in no other one."""
    return (value for _, _, value in _objects(_NOISE.sub("", text)) if value is not None)


_MORE: Sequence[Attempt] = ("", "line", "whole", "answer")


def _objects(text: str) -> Iterator[tuple[int, int, dict[str, Any] | None]]:
    """Each object with its begin and end; None for a `{` where none can be read."""
    at = tries = 0
    # control characters in a text are no JSON, and a reason with a line break is a reason
    decoder = json.JSONDecoder(strict=False, object_pairs_hook=_without_contradiction)
    # places where an object may begin that turn out to hold none: a text with more of them is no answer between words
    while tries < 500 and (begin := text.find("{", at)) >= 0:
        try:
            value, at = decoder.raw_decode(text, begin)
            yield begin, at, value
        except (ValueError, RecursionError):
            yield begin, begin, None
            at, tries = begin + 1, tries + 1


def _without_contradiction(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs) and any(found[name] != value for name, value in pairs):
        raise _Contradiction
    return found


def _looks(text: str, begin: int) -> Attempt:
    if _ATTEMPT.match(text, begin):
        return "answer"
    if begin == 0:
        return "whole"
    return "line" if not text[text.rfind("\n", 0, begin) + 1 : begin].strip() else ""


def blocked(event: str, reason: str) -> HookResult:
    """Translate exit code 2 for `event` into a result: no, for this reason."""
    reason = capped(reason.strip()) or "a hook said no and gave no reason"
    if event in JUDGING or event == "PermissionRequest":
        return HookResult(behavior="deny", reason=reason)
    if event in BLOCKABLE:
        return HookResult(block=True, reason=reason)
    return HookResult(messages=(reason,))


def unread(event: str, sentence: str) -> HookResult:
    """Build the result of an answer that cannot be understood: a no of a guard, a notice of any other hook."""
    if event not in GUARDED:
        return HookResult(problems=(f"{sentence} It decides nothing.",))
    return replace(blocked(event, f"{sentence} It counts as a no."), problems=(sentence,), unread=True)


def read_answer(event: str, answer: Mapping[str, Any], source: str) -> HookResult:
    """The meaning of a hook's JSON `answer` to `event`; `source` names the hook where something in it is wrong."""
    try:
        whole = replace_surrogates_in(dict(answer))
    except RecursionError:
        return unread(event, f"{source}, asked about {event}: its answer is nested too deeply.")
    return _Reader(event, whole, source).read()


def only_no(result: HookResult) -> HookResult:
    """Keep the refusals of `result` and drop its grants: it came by a way by which no answer comes."""
    return HookResult(
        behavior="" if result.behavior == "allow" else result.behavior,
        reason=result.reason,
        block=result.block,
        stop=result.stop,
        problems=result.problems,
        unread=result.unread,
    )


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
        unread=any(result.unread for result in found),
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


_YES = frozenset(
    {
        "allow",
        "allowed",
        "approve",
        "approved",
        "accept",
        "ok",
        "yes",
        "true",
        "pass",
        "continue",
        "none",
        "null",
        "undefined",
        "",
    }
)
_DECIDING = frozenset({"decision", "permissiondecision", "behavior"})
_SAYS_YES = frozenset({"ok", "allow", "allowed", "approve", "approved", "continue"})
_SAYS_NO = frozenset({"block", "blocked", "deny", "denied", "reject", "rejected"})
_ASKS = frozenset({"ask", "defer"})


def _is_yes(value: Any) -> bool:
    """Return whether a value that is none of an answer's must have been meant as a yes."""
    return isinstance(value, str) and value.strip().casefold() in _YES


def _refusal(values: Mapping[str, Any], event: str, inside: str = "") -> str:
    """Find something in an answer that can only have been meant as a no, and return it as it stands there; else ""."""
    for key, value in values.items():
        name, shown = as_name(key), f"`{inside}{key}: {value!r}`" if len(repr(value)) < 100 else f"`{inside}{key}`"
        if name in _DECIDING or name == "hookspecificoutput":
            if isinstance(value, Mapping):
                if found := _refusal(value, event, f"{inside}{key}."):
                    return found
                continue
            asks = event == "PermissionRequest" or event in JUDGING
            is_ask = asks and isinstance(value, str) and value.casefold() in _ASKS
            if value is not None and not _is_yes(value) and not is_ask:
                return shown
        elif (name in _SAYS_YES and value is False) or (name in _SAYS_NO and value is True):
            return shown
    return ""


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
        result = self._stop(NO_HOOK_RESULT)
        result = self._decision(result)
        specific = self.answer.get("hookSpecificOutput")
        if specific is not None:
            result = self._specific(result, specific)
        result = self._misplaced(result)
        result = self._misspelled(result)
        message = self._text(self.answer, "systemMessage")
        result = replace(result, messages=(message,) if message else ())
        return replace(result, problems=tuple(self.problems)) if self.problems else result

    def _stop(self, result: HookResult) -> HookResult:
        goes_on = self.answer.get("continue", True)
        if not isinstance(goes_on, bool):
            self._problem(f"`continue` is {goes_on!r}")
            goes_on = goes_on is None or _is_yes(goes_on)
        if goes_on:
            return result
        return replace(result, stop=self._text(self.answer, "stopReason") or f"{self.source} stopped the run.")

    def _decision(self, result: HookResult) -> HookResult:
        if (decision := self.answer.get("decision")) is None:
            return result
        reason = self._text(self.answer, "reason")
        if self.event in JUDGING:
            return self._judged(result, decision, reason, "decision")
        if self.event not in REFUSABLE:
            if decision == "block":
                self._problem(f'`decision: "block"` has no meaning for {self.event}')
            elif decision != "approve":
                self._problem(f'`decision` is {decision!r}, where only "block" means something')
            return result
        is_block = isinstance(decision, str) and decision.strip().casefold() == "block"
        if is_block or (self.event in GUARDED and not _is_yes(decision)):
            no = blocked(self.event, reason or f"{self.source} said no and gave no reason")
            result = replace(result, behavior=no.behavior, block=no.block, reason=no.reason)
        if decision not in ("block", "approve"):
            self._problem(f'`decision` is {decision!r}, where only "block" means something')
        return result

    def _judged(self, result: HookResult, decision: Any, reason: str, key: str) -> HookResult:
        behavior = _DECISIONS.get(decision) if isinstance(decision, str) else None
        if behavior is None:
            # a yes in other words is asked about, and anything else may have been a no
            behavior = "ask" if _is_yes(decision) else "deny"
            self._problem(f"`{key}` is {decision!r}; it is taken as {behavior}")
        if _RANK[behavior] < _RANK[result.behavior]:
            return result
        kept = result.reason if behavior == result.behavior else ""
        return replace(result, behavior=cast(Literal["allow", "ask", "deny"], behavior), reason=reason or kept)

    def _specific(self, result: HookResult, specific: Any) -> HookResult:
        if not isinstance(specific, Mapping):
            self._problem("`hookSpecificOutput` is not an object")
            return result
        named = specific.get("hookEventName", self.event)
        if named != self.event:
            self._problem(f"`hookEventName` is {named!r}, so its answer for that event is ignored")
            return result
        if self.event in _WITH_CONTEXT and (context := self._text(specific, "additionalContext")).strip():
            result = replace(result, context=(context,))
        if self.event in JUDGING and specific.get("permissionDecision") is not None:
            reason = self._text(specific, "permissionDecisionReason")
            result = self._judged(result, specific["permissionDecision"], reason, "permissionDecision")
        if self.event == "PreToolUse":
            return self._changed(result, specific)
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
        if decision == "allow":
            self._problem("`permissionDecision` is outside of `hookSpecificOutput`, so it counts as ask")
            return result if result.behavior in ("deny", decision) else replace(result, behavior="ask")
        self._problem("`permissionDecision` is outside of `hookSpecificOutput`")
        return self._judged(result, decision, self._text(self.answer, "permissionDecisionReason"), "permissionDecision")

    def _misspelled(self, result: HookResult) -> HookResult:
        """A guard's no by a name or at a place where no answer has it is a no."""
        if self.event not in GUARDED or result.block or result.stop is not None or result.behavior == "deny":
            return result
        if not (found := _refusal(self.answer, self.event)):
            return result
        self._problem(f"{found} is no answer to it, and is taken as a no")
        texts = (self.answer.get(key) for key in ("reason", "permissionDecisionReason", "message", "stopReason"))
        reason = next((text for text in texts if isinstance(text, str) and text), "")
        no = blocked(self.event, reason or f"{self.source} answered {found}")
        return replace(result, behavior=no.behavior or result.behavior, block=no.block, reason=no.reason)

    def _request(self, result: HookResult, decision: Any) -> HookResult:
        behavior = decision.get("behavior") if isinstance(decision, Mapping) else None
        if behavior not in ("allow", "deny"):
            if behavior in ("ask", "defer") or _is_yes(decision if behavior is None else behavior):
                self._problem('`decision.behavior` is neither "allow" nor "deny"; the user is asked')
                return result
            self._problem(f"`decision.behavior` is {behavior!r}; it is taken as deny")
        if result.behavior == "deny" or behavior != "allow":
            text = self._text(decision, "message") if isinstance(decision, Mapping) else ""
            reason = text or result.reason or f"{self.source} denied it"
            return replace(
                result,
                behavior="deny",
                reason=reason,
                interrupt=isinstance(decision, Mapping) and decision.get("interrupt") is True,
            )
        updates = read_updates(decision.get("updatedPermissions") or ())
        for problem in updates.problems:
            self._problem(problem)
        return replace(
            self._changed(replace(result, behavior="allow"), decision),
            rules=updates.rules,
            kept_rules=updates.kept_rules,
            mode=updates.mode,
        )

    def _changed(self, result: HookResult, values: Mapping[str, Any]) -> HookResult:
        """`result` with the input that the call is to have; the one that a hook wanted changed does not run unchanged."""
        value = values.get("updatedInput")
        if value is None or isinstance(value, Mapping):
            return replace(result, updated_input=value)
        self._problem("`updatedInput` is not an object; the call is denied")
        return replace(result, behavior="deny", reason=f"{self.source} changes the input to something that is no input")

    def _elicitation(self, specific: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if (action := specific.get("action")) is None:
            return None
        if action not in ("accept", "decline", "cancel"):
            self._problem(f"`action` is {action!r}, not accept, decline or cancel; it is taken as decline")
            return {"action": "decline", "content": None}
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
        self._problem(f"`{key}` is not an object; it is left out")
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


class Updates(Struct, frozen=True):
    """The part of the updates that is taken; `problems` say what is not. `kept_rules` are some of `rules`."""

    rules: tuple[str, ...] = ()
    kept_rules: tuple[str, ...] = ()
    mode: str | None = None
    problems: tuple[str, ...] = ()


def offered_updates(suggestions: Iterable[Suggestion]) -> list[dict[str, Any]]:
    """The suggestions of a permission question as a hook gets them (`permission_suggestions`)."""
    updates = []
    for suggestion in suggestions:
        rules = []
        for rule in suggestion.rules:
            found = _RULE.fullmatch(rule)
            rules.append({"toolName": found[1], "ruleContent": found[2]} if found else {"toolName": rule})
        updates.append(
            {
                "type": "addRules",
                "rules": rules,
                "behavior": "allow",
                "destination": "localSettings" if suggestion.scope == "always" else "session",
            }
        )
    return updates


def read_updates(updates: Any) -> Updates:
    """Read the grants from a list of updates."""
    if not isinstance(updates, Sequence) or isinstance(updates, str):
        return Updates(problems=("`updatedPermissions` is not a list",))
    rules: list[str] = []
    kept: list[str] = []
    mode, problems = None, []
    for update in updates:
        kind = update.get("type") if isinstance(update, Mapping) else None
        if kind == "addRules" and update.get("behavior") == "allow":
            given = update.get("rules")
            found = [_as_rule(value) for value in given] if isinstance(given, list) else [None]
            read = [rule for rule in found if rule is not None]
            rules += read
            kept += read if update.get("destination") == "localSettings" else []
            if None in found:
                problems.append("a rule in `updatedPermissions` has no `toolName`, and grants nothing")
        elif kind == "setMode" and update.get("mode") in SETTABLE_MODES:
            mode = update["mode"]
        elif kind == "setMode":
            problems.append(f"a hook cannot put the session into the mode {update.get('mode')!r}")
        else:
            behavior = update.get("behavior", "no behavior") if isinstance(update, Mapping) else "no object"
            problems.append(f"the permission update {kind!r} ({behavior}) is not taken from a hook")
    return Updates(tuple(rules), tuple(kept), mode, tuple(problems))


def _as_rule(value: Any) -> str | None:
    name = value.get("toolName") if isinstance(value, Mapping) else None
    if not isinstance(name, str) or not name:
        return None
    content = value.get("ruleContent")
    return f"{name}({content})" if isinstance(content, str) and content else name
