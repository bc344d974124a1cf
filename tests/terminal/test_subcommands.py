"""The words that are commands and never prompts: `config` and `auth`."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cellwright.commands import registry
from cellwright.commands.registry import COMMANDS, is_command
from cellwright.config.settings.option_table import OPTIONS
from cellwright.terminal.arguments import parse
from cellwright.terminal.main import main
from cellwright.terminal.subcommands.subcommand_names import INSTEAD, SLASH_COMMANDS, SUBCOMMANDS
from cellwright.testing import MessagesServer, say, use
from row_tables import for_each_row

Server = Callable[..., MessagesServer]
For = Callable[[MessagesServer | None], Any]

NO_KEYRING = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring", "ANTHROPIC_API_KEY": ""}
KEYRING = """
import json, os, pathlib
from keyring.backend import KeyringBackend

class Keyring(KeyringBackend):
    priority = 1
    file = pathlib.Path(os.environ["TEST_KEYRING"])

    def _all(self):
        return json.loads(self.file.read_text()) if self.file.exists() else {}

    def get_password(self, service, name):
        return self._all().get(f"{service} {name}")

    def set_password(self, service, name, password):
        self.file.write_text(json.dumps({**self._all(), f"{service} {name}": password}))

    def delete_password(self, service, name):
        self.file.write_text(json.dumps({k: v for k, v in self._all().items() if k != f"{service} {name}"}))
"""


def users_file(own_place: Path) -> Path:
    return own_place / ".claude" / "settings.json"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["mcp", "frob"], 2, "invalid choice"),
        (["mcp", "add", "x"], 2, "COMMAND-OR-URL"),
        (["auth", "login"], 2, "This is not a key"),
        (["config", "frob"], 2, "invalid choice"),
        (["trust", "no-such-folder"], 1, "is not a folder"),
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
    file.write_text("{\n  // none\n}".replace("// none", '"tui": "dark",\n  "model": "opus"'), "utf-8")
    command = command_for(None)
    assert command.run("config", "set", "model", "sonnet").returncode == 0
    assert command.run("config", "set", "permissions.deny", '["Bash(rm *)"]').returncode == 0
    assert command.run("config", "set", "cellwright.redactSecrets", "false").returncode == 0
    assert file.read_text("utf-8").startswith('{\n  "tui": "dark",\n  "model": "sonnet",\n  "permissions": {')
    assert command.run("config", "get", "model").stdout == "sonnet\n"
    assert json.loads(command.run("config", "get", "permissions.deny").stdout) == ["Bash(rm *)"]
    listed = command.run("config").stdout
    assert "Not known here, without effect\n  tui" in listed
    rows = {row["key"]: row["value"] for row in json.loads(command.run("config", "list", "--json").stdout)}
    assert rows == {"model": "sonnet", "permissions.deny": "Bash(rm *)", "cellwright.redactSecrets": "false"}
    for key in ("model", "permissions.deny", "cellwright.redactSecrets", "tui"):
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


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The folder of our state, in which nothing is yet."""
    return tmp_path / "state"


def test_a_key_is_tried_kept_for_its_user_used_and_forgotten(
    messages_server: Server, command_for: For, state: Path
) -> None:
    server = messages_server([use("Bash", command=f"env; cat {state}/api-key.json", description="look"), say("Done.")])
    command, places = command_for(server), {**NO_KEYRING, "CELLWRIGHT_HOME": str(state)}
    entered = command.run("auth", "login", piped=f"{server.api_key}\n", **places)
    assert entered.returncode == 0, entered.stderr
    assert "Key saved in" in entered.stdout
    assert [request.path for request in server.all_requests] == ["/v1/models"]
    file = state / "api-key.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    status = command.run("auth", **places)
    assert (status.returncode, "`cellwright auth login` (file)" in status.stdout) == (0, True)
    ran = command.run("-p", "Look.", "--allowedTools", "Bash", "--verbose", **places)
    assert "Done." in ran.stdout, ran.stderr
    said = [entered.stdout, entered.stderr, status.stdout, ran.stdout, ran.stderr, json.dumps(server.requests[-1].body)]
    assert [server.api_key in text for text in said] == [False] * len(said), "not in what is shown, nor in a child"
    kept = [path for path in state.rglob("*") if path.is_file() and server.api_key.encode() in path.read_bytes()]
    assert kept == [file]
    gone = command.run("auth", "logout", **places)
    assert (gone.returncode, file.exists()) == (0, False)
    assert command.run("auth", **places).returncode == 3
    assert "No key was kept" in command.run("auth", "logout", **places).stdout


