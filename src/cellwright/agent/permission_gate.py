"""May a call run? The hooks are asked, then the policy, then perhaps the user; each word is an event of the run."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cellwright.agent.approval import Allow, CanUseTool, Decision, Deny, Policy, ToolUse, rules_in_words
from cellwright.agent.hooks import NO_HOOKS, NOTHING_SAID, HookResult, Hooks
from cellwright.agent.input_schema import check_input
from cellwright.agent.tool import Tool
from cellwright.events import Answered, Asked, Decided, Emit, Notice, Preview

if TYPE_CHECKING:
    from cellwright.agent.session import Session

logger = logging.getLogger(__name__)

LEAVING = (Exception, SystemExit, KeyboardInterrupt)
"""What others' code may raise. The last two would end the agent's loop, and whoever waits for it would hang."""

NOBODY_ANSWERS: Mapping[str, str] = {
    "question": "There is nobody here to answer. Choose what is sensible yourself, and say in your answer what you assumed.",
    "plan": "There is nobody here to approve a plan. Nothing may be changed: give the plan as your answer, and end there.",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a call may run. `input` is what it runs with; `context` is for Claude to read with its result."""

    answer: Allow | Deny
    input: Mapping[str, Any]
    context: tuple[str, ...] = ()

    @property
    def edited(self) -> bool:
        """Whether the user, or somebody in the user's place, changed the input."""
        return isinstance(self.answer, Allow) and self.answer.updated_input is not None


@dataclass(slots=True)
class PermissionGate:
    """The way of each call from its input to yes or no. One question at a time; every rewritten input is judged anew."""

    policy: Policy
    can_use_tool: CanUseTool | None
    session: Session
    emit: Emit
    hooks: Hooks = NO_HOOKS
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _question_ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def verdict(self, tool: Tool, tool_use: Mapping[str, Any]) -> Verdict:
        """Judge a call whose input fits its schema. Raises ToolError when a rewritten input does not."""
        said = await self._before(tool, tool_use)
        if said.updated_input is not None:
            check_input(tool, said.updated_input, answered=True)
            tool_use = {**tool_use, "input": dict(said.updated_input)}
        tool_input = tool_use["input"]
        decision, by_hook = _with_hook(self.decide(tool, tool_input), said, answers=tool.answered_schema is not None)
        self.emit(
            Decided(
                str(tool_use["id"]),
                tool.name,
                decision.behavior,
                decision.reason,
                decision.rule,
                "hook" if by_hook else "policy",
            )
        )
        if decision.behavior == "deny":
            return Verdict(Deny(decision.reason, "hook" if by_hook else "policy"), tool_input, said.context)
        if decision.behavior == "allow":
            return Verdict(Allow(by="hook" if by_hook else "policy"), tool_input, said.context)
        answer = await self._ask(tool, tool_use, decision, forced=by_hook)
        if isinstance(answer, Deny):
            return Verdict(replace(answer, reason=answer.reason or "the user said no"), tool_input, said.context)
        if answer.rules and answer.scope != "once":
            self.session.granted = (*self.session.granted, *answer.rules)
        if answer.updated_input is not None:
            check_input(tool, answer.updated_input, answered=True)
            tool_input = answer.updated_input
            again = self.decide(tool, tool_input)
            if again.behavior == "deny":
                return Verdict(Deny(again.reason, "policy"), tool_input, said.context)
        return Verdict(answer, tool_input, said.context)

    @property
    def mode(self) -> str:
        """The permission mode that calls are decided in."""
        return self.session.mode or self.policy.mode

    def decide(self, tool: Tool, tool_input: Mapping[str, Any]) -> Decision:
        """What the policy says, with what the session has been granted and the mode it is in."""
        policy = self.policy
        if self.session.mode is not None:
            policy = policy.in_mode(self.session.mode)
        if self.session.granted:
            policy = policy.allowing(self.session.granted)
        facts = tool.facts(tool_input) if tool.facts is not None else {}
        return policy.decide(tool.name, {**tool_input, **facts}, read_only=tool.read_only)

    async def _before(self, tool: Tool, tool_use: Mapping[str, Any]) -> HookResult:
        if not self.hooks.listens_to("PreToolUse"):
            return NOTHING_SAID
        fields = {"tool_name": tool.name, "tool_input": tool_use["input"], "tool_use_id": tool_use["id"]}
        said = await self.hooks.fire("PreToolUse", fields, tool_name=tool.name)
        self._tell(said)
        return said

    def _tell(self, said: HookResult) -> None:
        for message in said.messages:
            self.emit(Notice(message))

    async def _ask(self, tool: Tool, tool_use: Mapping[str, Any], decision: Decision, *, forced: bool) -> Allow | Deny:
        """One question at a time; what was allowed for the session meanwhile is not asked again."""
        async with self._asking:
            if not forced and self.decide(tool, tool_use["input"]).behavior == "allow":
                return Allow(by="policy")
            question_id = f"{self.session.id}-{self.session.next_seq}-{next(self._question_ids)}"
            preview = await _preview(tool, tool_use["input"])
            self.emit(
                Asked(question_id, tool_use, preview, decision.reason, decision.suggestions, tool.asks),
            )
            use = ToolUse(tool_use["id"], tool.name, tool_use["input"], decision, preview, question_id, tool.asks)
            try:
                answer = await self._answer(use)
            except asyncio.CancelledError:
                self.emit(Answered(question_id, use.id, "deny", "policy", reason="interrupted"))
                raise
            self.emit(_answered(question_id, use.id, answer))
            return answer

    async def _answer(self, use: ToolUse) -> Allow | Deny:
        if (by_hook := await self._asked_of_hooks(use)) is not None:
            return by_hook
        if self.can_use_tool is None:
            return Deny(nobody_to_ask(use), by="policy")
        try:
            return await self.can_use_tool(use)
        except LEAVING as error:
            logger.warning("can_use_tool raised", exc_info=True)
            return Deny(f"can_use_tool raised {type(error).__name__}: {error}")

    async def _asked_of_hooks(self, use: ToolUse) -> Allow | Deny | None:
        """What PermissionRequest hooks answer in the user's place; None when they leave it to the user."""
        if not self.hooks.listens_to("PermissionRequest"):
            return None
        rules = [{"rules": list(offer.rules), "scope": offer.scope} for offer in use.decision.suggestions]
        fields = {"tool_name": use.name, "tool_input": use.input, "permission_suggestions": rules}
        said = await self.hooks.fire("PermissionRequest", fields, tool_name=use.name)
        self._tell(said)
        if said.behavior == "deny":
            return Deny(said.reason, by="hook", interrupt=said.interrupt)
        # a question to the user is always firm, and a hook may know the answer
        answers = use.kind != "permission" and said.updated_input is not None
        if said.behavior == "allow" and (answers or not use.decision.firm):
            return Allow(said.updated_input, "session" if said.rules else "once", said.rules, by="hook")
        return None


