"""The examples of docs/examples, each played: what they promise is what happens."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.commands.command import CommandCall
from cellwright.commands.registry import answer_of, command_of
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.events import Event, ToolEnd
from cellwright.features.conversation import Conversation
from cellwright.testing import MessagesServer, say, use

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


class Talk:
    """A conversation in a project that holds an example; its user says yes to whatever comes with it."""

    def __init__(self, server: MessagesServer, root: Path) -> None:
        self.server = server
        self.project = root / "home" / "project"
        (self.project / ".git").mkdir(parents=True)
        self.events: list[Event] = []
        self.environ = {
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": server.api_key,
            "HOME": str(self.project.parent),
            "PATH": os.environ["PATH"],
            "ENABLE_TOOL_SEARCH": "true",
        }

    def begin(self, example: str = "") -> None:
        if example:
            shutil.copytree(EXAMPLES / example, self.project, dirs_exist_ok=True)
        self.conversation = Conversation(Host(cwd=self.project, interface="a test", environ=self.environ))
        for check in (self.conversation.in_force, self.conversation.features.mcp):
            while (question := check.question()) is not None:
                check.answer(question, yes=True)

    async def ask_user(self, _question: ToolUse) -> Allow | Deny:
        return Allow(by="widget")

    def command(self, text: str) -> str:
        command, words = command_of(text)
        call = CommandCall(self.conversation, RunOptions(), words, self.events.append, self.ask_user)
        return self.conversation.thread.submit(answer_of(command, call)).future.result().plain()

    def say(self, prompt: str, *turns: Any) -> str:
        """Send a prompt; gives the messages of the last request."""
        self.server.add(*turns or (say("Good."),))
        self.events.clear()
        options = RunOptions(allow=("Write", "Read", "NotebookRead", "mcp__tides"))
        run = self.conversation.start(RunRequest(prompt=prompt, options=options), RunSurface(self.events.append))
        self.conversation.jobs.work_until_done(run)
        assert run.result().error is None
        return json.dumps(self.server.requests[-1].body["messages"])

    @property
    def results(self) -> list[ToolEnd]:
        return [event for event in self.events if isinstance(event, ToolEnd)]


@pytest.fixture
def talk(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[Talk]:
    made = Talk(messages_server(), tmp_path)
    yield made
    made.conversation.close()
    assert made.server.rejected == []


def test_the_hook_keeps_raw_data_as_it_is(talk: Talk) -> None:
    talk.begin("hook")
    raw, clean = talk.project / "data" / "raw" / "a.csv", talk.project / "data" / "clean" / "a.csv"
    for folder in (raw.parent, clean.parent):
        folder.mkdir(parents=True)
    calls = (use("Write", file_path=str(raw), content="x"), use("Write", file_path=str(clean), content="x"))
    talk.say("Write.", *calls, say("Done."))
    refused, written = talk.results
    assert (refused.status, written.status) == ("denied", "success")
    assert "stays as it is" in str(refused.content)
    assert not raw.exists()


def test_the_skill_is_called_with_a_file(talk: Talk) -> None:
    talk.begin("skill")
    told = talk.say("/describe-table tides.csv")
    assert "Describe the table tides.csv" in told
    assert (talk.project / ".claude" / "skills" / "describe-table" / "checklist.md").is_file()
    assert talk.conversation.features.skills.all()["describe-table"].problems == ()


def test_the_agent_checks_and_keeps_notes(talk: Talk) -> None:
    talk.begin("agent")
    call = use("Agent", description="check", prompt="Check data/raw.", subagent_type="data-checker")
    talk.say("@agent-data-checker check data/raw", call, say("No rows."), say("It found no rows."))
    worked = talk.server.requests[-2].body
    assert "You check data sets" in worked["system"][0]["text"]
    assert str(talk.project / ".claude" / "agent-memory" / "data-checker") in json.dumps(worked["messages"])
    assert talk.conversation.features.agents.found().agents["data-checker"].problems == ()


def test_the_server_has_a_tool_a_resource_and_a_prompt(talk: Talk) -> None:
    talk.environ |= {"PYTHON": sys.executable, "CELLWRIGHT_MCP_WAIT": "120", "MCP_TIMEOUT": "120000"}
    talk.begin("mcp")
    load = use("ToolSearch", query="select:mcp__tides__high_water")
    call, wrong = (use("mcp__tides__high_water", harbour=name) for name in ("Brest", "Bern"))
    told = talk.say("Go. @tides:tides://harbours", load, call, wrong, say("04:12."))
    assert "High water of Brest and Dover" in told
    assert "Brest\\nDover" in told
    assert "16:41" in str(talk.results[-2].content)
    assert "There is no Bern. There are: Brest, Dover." in str(talk.results[-1].content)
    assert "When should I leave Dover today?" in talk.say("/mcp__tides__plan_trip Dover")


def test_the_plugin_is_installed_from_its_marketplace(talk: Talk) -> None:
    talk.begin()
    talk.command(f"/plugin marketplace add {EXAMPLES / 'plugin'}")
    installed = talk.command("/plugin install notebook-habits")
    assert "installed and switched on" in installed
    assert "runs from top to bottom" in talk.say("/notebook-habits:tidy")
    found = talk.say("/notebook-habits:what-changed notebooks")
    assert "below notebooks since" in found
    cells = [{"cell_type": "code", "execution_count": n, "source": "", "metadata": {}, "outputs": []} for n in (2, 1)]
    file = talk.project / "a.ipynb"
    file.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    told = talk.say("Read it.", use("NotebookRead", notebook_path=str(file)), say("Read."))
    assert "cells were run out of order: [1]" in told
    call = use("Agent", description="read", prompt="Read a.ipynb.", subagent_type="notebook-habits:reader")
    talk.say("Have it read.", call, say("I was lost in cell 1."), say("It was lost."))
    assert "for the first time" in talk.server.requests[-2].body["system"][0]["text"]
