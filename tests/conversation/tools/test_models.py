"""A model of another maker with a small window: it is told of fewer tools, and the footer names it without its path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import cellwright
from cellwright.model.models import model_shown
from cellwright.testing import MessagesServer, say
from declared_tools import declared


@pytest.mark.parametrize(
    ("model", "window", "few"),
    [("qwen3-coder", 32_000, True), ("qwen3-coder", 64_000, False), ("claude-opus-5-5", 32_000, False)],
)
def test_few_tools_are_told(
    messages_server: Callable[..., MessagesServer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    window: int,
    few: bool,
) -> None:
    server = messages_server([say("Hello.")])
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)

    @cellwright.tool(read_only=True)
    def mine() -> str:
        """A tool of the program."""
        return ""

    settings = {"env": {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": str(window)}}
    with cellwright.Agent(cwd=tmp_path, session=None, model=model, settings=settings, tools=[mine]) as agent:
        try:
            agent.ask("Hi")
        except cellwright.RunError:
            assert not model.startswith("claude")  # the strict server knows Claude alone
    told = {tool["name"] for tool in server.requests[0].body["tools"]}
    assert "mine" in told
    everyday = {name for name, tool in declared().items() if tool.everyday}
    assert (told - {"mine"} <= everyday) is few


def test_a_path_is_no_name_to_show() -> None:
    assert model_shown("claude-opus-5-5", "/root/models/smollm2-135m-instruct.gguf") == "smollm2-135m-instruct"
    assert model_shown("C:\\models\\a.gguf", "") == "a"
    assert model_shown("meta-llama/Llama-3", "meta-llama/Llama-3") == "meta-llama/Llama-3"
