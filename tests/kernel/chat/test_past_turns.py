"""Turns drawn from a transcript: the user's words, what Claude said and did, within bounds, beside the agent's loop."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_comms import Panels
from PIL import Image

import cellwright
from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.conversation.core import Host
from cellwright.features.conversation import Conversation
from cellwright.kernel.chat.conversation_log import RUNS_KEPT, TurnCount
from cellwright.kernel.chat.past_turns import PICTURE_CHARS, PastTurns, past_runs
from cellwright.kernel.output.op_log import OpLog, OpReader
from cellwright.kernel.output.transcript_ops import AGENT_OPS, TranscriptOps
from cellwright.sessions.api_messages import begins_turn
from cellwright.sessions.session import Session
from cellwright.telemetry.view_limits import DRAWN
from cellwright.testing import MessagesServer, say, think, turn, use
from project_talk import ProjectTalk

TOLD = "<environment>\nWorking folder: /home/ana\n</environment>"
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def session_of(folder: Path, *messages: tuple[str, list[dict[str, Any]]]) -> Session:
    session = Session.create(folder, None)
    session.begin(model="claude-opus-5-5", system=[], tools=[])
    for role, content in messages:
        known: dict[str, Any] = {"usage": {"output_tokens": 3}, "model": "claude-opus-5-5", "cost_usd": 0.25}
        session.append({"role": role, "content": content}, **(known if role == "assistant" else {}))
    return session


def ops_of(session: Session, turn: int = 1) -> list[dict[str, Any]]:
    (run,) = past_runs(session.id, session.in_effect(), {turn})
    return run.ops.after(0)


def test_the_users_words_are_shown_without_what_was_told_besides(tmp_path: Path) -> None:
    attached = '<attached picture="plot.png" what="a picture of 3 x 4 pixels"/>'
    session = session_of(
        tmp_path,
        ("user", [text(TOLD), text(attached), PICTURE, text("What is\nthis?"), text("<selected>\nx\n</selected>")]),
        ("assistant", [text("A plot.")]),
    )
    (run,) = past_runs(session.id, session.in_effect(), {1})
    assert run.prompt == "What is\nthis?"
    assert (run.id, run.kind, run.turn, run.state, run.finished) == (f"past-{session.id}-1", "past", 1, "done", True)


def test_a_turn_is_drawn_with_thinking_calls_pictures_and_costs(tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Write", "input": {"content": "x" * 5_000}}
    search = {"type": "server_tool_use", "id": "t2", "name": "web_search", "input": {"query": "weather"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "t2", "content": []}
    large = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "i" * (PICTURE_CHARS + 1)},
    }
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [text("y" * 20_000), PICTURE, large]}
    session = session_of(
        tmp_path,
        ("user", [text("Go")]),
        ("assistant", [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, text("I run it."), call]),
        ("user", [result]),
        ("assistant", [search, found, text("Done.")]),
    )
    ops = ops_of(session)
    kinds = [
        "run",
        "thinking",
        "text",
        "tool",
        "turn",
        "display",
        "tool_end",
        "tool",
        "tool_end",
        "text",
        "turn",
        "end",
    ]
    assert [op["op"] for op in ops] == kinds
    blocks = [op["block"] for op in ops if op["op"] in ("text", "thinking")]
    assert blocks == sorted(set(blocks))
    assert len(ops[3]["input"]["content"]) < 5_000
    assert ops[5]["data"] == {"image/png": "iVBORw0KGgo="}
    assert len(ops[6]["result"]) < DRAWN.result + 100
    assert ops[-1]["cost_usd"] == 0.5
    json.dumps(ops)


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_a_large_picture_is_shown_smaller(form: str, tmp_path: Path) -> None:
    out = io.BytesIO()
    options = {"quality": 100} if form == "JPEG" else {}
    smooth = Image.effect_noise((60, 60), 100).resize((1200, 1200), Image.Resampling.BICUBIC)
    smooth.convert("RGB").save(out, form, **options)
    data, kind = base64.b64encode(out.getvalue()).decode(), f"image/{form.lower()}"
    assert len(data) > PICTURE_CHARS
    image = {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
    call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.png"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [image]}
    session = session_of(tmp_path, ("user", [text("Go")]), ("assistant", [call]), ("user", [result]))
    shown = next(op for op in ops_of(session) if op["op"] == "display")["data"]
    assert list(shown) == [kind]
    assert Image.open(io.BytesIO(base64.b64decode(shown[kind]))).format == form


def test_the_model_that_answered_last_is_named(tmp_path: Path) -> None:
    session = session_of(tmp_path, ("user", [text("Go")]), ("assistant", [text("I look.")]))
    answer = {"role": "assistant", "content": [text("Done.")]}
    session.append(answer, usage={"output_tokens": 3}, model="claude-sonnet-5-5", cost_usd=0.25)
    assert ops_of(session)[0]["model"] == "claude-sonnet-5-5"


def test_a_turn_that_cannot_be_drawn_hides_no_other(tmp_path: Path) -> None:
    odd = [{"type": "tool_use", "id": "t1"}, {"type": "text"}]
    session = session_of(
        tmp_path,
        ("user", [text("one")]),
        ("assistant", odd),
        ("user", [text("two")]),
        ("assistant", [text("Yes.")]),
    )
    assert [run.prompt for run in past_runs(session.id, session.in_effect(), {1, 2})] == ["two"]


def test_a_call_that_failed_says_so(tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.py"}}
    failed = {"type": "tool_result", "tool_use_id": "t1", "content": "no such file", "is_error": True}
    session = session_of(tmp_path, ("user", [text("Go")]), ("assistant", [call]), ("user", [failed]))
    end = next(op for op in ops_of(session) if op["op"] == "tool_end")
    assert (end["status"], end["error"]) == ("error", {"code": "EXECUTION_ERROR", "message": "no such file"})


def test_turns_are_counted_as_a_session_grows_and_shrinks(tmp_path: Path) -> None:
    session = session_of(tmp_path, ("user", [text('"type":"tool_result"')]), ("assistant", [text("One.")]))
    count = TurnCount()
    seq = session.next_seq
    assert count.of(session) == sum(map(begins_turn, session.messages)) == 1
    for word in ("two", "three"):
        session.next_seq += 1
        session.append({"role": "user", "content": [text(word)]})
        session.append({"role": "assistant", "content": [text("Yes.")]})
        assert count.of(session) == sum(map(begins_turn, session.messages))
    session.return_to(seq)
    session.next_seq += 1
    assert count.of(session) == sum(map(begins_turn, session.messages)) == 1
    session.append({"role": "user", "content": [text("other")]})
    assert count.of(session) == 2
    assert count.of(session_of(tmp_path)) == 0


def test_a_long_session_shows_its_last_turns_and_leaves_the_loop_free(tmp_path: Path) -> None:
    messages: list[tuple[str, list[dict[str, Any]]]] = []
    for number in range(500):
        call = {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {"file_path": f"{number}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "line\n" * 4_000}
        messages += [
            ("user", [text(f"Prompt {number}")]),
            ("assistant", [text("I read it."), call]),
            ("user", [result]),
            ("assistant", [text("Done.")]),
        ]

    async def scene() -> None:
        panels, conversation = Panels(), Conversation(Host(cwd=tmp_path, interface="a test"))
        panels.session = session_of(tmp_path, *messages)
        conversation.sessions.use(panels.session)
        past = PastTurns(conversation, panels.log, lambda: True)
        past.refresh()
        assert panels.log.runs == {}, "the agent's loop waited for what is drawn"
        await panels.until(lambda: panels.log.runs)
        assert list(panels.log.runs) == [f"past-{panels.session.id}-{n}" for n in range(501 - RUNS_KEPT, 501)]
        assert next(iter(panels.log.runs.values())).prompt == f"Prompt {500 - RUNS_KEPT}"
        conversation.close()

    asyncio.run(scene())


SAME = {
    "tool": ("id", "name", "title", "input"),
    "tool_end": ("id", "status", "ms", "result", "diff", "error"),
    "todos": ("todos",),
    "thinking": ("text",),
    "text": ("text",),
    "decided": ("tool", "behavior", "by", "reason", "rule"),
    "ask": ("tool", "title"),
    "answered": ("tool", "behavior", "by", "scope", "reason"),
    "notice": ("level", "text"),
    "changes": ("turn", "files", "cells", "effects", "not_kept"),
    "end": ("stop_reason", "error"),
}
"""What is the same again, by the kind of operation; of the lists of todos only the last is seen."""


def test_a_resumed_turn_looks_as_it_did(
    asked_here: None, messages_server: Any, monkeypatch: Any, own_place: Path, tmp_path: Path
) -> None:
    (tmp_path / "tides.py").write_text("high = 1\nlow = 2\n", "utf-8")
    server = messages_server(
        [
            turn(think("Where is it?"), use("Grep", pattern="high", path="."), use("Read", file_path="tides.py")),
            turn(use("Edit", file_path="tides.py", old_string="high = 1", new_string="high = 3")),
            turn(use("TaskCreate", subject="Fix it", description="Now.", activeForm="Fixing it")),
            turn(use("TaskUpdate", taskId="1", status="completed"), use("Bash", command="exit 3")),
            turn(use("Read", file_path="missing.py")),
            say("**Done.**"),
        ]
    )
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)
    monkeypatch.setenv("CLAUDE_CODE_ENABLE_TASKS", "1")
    result = cellwright.ask("Fix the tides", can_use_tool=notice_all)
    live: list[dict[str, Any]] = []
    drawing = TranscriptOps(live.append)
    for event in result.events:
        drawing.emit(event)
    (path,) = (own_place / "cellwright" / "sessions").glob(f"*/{result.session_id}.jsonl")
    session = Session.load(path)
    (run,) = past_runs(session.id, session.story_lines(), {1}, None, session.turn_ends())
    session.close()
    past = run.ops.after(0)
    drawn = [op for op in live if op["op"] != "todos"] + [op for op in live if op["op"] == "todos"][-1:]
    for kind, names in SAME.items():
        shown, again = (
            [{n: shown_as(n, op[n]) for n in names} for op in ops if op["op"] == kind] for ops in (drawn, past)
        )
        # calls side by side end as they like
        assert sorted(again, key=by_id) == sorted(shown, key=by_id), kind
        assert shown, kind
    assert any(op.get("diff") for op in past)
    assert [part["title"] for op in past if op["op"] == "told" for part in op["parts"]]


async def notice_all(use: ToolUse) -> Allow | Deny:
    """Allow everything but commands, and say something about it."""
    return Deny("no commands") if use.name == "Bash" else Allow(notice=f"{use.name} was looked at.")


def by_id(op: dict[str, Any]) -> str:
    return str(op.get("id") or op.get("tool", ""))


def shown_as(name: str, value: Any) -> Any:
    return round(value) if name == "ms" else value


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
