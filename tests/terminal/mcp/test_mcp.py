"""`cellwright mcp`, and servers of the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cellwright.errors import CellwrightError
from cellwright.terminal.subcommands.extensions import mcp
from cellwright.testing import MessagesServer, say, use

SERVER = Path(__file__).parents[2] / "shared" / "mcp_servers" / "plain_server.py"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert mcp(words) == 0
    return capsys.readouterr().out


def test_servers_are_added_listed_shown_and_removed_in_claude_codes_files(
    project: Path, own_place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = own_place / ".claude.json"
    own.write_text('{"numStartups": 3}', "utf-8")
    said(capsys, "add", "here", "-e", "A_KEY=secret", "--", "uvx", "server", "--flag")
    said(capsys, "add", "--scope", "user", "-t", "http", "-H", "X-Key: 1:2", "far", "https://example.com/mcp")
    said(capsys, "add-json", "-s", "project", "shared", '{"command": "node", "args": ["x.js"]}')
    content = json.loads(own.read_text("utf-8"))
    assert content["numStartups"] == 3
    here = {"type": "stdio", "command": "uvx", "args": ["server", "--flag"], "env": {"A_KEY": "secret"}}
    assert content["projects"][str(project)]["mcpServers"] == {"here": here}
    far = {"type": "http", "url": "https://example.com/mcp", "headers": {"X-Key": "1:2"}}
    assert content["mcpServers"] == {"far": far}
    listed = said(capsys, "list")
    assert "here: uvx server --flag (stdio, local)" in listed
    assert "far: https://example.com/mcp (http, user)" in listed
    assert "shared: node x.js (stdio, project) - waits for your approval" in listed
    shown = said(capsys, "get", "here")
    assert "variables: A_KEY" in shown
    assert "secret" not in shown
    assert "runs: node x.js" in said(capsys, "approve", "shared")
    rows = {row["name"]: row for row in json.loads(said(capsys, "list", "--json"))}
    assert rows["shared"]["problem"] == ""
    for name in ("here", "far", "shared"):
        said(capsys, "remove", name)
    assert json.loads((project / ".mcp.json").read_text("utf-8")) == {"mcpServers": {}}
    assert "No MCP servers" in said(capsys, "list")


WRONG = [
    (["add", "x", "https://example.com"], "say --transport http"),
    (["add", "-t", "http", "x", "file:///etc/passwd"], "not an http or https address"),
    (["add", "-e", "nonsense", "x", "uvx"], "--env takes NAME=VALUE"),
    (["add-json", "x", "{"], "is not valid JSON"),
    (["add-json", "x", "{}"], "neither a `command` nor a `url`"),
    (["remove", "x"], "MCP server x was not found"),
    (["approve", "x"], "No MCP server x waits"),
]


@pytest.mark.parametrize(("words", "told"), WRONG)
def test_what_is_wrong_is_said_and_changes_nothing(project: Path, own_place: Path, words: list[str], told: str) -> None:
    with pytest.raises(CellwrightError, match=told):
        mcp(words)
    assert not (own_place / ".claude.json").exists()
    assert not (project / ".mcp.json").exists()


def test_servers_of_the_command_line_count_alone_where_it_is_strict(
    messages_server: Callable[..., MessagesServer], command_for: Callable[..., Any], own_place: Path
) -> None:
    other = {"mcpServers": {"other": {"command": sys.executable, "args": [str(SERVER)]}}}
    (own_place / ".claude.json").write_text(json.dumps(other), "utf-8")
    given = json.dumps({"mcpServers": {"plain": {"command": sys.executable, "args": [str(SERVER)]}}})
    name = "mcp__plain__add"
    server = messages_server([use(name, a=20, b=22), say("42")])
    words = ("--mcp-config", given, "--strict-mcp-config", "--allowed-tools", "mcp__plain", "-p", "add")
    variables = {"MCP_TIMEOUT": "120000", "CELLWRIGHT_MCP_WAIT": "120"}
    done = command_for(server).run(*words, **variables)
    assert done.returncode == 0, done.stderr
    tools = [tool["name"] for tool in server.requests[0].body["tools"]]
    assert name in tools
    assert not [tool for tool in tools if tool.startswith("mcp__other")]
    assert server.requests[1].last_user_text == "42"
