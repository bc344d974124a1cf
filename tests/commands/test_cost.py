"""Amounts in what slash commands tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cellwright.commands.command import CommandCall, CommandPage
from cellwright.commands.cost import usd
from cellwright.commands.registry import answer_of, command_of
from cellwright.conversation.core import Host
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.conversation.runs.run_request import RunRequest
from cellwright.features.conversation import Conversation
from cellwright.testing import say
from cellwright.text import dollars


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
        assert stopped.error["message"].startswith("The notebook's")
        assert f"`cellwright.notebookBudget` ({settings})" in stopped.error["message"]
    finally:
        again.close()
    assert len([request for request in server.requests if request.path == "/v1/messages"]) == 1
