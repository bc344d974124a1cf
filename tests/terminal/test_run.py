"""Where nobody sits: trust given beforehand, denials that end a run, rules and folders of one run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cellwright.testing import MessagesServer, say, turn, use

Server = Callable[..., MessagesServer]
For = Callable[[MessagesServer | None], Any]

TOUCH = use("Bash", command="touch made")
QUESTION = use(
    "AskUserQuestion",
    questions=[
        {
            "question": "Which?",
            "header": "Which",
            "options": [{"label": "a", "description": "A"}, {"label": "b", "description": "B"}],
            "multiSelect": False,
        }
    ],
)


def settings(folder: Path, **content: Any) -> None:
    (folder / ".claude").mkdir(exist_ok=True)
    (folder / ".claude" / "settings.json").write_text(json.dumps(content), "utf-8")


def brings_hook(folder: Path) -> None:
    hook = {"hooks": [{"type": "command", "command": "touch ran"}]}
    settings(folder, hooks={"UserPromptSubmit": [hook]}, env={"ANTHROPIC_MODEL": "claude-haiku-5-5"})


def test_a_folder_is_trusted_beforehand(messages_server: Server, command_for: For) -> None:
    command = command_for(messages_server([say("First."), say("Second."), say("Third.")]))
    brings_hook(command.folder)
    shown = command.run("trust", "--show")
    assert shown.returncode == 1
    assert "hook UserPromptSubmit: runs touch ran" in shown.stdout
    command.run("go")
    assert not (command.folder / "ran").exists()
    trusted = command.run("trust", str(command.folder))
    assert trusted.returncode == 0
    assert "hook UserPromptSubmit: runs touch ran" in trusted.stdout
    assert "--redirects accepts it" in trusted.stdout
    assert [each["redirects"] for each in json.loads(command.run("trust", "--show", "--json").stdout)["waiting"]] == [
        True
    ]
    command.run("go")
    assert (command.folder / "ran").exists()
    (command.folder / "ran").unlink()
    command.run("trust", "--redirects")
    assert command.run("trust", "--show").returncode == 0
    command.run("trust", "--revoke")
    assert command.run("trust", "--show").returncode == 1
    command.run("go")
    assert not (command.folder / "ran").exists()


def test_a_folder_is_trusted_for_one_command(messages_server: Server, command_for: For) -> None:
    command = command_for(messages_server([say("First."), say("Second.")]))
    brings_hook(command.folder)
    command.run("--trust", "go")
    assert (command.folder / "ran").exists()
    (command.folder / "ran").unlink()
    assert "Trust the folder" in command.run("go").stderr
    assert not (command.folder / "ran").exists()


def test_setup_hooks_run_at_a_sessions_beginning(messages_server: Server, command_for: For) -> None:
    command = command_for(messages_server([say("First."), say("Second.")]))
    settings(command.folder, hooks={"Setup": [{"hooks": [{"type": "command", "command": "echo >> ran"}]}]})
    refused = command.run("--init-only")
    assert refused.returncode == 10
    assert "cellwright trust" in refused.stderr
    assert not (command.folder / "ran").exists()
    command.run("--trust", "--init", "go")
    command.run("--trust", "--init", "--continue", "go on")
    assert (command.folder / "ran").read_text("utf-8") == "\n" * 2, "a session that goes on begins here once more"
    settings(command.folder, hooks={"Setup": [{"hooks": [{"type": "command", "command": "echo no >&2; exit 3"}]}]})
    failed = command.run("--trust", "--init-only")
    assert failed.returncode == 1
    assert "no" in failed.stderr


@pytest.mark.parametrize("call", [TOUCH, QUESTION])
def test_a_denial_can_end_the_run(messages_server: Server, command_for: For, call: Any) -> None:
    server = messages_server([call, say("Done.")])
    command = command_for(server)
    done = command.run("--on-denied", "error", "go")
    assert done.returncode == 10
    assert done.stdout == ""
    assert "PERMISSION_DENIED: Stopped at a call that is not permitted" in done.stderr
    assert len(server.requests) == 1
    goes_on = command.run("--continue", "--on-denied", "skip", "and now")
    assert (goes_on.returncode, goes_on.stdout) == (0, "Done.\n")
    assert server.rejected == []


@pytest.mark.parametrize("arguments", [["--allowed-tools", "Bash(touch *)"], ["--permission-mode", "dontAsk"]])
def test_what_needs_no_question_is_no_denial(messages_server: Server, command_for: For, arguments: list[str]) -> None:
    command = command_for(messages_server([TOUCH, say("Done.")]))
    done = command.run("--on-denied", "error", *arguments, "go")
    assert (done.returncode, done.stdout) == (0, "Done.\n")


def test_the_environment_says_it_for_notebooks_and_programs(messages_server: Server, command_for: For) -> None:
    command = command_for(messages_server([TOUCH, say("Done."), TOUCH, say("Done.")]))
    assert command.run("go", CELLWRIGHT_ON_DENIED="error").returncode == 10
    assert command.run("--on-denied", "skip", "go", CELLWRIGHT_ON_DENIED="error").returncode == 0


@pytest.mark.parametrize("how", ["skip", "error"])
def test_nobody_is_asked_where_it_is_said_what_becomes_of_a_denial(
    messages_server: Server, command_for: For, how: str
) -> None:
    terminal = command_for(messages_server([TOUCH, say("Done.")])).terminal("--on-denied", how, "go")
    terminal.expect("denied" if how == "skip" else "PERMISSION_DENIED")
    terminal.expect_exact("Done." if how == "skip" else "not permitted")
    terminal.wait()
    assert terminal.exitstatus == (0 if how == "skip" else 10)


def test_folders_of_a_run_are_worked_in(messages_server: Server, command_for: For, tmp_path: Path) -> None:
    lib = tmp_path / "lib"
    lib.mkdir()
    write = use("Write", file_path=str(lib / "new.txt"), content="x")
    stays = use("Bash", command=f"cd {lib}")
    server = messages_server([write, stays, use("Bash", command="pwd"), say("Done.")])
    command = command_for(server)
    done = command.run("--add-dir", str(lib), "--permission-mode", "acceptEdits", "go")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert (lib / "new.txt").read_text("utf-8") == "x"
    assert str(lib) in json.dumps(server.requests[3].body["messages"][-1])
    assert command.run("--add-dir", "no-such-folder", "go").returncode == 2


def test_settings_of_the_command_go_before_the_files(
    messages_server: Server, command_for: For, own_place: Path
) -> None:
    settings(own_place, model="opus", permissions={"allow": ["Bash(touch *)"]})
    server = messages_server([TOUCH, say("Done."), say("Done.")])
    command = command_for(server)
    (command.folder / "ci.json").write_text('{"model": "sonnet", "permissions": {"deny": ["Bash"]}}', "utf-8")
    command.run("--settings", "ci.json", "go")
    assert server.requests[0].body["model"] == "claude-sonnet-5-5"
    assert "Bash" not in {tool["name"] for tool in server.requests[0].body["tools"]}
    assert not (command.folder / "made").exists()
    command.run("--setting-sources", "project,local", "go")
    assert server.requests[-1].body["model"] == "claude-opus-5-5"
    assert command.run("--setting-sources", "nobody", "go").returncode == 2
    assert command.run("--settings", "{", "go").returncode == 2


def test_what_is_piped_in_comes_with_the_prompt(messages_server: Server, command_for: For) -> None:
    server = messages_server([say("A list.")])
    assert command_for(server).run("-p", "what is this?", piped="one\ntwo\n").stdout == "A list.\n"
    [*_, words] = server.requests[0].body["messages"][0]["content"]
    assert words["text"] == "what is this?\n\none\ntwo\n"


def test_a_command_that_was_tried_and_needs_more_is_denied_where_nobody_is_asked(
    messages_server: Server, command_for: For
) -> None:
    write = use("Bash", command="python3 -c \"print('begun', flush=True); open('made', 'w')\"")
    server = messages_server([write, say("Not made."), write, say("Done.")])
    command = command_for(server)
    done = command.run("--output-format", "stream-json", "--verbose", "go")
    assert done.returncode == 0, done.stderr
    assert not (command.folder / "made").exists()
    [line] = [json.loads(line) for line in done.stdout.splitlines() if '"tool_result"' in line]
    [result] = line["message"]["content"]
    assert result["is_error"]
    assert "begun" in result["content"]
    assert "made" in result["content"]
    denials = json.loads(done.stdout.splitlines()[-1])["permission_denials"]
    assert [each["tool_name"] for each in denials] == ["Bash"]
    ended = command.run("--on-denied", "error", "again")
    assert ended.returncode == 10, ended.stderr
    assert server.rejected == []


def test_a_single_prompt_has_the_results_of_its_agents(messages_server: Server, command_for: For) -> None:
    task = use("Agent", description="count", prompt="Count.", subagent_type="general-purpose", run_in_background=True)
    server = messages_server([task, turn(say("There are 7."), when="Count."), turn(say("Seven."), when="There are 7.")])
    done = command_for(server).run("-p", "how many?")
    assert (done.returncode, done.stdout) == (0, "Seven.\n")
    assert (server.remaining_turns, server.rejected) == (0, [])


@pytest.mark.parametrize("quiet", [False, True])
def test_a_command_that_ends_with_the_answer_is_named(messages_server: Server, command_for: For, quiet: bool) -> None:
    started = use("Bash", command="sleep 1000", run_in_background=True)
    command = command_for(messages_server([started, say("It runs.")]))
    done = command.run("-p", "--allowed-tools", "Bash(sleep *)", *["--quiet"] * quiet, "start it")
    assert (done.returncode, done.stdout) == (0, "It runs.\n")
    assert ("warning: `sleep 1000` was still running: it ends with this command.\n" in done.stderr) is not quiet
