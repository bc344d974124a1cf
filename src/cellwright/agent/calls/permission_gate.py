"""The way of a call, or of a connection to a host, to its permission: the hooks, then the policy, then perhaps the user.

So the same rules speak of both, and a yes "for this session" or "always" is a rule `WebFetch(domain:…)`.

Each of their words is an event of the run.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.calls.approval import (
    Allow,
    CanUseTool,
    Confinement,
    Decision,
    Deny,
    Policy,
    ToolUse,
    describe_rules,
)
from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.calls.tool_results import input_lines
from cellwright.agent.hooks.hook_answers import offered_updates
from cellwright.agent.hooks.protocol import NO_HOOK_RESULT, HookResult
from cellwright.agent.hooks.run_hooks import RunHooks
from cellwright.agent.tool import CannotBeDone, Tool, ToolAccess, ToolContext
from cellwright.errors import CellwrightError, ToolError, described, log_fault
from cellwright.events import (
    ALLOWED_WITH_ANOTHER,
    Answered,
    Asked,
    Decided,
    Emit,
    FollowingCall,
    ModeChanged,
    Notice,
    Preview,
)
from cellwright.text import visible_line

if TYPE_CHECKING:
    from cellwright.sessions.session import Session


logger = logging.getLogger(__name__)

LEAVING = (Exception, SystemExit, KeyboardInterrupt)
"""Exceptions others' code may raise. The last two would end the agent's loop, and whoever waits for it would hang."""

NOBODY_ANSWERS: Mapping[str, str] = {
    "question": "Nobody can answer here. Choose a sensible option yourself, and state your assumptions in your answer.",
    "plan": "Nobody can approve a plan here. Nothing may be changed: give the plan as your answer, and end there.",
    "trust": "Nobody can trust it here.",
}


def reach_input(host: str, port: int) -> dict[str, Any]:
    """The input of a call that would connect to `host` at `port`."""
    return {"url": f"https://{host}/" if port == 443 else f"https://{host}:{port}/"}


async def _preview(tool_input: Mapping[str, Any]) -> Preview:
    place = str(tool_input["url"]).removeprefix("https://").removesuffix("/")
    return Preview(
        f"Let the running command connect to {visible_line(place)}",
        "It can send there all it can read. Allowing it for the session also covers pages Claude fetches from there.",
    )


async def _never(_tool_input: dict[str, Any], _ctx: ToolContext) -> str:
    raise AssertionError("a connection is judged and asked about; nobody calls it as a tool")


REACH = Tool(
    name="WebFetch",
    description="",
    input_schema={"type": "object"},
    call=_never,
    access=ToolAccess("fetch", "url"),
    preview=_preview,
)


class Verdict(Struct, frozen=True):
    """The answer to a call. `input` is what the call runs with; `context` is for Claude to read with its result.

    `confinement`: what its processes may touch, None for no bounds. `trial` and `works_beside` as in `Decision`. `facts`:
    the facts that the answer rests on besides the input (`Tool.facts`).
    """

    answer: Allow | Deny
    input: Mapping[str, Any]
    context: tuple[str, ...] = ()
    confinement: Confinement | None = None
    works_beside: bool = False
    trial: bool = False
    facts: Mapping[str, Any] = {}

    @property
    def edited(self) -> bool:
        """True when the user, or somebody in the user's place, changed the input."""
        return isinstance(self.answer, Allow) and self.answer.updated_input is not None


