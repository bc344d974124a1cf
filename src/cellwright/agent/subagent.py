"""Work within a run besides its own conversation: agents for one of its calls, and single requests of a tool.

An agent has its own session and tools, and shares rights, budget, hooks and record. By a request a tool asks a small model
about a text. What either costs is counted with the run.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace as variant
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.agent.spending import PartialUsage
from cellwright.agent.tool import ToolContext
from cellwright.events import (
    Answered,
    Asked,
    Call,
    Emit,
    Event,
    Json,
    Notice,
    Preview,
    Retrying,
    RunEnd,
    SubagentEvent,
    ToolEnd,
    ToolProgress,
    ToolStart,
    TurnEnd,
    step_title,
)
from cellwright.model.provider import MessageStart, Provider, Request
from cellwright.text import dollars, visible_line

if TYPE_CHECKING:
    from cellwright.agent.agent_setup import AgentSetup
    from cellwright.agent.prompt import FullPrompt
    from cellwright.sessions.session import Session


MAX_DEPTH = 2
"""The levels of agents below Claude itself: one at the last level starts no others."""


LINE_CHARS = 200
"""Of one line on the card of the call that an agent works for."""

SMALL_MODEL = "claude-haiku-5-5"
MODEL_VARIABLES = ("ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL")
MAX_TOKENS = 8_000


class Subagent(Struct, frozen=True, kw_only=True):
    """One agent at work for another. `background`: the run that started it does not wait, and may be over before."""

    id: str
    type: str
    background: bool = False


class InnerRun(Protocol):
    """The run of an agent that works for another (`AgentRun`)."""

    async def to_the_end(self, prompt: FullPrompt) -> RunEnd: ...


class OuterRun(Protocol):
    """The run within which other agents may work (`AgentRun`)."""

    session: Session
    ended: bool

    @property
    def agent_now(self) -> AgentSetup: ...
    @property
    def depth(self) -> int: ...
    def emit(self, event: Event) -> None: ...
    def notify(self, message: str, kind: str) -> None: ...
    def nested(self, agent: AgentSetup, session: Session, emit: Emit, subagent: Subagent) -> InnerRun: ...


class Nesting(Struct, frozen=True):
    """A call's way to have other agents work within the run it is part of."""

    run: OuterRun
    tool_use_id: str

    @property
    def agent(self) -> AgentSetup:
        """The agent whose call it is, with the policy in the mode that the session is in now."""
        return self.run.agent_now

    @property
    def session(self) -> Session:
        """The session whose call it is."""
        return self.run.session

    @property
    def depth(self) -> int:
        """The level of the agent whose call it is; Claude itself has 0."""
        return self.run.depth

    @property
    def may_nest(self) -> bool:
        """True when an agent started now may itself start others."""
        return self.depth + 1 < MAX_DEPTH

    async def work(
        self,
        agent: AgentSetup,
        prompt: FullPrompt,
        session: Session,
        subagent: Subagent,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> RunEnd:
        """Have `agent` work on `prompt` in a session of its own. What happens is the run's events, as long as that goes on.

        Its questions are asked as the run's, saying who asks; in the background nobody is asked.
        """

        def emit(event: Event) -> None:
            on_event(event)
            if not self.run.ended:
                self.run.emit(self._of_the_run(event, subagent))

        ask = None if subagent.background or agent.can_use_tool is None else self._asking(agent.can_use_tool, subagent)
        nested = self.run.nested(variant(agent, can_use_tool=ask), session, emit, subagent)
        return await nested.to_the_end(prompt)

    def _of_the_run(self, event: Event, subagent: Subagent) -> Event:
        match event:
            case Asked():
                tool_use = {**event.tool_use, "id": self.tool_use_id}
                return replace(event, tool_use=tool_use, preview=_asked_by(subagent, event.preview))
            case Answered():
                return replace(event, tool_use_id=self.tool_use_id)
        return SubagentEvent(self.tool_use_id, subagent.id, subagent.type, event, subagent.background)

    def _asking(
        self, can_use_tool: Callable[[ToolUse], Awaitable[Allow | Deny]], subagent: Subagent
    ) -> Callable[[ToolUse], Awaitable[Allow | Deny]]:
        async def ask(use: ToolUse) -> Allow | Deny:
            return await can_use_tool(replace(use, id=self.tool_use_id, preview=_asked_by(subagent, use.preview)))

        return ask


def _asked_by(subagent: Subagent, preview: Preview) -> Preview:
    return replace(preview, title=f"Agent {subagent.type}: {preview.title}")


AgentState = Literal["working", "done", "failed", "stopped"]


def agent_state(end: RunEnd) -> AgentState:
    """The state in which an agent's work ended."""
    if end.stop_reason == "interrupted":
        return "stopped"
    return "done" if end.error is None else "failed"


def tokens_of(usage: Json) -> int:
    """All tokens that a usage block counts."""
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    return sum(usage.get(name) or 0 for name in names)


class AgentProgress(Struct):
    """The calls and tokens of one agent so far, what they cost (None: not known), and what it is doing, in one line."""

    calls: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    doing: str = ""
    state: AgentState = "working"

    def take(self, event: Event) -> None:
        """Count an event of the agent's own session."""
        match event:
            case ToolStart():
                self.calls += len(event.calls)
                self.doing = call_line(event.calls[-1], "running")
            case ToolEnd():
                self.doing = "thinking"
            case TurnEnd():
                self.tokens += tokens_of(event.usage)
                known = self.cost_usd is not None and event.cost_usd is not None
                self.cost_usd = self.cost_usd + event.cost_usd if known else None  # type: ignore[operator]
            case SubagentEvent(event=TurnEnd() | SubagentEvent() as inner):
                self.take(inner)  # what an agent of its own takes is its
            case RunEnd():
                self.tokens, self.cost_usd, self.doing = tokens_of(event.usage), event.cost_usd, ""
                self.state = agent_state(event)

    def facts(self) -> str:
        """Say in a few words what it took."""
        facts = [f"{self.calls} tool call{'' if self.calls == 1 else 's'}"]
        if self.cost_usd:
            facts.append(dollars(self.cost_usd))
        if self.tokens:
            facts.append(f"{self.tokens:,} tokens")
        return " · ".join(facts)


def call_line(call: Call, status: str = "") -> str:
    """The line of a call of an agent; `status` as for `step_title`."""
    return step_title(call.name, visible_line(call.title, LINE_CHARS), status)


def progress_of(event: SubagentEvent) -> ToolProgress | None:
    """The line for it on the card of the call that the agent works for; None for what is no line there."""
    text = _line(event.event)
    return ToolProgress(event.tool_use_id, text=f"{text}\n", at=event.at) if text else None


def _line(event: Event) -> str:
    match event:
        case ToolStart():
            return "\n".join(map(call_line, event.calls))
        case TurnEnd(stop_reason="tool_use"):  # the last words are the call's result
            texts = (str(block["text"]) for block in event.message["content"] if block["type"] == "text")
            # so much of what an agent says between its calls
            return visible_line(" ".join(texts).strip(), 1_000)
        case RunEnd():
            cost = "" if event.cost_usd is None else f", {dollars(event.cost_usd)}"
            calls = event.tools_succeeded + event.tools_failed
            return f"{calls} calls, {event.requests} requests{cost}, {event.duration_ms / 1000:.0f} s"
        case ToolEnd() if event.status != "success":
            return f"{event.name}: {event.status}"
        case Notice(level="warning" | "error"):
            return visible_line(event.message, LINE_CHARS)
        case SubagentEvent():
            inner = _line(event.event)
            return "\n".join(f"  {line}" for line in inner.splitlines())
    return ""


def small_model(environ: Mapping[str, str]) -> str:
    """The model for small jobs: what the environment names (as Claude Code's users do), else Haiku.

    >>> small_model({"ANTHROPIC_SMALL_FAST_MODEL": "local-7b"})
    'local-7b'
    """
    return next((environ[name] for name in MODEL_VARIABLES if environ.get(name)), SMALL_MODEL)


class SideRequest(Struct, frozen=True):
    """The way of a tool to a model. `provider` is asked for when there is something to ask: it may have to connect."""

    provider: Callable[[], Provider]
    model: str

    async def ask(
        self, messages: Sequence[Mapping[str, Any]], ctx: ToolContext, *, tools: Sequence[Mapping[str, Any]] = ()
    ) -> TurnEnd:
        """The answer to `messages`, whole. Raises `CellwrightError`; what was spent is told to `ctx` in any case."""
        request = Request(
            model=self.model,
            system=b"[]",
            tools=json.dumps(list(tools)).encode(),
            messages=[json.dumps(message, ensure_ascii=False).encode() for message in messages],
            max_tokens=MAX_TOKENS,
            # with tools it goes on from what was asked; else nobody asks for it again, and writing to the cache costs
            cache_whole=bool(tools),
        )
        return await whole_answer(self.provider(), request, ctx.spend)


Spend = Callable[[Mapping[str, Any], float | None], object]


async def whole_answer(provider: Provider, request: Request, spend: Spend, emit: Emit | None = None) -> TurnEnd:
    """The answer to `request`, whole; `emit` is told of tries that failed. What was spent is told to `spend` in any case."""
    answer = PartialUsage()
    try:
        async with contextlib.aclosing(provider.stream(request)) as events:
            async for event in events:
                match event:
                    case MessageStart():
                        answer.begin(event)
                    case TurnEnd():
                        answer.end()
                        spend(event.usage, event.cost_usd)
                        return event
                    case Retrying():
                        _count_lost(answer, spend)
                        if emit is not None:
                            emit(event)
                    case _:
                        answer.add(event)
    finally:
        _count_lost(answer, spend)
    raise AssertionError("the provider ended without a TurnEnd")


def _count_lost(answer: PartialUsage, spend: Spend) -> None:
    if (lost := answer.lost()) is not None:
        spend(*lost)


def text_of(turn: TurnEnd) -> str:
    """The text of an answer."""
    return "".join(str(block["text"]) for block in turn.message["content"] if block.get("type") == "text").strip()
