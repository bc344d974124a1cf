"""The words that are commands and never prompts: `config`, `auth`, and those that are not there yet."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cellwright.testing import MessagesServer

Server = Callable[..., MessagesServer]
For = Callable[[MessagesServer | None], Any]


def users_file(own_place: Path) -> Path:
    return own_place / ".claude" / "settings.json"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["mcp"], 2, "There are no MCP servers here yet"),
        (["mcp", "add", "x"], 2, "Nothing was sent"),
        (["setup"], 2, "%load_ext cellwright"),
        (["auth", "login"], 2, "ANTHROPIC_API_KEY"),
        (["config", "frob"], 2, "invalid choice"),
        (["trust", "no-such-folder"], 1, "is no folder"),
    ],
)
def test_a_command_is_no_prompt(
    messages_server: Server, command_for: For, words: list[str], code: int, told: str
) -> None:
    server = messages_server([])
    done = command_for(server).run(*words)
    assert done.returncode == code
    assert told in done.stderr
    assert server.requests == []


def test_settings_are_set_listed_and_taken_out_again(command_for: For, own_place: Path) -> None:
    file = users_file(own_place)
    file.parent.mkdir()
    file.write_text("{\n  // none\n}".replace("// none", '"theme": "dark",\n  "model": "opus"'), "utf-8")
    command = command_for(None)
    assert command.run("config", "set", "model", "sonnet").returncode == 0
    assert command.run("config", "set", "permissions.deny", '["Bash(rm *)"]').returncode == 0
    assert command.run("config", "set", "cellwright.redactSecrets", "false").returncode == 0
    assert file.read_text("utf-8").startswith('{\n  "theme": "dark",\n  "model": "sonnet",\n  "permissions": {')
    assert command.run("config", "get", "model").stdout == "sonnet\n"
    assert json.loads(command.run("config", "get", "permissions.deny").stdout) == ["Bash(rm *)"]
    listed = command.run("config").stdout
    assert "Known, without effect here\n  theme" in listed
    rows = {row["key"]: row["value"] for row in json.loads(command.run("config", "list", "--json").stdout)}
    assert rows == {"model": "sonnet", "permissions.deny": "Bash(rm *)", "cellwright.redactSecrets": "false"}
    for key in ("model", "permissions.deny", "cellwright.redactSecrets", "theme"):
        assert command.run("config", "unset", key).returncode == 0
    assert json.loads(file.read_text("utf-8")) == {"permissions": {}, "cellwright": {}}
    assert command.run("config", "get", "model").returncode == 1


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("modle", "opus", "Did you mean `model`?"),
        ("effortLevel", "highest", "one of low"),
        ("permissions.deny", "Bash", "is a list"),
        ("permissions.deny", '["Bash("]', "Bash("),
        ("permissions.allow", '["mcp__*"]', "mcp__"),
        ("permissions.defaultMode", "yolo", "one of"),
        ("cellwright.deniedTools", '["Bash"]', "administrator"),
        ("env", '{"A": "1"}', "env.NAME"),
    ],
)
def test_a_setting_that_makes_no_sense_is_not_written(
    command_for: For, own_place: Path, key: str, value: str, told: str
) -> None:
    done = command_for(None).run("config", "set", key, value)
    assert done.returncode == 9
    assert told in done.stderr
    assert not users_file(own_place).exists()


def test_a_broken_file_stays_as_it_is(command_for: For, own_place: Path) -> None:
    users_file(own_place).parent.mkdir()
    users_file(own_place).write_text("{nonsense", "utf-8")
    done = command_for(None).run("config", "set", "model", "opus")
    assert done.returncode == 9
    assert "settings.json:1:2" in done.stderr
    assert users_file(own_place).read_text("utf-8") == "{nonsense"


def test_the_source_of_the_key_is_told_and_never_the_key(
    messages_server: Server, command_for: For, own_place: Path
) -> None:
    server = messages_server([])
    command = command_for(server)
    done = command.run("auth")
    assert done.returncode == 0
    assert "ANTHROPIC_API_KEY" in done.stdout
    assert server.url in done.stdout
    users_file(own_place).parent.mkdir()
    users_file(own_place).write_text(json.dumps({"apiKeyHelper": f"echo {server.api_key}"}), "utf-8")
    helped = command.run("auth", "status", "--json", ANTHROPIC_API_KEY="")
    assert json.loads(helped.stdout)["source"].startswith("apiKeyHelper (")
    users_file(own_place).unlink()
    none = command.run("auth", "--json", ANTHROPIC_API_KEY="")
    assert (none.returncode, json.loads(none.stdout)["source"]) == (3, None)
    assert server.api_key not in done.stdout + helped.stdout + none.stdout
    assert server.requests == []


def test_a_plugin_is_installed_after_a_yes_and_removed(command_for: For, own_place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    (folder / "commands").mkdir(parents=True)
    (folder / "commands" / "hi.md").write_text("Say hi.", "utf-8")
    command = command_for(None)
    unasked = command.run("plugin", "install", str(folder))
    assert (unasked.returncode, "commands: hi" in unasked.stderr) == (1, True)
    assert not users_file(own_place).exists()
    assert "demo@local is installed" in command.run("plugin", "install", str(folder), "--yes").stdout
    assert json.loads(users_file(own_place).read_text("utf-8")) == {"enabledPlugins": {"demo@local": True}}
    assert "demo@local  —  on" in command.run("plugin").stdout
    assert command.run("plugin", "remove", "demo").returncode == 0
    assert "None is installed" in command.run("plugin", "list").stdout
    assert command.run("plugin", "frob").returncode == 2
