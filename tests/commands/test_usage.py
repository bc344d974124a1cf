"""Amounts in what slash commands tell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.context_usage import ContextContents, context_parts
from cellwright.commands.command import CommandCall, CommandPage
from cellwright.commands.registry import answer_of, command_of
from cellwright.commands.usage import BAR_CHARS, usd
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.features.conversation import Conversation
from cellwright.sessions.session import Session
from cellwright.testing import say
from cellwright.text import dollars
from eventual import paces


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (0, "$0.00"),
        (0.00003, "under $0.0001"),
        (0.0321, "$0.032"),
        (12.3456, "$12.35"),
        (None, "not known: a model's price is missing"),
    ],
)
def test_small_amounts_can_be_told_apart(amount: float | None, words: str) -> None:
    assert usd(amount) == words


def test_budgets_stand_beside_what_is_spent_and_stop_the_next_run(
    messages_server: Any, tmp_path: Path, own_place: Path
) -> None:
    server = messages_server([say("It is the tide."), say("never asked")])
    notebook = tmp_path / "tides.ipynb"
    (own_place / ".claude").mkdir(parents=True, exist_ok=True)
    settings = own_place / ".claude" / "settings.json"
    budgets = {"sessionBudget": 3, "notebookBudget": 2.5, "dailyBudget": 2}
    settings.write_text(json.dumps({"cellwright": budgets}))
    environ = {"HOME": str(own_place), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}

    def conversation() -> Conversation:
        return Conversation(Host(cwd=tmp_path, interface="a test", environ=environ, notebook=lambda: notebook))

    def page(made: Conversation) -> CommandPage:
        command, text = command_of("/cost")
        return made.thread.submit(answer_of(command, CommandCall(made, RunOptions(), text))).future.result(60)

    def cost(made: Conversation) -> dict[str, str]:
        return dict(page(made).sections[0].rows)

    made = conversation()
    try:
        assert [section.title for section in page(made).sections] == ["Cost"], "no tokens before anything was said"
        end = made.start(RunRequest(prompt="Why does the water rise?"), RunSurface()).future.result(60)
        rows = cost(made)
        spent = dollars(end.cost_usd)
        assert rows["the session may cost"] == "$3.00"
        assert rows["from tides.ipynb, all sessions"] == f"{spent} of $2.50"
        assert rows["today, all kernels and terminals"] == f"{spent} of $2.00"
    finally:
        made.close()
    settings.write_text(json.dumps({"cellwright": {**budgets, "notebookBudget": end.cost_usd + 0.0001}}))
    again = conversation()  # another process would know as well
    try:
        assert cost(again)["today, all kernels and terminals"] == f"{spent} of $2.00"
        stopped = again.start(RunRequest(prompt="And why does it fall?"), RunSurface()).future.result(60)
        assert stopped.error["message"].startswith("The notebook's budget of $")
        assert f"`cellwright.notebookBudget` ({settings})" in stopped.error["message"]
    finally:
        again.close()
    assert len([request for request in server.requests if request.path == "/v1/messages"]) == 1


@pytest.fixture
def api(messages_server: Any) -> Any:
    return messages_server([say("It is the tide.")])


@pytest.fixture
def conversation(api: Any, tmp_path: Path, own_place: Path) -> Iterator[Conversation]:
    server = api
    environ = {"HOME": str(own_place), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
    made = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ))
    yield made
    made.close()


def context_of(conversation: Conversation) -> CommandPage:
    command, text = command_of("/context")
    call = CommandCall(conversation, RunOptions(), text)
    return conversation.thread.submit(answer_of(command, call)).future.result(60)


def test_an_empty_conversation_says_so(conversation: Conversation) -> None:
    assert "empty" in context_of(conversation).plain()


def test_it_shows_each_part_with_a_bar_and_the_sum_is_the_apis(conversation: Conversation, api: Any) -> None:
    conversation.start(RunRequest(prompt="Why does the water rise?"), RunSurface()).future.result(60)
    page = context_of(conversation)
    section, tools, prompt = page.sections
    rows = {name: (int(tokens.replace(",", "")), bar) for name, tokens, _, bar in section.rows[1:]}
    shares = {name: share for name, _, share, _ in section.rows[1:]}
    assert {"System prompt", "Tools", "Your messages", "Claude's messages", "Free"} <= set(rows)
    used = sum(tokens for name, (tokens, _) in rows.items() if name != "Free")
    assert [request.action for request in api.all_requests if request.action != "model"] == ["messages", "count_tokens"]
    asked, counted = (request.body for request in api.all_requests if request.action in ("messages", "count_tokens"))
    assert (counted["system"], counted["tools"]) == (asked["system"], asked["tools"])
    # the answer has no other place to be counted in, and the prompt to come takes a token or two
    assert 0 <= used - conversation.sessions.current.context_tokens < 50
    assert f"{used:,} tokens of 1,000,000" in section.text
    assert "by the API" in section.text
    assert used + rows["Free"][0] == 1_000_000
    assert all(len(bar) <= 20 for _, bar in rows.values())
    assert abs(sum(float(share.strip("<%")) for share in shares.values() if share) - 100) < 1, shares
    assert "█" in page.plain(80)
    assert not set("█▏▎▍▌▋▊▉") & set(page.plain(40)), "bars are for a table that has room for them"
    most = max(rows, key=lambda name: 0 if name == "Free" else rows[name][0])
    assert rows[most][1] == "█" * BAR_CHARS
    assert rows["Free"][1] == ""
    assert all(bar for name, (tokens, bar) in rows.items() if tokens and name != "Free")
    assert "| Your messages |" in page.markdown()
    told = {name: int(tokens.replace(",", "")) for name, tokens, _ in tools.rows[1:]}
    assert 100 < told["Bash"] < 1_000
    assert f"About {sum(told.values()):,} tokens" in tools.text
    assert {"Introduction", "How to work", "Tools", "How to answer"} <= {name for name, *_ in prompt.rows}


def test_without_an_answer_in_time_the_numbers_are_marked_as_estimates(conversation: Conversation, api: Any) -> None:
    conversation.start(RunRequest(prompt="Why does the water rise?"), RunSurface()).future.result(60)
    api.stop()
    section, *_ = context_of(conversation).sections
    assert f"About {conversation.sessions.current.context_tokens:,} tokens" in section.text
    assert "numbers are estimates" in section.text


def long_session(cwd: Path) -> Session:
    session = Session.create(cwd, None)
    session.begin(model="claude-opus-5-5", system=[{"type": "text", "text": "s" * 4_000}], tools=[])
    for turn in range(500):
        call = {"type": "tool_use", "id": f"t{turn}", "name": "Read", "input": {"file_path": "a.py"}}
        result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": "line of a file\n" * 200}
        session.append({"role": "user", "content": f"question {turn} " * 20})
        session.append({"role": "assistant", "content": [{"type": "text", "text": "I look. " * 30}, call]})
        session.append({"role": "user", "content": [result]})
        session.append({"role": "assistant", "content": [{"type": "text", "text": "An answer. " * 60}]})
    return session


def test_a_long_session_is_measured_in_the_time_of_a_few_frames(tmp_path: Path) -> None:
    contents = ContextContents.of(long_session(tmp_path))
    assert {part.name for part in context_parts(contents)} == {"system", "words", "answers", "results"}
    assert paces(lambda: context_parts(contents), 40) < 40
