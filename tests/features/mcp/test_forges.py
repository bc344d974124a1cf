"""The page on GitHub and GitLab, as it is written: its entries, commands and rules, against a server like GitHub's."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.approval import Allow, ToolUse
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import Run, RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.events import Asked, Notice
from cellwright.terminal.subcommands.extensions import mcp
from cellwright.testing import MessagesServer, say, use
from mcp_servers.github_server import GitHubServer, github_server
from project_talk import ProjectTalk

PAGE = (Path(__file__).parents[3] / "docs/mcp-github-gitlab.md").read_text("utf-8")
REMOTE = "https://api.githubcopilot.com/mcp/"
TOKEN = "github_pat_11AAAAAAA0abcdefghijklmnopqrstuvwxyz"
WHERE = {"owner": "ana", "repo": "tides"}
PULL_REQUEST = {"title": "Keep the last row", "body": "Closes #2", "head": "fix/last-row", "base": "main", **WHERE}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}[^\n]*\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


ENTRIES = [json.loads(text) for text in blocks("json")]
REMOTE_ENTRY, LOCAL_ENTRY, RULES, HELPED_ENTRY = ENTRIES


class Talk(ProjectTalk):
    """`servers` are the questions about servers, which are allowed; what else Claude wants is answered with `answer`."""

    def __init__(self, server: MessagesServer, root: Path) -> None:
        super().__init__(server, root)
        self.servers: list[ToolUse] = []
        self.environ |= {"ENABLE_TOOL_SEARCH": "false", "CELLWRIGHT_MCP_WAIT": "120", "MCP_TIMEOUT": "120000"}

    def start(self, prompt: str, *turns: Any, **options: Any) -> Run:
        self.server.add(*turns)
        self.events.clear()
        surface = RunSurface(self.events.append, self._can_use_tool, self._let_run)
        return self.conversation.start(RunRequest(prompt=prompt, options=RunOptions(**options)), surface)

    async def _let_run(self, use: ToolUse) -> Allow:
        self.servers.append(use)
        return Allow(by="terminal")

    @property
    def declared(self) -> set[str]:
        return {tool["name"] for tool in self.server.requests[-1].body["tools"] if tool["name"].startswith("mcp__")}


@pytest.fixture
def github() -> Iterator[GitHubServer]:
    with github_server(TOKEN) as made:
        yield made


@pytest.fixture
def talk(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[Talk]:
    made = Talk(messages_server(), tmp_path)
    made.write(".claude/settings.json", json.dumps(RULES))
    yield made
    made.end()


def at(server: GitHubServer, entry: Any) -> str:
    """An entry of the page, with the stand-in's address for GitHub's and nothing else changed."""
    text = json.dumps(entry)
    assert REMOTE in text
    return text.replace(REMOTE, server.url)


def test_the_projects_entry_reads_with_the_users_token_and_offers_nothing_that_writes(
    talk: Talk, github: GitHubServer
) -> None:
    talk.write("project/.mcp.json", at(github, REMOTE_ENTRY))
    talk.environ["GITHUB_TOKEN"] = TOKEN
    talk.begin()
    talk.say("Go", use("mcp__github__issue_read", method="get", issue_number=2, **WHERE), say("It loses a row."))
    (asked,) = talk.servers
    assert asked.preview is not None
    assert "your GITHUB_TOKEN" in asked.preview.warning
    assert TOKEN not in str(asked.preview)
    assert talk.asked == []
    assert "the last row" in str(talk.results[-1].content)
    assert talk.declared == {"mcp__github__issue_read", "mcp__github__get_file_contents"}
    assert {headers["x-mcp-toolsets"] for headers in github.headers} == {"issues,pull_requests,repos"}
    assert TOKEN not in json.dumps([request.body for request in talk.server.requests])


def test_from_the_issue_to_the_pull_request_what_writes_asks_and_merging_is_not_offered(
    talk: Talk, github: GitHubServer
) -> None:
    entry = json.loads(json.dumps(REMOTE_ENTRY))
    del entry["mcpServers"]["github"]["headers"]["X-MCP-Readonly"]  # "Leave it out once you want pull requests"
    talk.write("project/.mcp.json", at(github, entry))
    talk.environ["GITHUB_TOKEN"] = TOKEN
    talk.answer = Allow()
    talk.begin()
    talk.say(
        "Fix #2",
        use("mcp__github__issue_read", method="get", issue_number=2, **WHERE),
        use("mcp__github__get_file_contents", path="tides.py", **WHERE),
        use("mcp__github__create_pull_request", **PULL_REQUEST),
        say("Opened."),
    )
    asked = [event.tool_use["name"] for event in talk.events if isinstance(event, Asked)]
    assert asked == ["Trust", "mcp__github__create_pull_request"]
    assert [opened["body"] for opened in github.opened] == ["Closes #2"]
    assert "mcp__github__merge_pull_request" not in talk.declared


def test_the_command_writes_the_variables_name_and_no_token(
    talk: Talk, github: GitHubServer, own_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    monkeypatch.chdir(talk.project)
    for line in blocks("sh"):
        program, subcommand, *words = shlex.split(line)
        assert (program, subcommand) == ("cellwright", "mcp")
        assert mcp(words) == 0
    written = (own_place / ".claude.json").read_text("utf-8")
    assert TOKEN not in written
    servers = json.loads(written)["mcpServers"]
    assert servers["github"]["headers"]["Authorization"] == "Bearer ${GITHUB_TOKEN}"
    assert servers["gitlab"] == {"type": "http", "url": "https://gitlab.com/api/v4/mcp"}
    assert (servers["glab"]["command"], servers["glab"]["args"]) == ("glab", ["mcp", "serve"])
    talk.write(".claude.json", at(github, {"mcpServers": {"github": servers["github"]}}))
    talk.environ["GITHUB_TOKEN"] = TOKEN
    talk.begin()
    talk.say("Go", use("mcp__github__issue_read", method="get", issue_number=2, **WHERE), say("Read."))
    assert talk.servers == [], "your own servers start without a question"
    assert "the last row" in str(talk.results[-1].content)


def test_a_header_by_a_command_needs_no_variable(talk: Talk, github: GitHubServer, tmp_path: Path) -> None:
    signed_in = tmp_path / "bin/gh"
    signed_in.parent.mkdir()
    signed_in.write_text(f'#!/bin/sh\n[ "$*" = "auth token" ] && echo {TOKEN}\n', "utf-8")
    signed_in.chmod(0o755)
    talk.environ["PATH"] = f"{signed_in.parent}:{talk.environ['PATH']}"
    talk.write(".claude.json", at(github, HELPED_ENTRY))
    talk.begin()
    talk.say("Go", use("mcp__github__issue_read", method="get", issue_number=2, **WHERE), say("Read."))
    assert "the last row" in str(talk.results[-1].content)


@pytest.mark.parametrize("token", [None, "another"])
def test_without_the_right_token_the_reason_is_said(talk: Talk, github: GitHubServer, token: str | None) -> None:
    talk.write(".claude.json", at(github, REMOTE_ENTRY))
    if token is not None:
        talk.environ["GITHUB_TOKEN"] = token
    talk.begin()
    talk.say("Go", say("Without it."))
    notices = "\n".join(event.message for event in talk.events if isinstance(event, Notice))
    assert ("401" if token else "GITHUB_TOKEN") in notices
    assert talk.declared == set()


def test_the_local_server_gets_the_token_by_its_environment() -> None:
    entry = LOCAL_ENTRY["mcpServers"]["github"]
    assert entry["env"]["GITHUB_PERSONAL_ACCESS_TOKEN"] == "${GITHUB_TOKEN}"
    passed = {name for flag, name in zip(entry["args"], entry["args"][1:], strict=False) if flag == "-e"}
    assert passed == set(entry["env"])