def test_a_keyring_that_works_has_the_key_alone(
    messages_server: Server, command_for: For, state: Path, tmp_path: Path
) -> None:
    (tmp_path / "ring").mkdir()
    (tmp_path / "ring" / "test_ring.py").write_text(KEYRING, "utf-8")
    server = messages_server([say("Hello.")])
    command = command_for(server)
    places = {
        "ANTHROPIC_API_KEY": "",
        "CELLWRIGHT_HOME": str(state),
        "PYTHON_KEYRING_BACKEND": "test_ring.Keyring",
        "PYTHONPATH": f"{command.environ.get('PYTHONPATH', '')}:{tmp_path / 'ring'}",
        "TEST_KEYRING": str(tmp_path / "ring" / "keys.json"),
    }
    entered = command.run("auth", "login", piped=server.api_key, **places)
    assert "the system's keyring" in entered.stdout, entered.stderr
    assert server.api_key not in (state / "api-key.json").read_text("utf-8")
    assert "(keyring)" in command.run("auth", **places).stdout
    assert "Hello." in command.run("-p", "Hello?", **places).stdout
    command.run("auth", "logout", **places)
    assert server.api_key not in (tmp_path / "ring" / "keys.json").read_text("utf-8")
    assert command.run("auth", **places).returncode == 3


def test_what_is_not_taken_is_not_kept(messages_server: Server, command_for: For, state: Path) -> None:
    server = messages_server([])
    command, places = command_for(server), {**NO_KEYRING, "CELLWRIGHT_HOME": str(state)}
    wrong = command.run("auth", "login", piped="sk-ant-wrong", **places)
    assert (wrong.returncode, "othing was saved" in wrong.stderr) == (3, True)
    empty = command.run("auth", "login", piped="\n", **places)
    assert (empty.returncode, "This is not a key" in empty.stderr) == (2, True)
    away = command.run("auth", "login", piped=server.api_key, **{**places, "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"})
    assert "othing was saved" in away.stderr
    assert not (state / "api-key.json").exists()


def test_a_key_goes_to_its_own_address_only_and_behind_what_is_set(
    messages_server: Server, command_for: For, state: Path
) -> None:
    server, other = messages_server([]), messages_server([])
    command, places = command_for(server), {**NO_KEYRING, "CELLWRIGHT_HOME": str(state)}
    command.run("auth", "login", piped=server.api_key, **places)
    elsewhere = command.run("-p", "Hello?", **{**places, "ANTHROPIC_BASE_URL": other.url})
    assert (elsewhere.returncode, other.all_requests) == (3, [])
    named = command.run("auth", **{**places, "ANTHROPIC_API_KEY": "sk-ant-other"})
    assert "ANTHROPIC_API_KEY" in named.stdout
    assert "auth login" not in named.stdout


def test_it_is_typed_unseen(messages_server: Server, command_for: For, state: Path) -> None:
    server = messages_server([])
    places = {**NO_KEYRING, "CELLWRIGHT_HOME": str(state)}
    terminal = command_for(server).terminal("auth", "login", **places)
    terminal.expect_exact(f"API key for {server.url} (it is not shown): ")
    terminal.sendline(server.api_key)
    terminal.expect_exact("Key saved in")
    terminal.expect_exact(" alone.")
    assert server.api_key not in str(terminal.before)
    terminal.wait()


KNOWN = "print('known:', get_ipython().find_cell_magic('claude') is not None)"


