"""One gate for pictures: by whatever door one comes into a conversation, the API takes it, or reads words in its place."""

from __future__ import annotations

import base64
import io
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from cellwright.agent.tool import ToolResult, tool
from cellwright.events import Notice, ToolEnd
from cellwright.model.images.api_images import MAX_SIDE, admitted, takes_time
from cellwright.sessions.claude_code.import_session import claude_code_sessions, import_session
from cellwright.testing import say, use
from row_tables import for_each_row


def encoded(width: int, height: int, kind: str = "PNG") -> str:
    data = io.BytesIO()
    Image.new("RGB", (width, height)).save(data, kind)
    return base64.b64encode(data.getvalue()).decode()


def bomb() -> str:
    """A PNG of a few bytes that says it has 10,000,000,000 pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">II", 100_000, 100_000) + b"\x08\x02\x00\x00\x00")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", b"") + chunk(b"IEND", b"")).decode()


def picture(data: Any, kind: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


GOOD = encoded(20, 10)
SHOWN = {
    "as it is": picture(GOOD),
    "too wide": picture(encoded(9_000, 10)),
    "too wide for one of many": picture(encoded(2_500, 10)),
    "of another kind than it says": picture(encoded(20, 10, "JPEG")),
    "of a kind that the API does not take": picture(encoded(20, 10, "BMP"), "image/bmp"),
    "with line breaks": picture("\n".join([GOOD[:20], GOOD[20:]])),
    "as a data URL": picture(f"data:image/png;base64,{GOOD}"),
}
IN_WORDS = {
    "no base64": picture("!!!"),
    "no picture": picture(base64.b64encode(b"RIFF\0\0\0\0WEBP").decode()),
    "cut off": picture(encoded(200, 100)[:120]),
    "empty": picture(""),
    "without data": picture(None),
    "without a source": {"type": "image"},
    "a bomb": picture(bomb()),
    "no PDF": {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "bm8="}},
}
LEFT_TO_THE_API = {
    "an address": {"type": "image", "source": {"type": "url", "url": "https://example.com/x.png"}},
    "a file": {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
    "text": {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
}


@for_each_row(("name", "block"), SHOWN.items())
def test_what_can_be_shown_is_shown(name, block):
    [made], reasons = admitted([block])
    assert reasons == []
    data = base64.b64decode(made["source"]["data"], validate=True)
    image = Image.open(io.BytesIO(data))
    image.load()
    assert max(image.size) <= MAX_SIDE
    assert made["source"]["media_type"] == Image.MIME[image.format or ""]
    assert not takes_time([made]), "once is enough"


@for_each_row(("name", "block"), IN_WORDS.items())
def test_what_cannot_is_put_in_words(name, block):
    [made], [reason] = admitted([block])
    assert made["type"] == "text"
    assert "cannot be shown" in made["text"]
    assert "was left out" in reason


@for_each_row(("name", "block"), LEFT_TO_THE_API.items())
def test_what_is_no_data_is_the_api_s_to_look_at(name, block):
    assert admitted([block]) == ([block], [])
    assert not takes_time([block])


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
