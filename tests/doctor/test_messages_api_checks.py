"""`cellwright doctor --server URL`: what is said of servers that can do everything, and of those that lack something."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cellwright.doctor.messages_api_checks import ABILITIES, examine_server
from cellwright.terminal.subcommands.installation import doctor
from cellwright.testing import MessagesServer, fault, say, think, turn, use

PAGE = (Path(__file__).parents[2] / "docs" / "local-models.md").read_text("utf-8")


def answers(*lacking: str) -> Callable[[dict[str, Any]], Any]:
    """A model behind a server that refuses what is `lacking`."""
    refused = fault("status", status=400, error_type="invalid_request_error", message="this is not supported")

    def answer(body: dict[str, Any]) -> Any:
        text = json.dumps(body)
        asked = {
            "tools": "tools" in body and "tool_result" not in text,
            "tool results": "tool_result" in text,
            "thinking": "thinking" in body,
            "images": '"image"' in text,
            "stream": body.get("stream"),
            "messages": True,
        }
        if any(asked[name] for name in lacking):
            return refused
        if asked["tools"] and "mute tools" not in lacking:
            return use("note_number", number=7)
        return turn(think("Hm."), say("Hello.")) if asked["thinking"] else say("Hello.")

    return answer


def statuses(server: MessagesServer, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)
    found = examine_server(server.url, {"ANTHROPIC_API_KEY": server.api_key})
    return {each.name: each.status for each in found.findings if each.name != "model"}


def test_a_server_that_can_do_everything(
    messages_server: Callable[..., MessagesServer],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = messages_server(answers())
    assert statuses(server, monkeypatch) == {each.title: "ok" for each in ABILITIES.values()}
    assert doctor(["--server", server.url, "--model", "claude-opus-5-5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["findings"][0]["found"] == "claude-opus-5-5"
    assert server.rejected == []


@pytest.mark.parametrize("lacking", [("tools", "tool results"), ("thinking",), ("images",)])
def test_what_a_server_lacks_is_named(
    messages_server: Callable[..., MessagesServer], monkeypatch: pytest.MonkeyPatch, lacking: tuple[str, ...]
) -> None:
    server = messages_server(answers(*lacking))
    wrong = {title for title, status in statuses(server, monkeypatch).items() if status == "warning"}
    assert wrong == {ABILITIES[name].title for name in lacking}


def test_without_answers_or_streams_nothing_works(
    messages_server: Callable[..., MessagesServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert statuses(messages_server(answers("messages")), monkeypatch) == {"Answers": "problem"}
    assert statuses(messages_server(answers("stream")), monkeypatch) == {"Answers": "ok", "Streams": "problem"}
    assert doctor(["--server", "http://127.0.0.1:9", "--model", "m"]) == 1


def test_the_page_says_what_happens_without() -> None:
    rows = [f"| {ability.title} | {ability.without} |" for ability in ABILITIES.values()]
    assert [row for row in rows if row not in PAGE] == []
