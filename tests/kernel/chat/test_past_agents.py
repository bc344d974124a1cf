"""Agents of turns that nobody saw, drawn from their own transcripts: the same cards as while they worked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.kernel.chat.past_turns import past_runs
from cellwright.kernel.output.agent_ops import AGENT_OPS
from cellwright.kernel.output.op_log import OpLog, OpReader
from cellwright.testing import MessagesServer, say, use
from project_talk import ProjectTalk


@pytest.fixture
def talk(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[ProjectTalk]:
    made = ProjectTalk(messages_server(), tmp_path)
    made.begin()
    yield made
    made.end()


def hand(prompt: str, **more: Any) -> Any:
    return use("Agent", description="a task", prompt=prompt, subagent_type="general-purpose", **more)


def live(talk: ProjectTalk) -> list[dict[str, Any]]:
    log = OpLog()
    for event in talk.events:
        log.on_event(event)
    return [op for op in OpReader(log).after(0) if op["op"] in AGENT_OPS]


def past(talk: ProjectTalk, turn: int, folder: Path | None = None) -> list[dict[str, Any]]:
    session = talk.conversation.sessions.current
    assert session.path is not None
    agents = folder or session.path.parent / session.id / "subagents"
    (run,) = past_runs(session.id, session.story_lines(), {turn}, agents)
    return [op for op in run.ops.after(0) if op["op"] in AGENT_OPS]


def shown(ops: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The operations without the times and titles, which a transcript knows less of."""
    fields = ("op", "card", "parent", "agent", "kind", "call", "status", "state", "calls", "tokens", "cost_usd")
    return [tuple(op.get(name) for name in fields) for op in ops]


def test_an_agent_and_one_within_it_are_drawn_as_they_were(talk: ProjectTalk) -> None:
    talk.say("Go", hand("outer"), use("LS", path="."), hand("inner"), say("inner."), say("outer."), say("End."))
    assert shown(past(talk, 1)) == shown(live(talk))
    assert len([op for op in past(talk, 1) if op["op"] == "agent"]) == 2


def test_an_agent_that_is_gone_on_with_is_drawn_with_each_turns_work(talk: ProjectTalk) -> None:
    talk.say("Go", hand("first"), say("one"), say("End."))
    agent_id = talk.results[-1].structured["agent_id"]
    talk.say("On", hand("second", resume=agent_id), use("LS", path="."), say("two"), say("End."))
    first, second = past(talk, 1), past(talk, 2)
    assert [op["text"] for op in first if op["op"] == "agent_line"] == ["one"]
    assert [op["kind"] for op in second if op["op"] == "agent_line"] == ["call", "end", "text"]


def test_a_transcript_that_is_gone_or_broken_leaves_the_call_without_its_agent(
    talk: ProjectTalk, tmp_path: Path
) -> None:
    talk.say("Go", hand("first"), say("one"), say("End."))
    assert past(talk, 1, tmp_path / "nowhere") == []
    session = talk.conversation.sessions.current
    assert session.path is not None
    (agent,) = (session.path.parent / session.id / "subagents").glob("*.jsonl")
    agent.write_bytes(b"{}\n")
    assert past(talk, 1) == []
