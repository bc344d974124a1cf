"""The agents prioritizer and reviewer, over the tools of GitHub's and of GitLab's MCP server, and without either."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.approval import Allow
from cellwright.events import Asked
from cellwright.testing import MessagesServer, say, use
from forked.forked_python import program_in
from project_talk import ProjectTalk

SERVER = Path(__file__).parents[2] / "shared" / "mcp_servers" / "tracker_server.py"


@pytest.fixture
def talk(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[ProjectTalk]:
    made = ProjectTalk(messages_server(), tmp_path)
    made.environ |= {"CELLWRIGHT_MCP_WAIT": "120", "MCP_TIMEOUT": "120000"}
    yield made
    made.end()


def with_tracker(talk: ProjectTalk, name: str) -> None:
    entry = {"command": program_in(os.environ), "args": [str(SERVER), name]}
    talk.answer = Allow()
    # as a user has it who lets agents read without questions
    names = ("list_issues", "issue_read", "pull_request_read", "gitlab_search", "get_merge_request_diffs")
    rules = [f"mcp__{name}__{tool}" for tool in names]
    talk.write(".claude/settings.json", json.dumps({"permissions": {"allow": rules}}))
    talk.write(".claude.json", json.dumps({"mcpServers": {name: entry}}))
    talk.begin()


def hand(kind: str, prompt: str) -> Any:
    return use("Agent", description="a task", prompt=prompt, subagent_type=kind)


def offered(talk: ProjectTalk, words: str) -> set[str]:
    """The tracker's tools that the agent with this task got."""
    bodies = [r.body for r in talk.server.requests if words in json.dumps(r.body["messages"][0])]
    return {tool["name"] for tool in bodies[-1]["tools"] if tool["name"].startswith("mcp__")}


def test_prioritizer_reads_githubs_issues_and_asks_before_it_writes(talk: ProjectTalk) -> None:
    with_tracker(talk, "github")
    where = {"owner": "ana", "repo": "tides"}
    talk.say(
        "Go",
        hand("prioritizer", "Order the issues, label the first urgent."),
        use("mcp__github__list_issues", **where),
        use("mcp__github__issue_read", method="get_comments", issue_number=2, **where),
        use("mcp__github__issue_write", method="update", issue_number=2, labels=["bug", "urgent"], **where),
        say("2 first: lost data."),
        say("Done."),
    )
    (result,) = talk.results
    assert str(result.content).startswith("2 first")
    assert "Lost data twice." in json.dumps([r.body["messages"][-1] for r in talk.server.requests])
    assert [e.tool_use["name"] for e in talk.events if isinstance(e, Asked)] == ["mcp__github__issue_write"]
    assert offered(talk, "Order the issues") == {
        f"mcp__github__{n}" for n in ("list_issues", "issue_read", "issue_write")
    }


def test_reviewer_reads_a_pull_request_and_cannot_merge(talk: ProjectTalk) -> None:
    with_tracker(talk, "github")
    read = use("mcp__github__pull_request_read", method="get_diff", owner="ana", repo="tides", pullNumber=7)
    talk.say("Go", hand("reviewer", "Review it."), read, say("tides.py:1 drops a row."), say("Done."))
    assert "rows[:-1]" in json.dumps([r.body["messages"][-1] for r in talk.server.requests])
    assert offered(talk, "Review it.") == {f"mcp__github__{name}" for name in ("issue_read", "pull_request_read")}


def test_both_work_with_gitlabs_tools(talk: ProjectTalk) -> None:
    with_tracker(talk, "gitlab")
    talk.say(
        "Go",
        hand("prioritizer", "Order them."),
        use("mcp__gitlab__gitlab_search", scope="issues", search="open"),
        say("2 first."),
        hand("reviewer", "Review it."),
        use("mcp__gitlab__get_merge_request_diffs", id="ana/tides", merge_request_iid=7),
        say("It drops a row."),
        say("Done."),
    )
    assert [each.status for each in talk.results] == ["success", "success"]
    both = {"mcp__gitlab__get_issue", "mcp__gitlab__create_workitem_note"}
    assert offered(talk, "Order them.") == both | {"mcp__gitlab__gitlab_search"}
    assert offered(talk, "Review it.") == both | {"mcp__gitlab__get_merge_request_diffs"}


def test_without_a_tracker_they_say_what_is_missing(talk: ProjectTalk) -> None:
    talk.begin()
    talk.say("Go", hand("prioritizer", "Order them."), say("No tracker."))
    (result,) = talk.results
    assert result.status == "error"
    assert "`github` or `gitlab`" in str(result.content)
