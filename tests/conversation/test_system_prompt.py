"""The system prompt is made of the tools and the style that a session begins with, and is the same for the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cellwright.agent.context_usage import prompt_sections
from cellwright.agent.tool import tool
from cellwright.conversation.system_prompt import system_blocks, system_sections
from cellwright.sessions.transcripts.transcript_file import encode_json
from cellwright.testing import MessagesServer, say, think, turn, use
from declared_tools import declared
from talk import Talk


@pytest.fixture
def talk(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[Talk]:
    talk = Talk(messages_server([]), tmp_path)
    yield talk
    talk.close()


def test_tools_are_told_by_what_they_are_best_for() -> None:
    @tool(category="web", best_for="questions about\n our tickets")
    def tickets(query: str) -> str:
        """Search the tickets."""
        return query

    tools = [declared()["Read"], declared()["Bash"], declared()["Edit"], tickets]
    sections = {section.name: section.text for section in system_sections(tools)}
    assert "- Files: Read" in sections["Tools"]
    assert "- Web: tickets for" in sections["Tools"]
    assert "than shell commands" in sections["Tools"]
    assert "Glob" not in sections["Tools"]
    assert "The notebook" not in sections
    assert "The notebook" in {section.name for section in system_sections([declared()["Python"]])}
    assert "Tools" not in {section.name for section in system_sections([])}
    assert system_blocks(tools) == system_blocks(list(tools))


def test_each_section_has_its_tokens() -> None:
    tools = list(declared().values())
    parts = prompt_sections(encode_json(system_blocks(tools, append="Be kind.")))
    names = [section.name or "Introduction" for section in system_sections(tools)]
    assert [part.name for part in parts] == [*names, "Appended"]
    assert all(part.tokens > 0 for part in parts)


def test_a_tool_that_a_rule_takes_away_is_not_recommended(talk: Talk) -> None:
    talk.settings(permissions={"deny": ["Bash"]})
    talk.say("hi")
    assert "Bash" not in talk.system
    assert "for a known" in talk.system


def test_another_system_prompt_goes_on_in_a_fork(talk: Talk) -> None:
    talk.say("hi", append_system_prompt="Be kind.")
    first = talk.conversation.sessions.current.id
    assert [block["text"] for block in talk.body()["system"]][1:] == ["Be kind."]
    talk.say("again", append_system_prompt="Be kind.")
    # other tools make ours different; what the user appends is the same
    talk.settings(permissions={"deny": ["Bash"]})
    talk.say("again", append_system_prompt="Be kind.")
    assert talk.conversation.sessions.current.id == first
    talk.say("again", append_system_prompt="Be brief.")
    assert talk.conversation.sessions.current.id != first
    assert any("prompt has changed" in notice for notice in talk.notices)
    talk.say("again", system_prompt="You are a poet.")
    assert talk.system == "You are a poet."
    assert not talk.server.rejected


def test_opus_plans_and_sonnet_does(talk: Talk) -> None:
    talk.settings(model="opusplan")
    talk.say(
        "plan it",
        use("ExitPlanMode", plan="# Do it"),
        use("Write", file_path="a.txt", content="a\n"),
        say("done"),
        mode="plan",
    )
    models = [request.body["model"] for request in talk.server.requests]
    assert models[0] == "claude-opus-5-5"
    assert set(models[1:]) == {"claude-sonnet-5-5"}
    assert (talk.project / "a.txt").exists()
    assert not talk.server.rejected


@pytest.mark.parametrize(
    ("settings", "environ", "budget"),
    [
        ({}, {}, None),
        ({"alwaysThinkingEnabled": True}, {}, 16_000),
        ({}, {"MAX_THINKING_TOKENS": "5000"}, 5_000),
        ({"alwaysThinkingEnabled": False}, {"MAX_THINKING_TOKENS": "2000"}, 2_000),
        # no more than an answer may have, and no less than the API takes
        ({}, {"MAX_THINKING_TOKENS": "900000"}, 31_999),
        ({}, {"MAX_THINKING_TOKENS": "10"}, None),
    ],
)
def test_models_that_want_a_budget_think_with_one(
    messages_server: Callable[..., MessagesServer],
    tmp_path: Path,
    settings: dict[str, bool],
    environ: dict[str, str],
    budget: int | None,
) -> None:
    talk = Talk(messages_server([]), tmp_path, **environ)
    talk.settings(model="claude-haiku-4-5", **settings)
    end = talk.say("hi", use("Glob", pattern="*"), say("done"))
    assert end.error is None
    fields = [request.body.get("thinking") for request in talk.server.requests]
    expected = None if budget is None else {"type": "enabled", "budget_tokens": budget}
    # the turn began with a call and no thinking: behind it none may begin
    assert fields == [expected, None]
    assert not talk.server.rejected
    talk.close()


def test_a_turn_that_began_with_thinking_goes_on_with_it(talk: Talk) -> None:
    talk.settings(model="claude-haiku-4-5", alwaysThinkingEnabled=True)
    end = talk.say("hi", turn(think("A look."), use("Glob", pattern="*")), say("done"))
    assert end.error is None
    assert [request.body["thinking"]["type"] for request in talk.server.requests] == ["enabled", "enabled"]
    assert not talk.server.rejected