def _with_hook(decision: Decision, said: HookResult, *, answers: bool) -> tuple[Decision, bool]:
    """The policy's decision with the hooks' word: they can always tighten, and loosen what is not firm.

    `answers`: the call is a question to the user, which a hook may answer by the input that it gives.
    """
    if said.behavior == "deny" and decision.behavior != "deny":
        return Decision("deny", said.reason or "a PreToolUse hook denied it"), True
    if said.behavior == "ask" and decision.behavior == "allow":
        return Decision("ask", said.reason or "A PreToolUse hook wants this to be asked."), True
    loosens = not decision.firm or (answers and said.updated_input is not None)
    if said.behavior == "allow" and decision.behavior == "ask" and loosens:
        return Decision("allow", said.reason or "A PreToolUse hook allows it."), True
    return decision, False


async def _preview(tool: Tool, tool_input: Mapping[str, Any]) -> Preview:
    if tool.preview is None:
        return Preview(f"Run the tool {tool.name}", input_lines(tool_input))
    return await tool.preview(tool_input)


def input_lines(tool_input: Mapping[str, Any]) -> str:
    """A call's input for people, one field a line."""
    return "\n".join(f"{key}: {value}" for key, value in tool_input.items())


def nobody_to_ask(use: ToolUse) -> str:
    """Why a call that must be asked for is denied where nobody can be asked, and how to go on."""
    if use.kind != "permission":
        return NOBODY_ANSWERS[use.kind]
    offered = [suggestion.rules for suggestion in use.decision.suggestions if suggestion.rules]
    way_out = f" {rules_in_words(offered[-1])} would allow it." if offered else ""
    return f"{use.decision.reason} There is nobody to ask here.{way_out}"


def _answered(question_id: str, tool_use_id: str, answer: Allow | Deny) -> Answered:
    if isinstance(answer, Deny):
        return Answered(question_id, tool_use_id, "deny", answer.by, reason=answer.reason)
    return Answered(
        question_id,
        tool_use_id,
        "allow",
        answer.by,
        answer.scope,
        rules=answer.rules,
        edited=answer.updated_input is not None,
        updated_input=answer.updated_input,
    )
