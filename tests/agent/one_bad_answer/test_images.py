"""One gate for pictures: by whatever door one comes into a conversation, the API takes it, or reads words in its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.model.test_images import IN_WORDS, SHOWN, encoded, picture

from cellwright.agent.tool import ToolResult, tool
from cellwright.events import Notice, ToolEnd
from cellwright.sessions.claude_code import claude_code_sessions, import_session
from cellwright.testing import say, use

ODD = [*SHOWN.values(), *IN_WORDS.values()]
MANY = [picture(encoded(2_100 + number, 10)) for number in range(21)]


def pictures_in(played: Any) -> int:
    return json.dumps(played.bodies[-1]["messages"]).count('"type": "image"')


@pytest.mark.parametrize("blocks", [ODD, MANY], ids=["odd", "many"])
class TestDoors:
    """The strict server refuses what the API refuses; after each the next prompt is answered as well."""

    def goes_on(self, played: Any, blocks: list[dict[str, Any]]) -> None:
        assert [request.error for request in played.server.rejected] == []
        assert played.go_on("and?").text == "fine"
        assert pictures_in(played) == (len(SHOWN) if blocks is ODD else len(MANY))
        assert played.server.rejected == []

    def test_a_prompt(self, scene, blocks):
        played = scene([say("fine"), say("fine")])
        assert played.go_on([{"type": "text", "text": "look"}, *blocks]).text == "fine"
        told = [notice.message for notice in played.of(Notice)]
        assert bool(told) == (blocks is ODD), "the user is told what was left out"
        self.goes_on(played, blocks)

    def test_a_user_s_tool(self, scene, blocks):
        @tool(read_only=True)
        async def shot() -> ToolResult:
            """Take a picture."""
            return ToolResult(blocks)

        played = scene([use("shot"), say("fine"), say("fine")], tools=[shot])
        assert played.go_on("go").text == "fine"
        [ended] = played.of(ToolEnd)
        assert ended.content == played.results()[0]["content"], "what is shown is what was sent"
        self.goes_on(played, blocks)

    def test_a_session_of_another_program(self, scene, blocks, tmp_path, monkeypatch):
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
        write_claude_code_session(tmp_path, blocks)
        [found] = claude_code_sessions(tmp_path, {"CLAUDE_CONFIG_DIR": str(tmp_path / "claude")})
        played = scene([say("fine"), say("fine")], session=import_session(found, tmp_path))
        assert played.go_on("go on").text == "fine"
        self.goes_on(played, blocks)


def write_claude_code_session(cwd: Path, blocks: list[dict[str, Any]]) -> None:
    """A transcript of Claude Code's in which the user showed `blocks`, and a call's result had them too."""
    session = "11111111-2222-4333-8444-555555555555"
    folder = cwd / "claude" / "projects" / "".join(letter if letter.isalnum() else "-" for letter in str(cwd))
    folder.mkdir(parents=True)
    said = [
        ("user", [{"type": "text", "text": "look"}, *blocks]),
        ("assistant", [{"type": "text", "text": "I see."}]),
    ]
    lines, parent = [], None
    for number, (role, content) in enumerate(said):
        own = f"00000000-0000-4000-8000-{number:012}"
        message = {"role": role, "content": content, **({"id": "m", "model": "claude-opus-5-5"} if number else {})}
        entry = {"type": role, "uuid": own, "parentUuid": parent, "sessionId": session, "cwd": str(cwd)}
        lines.append(json.dumps({**entry, "timestamp": "2026-11-01T00:00:00.000Z", "message": message}))
        parent = own
    (folder / f"{session}.jsonl").write_text("\n".join(lines) + "\n")
