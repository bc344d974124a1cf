"""Agents that work within a run, for one of its calls: own session, own tools; shared rights, budget, hooks and record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace as variant
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.agent.steering import Steering
from cellwright.events import (
    Answered,
    Asked,
    Event,
    Notice,
    Preview,
    RunEnd,
    SubagentEvent,
    ToolEnd,
    ToolProgress,
    ToolStart,
    TurnEnd,
)
from cellwright.text import dollars, visible_line

if TYPE_CHECKING:
    from cellwright.agent.agent import Agent
    from cellwright.agent.loop import AgentRun
    from cellwright.agent.prompt import FullPrompt
    from cellwright.sessions.session import Session

MAX_DEPTH = 2
"""The levels of agents below Claude itself: one at the last level starts no others."""


TEXT_CHARS = 1_000
"""Of what an agent says between its calls."""

LINE_CHARS = 200
"""Of one line on the card of the call that an agent works for."""


class Subagent(Struct, frozen=True, kw_only=True):
    """One agent at work for another. `background`: the run that started it does not wait, and may be over before."""

    id: str
    type: str
    background: bool = False


class Nesting(Struct, frozen=True):
    """A call's way to have other agents work within the run it is part of."""

    run: AgentRun
    tool_use_id: str

    @property
    def agent(self) -> Agent:
        """The agent whose call it is, with the policy in the mode that the session is in now."""
        agent = self.run.agent
        return variant(agent, policy=agent.policy.in_mode(self.run.calls.gate.mode))

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
        agent: Agent,
        prompt: FullPrompt,
        session: Session,
        subagent: Subagent,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> RunEnd:
        """Have `agent` work on `prompt` in a session of its own. What happens is the run's events, as long as that goes on.

        Its questions are asked as the run's, saying who asks; in the background nobody is asked.
        """
        from cellwright.agent.loop import AgentRun  # which knows this module

        def emit(event: Event) -> None:
            on_event(event)
            if not self.run.ended:
                self.run.emit(self._of_the_run(event, subagent))

        ask = None if subagent.background or agent.can_use_tool is None else self._asking(agent.can_use_tool, subagent)
        steering = Steering("An agent that works for Claude is told nothing by the user.")
        nested = AgentRun(variant(agent, can_use_tool=ask), session, emit, steering, Within(self.run, subagent))
        return await nested.to_the_end(prompt)

    def _of_the_run(self, event: Event, subagent: Subagent) -> Event:
        match event:
            case Asked():
                tool_use = {**event.tool_use, "id": self.tool_use_id}
                return replace(event, tool_use=tool_use, preview=_asked_by(subagent, event.preview))
            case Answered():
                return replace(event, tool_use_id=self.tool_use_id)
        return SubagentEvent(self.tool_use_id, subagent.id, subagent.type, event)

    def _asking(
        self, can_use_tool: Callable[[ToolUse], Awaitable[Allow | Deny]], subagent: Subagent
    ) -> Callable[[ToolUse], Awaitable[Allow | Deny]]:
        async def ask(use: ToolUse) -> Allow | Deny:
            return await can_use_tool(replace(use, id=self.tool_use_id, preview=_asked_by(subagent, use.preview)))

        return ask


class Within(Struct, frozen=True):
    """The run that a subagent works for, and which of its agents it is."""

    run: AgentRun
    subagent: Subagent


def _asked_by(subagent: Subagent, preview: Preview) -> Preview:
    return replace(preview, title=f"Agent {subagent.type}: {preview.title}")


def progress_of(event: SubagentEvent) -> ToolProgress | None:
    """The line for it on the card of the call that the agent works for; None for what is no line there."""
    text = _line(event.event)
    return ToolProgress(event.tool_use_id, text=f"{text}\n", at=event.at) if text else None


def _line(event: Event) -> str:
    match event:
        case ToolStart():
            titles = (visible_line(call.title, LINE_CHARS) for call in event.calls)
            named = zip((call.name for call in event.calls), titles, strict=True)
            return "\n".join(title if title.startswith(name) else f"{name}: {title}" for name, title in named)
        case TurnEnd(stop_reason="tool_use"):  # the last words are the call's result
            texts = (str(block["text"]) for block in event.message["content"] if block["type"] == "text")
            return visible_line(" ".join(texts).strip(), TEXT_CHARS)
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
