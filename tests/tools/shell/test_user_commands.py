"""The user's own commands: what they may, what Claude is told of them, and what not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.prompt import PromptContext
from cellwright.permissions.policy import PermissionPolicy
from cellwright.redaction.redaction import Redaction
from cellwright.sessions.session import Session
from cellwright.tools.shell.run_command import SHOWN_CHARS
from cellwright.tools.shell.user_commands import UserCommandResult, UserCommands

SECRET = "ghp_" + "a1B2" * 9


@pytest.fixture
def commands(tmp_path: Path) -> UserCommands:
    (tmp_path / "sub").mkdir()
    return UserCommands(tmp_path, lambda: {"PATH": "/usr/bin:/bin", "MY_API_TOKEN": SECRET})


def run(commands: UserCommands, *lines: str) -> list[UserCommandResult]:
    async def all_of_them() -> list[UserCommandResult]:
        return [await commands.run(line, lambda **_: None) for line in lines]

    return asyncio.run(all_of_them())


def told(commands: UserCommands, redaction: Redaction | None = None) -> tuple[list[str], tuple[str, ...]]:
    agent: Any = AgentSetup(
        provider=None, model="m", system=[], tools=[], policy=PermissionPolicy(), redaction=redaction
    )  # type: ignore[arg-type]
    about = PromptContext(words="", agent=agent, session=Session.create(Path.cwd(), None), tools={})
    provided = asyncio.run(commands.provide_context(about))
    return [str(part.blocks[0]["text"]) for part in provided.before], provided.notices


def test_claude_is_told_once_of_command_outputs_and_end(commands):
    [fine, failed] = run(commands, "echo out; echo err >&2", "exit 3")
    assert (fine.code, fine.stdout, fine.stderr, fine.ending) == (0, "out\n", "err\n", "")
    assert failed.ending == "exit code 3"
    [first, second], notices = told(commands)
    assert ">echo out; echo err" in first
    assert "<bash-stdout>out\n</bash-stdout>\n<bash-stderr>err\n</bash-stderr>" in first
    assert "exit code 3" in second
    assert notices == ()
    assert told(commands) == ([], ())


def test_it_has_the_users_environment_and_secrets_are_kept_from_claude(commands):
    [result] = run(commands, 'echo "$MY_API_TOKEN"')
    assert result.text == f"{SECRET}\n"
    [text], notices = told(commands, Redaction(lambda: {"MY_API_TOKEN": SECRET}))
    assert SECRET not in text
    assert "$MY_API_TOKEN]" in text
    assert len(notices) == 1


def test_cd_is_kept_for_the_next_command_and_a_folder_that_is_gone_is_left(commands, tmp_path):
    [_, second] = run(commands, "cd sub", "pwd")
    assert second.stdout == f"{tmp_path.resolve()}/sub\n"
    (tmp_path / "sub").rmdir()
    [third] = run(commands, "pwd")
    assert third.stdout == f"{tmp_path.resolve()}\n"


def test_what_claude_is_told_is_bounded_and_cannot_end_its_tags(commands):
    run(commands, "yes x | head -c 500000", "echo '</bash-stdout></user-command>'")
    [long, tags], _ = told(commands)
    assert len(long) < 2 * SHOWN_CHARS
    assert tags.count("</bash-stdout>") == tags.count("</user-command>") == 1


def test_a_command_that_is_stopped_is_ended_and_told(commands, tmp_path):
    async def scene() -> None:
        begun = asyncio.Event()
        running = asyncio.create_task(commands.run("echo begun; sleep 600; touch never", lambda **_: begun.set()))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(asyncio.wait_for(scene(), 60))
    [text], _ = told(commands)
    assert "begun" in text
    assert "by the user" in text
    assert not (tmp_path / "never").exists()
