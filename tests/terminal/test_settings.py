"""Claude Code's settings that mean something here, each seen by what the model is asked, or by what a file holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pexpect import EOF

from cellwright.testing import MessagesServer, fault, say, use

Server = Callable[..., MessagesServer]
For = Callable[[MessagesServer | None], Any]

OVERLOADED = fault("status", status=529, error_type="overloaded_error", retry_after_ms=1)
LIMITED = fault("status", status=429, error_type="rate_limit_error", retry_after_ms=1)
GONE = fault("status", status=404, error_type="not_found_error", message="model: claude-opus-5-5")


def users(own_place: Path, **content: Any) -> None:
    (own_place / ".claude").mkdir(exist_ok=True)
    (own_place / ".claude" / "settings.json").write_text(json.dumps(content), "utf-8")


def models(server: MessagesServer) -> list[str]:
    return [str(request.body["model"]) for request in server.requests]


@pytest.mark.parametrize(
    ("script", "asked"),
    [
        ([OVERLOADED, OVERLOADED, OVERLOADED, say("Done.")], ["opus"] * 3 + ["sonnet"]),
        ([GONE, say("Done.")], ["opus", "sonnet"]),
        ([GONE, GONE, say("Done.")], ["opus", "sonnet", "haiku"]),
        # the whole run is the other model's, the next begins with its own
        ([GONE, use("Glob", pattern="*"), say("Done.")], ["opus", "sonnet", "sonnet"]),
    ],
)
def test_another_model_takes_over_for_the_rest_of_the_prompt(
    messages_server: Server, command_for: For, own_place: Path, script: list[Any], asked: list[str]
) -> None:
    users(own_place, fallbackModel=["sonnet", "haiku"])
    server = messages_server([*script, say("Next.")])
    command = command_for(server)
    done = command.run("go", CELLWRIGHT_MAX_RETRIES="5")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert "continues with this prompt" in done.stderr
    assert models(server) == [f"claude-{name}-5-5" for name in asked]
    command.run("--continue", "and now")
    assert models(server)[-1] == "claude-opus-5-5"
    assert server.rejected == []


@pytest.mark.parametrize("script", [[LIMITED] * 3, [fault("status", status=401, error_type="authentication_error")]])
def test_no_other_model_is_asked_for_a_limit_or_a_key(
    messages_server: Server, command_for: For, own_place: Path, script: list[Any]
) -> None:
    users(own_place, fallbackModel=["sonnet"])
    server = messages_server([*script, say("Done.")])
    assert command_for(server).run("go").returncode != 0
    assert set(models(server)) == {"claude-opus-5-5"}


def test_a_fallback_that_is_excluded_is_passed_over(messages_server: Server, command_for: For, own_place: Path) -> None:
    users(own_place, fallbackModel=["sonnet", "haiku"], deniedModels=["sonnet"])
    server = messages_server([GONE, say("Done.")])
    assert command_for(server).run("go").stdout == "Done.\n"
    assert models(server) == ["claude-opus-5-5", "claude-haiku-5-5"]


@pytest.mark.parametrize(
    ("settings", "arguments", "effort"),
    [
        ({"maxEffortLevel": "medium"}, ["--effort", "max"], "medium"),
        ({"maxEffortLevel": "medium", "effortLevel": "low"}, [], "low"),
        ({"maxEffortLevel": "medium"}, [], "medium"),
        ({"maxEffortLevel": "max"}, [], None),
    ],
)
def test_nobody_has_models_think_more_than_the_most(
    messages_server: Server, command_for: For, own_place: Path, settings: Any, arguments: list[str], effort: str | None
) -> None:
    users(own_place, **settings)
    server = messages_server([say("Done.")])
    command_for(server).run(*arguments, "go")
    assert server.requests[0].body.get("output_config", {}).get("effort") == effort


@pytest.mark.parametrize(
    ("settings", "environ", "thinking"),
    [
        ({}, {}, {"type": "adaptive", "display": "summarized"}),
        ({"showThinkingSummaries": False}, {}, {"type": "adaptive", "display": "omitted"}),
        (
            {"showThinkingSummaries": False, "alwaysThinkingEnabled": False, "effortLevel": "max"},
            {},
            {"type": "adaptive", "display": "omitted"},
        ),
        ({"alwaysThinkingEnabled": False}, {}, {"type": "disabled"}),
        ({"alwaysThinkingEnabled": False, "effortLevel": "max"}, {}, {"type": "adaptive", "display": "summarized"}),
        ({"alwaysThinkingEnabled": False}, {"MAX_THINKING_TOKENS": "1"}, {"type": "adaptive", "display": "summarized"}),
        ({}, {"MAX_THINKING_TOKENS": "0"}, {"type": "disabled"}),
    ],
)
def test_thinking_is_what_the_settings_say(
    messages_server: Server, command_for: For, own_place: Path, settings: Any, environ: Any, thinking: Any
) -> None:
    users(own_place, model="claude-sonnet-5", **settings)
    server = messages_server([say("Done.")])
    assert command_for(server).run("go", **environ).stdout == "Done.\n"
    assert server.requests[0].body["thinking"] == thinking


def test_a_model_that_always_thinks_goes_on_thinking(
    messages_server: Server, command_for: For, own_place: Path
) -> None:
    users(own_place, alwaysThinkingEnabled=False)
    server = messages_server([say("Done.")])
    assert command_for(server).run("go").stdout == "Done.\n"
    assert server.requests[0].body["thinking"]["type"] == "adaptive"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, []),
        ({"attribution": {"commit": "By: me", "pr": ""}}, ["By: me", "Do not name yourself in the description"]),
        (
            {"includeCoAuthoredBy": False},
            ["Do not name yourself in the message", "Do not name yourself in the description"],
        ),
        ({"includeCoAuthoredBy": False, "attribution": {"commit": "By: me"}}, ["By: me"]),
    ],
)
def test_claude_is_told_how_to_sign_commits(
    messages_server: Server, command_for: For, own_place: Path, settings: Any, told: list[str]
) -> None:
    users(own_place, **settings)
    server = messages_server([say("Done.")])
    command_for(server).run("go")
    asked = json.dumps(server.requests[0].body["messages"][0])
    assert [words for words in told if words not in asked] == []
    assert asked.count("yourself in") + asked.count("By: me") == len(told)


@pytest.mark.parametrize(
    ("settings", "model"),
    [
        ({"availableModels": ["sonnet", "haiku"]}, "claude-opus-5-5"),
        ({"availableModels": ["sonnet", "haiku"], "enforceAvailableModels": True}, "claude-sonnet-5-5"),
    ],
)
def test_the_list_of_models_can_hold_for_the_default(
    messages_server: Server, command_for: For, own_place: Path, settings: Any, model: str
) -> None:
    users(own_place, **settings)
    server = messages_server([say("Done.")])
    command_for(server).run("go")
    assert models(server) == [model]


def test_a_question_in_the_terminal_does_not_wait_for_ever(
    messages_server: Server, command_for: For, own_place: Path
) -> None:
    users(own_place, askUserQuestionTimeout=1)
    options = [{"label": "a", "description": "A"}, {"label": "b", "description": "B"}]
    question = {"question": "Which?", "header": "Which", "options": options, "multiSelect": False}
    server = messages_server([use("AskUserQuestion", questions=[question]), say("Done.")])
    terminal = command_for(server).terminal("go")
    terminal.expect("no answer in time")
    terminal.expect_exact("Done.")
    terminal.wait()
    assert "no answer in time" in json.dumps(server.requests[1].body["messages"][-1])


def test_what_has_no_effect_is_named_once(messages_server: Server, command_for: For, own_place: Path) -> None:
    users(own_place, tui="fullscreen", worktree={"baseRef": "x"}, statusLine={"type": "command"}, modle="x")
    shown = command_for(messages_server([])).run("/config").stdout
    names = "modle (did you mean model?), statusLine.type, tui, worktree.baseRef"
    assert f"Not known here, without effect\n  {names}" in shown


def test_without_tools_a_block_is_written_where_the_mode_allows_it(
    messages_server: Server, command_for: For, own_place: Path
) -> None:
    answer = "```python:a.py\nx = 1\n```"
    server = messages_server([say(answer), say(answer)])
    command = command_for(server)
    denied = command.run("--no-tools", "make it")
    assert not (command.folder / "a.py").exists()
    assert "Write" in denied.stderr
    done = command.run("--no-tools", "--permission-mode", "acceptEdits", "make it")
    assert done.returncode == 0
    assert (command.folder / "a.py").read_text() == "x = 1\n"
    assert all("tools" not in request.body for request in server.requests)
    assert command.run("--no-tools", "--tools", "Read", "x").returncode == 2
    assert server.rejected == []


def test_a_chosen_model_goes_before_the_command_lines(
    messages_server: Server, command_for: For, own_place: Path
) -> None:
    server = messages_server([say("One."), say("Two.")])
    child = command_for(server).terminal("--model", "haiku")
    for words, answer in (("first", "One."), ("/model sonnet", "answers from the next prompt"), ("second", "Two.")):
        child.wait_for_prompt()
        child.sendline(words)
        child.expect(answer)
    child.wait_for_prompt()
    child.sendeof()
    child.expect(EOF)
    assert models(server) == ["claude-haiku-5-5", "claude-sonnet-5-5"]


@pytest.mark.parametrize("arguments", [["--permission-mode", "bypassPermissions"], ["--allowed-tools", "Bash,Read"]])
def test_a_file_that_cannot_be_read_may_have_denied_the_call(
    messages_server: Server, command_for: For, own_place: Path, arguments: list[str]
) -> None:
    (own_place / ".claude").mkdir(exist_ok=True)
    content = '{"permissions": {"deny": ["Bash(rm *)", "Read(./.env)"],}}'
    (own_place / ".claude" / "settings.json").write_text(content, "utf-8")
    server = messages_server([use("Bash", command="rm .env"), use("Read", file_path=".env"), say("I may not.")])
    command = command_for(server)
    (command.folder / ".env").write_text("TOKEN=of-the-user", "utf-8")
    done = command.run(*arguments, "go")
    assert "settings.json:1:57: is not JSON" in done.stderr
    assert "every call asks" in done.stderr
    assert (command.folder / ".env").exists()
    assert "of-the-user" not in json.dumps([request.body for request in server.requests])
    assert server.remaining_turns == 0
