"""`/numbers`: where the numbers of the last answer were seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cellwright.commands.command import CommandCall, CommandPage
from cellwright.commands.registry import answer_of, command_of
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.features.conversation import Conversation
from cellwright.testing import say, use


def numbers_of(conversation: Conversation) -> CommandPage:
    command, text = command_of("/numbers")
    return conversation.thread.submit(answer_of(command, CommandCall(conversation, RunOptions(), text))).future.result(
        60
    )


def test_the_last_answers_numbers_with_their_sources(messages_server: Any, tmp_path: Path, own_place: Path) -> None:
    (tmp_path / "churn.txt").write_text("customers 7043\nchurn_rate 0.26536\n")
    server = messages_server(
        [use("Read", file_path=str(tmp_path / "churn.txt")), say("Of 7,043 customers 26.5 % left, 31.8 % in 2019.")]
    )
    environ = {"HOME": str(own_place), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
    conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ))
    try:
        assert "no numbers" in numbers_of(conversation).plain()
        conversation.start(RunRequest(prompt="How many left?"), RunSurface()).future.result(60)
        [section] = numbers_of(conversation).sections
    finally:
        conversation.close()
    assert [row[0] for row in section.rows[1:]] == ["7,043", "26.5 %", "31.8 %"]
    assert ["churn.txt" in row[1] for row in section.rows[1:]] == [True, True, False]
    assert section.text.startswith("3 numbers · 2 with")


def test_numbers_whose_file_changed_since_are_stale(messages_server: Any, tmp_path: Path, own_place: Path) -> None:
    (tmp_path / "churn.txt").write_text("customers 7043\nchurn_rate 0.26536\n")
    server = messages_server(
        [use("Read", file_path=str(tmp_path / "churn.txt")), say("Of 7,043 customers 26.5 % left, 31.8 % in 2019.")]
    )
    environ = {"HOME": str(own_place), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
    conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ))
    try:
        conversation.start(RunRequest(prompt="How many left?"), RunSurface()).future.result(60)
        (tmp_path / "churn.txt").write_text("customers 7043\nchurn_rate 0.31\n")
        _, stale = numbers_of(conversation).sections
    finally:
        conversation.close()
    assert [(row[0], "0.31 now" in row[1]) for row in stale.rows[1:]] == [("26.5 %", True)]


def test_names_that_nothing_has_and_statements_about_tests(
    messages_server: Any, tmp_path: Path, own_place: Path
) -> None:
    (tmp_path / "churn.csv").write_text("customers,churn_rate\n7043,0.26536\n")
    answer = "The column `churn_rate` of `churn.csv` is a share, the column `churn_prob` a forecast. All tests pass."
    server = messages_server([use("Read", file_path=str(tmp_path / "churn.csv")), say(answer)])
    environ = {"HOME": str(own_place), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
    conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ))
    try:
        conversation.start(RunRequest(prompt="What is in it?"), RunSurface()).future.result(60)
        _, names, tests = numbers_of(conversation).sections
    finally:
        conversation.close()
    assert [row[0] for row in names.rows[1:]] == ["churn_prob"]
    assert [row[0] for row in tests.rows[1:]] == ["All tests pass"]
