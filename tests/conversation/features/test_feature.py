"""A feature that a host brings along takes part in each run, by what it overrides and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from cellwright.agent.prompt import ContextItems, ContextProvider, PromptContext, text_context
from cellwright.agent.tool import Tool, tool
from cellwright.conversation.core import Host
from cellwright.conversation.features.feature import Feature, RunInfo
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.conversation.runs.run_request import RunRequest, RunSurface
from cellwright.features.conversation import Conversation
from cellwright.testing import MessagesServer, say, turn, use


@tool(read_only=True)
def tide() -> str:
    "How high the water stands."
    return "3 m"


class Tides(Feature):
    """Tells of the sea with each prompt, offers a tool, and notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def tools(self, options: RunOptions) -> Sequence[Tool]:
        return [tide]

    def notices(self, run: RunInfo) -> Sequence[str]:
        return ["The sea is rough."]

    def context(self, run: RunInfo, prompt: PromptContext) -> ContextProvider:
        return lambda _prompt: ContextItems(before=(text_context("Sea", "context", "<sea>rough</sea>"),))

    async def answered(self, answer: str, *_rest: object) -> Sequence[object]:
        self.heard.append(answer)
        return []

    async def close(self) -> None:
        self.heard.append("closed")

    @property
    def is_open(self) -> bool:
        return True


@pytest.fixture
def server(messages_server: Callable[..., MessagesServer]) -> MessagesServer:
    return messages_server([turn(use("tide")), say("Three metres.")])


@pytest.fixture
def tides() -> Tides:
    return Tides()


@pytest.fixture
def conversation(server: MessagesServer, tides: Tides, tmp_path: Path, own_place: Path) -> Iterator[Conversation]:
    environ = {"HOME": str(own_place), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
    host = Host(cwd=tmp_path, interface="a test", environ=environ, features=lambda _in_force: [tides])
    made = Conversation(host)
    yield made
    made.close()


def test_a_hosts_feature_takes_part_by_what_it_overrides(
    conversation: Conversation, server: MessagesServer, tides: Tides
) -> None:
    events: list[object] = []
    conversation.jobs.work_until_done(conversation.start(RunRequest(prompt="How high?"), RunSurface(events.append)))
    first, second = (request.body for request in server.requests)
    assert "tide" in [each["name"] for each in first["tools"]]
    assert "<sea>rough</sea>" in [block["text"] for block in first["messages"][0]["content"]]
    assert second["messages"][-1]["content"][0]["content"] == "3 m"
    assert "The sea is rough." in [getattr(event, "message", "") for event in events]
    assert tides.heard == ["Three metres."]
    conversation.close()
    assert tides.heard == ["Three metres.", "closed"]