def ipython(folder: Path) -> str:
    """What IPython of the profile below `folder` says when it starts."""
    command = [sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor", "-c", KNOWN]
    environ = {**os.environ, "IPYTHONDIR": str(folder)}
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_magic_is_there_until_it_is_taken_out(messages_server: Server, command_for: For, tmp_path: Path) -> None:
    command, folder = command_for(messages_server([])), tmp_path / "ipython"
    unasked = command.run("setup", IPYTHONDIR=str(folder))
    assert (unasked.returncode, "Nothing was changed" in unasked.stdout) == (0, True), "nobody was there to say yes"
    assert ipython(folder) == "known: False\n"
    done = command.run("setup", "--yes", IPYTHONDIR=str(folder))
    assert "05-cellwright.py" in done.stdout
    assert ipython(folder) == "known: True\n"
    assert "already" in command.run("setup", IPYTHONDIR=str(folder)).stdout
    gone = command.run("setup", "--remove", IPYTHONDIR=str(folder))
    assert gone.stdout.startswith("Taken out: ")
    assert ipython(folder) == "known: False\n"
    assert "Nothing to take out" in command.run("setup", "--remove", IPYTHONDIR=str(folder)).stdout


@for_each_row(
    ("words", "told"),
    [
        (["agents"], '`cellwright "/agents"` is the slash command'),
        (["tasks"], '`cellwright "/tasks"` is the slash command'),
        (["task"], '`cellwright "/tasks"` is the slash command'),
        (["effort"], "is an option: `cellwright --effort`"),
        (["models"], '`cellwright "/model"` is the slash command'),
        (["install"], "a command of Claude Code's that does not exist here"),
        (["Doctor"], "`cellwright doctor`"),
        (["doctr"], "Did you mean `cellwright doctor`?"),
        (["session"], "Did you mean `cellwright sessions`?"),
        (["updte"], "Did you mean `cellwright update`?"),
        (["doc"], "Did you mean `cellwright docs`?"),
        (["mpc"], "Did you mean `cellwright mcp`?"),
        (["hlp"], "`cellwright --help`"),
        (
            ["session", "list"],
            '`cellwright sessions list`? Nothing was sent. To send it as a prompt: `cellwright -- "session list"`',
        ),
        (["agent"], '`cellwright "/agents"`'),
        (["--model", "haiku", "confg"], "Did you mean `cellwright config`?"),
        (["-p", "plugins"], "`cellwright plugins`"),
        (["login"], "`cellwright auth login`"),
        (["help"], "`cellwright --help`"),
        (["--debug", "startup-thing"], "may mean a filter or a prompt"),
        (["-p", "-d", "fix", "it"], "may mean a filter or a prompt"),
    ],
)
def test_a_word_that_is_nearly_a_command_is_said_and_never_sent(words, told, capsys):
    code = main(words, "cellwright")
    said = capsys.readouterr().err
    assert (code, told in said, "Nothing was sent." in said) == (2, True, True), said


@for_each_row(
    "words",
    [
        ["hello"],
        ["agents", "of", "change"],
        ["session list"],
        ["updates", "to", "the", "docs"],
        ["--", "agents"],
        ["--", "session", "list"],
        ["update the docs"],
        ["plan"],
        ["test"],
        ["fix"],
        ["review"],
        ["explain"],
        ["debug"],
    ],
)
def test_other_words_are_prompts(words):
    assert parse(words).prompt == " ".join(word for word in words if word != "--")


def test_every_slash_command_is_known_where_it_is_said_without_its_slash():
    known = {*SUBCOMMANDS, *INSTEAD, *SLASH_COMMANDS, *(option.terminal for option in OPTIONS)}
    assert {*COMMANDS, *registry.OTHER_NAMES} - known == {"plan"}
    assert {each for each in SLASH_COMMANDS if not (is_command(each) or each in registry.INSTEAD)} == set()


def test_update_says_what_upgrade_says(messages_server: Server, command_for: For) -> None:
    command = command_for(server := messages_server([]))
    page = command.run("-p", "/upgrade")
    for word in ("update", "upgrade"):
        done = command.run(word)
        assert (done.returncode, done.stdout) == (0, page.stdout)
    assert server.requests == []


def test_the_sign_in_is_told_as_claude_code_tells_it(capsys, own_place, monkeypatch):
    for environ, code, told in (
        ({"ANTHROPIC_API_KEY": "sk-ant-x"}, 0, (True, "api_key", "firstParty")),
        ({"ANTHROPIC_AUTH_TOKEN": "t"}, 0, (True, "oauth_token", "firstParty")),
        ({"CLAUDE_CODE_USE_BEDROCK": "1"}, 0, (True, "third_party", "bedrock")),
        ({}, 1, (False, "none", "firstParty")),
    ):
        with monkeypatch.context() as place:
            for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
                place.delenv(name, raising=False)
            for name, value in {**NO_KEYRING, "ANTHROPIC_API_KEY": "", **environ}.items():
                place.setenv(name, value)
            assert main(["auth", "status"], "claude") == code
            status = json.loads(capsys.readouterr().out)
            assert (status["loggedIn"], status["authMethod"], status["apiProvider"]) == told
            assert "sk-ant-x" not in json.dumps(status)
            main(["auth", "status", "--text"], "claude")
            assert capsys.readouterr().out.startswith("key ")