class PermissionGate(Struct):
    """The way of each call from its input to yes or no. Every rewritten input is judged anew.

    One question at a time, but for tools that ask together. `above` is the gate of the run that an agent works for: what
    is granted there holds here, and what the user grants here holds there.
    """

    policy: Policy
    can_use_tool: CanUseTool | None
    session: Session
    emit: Emit
    hooks: RunHooks
    above: PermissionGate | None = None
    calls: Sequence[tuple[Tool, Mapping[str, Any]]] = ()
    """The calls of the message that is worked off, in its order."""
    unanswered: str = ""
    """The reason that the last call was denied for which had to be asked for where nobody can answer."""
    unanswered_call: str = ""
    """The id of that call."""
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _putting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _question_ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _granted: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, and replaced by a new one, when the session was granted more."""
    _ahead: dict[str, tuple[FollowingCall, Allow]] = field(default_factory=dict)
    """Calls that were allowed with one before them, by their ids."""
    told_mode: str = ""
    """The mode that the front end was told last; the run's first event tells the first."""
    _run_rules: tuple[str, ...] = ()
    """Allow rules that hold until the run ends."""

    def __post_init__(self) -> None:
        self.told_mode = self.mode

    async def verdict(self, tool: Tool, tool_use: Mapping[str, Any]) -> Verdict:
        """Judge a call whose input fits its schema. Raises ToolError when a new input does not, or it would only fail."""
        hook_result = NO_HOOK_RESULT
        if self.hooks.listens_to("PreToolUse"):
            fields = {"tool_name": tool.name, "tool_input": tool_use["input"], "tool_use_id": tool_use["id"]}
            hook_result = await self.hooks.fire("PreToolUse", fields)
        if hook_result.stop is not None:
            return Verdict(Deny(hook_result.stop, by="hook", interrupt=True), tool_use["input"], hook_result.context)
        if hook_result.updated_input is not None:
            tool_use = {**tool_use, "input": check_input(tool, hook_result.updated_input, answered=True)}
        tool_input = tool_use["input"]
        await _prepared(tool, tool_input)
        if self.told_mode != self.mode:  # the user has changed it since the last call
            self.told_mode = self.mode
            self.emit(ModeChanged(self.told_mode))
        # what a hook allows runs as it does with a yes, what it asks about is not tried before
        trials = hook_result.behavior not in ("allow", "ask")
        decision, facts = self._judged(tool, tool_input, trials=trials)
        if hook_result.behavior == "allow" and self.mode == "dontAsk" and decision.behavior == "deny":
            # what this mode only denies because it would ask, a hook may allow
            asking, facts = self._judged(tool, tool_input, mode="default", trials=False)
            decision = asking if asking.behavior == "ask" and not asking.firm else decision
        decision, by_hook = _with_hook(decision, hook_result, answers=tool.answered_schema is not None)
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
            return Verdict(Deny(decision.reason, "hook" if by_hook else "policy"), tool_input, hook_result.context)
        if decision.behavior == "allow":
            allowed = Allow(by="hook" if by_hook else "policy")
            return Verdict(
                allowed,
                tool_input,
                hook_result.context,
                decision.confinement,
                decision.works_beside,
                decision.trial,
                facts,
            )
        answer = await self._ask(tool, tool_use, decision, forced=by_hook, trials=trials)
        verdict = await self._answered(tool, tool_input, answer, None if by_hook else decision, trials=trials)
        return replace(verdict, context=hook_result.context)

    async def after_trial(
        self, tool: Tool, tool_use: Mapping[str, Any], tool_input: Mapping[str, Any], refused: str
    ) -> Verdict:
        """Judge a call that was tried in bounds, and needs what `refused` says. Raises ToolError as `verdict`."""
        decision, facts = self._judged(tool, tool_input, trials=False)
        if decision.behavior == "deny":
            return Verdict(Deny(decision.reason, "policy"), tool_input)
        if decision.behavior == "allow":
            return Verdict(Allow(by="policy"), tool_input, confinement=decision.confinement, facts=facts)
        # that a command like it asks is no news by now; that a rule or a firm reason does, is
        why = f"{decision.reason} " if decision.rule or decision.firm else ""
        asked = decision.because(f"{why}{refused} If you allow it, it runs again.")
        answer = await self._ask(tool, {**tool_use, "input": tool_input}, asked, forced=False, trials=False)
        return await self._answered(tool, tool_input, answer, decision, trials=False)

    async def _answered(
        self,
        tool: Tool,
        tool_input: Mapping[str, Any],
        answer: Allow | Deny,
        decision: Decision | None,
        *,
        trials: bool,
    ) -> Verdict:
        """The verdict that follows from the answer to a question; `decision` is the policy's that was asked about."""
        if isinstance(answer, Deny):
            return Verdict(replace(answer, reason=answer.reason or "the user said no"), tool_input)
        self._grant(answer)
        if answer.updated_input is not None:
            tool_input = check_input(tool, answer.updated_input, answered=True)
            await _prepared(tool, tool_input)
        # a yes is no trial; what needs no question any more runs as if there had been none
        again, facts = self._judged(tool, tool_input, trials=trials and answer.by == "policy")
        if denial := _denied_again(again, None if answer.updated_input else decision):
            return Verdict(denial, tool_input)
        return Verdict(answer, tool_input, (), again.confinement, again.works_beside, again.trial, facts)

    def judged_again(self, tool: Tool, verdict: Verdict) -> Verdict:
        """Judge a call that had to wait once more: others ran meanwhile, so what it names may lead elsewhere by now."""
        # what this mode only denies because it would ask, a hook has allowed
        mode = "default" if verdict.answer.by == "hook" and self.mode == "dontAsk" else None
        decision, facts = self._judged(tool, verdict.input, mode=mode, trials=verdict.trial)
        unasked = verdict.answer.by == "policy"
        if decision.behavior == "deny" or (decision.behavior == "ask" and unasked):
            reason = f"Other calls ran while it waited, and its target has changed. {decision.reason}"
            return replace(verdict, answer=Deny(reason, "policy"))
        if not unasked and facts != verdict.facts:
            return replace(
                verdict, answer=Deny("Other calls ran while it waited, and it would run in another folder.", "policy")
            )
        return replace(verdict, confinement=decision.confinement, trial=decision.trial, facts=facts)

    async def may_reach(self, tool_use_id: str, host: str, port: int) -> bool:
        """Judge whether processes of the call may connect to `host`: as rules say of WebFetch, else as the user does."""
        tool_input = reach_input(host, port)
        decision = self.decide(REACH, tool_input)
        if decision.behavior != "ask":
            return decision.behavior == "allow"
        decision = decision.because(f"A command connects to {host}:{port}, which needs your approval.")
        tool_use = {"type": "tool_use", "id": tool_use_id, "name": REACH.name, "input": tool_input}
        answer = await self._ask(REACH, tool_use, decision, forced=False)
        if isinstance(answer, Allow):
            self._grant(answer)
        return isinstance(answer, Allow)

    async def question(self, tool_use_id: str, tool: Tool, tool_input: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Put a question that comes up in a call to the user, as a call of `tool`: the answered input, None for a no."""
        decision = Decision("ask", "It is a question to you, which only you can answer.", firm=True)
        tool_use = {"type": "tool_use", "id": tool_use_id, "name": tool.name, "input": dict(tool_input)}
        try:
            answer = await self._ask(tool, tool_use, decision, forced=True)
            if isinstance(answer, Deny):
                return None
            return check_input(tool, answer.updated_input or tool_input, answered=True)
        except ToolError:
            return None

    def _grant(self, answer: Allow) -> None:
        """Remember the rules that came with a yes, for the session, and the mode."""
        if answer.mode is not None:
            self._top.set_mode(answer.mode)
        if answer.rules and answer.scope != "once":
            top = self._top
            top.session.granted = (*top.session.granted, *answer.rules)
            granted, top._granted = top._granted, asyncio.Event()
            granted.set()

    @property
    def _top(self) -> PermissionGate:
        return self if self.above is None else self.above._top

    @property
    def granted(self) -> tuple[str, ...]:
        """The allow rules that hold besides the policy's: the session's, and the run's own."""
        return (*(self.session.granted if self.above is None else self.above.granted), *self._run_rules)

    def grant_for_run(self, rules: Sequence[str]) -> None:
        """Have these allow rules hold for the calls that follow in this run."""
        self._run_rules = (*self._run_rules, *rules)

    @property
    def mode(self) -> str:
        """The permission mode that calls are decided in."""
        chosen = self.session.mode
        return self.policy.in_mode(chosen).mode if chosen else self.policy.mode

    def set_mode(self, mode: str) -> str:
        """Put the session into `mode`, as far as the policy lets it; the mode that it is in now."""
        self.session.mode = mode
        self.told_mode = self.mode
        self.emit(ModeChanged(self.told_mode))
        return self.told_mode

    def foresees_reading(self, tool: Tool, tool_input: Mapping[str, Any]) -> bool:
        """Return whether a call, as it stands now, would run unasked and change nothing. Hooks may yet see to more."""
        if tool.access.kind != "shell":
            return False
        try:
            decision = self.decide(tool, check_input(tool, tool_input))
        except LEAVING:  # who judges the call itself says what is wrong with it
            return False
        return decision.behavior == "allow" and decision.works_beside

    def decide(
        self, tool: Tool, tool_input: Mapping[str, Any], *, mode: str | None = None, trials: bool = True
    ) -> Decision:
        """Ask the policy about a call, with the session's grants and the mode it is in (or `mode`)."""
        return self._judged(tool, tool_input, mode=mode, trials=trials)[0]

    def _judged(
        self, tool: Tool, tool_input: Mapping[str, Any], *, mode: str | None = None, trials: bool = True
    ) -> tuple[Decision, Mapping[str, Any]]:
        """Return the policy's answer, and the facts that it was given besides the input."""
        facts = tool.facts(tool_input) if tool.facts is not None else {}
        policy = self._granting(mode or self.mode)
        return (policy if trials else policy.without_trials()).decide(tool, {**tool_input, **facts}), facts

    def _granting(self, mode: str) -> Policy:
        """The policy in `mode`, with what the session has been granted."""
        policy = self.policy.in_mode(mode)
        granted = self.granted
        return policy.allowing(granted) if granted else policy

    def may_read(self, path: str) -> bool:
        """Return whether the file at `path` may be read unasked."""
        return self._granting(self.mode).may_read(path)

    async def _ask(
        self, tool: Tool, tool_use: Mapping[str, Any], decision: Decision, *, forced: bool, trials: bool = True
    ) -> Allow | Deny:
        """The user's answer. What was allowed for the session meanwhile is not asked again."""
        if tool.asks_together:
            return await self._ask_user(tool, tool_use, decision, forced=forced)
        async with self._top._asking:
            again = decision if forced else self.decide(tool, tool_use["input"], trials=trials)
            if again.behavior == "allow":
                self.emit(Decided(str(tool_use["id"]), tool.name, "allow", again.reason, again.rule))
                return Allow(by="policy")
            if not forced and (answer := await self._allowed_ahead(tool, tool_use, decision)) is not None:
                self.emit(Decided(str(tool_use["id"]), tool.name, "allow", ALLOWED_WITH_ANOTHER))
                return answer
            return await self._ask_user(tool, tool_use, decision, forced=forced)

    async def _ask_user(
        self, tool: Tool, tool_use: Mapping[str, Any], decision: Decision, *, forced: bool
    ) -> Allow | Deny:
        """Put the question, and give the answer, each as an event."""
        async with self._top._putting:  # a preview takes its time, and questions come in the calls' order
            question_id = f"{self.session.id}-{self.session.next_seq}-{next(self._question_ids)}"
            preview = await self._preview(tool, tool_use["input"])
            following = await self._following(tool, tool_use)
            self.emit(
                Asked(question_id, tool_use, preview, decision.shown_reason, decision.suggestions, tool.asks, following)
            )
        agent_id = self.session.id if self.above is not None else ""
        use = ToolUse(
            tool_use["id"], tool.name, tool_use["input"], decision, preview, question_id, tool.asks, agent_id, following
        )
        try:
            if tool.asks_together and not forced:
                answer = await self._answer_or_grant(tool, use, tool_use)
            else:
                answer = await self._answer(tool, use)
        except asyncio.CancelledError:
            self.emit(Answered(question_id, use.id, "deny", "policy", reason="interrupted"))
            raise
        self.emit(_answer_event(use, answer))
        if isinstance(answer, Allow) and answer.following:
            self._ahead |= {call.tool_use["id"]: (call, Allow(by=answer.by)) for call in following}
        if isinstance(answer, Allow) and answer.notice:
            self.emit(Notice(answer.notice, "warning"))
        return answer

    async def _following(self, tool: Tool, tool_use: Mapping[str, Any]) -> tuple[FollowingCall, ...]:
        """The calls behind this one that would be asked about, where all that matters about them is known already."""
        ids = [each["id"] for _, each in self.calls]
        if tool.asks_together or tool.asks != "permission" or tool_use["id"] not in ids:
            return ()
        found = []
        # more calls with one question are not looked at by whoever is asked
        for other, each in self.calls[ids.index(tool_use["id"]) + 1 :][:9]:
            if other.asks_together or other.asks != "permission" or other.prepare is not None:
                continue
            try:
                tool_input = check_input(other, each["input"])
                decision = self.decide(other, tool_input)
                if decision.behavior == "ask" and not decision.firm:
                    preview = await self._preview(other, tool_input)
                    found.append(FollowingCall({**each, "input": tool_input}, preview, decision.reason))
            except LEAVING:  # it says what is wrong when its turn comes
                continue
        return tuple(found)

    async def _allowed_ahead(self, tool: Tool, tool_use: Mapping[str, Any], decision: Decision) -> Allow | None:
        """The yes that was given with a call before this one, as long as this is what was shown then."""
        call, answer = self._ahead.pop(tool_use["id"], (None, None))
        if (
            call is None
            or decision.firm
            or decision.reason != call.reason
            or tool_use["input"] != call.tool_use["input"]
        ):
            return None
        now = await self._preview(tool, tool_use["input"])
        return answer if _shows_the_same(now, call.preview) else None

    async def _preview(self, tool: Tool, tool_input: Mapping[str, Any]) -> Preview:
        """Build what the user is shown. Raises ToolError for a call that would only fail."""
        if tool.preview is None:
            return Preview(f"Run the tool {tool.name}", input_lines(tool_input))
        try:
            return await tool.preview(tool_input)
        except CannotBeDone as cannot:
            if all(self.may_read(str(file)) for file in cannot.files):
                raise cannot.error from None
            return cannot.preview

    async def _answer_or_grant(self, tool: Tool, use: ToolUse, tool_use: Mapping[str, Any]) -> Allow | Deny:
        """The answer; yes also when the answer to another question that is open has allowed it."""
        answer = asyncio.ensure_future(self._answer(tool, use))
        try:
            while not answer.done():
                granted = asyncio.ensure_future(self._top._granted.wait())
                await asyncio.wait({answer, granted}, return_when=asyncio.FIRST_COMPLETED)
                granted.cancel()
                if not answer.done() and self.decide(tool, tool_use["input"]).behavior == "allow":
                    return Allow(by="policy")
            return answer.result()
        finally:
            answer.cancel()

    async def _answer(self, tool: Tool, use: ToolUse) -> Allow | Deny:
        if (by_hook := await self._ask_hooks(tool, use)) is not None:
            return by_hook
        if self.can_use_tool is None:
            self.unanswered, self.unanswered_call = no_user_text(use), use.id
            return Deny(self.unanswered, by="policy")
        kind = "permission_prompt" if use.kind == "permission" else "agent_needs_input"
        self.hooks.notify(f"Claude waits for your answer: {use.preview.title}", kind)
        try:
            return await self.can_use_tool(use)
        except LEAVING as error:
            log_fault(logger, "can_use_tool raised", level=logging.WARNING, foreign=True)
            return Deny(f"can_use_tool raised {described(error)}")

    async def _ask_hooks(self, tool: Tool, use: ToolUse) -> Allow | Deny | None:
        """Ask PermissionRequest hooks to answer in the user's place; None when they leave it to the user."""
        if not self.hooks.listens_to("PermissionRequest"):
            return None
        fields = {
            "tool_name": use.name,
            "tool_input": use.input,
            "permission_suggestions": offered_updates(use.decision.suggestions),
        }
        hook_result = await self.hooks.fire("PermissionRequest", fields)
        if hook_result.stop is not None:
            return Deny(hook_result.stop, by="hook", interrupt=True)
        if hook_result.behavior == "deny":
            return Deny(hook_result.reason, by="hook", interrupt=hook_result.interrupt)
        if hook_result.behavior != "allow" or not self._may_allow(tool, use, hook_result.updated_input):
            return None
        if hook_result.mode is not None:
            self.set_mode(hook_result.mode)
        rules = self._usable(hook_result.rules)
        if rules:
            await self.hooks.persist_rules(hook_result.kept_rules)
        return Allow(hook_result.updated_input, "session" if rules else "once", rules, by="hook")

    def _may_allow(self, tool: Tool, use: ToolUse, updated: Mapping[str, Any] | None) -> bool:
        """Return whether a hook may say yes in the user's place, also to the input it substitutes for the call's."""
        if updated is None:
            return not use.decision.firm
        try:
            taken = check_input(tool, updated, answered=True)
        except ToolError as error:
            self.emit(Notice(f"A PermissionRequest hook's new input was not taken: {error.message}", "warning"))
            return False
        decision = self.decide(tool, taken)
        # a question to the user is always firm, and a hook may know the answer
        return decision.behavior != "deny" and (use.kind != "permission" or not decision.firm)

    def _usable(self, rules: tuple[str, ...]) -> tuple[str, ...]:
        """Rules that a hook grants; none when they cannot be read."""
        try:
            self.policy.allowing(rules)
        except CellwrightError as error:
            self.emit(Notice(f"A PermissionRequest hook's rules were not taken: {error.message}", "warning"))
            return ()
        return rules


async def _prepared(tool: Tool, tool_input: Mapping[str, Any]) -> None:
    if tool.prepare is not None:
        await tool.prepare(tool_input)


def _shows_the_same(preview: Preview, other: Preview) -> bool:
    """Return whether a card would show the same; the lines of a diff may have moved."""
    if preview.kind != "diff":
        return preview == other
    return _changed_lines(preview) == _changed_lines(other) and replace(preview, detail="") == replace(other, detail="")


def _changed_lines(preview: Preview) -> list[str]:
    return [line for line in preview.detail.splitlines() if line.startswith(("+", "-"))]


def _denied_again(again: Decision, asked_decision: Decision | None) -> Deny | None:
    """Deny a just-allowed call if the policy objects: to another input, or for another reason than `asked_decision`."""
    if again.behavior == "deny":
        return Deny(again.reason, "policy")
    if asked_decision is not None and again.behavior == "ask" and again.reason != asked_decision.reason:
        # a folder has become a link to another place while the user was looking
        return Deny(f"It differs from the approved call, so it was not run. {again.reason}", "policy")
    return None


def _with_hook(decision: Decision, hook_result: HookResult, *, answers: bool) -> tuple[Decision, bool]:
    """The policy's decision with the hooks' word: they can always tighten, and loosen what is not firm.

    `answers`: the call is a question to the user, which a hook may answer by the input that it gives.
    """
    if hook_result.behavior == "deny" and decision.behavior != "deny":
        return Decision("deny", hook_result.reason or "a PreToolUse hook denied it"), True
    if hook_result.behavior == "ask" and decision.behavior == "allow":
        reason = hook_result.reason or "A PreToolUse hook wants this to be asked."
        return Decision("ask", reason, confinement=decision.confinement), True
    loosens = not decision.firm or (answers and hook_result.updated_input is not None)
    if hook_result.behavior == "allow" and decision.behavior == "ask" and loosens:
        reason = hook_result.reason or "A PreToolUse hook allows it."
        return Decision("allow", reason, confinement=decision.confinement), True
    return decision, False


def no_user_text(use: ToolUse) -> str:
    """Explain why a call that needs asking is denied where nobody can be asked, and how to go on."""
    if use.kind != "permission":
        return NOBODY_ANSWERS[use.kind]
    offered = [suggestion.rules for suggestion in use.decision.suggestions if suggestion.rules]
    way_out = f"{describe_rules(offered[-1])} would allow it." if offered else "No allow rule can allow it."
    return f"{use.decision.reason} Nobody can be asked here. {way_out}"


def _answer_event(use: ToolUse, answer: Allow | Deny) -> Answered:
    if isinstance(answer, Deny):
        return Answered(use.question_id, use.id, "deny", answer.by, reason=answer.reason)
    return Answered(
        use.question_id,
        use.id,
        "allow",
        answer.by,
        answer.scope,
        rules=answer.rules,
        # the answer to a question comes in the input as well, and is no edit of it
        edited=answer.updated_input is not None and use.kind == "permission",
        updated_input=answer.updated_input,
    )
