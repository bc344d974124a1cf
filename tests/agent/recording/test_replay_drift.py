"""Whatever a turn's tools give, it replays strictly without drift: where it was recorded, and in a copy of the folder."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.loop import run_agent
from cellwright.agent.recording.recorder import Recorder
from cellwright.agent.recording.replay import Replay
from cellwright.agent.recording.replay_drift import check_drift
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolLimits, ToolResult
from cellwright.conversation.replayed_edits import ReplayedEdits
from cellwright.conversation.runs.run import EventBus
from cellwright.conversation.system_prompt import system_blocks
from cellwright.errors import ToolError
from cellwright.events import Event, ToolEnd
from cellwright.model.anthropic import connect
from cellwright.permissions.policy import PermissionPolicy
from cellwright.redaction.redaction import Redaction
from cellwright.sessions.session import Session
from cellwright.testing import MessagesServer, say, turn, use
from cellwright.tools.files.edit import edit_tool, multi_edit_tool
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.read import read_tool
from cellwright.tools.files.write import write_tool
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import NothingOpen
from cellwright.tools.planning.todos import todo_write_tool
from cellwright.tools.search.ls import ls_tool

NAMES = ("a.txt", "b.txt", "missing.txt")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PICTURE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
}
SECRET = "ghp_" + "a1B2" * 9
LIMIT = 200

texts = st.one_of(
    st.text(max_size=60),
    st.text(alphabet=st.characters(categories=("Cs", "Cc", "Zs", "So", "L")), max_size=20),
    st.sampled_from(
        ("", " ", "\n", "None", "x" * 3 * LIMIT, f"key {SECRET} end", "(no output)", "⟦project⟧", "2026-01-01 00:00:00")
    ),
)
blocks = st.lists(
    st.one_of(st.just(PICTURE), texts.map(lambda text: {"type": "text", "text": text})), min_size=1, max_size=3
)
outcomes = st.one_of(
    st.tuples(st.just("value"), st.one_of(texts, st.none(), blocks)),
    st.tuples(st.just("result"), st.one_of(texts, blocks)),
    st.tuples(st.just("failed"), texts),
    st.tuples(st.just("tool error"), texts),
    st.tuples(st.just("exception"), texts),
)
calls = st.one_of(
    st.tuples(st.sampled_from(("Python", "Python", "Lookup", "Bash", "Nothing")), outcomes),
    st.tuples(st.sampled_from(("Read", "LS", "Write", "Edit", "MultiEdit")), st.sampled_from(NAMES)),
    st.tuples(st.just("TodoWrite"), st.sampled_from(([], ["one", "two"], ["wrong"]))),
)
turns = st.lists(st.lists(calls, min_size=1, max_size=4), min_size=1, max_size=3)


def answered(outcome: tuple[str, Any]) -> Any:
    kind, value = outcome
    match kind:
        case "tool error":
            raise ToolError(value)
        case "exception":
            raise ValueError(value)
        case "failed":
            return ToolResult(value, is_error=True)
        case "result":
            return ToolResult(value, {"shown": 1}, structured={"value": value, "none": None})
    return "(no result)" if value is None else value


def tools_in(folder: Path, said: dict[str, Any]) -> list[Tool]:
    """Real file tools, and others that give what `said` has for their call."""

    async def call(tool_input: dict[str, Any], ctx: ToolContext) -> Any:
        ctx.progress(text="working\n")
        return answered(said[tool_input["code"]])

    def named(name: str, access: ToolAccess, *, read_only: bool = False) -> Tool:
        schema = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}
        limits = ToolLimits(result_chars=LIMIT)
        return Tool(
            name=name,
            description=name,
            input_schema=schema,
            call=call,
            access=access,
            read_only=read_only,
            category="kernel",
            limits=limits,
        )

    state = FileState()
    return [
        *(make(state, folder) for make in (read_tool, write_tool, edit_tool, multi_edit_tool)),
        ls_tool(folder),
        todo_write_tool(),
        named("Python", ToolAccess("python", "code")),
        named("Bash", ToolAccess("shell", "code")),
        named("Lookup", ToolAccess(), read_only=True),
    ]


def used(name: str, what: Any, number: int, said: dict[str, Any]) -> dict[str, Any]:
    """The call as the model makes it."""
    match name:
        case "Read":
            return use(name, file_path=what)
        case "LS":
            return use(name, path=".")
        case "Write":
            return use(name, file_path=what, content=f"{number}\n")
        case "Edit":
            return use(name, file_path=what, old_string="one", new_string=f"one {number}")
        case "MultiEdit":
            return use(name, file_path=what, edits=[{"old_string": "one", "new_string": "1"}])
        case "TodoWrite":
            status = ("in_progress", "no such status")["wrong" in what]
            return use(name, todos=[{"content": each, "status": status, "activeForm": each} for each in what])
    said[str(number)] = what
    return use(name, code=str(number))


def agent_of(provider: Any, folder: Path, said: dict[str, Any]) -> AgentSetup:
    policy = PermissionPolicy(mode="bypassPermissions", roots=(folder,), cwd=folder)
    return AgentSetup(
        provider=provider,
        model="claude-opus-5-5",
        system=system_blocks(),
        tools=tools_in(folder, said),
        policy=policy,
        redaction=Redaction(),
    )


def ends(events: list[Event]) -> list[tuple[Any, ...]]:
    """What the calls came to; of files their times differ in a copy."""
    return [(e.name, e.status, e.content) for e in events if isinstance(e, ToolEnd) and e.name != "LS"]


@pytest.mark.parametrize("redacts", [True, False])
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=turns)
def test_a_recorded_turn_replays_without_drift(tmp_path_factory, monkeypatch, redacts, messages):
    place = tmp_path_factory.mktemp("turn")
    monkeypatch.setenv("CELLWRIGHT_HOME", str(place / "home"))
    folder, copy, said = place / "project", place / "copy", {}
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / "b.txt").write_text("größe one\r\n")
    shutil.copytree(folder, copy)
    numbers = itertools.count()
    script = [turn(*(used(name, what, next(numbers), said) for name, what in calls)) for calls in messages]
    with MessagesServer([*script, say("Done.")]) as server:
        provider = connect({"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key})
        agent = agent_of(provider, folder, said)
        agent = agent if redacts else replace(agent, redaction=None)
        recorder = Recorder(place / "turn.jsonl", folder, {})
        listening, events = recorder.listen("go"), []
        bus = EventBus([events.append, listening.on_event])
        asyncio.run(run_agent(agent, "go", Session.create(folder, None), bus.publish))
        recorder.save(listening)

    for where in (folder, copy):
        played, replayed = Replay(recorder.path, where).turn("go"), []
        target = ReplayedEdits(where, FileState(), NothingOpen(), FileNotebook)
        again = played.played_by(replace(agent, tools=tools_in(where, said)), target)
        bus = EventBus([replayed.append, played.on_event])
        asyncio.run(run_agent(again, "go", Session.create(where, None), bus.publish))
        check_drift(played.drift)
        assert replayed[-1].error is None
        assert [end[:2] for end in ends(replayed)] == [end[:2] for end in ends(events)]
