"""Transcripts of Claude Code's, the hard ones: what is made of them the strict server takes, and it goes on."""

from __future__ import annotations

import base64
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from cellwright.commands.command import CommandCall
from cellwright.commands.registry import answer_of, command_of
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Event, Notice
from cellwright.features.conversation import Conversation
from cellwright.sessions.catalog.metadata import title_of
from cellwright.sessions.claude_code import claude_code_sessions, import_session, messages_of, named, read_entries
from cellwright.testing import say, turn

ID = "7f3c1a52-98d4-4c55-9a3e-0a4f1d2b6c11"
PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
        "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
    )
).decode()
Line = dict[str, Any]


class Written:
    """A transcript as Claude Code writes it: each entry is the child of the one before it, unless another is named."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.last: str | None = None
        self._numbers = itertools.count(1)

    def entry(self, kind: str, parent: str | None = "", **fields: Any) -> str:
        uuid = fields.pop("uuid", f"u-{next(self._numbers)}")
        data = {
            "parentUuid": self.last if parent == "" else parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/home/ada/bees",
            "sessionId": ID,
            "version": "2.1.300",
            "type": kind,
            "uuid": uuid,
            "timestamp": f"2026-11-03T14:15:{len(self.lines) % 60:02}.123Z",
            **fields,
        }
        self.raw(json.dumps(data))
        self.last = uuid
        return uuid

    def raw(self, line: str | bytes) -> None:
        self.lines.append(line if isinstance(line, bytes) else line.encode())

    def user(self, content: Any, parent: str | None = "", **fields: Any) -> str:
        return self.entry("user", parent, message={"role": "user", "content": content}, **fields)

    def claude(
        self, *blocks: Line, id: str, parent: str | None = "", model: str = "claude-opus-5-5", **fields: Any
    ) -> str:
        message = {
            "id": id,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": list(blocks),
        }
        return self.entry("assistant", parent, message={**message, "usage": {"input_tokens": 3}}, **fields)

    def result(self, call: str, content: Any, parent: str | None = "", **fields: Any) -> str:
        return self.user([{"type": "tool_result", "tool_use_id": call, "content": content}], parent, **fields)

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\n".join(self.lines) + b"\n")
        return path


def text(words: str) -> Line:
    return {"type": "text", "text": words}


def thinking(words: str) -> Line:
    return {"type": "thinking", "thinking": words, "signature": "bm90IG91cnM="}


def call(id: str, name: str = "Read", **given: Any) -> Line:
    return {"type": "tool_use", "id": id, "name": name, "input": given, "caller": {"type": "direct"}}


@pytest.fixture
def written() -> Written:
    return Written()


def told(messages: list[Line]) -> list[str]:
    """The conversation in short, a line for each block."""
    shown = []
    for message in messages:
        side = "C" if message["role"] == "assistant" else "U"
        for block in message["content"]:
            match block["type"]:
                case "text":
                    shown.append(f"{side} {block['text']}")
                case "tool_use":
                    shown.append(f"{side} {block['name']}#{block['id']}")
                case "tool_result":
                    content = block["content"]
                    words = content if isinstance(content, str) else " ".join(p.get("text", p["type"]) for p in content)
                    shown.append(f"{side} #{block['tool_use_id']}: {words}")
                case other:
                    shown.append(f"{side} [{other}]")
    return shown


def read(path: Path) -> list[str]:
    return told(messages_of(read_entries(path).conversation))


def test_calls_made_side_by_side_hang_on_different_lines(written: Written, tmp_path: Path) -> None:
    written.user("Look at both")
    written.claude(thinking("hm"), id="m1")
    first = written.claude(text("I look."), call("t1"), id="m1")
    second = written.claude(call("t2"), id="m1")
    written.result("t1", "one", parent=first)
    written.result("t2", [text("two")], parent=second)
    written.claude(text("Both are there."), id="m2")
    assert read(written.write(tmp_path / "s.jsonl")) == [
        "U Look at both",
        "C I look.",
        "C Read#t1",
        "C Read#t2",
        "U #t1: one",
        "U #t2: two",
        "C Both are there.",
    ]


def test_the_last_branch_counts_and_what_was_taken_back_does_not(written: Written, tmp_path: Path) -> None:
    asked = written.user("First")
    written.claude(text("An answer"), id="m1")
    written.user("A way that was left")
    written.claude(text("Left too"), id="m2")
    written.user("Another way", parent=asked)
    written.claude(text("Taken"), id="m3")
    # a queue, hooks and what else there may be hold the way together, and say nothing
    written.entry("progress", data={"type": "hook_progress"})
    written.entry("system", subtype="stop_hook_summary", content=None)
    written.entry("hologram", payload=[1, 2])
    written.raw(json.dumps({"type": "file-history-snapshot", "messageId": "x", "snapshot": {}}))
    written.entry("attachment", attachment={"type": "queued_command", "prompt": "and quickly"})
    assert read(written.write(tmp_path / "s.jsonl")) == ["U First", "U Another way", "C Taken", "U and quickly"]


def test_sidechains_copies_damaged_lines_and_parents_that_are_gone(written: Written, tmp_path: Path) -> None:
    written.user("Go on", uuid="doubled")
    written.user("Of an agent", isSidechain=True, uuid="side")
    written.claude(text("An agent's"), id="s1", isSidechain=True)
    written.claude(text("One"), id="m1", parent="doubled")
    written.raw(b'{"type":"assistant","uuid":"torn","message":{"role":"assist')
    written.raw(b"\x00\x00\x00\x00")
    written.raw("[1, 2, 3]")
    written.raw(b'{"type":"user","uuid":"\xff\xfe","message":null}')
    still = written.user("Still there", parent="never-written")
    written.user("Go on", uuid="doubled", parent=None)
    written.claude(text("Two"), id="m2", parent=still)
    path = written.write(tmp_path / "s.jsonl")
    assert read(path) == ["U Go on", "C One", "U Still there", "C Two"]
    assert read_entries(path).damaged == 2


def test_a_compaction_stands_for_what_was_before_it(written: Written, tmp_path: Path) -> None:
    written.user("Long ago")
    before = written.claude(text("Long answers"), id="m1")
    written.entry(
        "system", None, subtype="compact_boundary", logicalParentUuid=before, content="Conversation compacted"
    )
    written.user("This session is being continued from … It was about bees.", isCompactSummary=True)
    written.claude(text("On with the bees"), id="m2")
    path = written.write(tmp_path / "s.jsonl")
    assert read(path) == ["U This session is being continued from … It was about bees.", "C On with the bees"]
    assert read_entries(path).compacted


def test_a_circle_of_parents_ends(written: Written, tmp_path: Path) -> None:
    written.user("One", parent="u-2")
    written.claude(text("Two"), id="m1", parent="u-1")
    assert read(written.write(tmp_path / "s.jsonl")) == ["U One", "C Two"]


def test_what_the_api_would_refuse_is_left_out_or_put_in_words(written: Written, tmp_path: Path) -> None:
    written.raw(json.dumps({"type": "summary", "summary": "Another session's", "leafUuid": "elsewhere"}))
    written.user("<local-command-stdout>Set model to opus</local-command-stdout>")
    written.user(
        [
            {**text("See"), "cache_control": {"type": "ephemeral"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "bm8="}},
            {"type": "image", "source": {"type": "url", "url": "https://example.com/x.png"}},
            text("   "),
        ]
    )
    written.claude(text("API Error: 500"), id="e1", isApiErrorMessage=True)
    written.claude(text("No response requested."), id="e2", model="<synthetic>")
    written.claude(
        {"type": "redacted_thinking", "data": "eA=="},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "bees"}},
        {**text("Found"), "citations": [{"type": "web_search_result_location", "encrypted_index": "x"}]},
        call("toolu:1", "mcp__bees.hive__look", n=1),
        call("toolu:1", "Read", file_path="x" * 10),
        {"type": "tool_use", "id": "t3", "name": "Odd name!", "input": "no object"},
        id="m1",
    )
    written.result("toolu:1", [{"type": "tool_reference", "tool_name": "X"}], toolUseResult={"huge": "ignored"})
    written.user([{"type": "tool_result", "tool_use_id": "nobody", "content": None, "is_error": True}])
    written.claude(text(""), id="m2")
    written.raw(json.dumps({"type": "custom-title", "customTitle": "Bees and hives", "sessionId": ID}))
    path = written.write(tmp_path / "s.jsonl")
    messages = messages_of(read_entries(path).conversation)
    assert read_entries(path).title == "Bees and hives"
    lines = told(messages)
    assert lines[:5] == [
        "U See",
        "U [image]",
        "U (Omitted: an image.)",
        "U (Omitted: an image.)",
        "C Found",
    ]
    assert "web_search" not in json.dumps(messages)
    assert not re.search("thinking|cache_control|citations|caller|signature|ignored|API Error", json.dumps(messages))
    calls = [block["id"] for message in messages for block in message["content"] if block["type"] == "tool_use"]
    assert len(set(calls)) == 3
    assert all(re.fullmatch(r"[\w-]+", id) for id in calls)


class Place:
    """Claude Code's folder of a project, and the server that a conversation there asks."""

    def __init__(self, server: Any, cwd: Path, home: Path) -> None:
        cwd.mkdir()
        self.cwd = cwd
        self.server = server
        self.environ = {"HOME": str(home), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
        self.folder = home / ".claude" / "projects" / re.sub(r"[^a-zA-Z0-9]", "-", str(cwd))
        self.events: list[Event] = []

    def conversation(self) -> Conversation:
        return Conversation(Host(cwd=self.cwd, interface="a test", environ=self.environ))

    def ask(self, conversation: Conversation, prompt: str, **request: Any) -> Any:
        run = conversation.start(RunRequest(prompt=prompt, **request), RunSurface(self.events.append))
        return run.future.result(60)


@pytest.fixture
def place(messages_server: Any, tmp_path: Path, own_place: Path) -> Place:
    return Place(messages_server([say("On with it."), say("And on.")]), tmp_path / "bees & hives", own_place)


def hard(written: Written) -> Written:
    """A session that breaks off in the middle of calls side by side, with thinking and tools that we do not have."""
    written.user("Look at both")
    written.claude(thinking("hm"), id="m1")
    first = written.claude(call("t1", "mcp__hive__look"), id="m1")
    written.claude(call("t2", "Bash", command="sleep 1000"), id="m1")
    written.result("t1", "one", parent=first)
    return written


def test_resume_finds_it_says_so_and_the_api_takes_it(place: Place, written: Written) -> None:
    path = hard(written).write(place.folder / f"{ID}.jsonl")
    before = path.read_bytes()
    conversation = place.conversation()
    try:
        assert place.ask(conversation, "Go on", resume=ID[:12]).ok
        session = conversation.sessions.current
        assert session.id == ID
        notices = [event.message for event in place.events if isinstance(event, Notice)]
        assert any(f"a copy of a Claude Code session, {ID}" in notice and str(path) in notice for notice in notices)
        body = place.server.requests[-1].body
        assert told(body["messages"])[:5] == [
            "U Look at both",
            "C mcp__hive__look#t1",
            "C Bash#t2",
            "U #t1: one",
            "U #t2: The result of this call is lost: the transcript was damaged. The call may have had effects.",
        ]
        rest = "\n".join(told(body["messages"])[5:])
        assert "<imported-session>" in rest
        assert str(place.cwd) in rest  # where Claude works, as with any first prompt
        assert {tool["name"] for tool in body["tools"]} >= {"Read", "Edit"}
        assert body["system"]
        assert session.cost_before_usd == 0
    finally:
        conversation.close()
    assert path.read_bytes() == before
    again = place.conversation()  # it is one of ours now, with its own tools and system prompt
    try:
        assert place.ask(again, "And on", resume=ID).ok
        assert again.sessions.current.id == ID
        first, second = (request.body for request in place.server.requests[-2:])
        assert (first["system"], first["tools"]) == (second["system"], second["tools"])
        assert [m["role"] for m in second["messages"]][: len(first["messages"])] == [
            m["role"] for m in first["messages"]
        ]
    finally:
        again.close()


def test_it_is_listed_imported_once_and_its_title_kept(place: Place, written: Written) -> None:
    hard(written).raw(json.dumps({"type": "custom-title", "customTitle": "Bees and hives"}))
    written.write(place.folder / f"{ID}.jsonl")
    Written().write(place.folder / "11111111-0000-0000-0000-000000000000.jsonl")
    (place.folder / "empty-one.jsonl").touch()
    found = named(ID[:8], place.cwd, place.environ)
    assert found is not None
    assert found in claude_code_sessions(place.cwd, place.environ)
    session = import_session(found, place.cwd)
    session.close()
    with pytest.raises(CellwrightError) as caught:
        import_session(found, place.cwd)
    assert "was imported already" in caught.value.message
    nothing = named("11111111", place.cwd, place.environ)
    assert nothing is not None
    with pytest.raises(CellwrightError) as caught:
        import_session(nothing, place.cwd)
    assert caught.value.code == ErrorCode.SESSION_NOT_FOUND
    conversation = place.conversation()
    try:
        conversation.sessions.resume(ID)
        assert title_of(conversation.sessions.current) == "Bees and hives"
    finally:
        conversation.close()


def test_a_long_path_is_found_by_its_beginning(own_place: Path, tmp_path: Path, written: Written) -> None:
    cwd = tmp_path / ("a" * 120) / ("b" * 120)
    cwd.mkdir(parents=True)
    name = re.sub(r"[^a-zA-Z0-9]", "-", str(cwd))[:200]
    hard(written).write(own_place / "config" / "projects" / f"{name}-1a2b3c" / f"{ID}.jsonl")
    environ = {"HOME": str(own_place), "CLAUDE_CONFIG_DIR": str(own_place / "config")}
    assert [each.id for each in claude_code_sessions(cwd, environ)] == [ID]


SUMMARY = turn(say("<summary>It was about bees.</summary>"), when="Everything above will be replaced by a summary")


def long_one(messages_server: Any, tmp_path: Path, home: Path, written: Written) -> Place:
    place = Place(messages_server([SUMMARY, say("On with it.")]), tmp_path / "bees & hives", home)
    for number in range(4):
        written.user("Tell me of the bees")
        written.claude(text("Bees and flowers. " * 2_000), id=f"m{number}")
    written.write(place.folder / f"{ID}.jsonl")
    return place


def test_one_that_fills_the_window_is_summed_up_before_its_first_prompt(
    messages_server: Any, tmp_path: Path, own_place: Path, written: Written
) -> None:
    place = long_one(messages_server, tmp_path, own_place, written)
    settings = {"autoCompactWindow": 100_000, "cellwright": {"autoCompactShare": 0.3}}
    (Path(place.environ["HOME"]) / ".claude" / "settings.json").write_text(json.dumps(settings), "utf-8")
    conversation = place.conversation()
    try:
        assert place.ask(conversation, "Go on", resume=ID).ok
        body = place.server.requests[-1].body
        assert "It was about bees." in json.dumps(body["messages"][0])
        assert "Bees and flowers" not in json.dumps(body["messages"])
        assert body["system"]
        assert "<tools-since" not in json.dumps(body["messages"])
        assert place.server.rejected == []
    finally:
        conversation.close()


def test_one_can_be_summed_up_before_anything_else_is_said(
    messages_server: Any, tmp_path: Path, own_place: Path, written: Written
) -> None:
    place = long_one(messages_server, tmp_path, own_place, written)
    conversation = place.conversation()
    try:
        conversation.sessions.resume(ID)
        command, words = command_of("/compact")
        call = CommandCall(conversation, RunOptions(), words)
        page = conversation.thread.submit(answer_of(command, call)).future.result(60)
        assert "It was about bees." in page.plain()
        assert place.ask(conversation, "Go on").ok
        asked, body = (request.body for request in place.server.requests[-2:])
        assert (asked["system"], asked["tools"]) == (body["system"], body["tools"]), "what is cached holds"
        told_now = json.dumps(body["messages"])
        assert str(place.cwd) in told_now
        assert "<tools-since" not in told_now
        assert place.server.rejected == []
    finally:
        conversation.close()
