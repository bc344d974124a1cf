"""Settings by clicks: what is shown, which file is written, and what a click may not do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cellwright.commands.extensions.manage_changes import ACTS, READS, WRITES
from cellwright.commands.extensions.manage_report import manage_report, rule_meaning
from cellwright.config.mcp.written_servers import MASK
from cellwright.conversation.core import Host
from cellwright.errors import CellwrightError
from cellwright.features.conversation import Conversation
from cellwright.permissions.rules.rule import parse_rule

Do = Callable[..., Mapping[str, Any]]

SETTINGS = """{
  "zeta": {"kept": [1,2,  3]},
  "permissions": {
      "deny":  ["WebFetch"],
      "allow": [
        "Bash(ls *)",
        "Bash(git status)"
      ]
  },
  "model": "sonnet"
}
"""


@pytest.fixture
def home(own_place: Path) -> Path:
    (own_place / ".claude").mkdir()
    return own_place


@pytest.fixture
def conversation(home: Path, tmp_path: Path) -> Iterator[Conversation]:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    environ = {"HOME": str(home), "ANTHROPIC_API_KEY": "sk-ant-none"}
    made = Conversation(Host(cwd=project, interface="a test", environ=environ))
    yield made
    made.close()


@pytest.fixture
def do(conversation: Conversation) -> Do:
    """Do what the panel asks for, as the kernel does it."""

    def do(what: str, **params: Any) -> Mapping[str, Any]:
        change = {**READS, **WRITES, **ACTS}[what]
        done = conversation.thread.submit(change(conversation, params)).future.result(60)
        conversation.thread.call(conversation.in_force.refresh)
        return done

    return do


def report(conversation: Conversation) -> dict[str, Any]:
    return manage_report(conversation)


def row(conversation: Conversation, part: str, name: str) -> dict[str, Any]:
    return next(each for each in report(conversation)[part] if each.get("name", each.get("rule")) == name)


def test_a_rule_is_added_and_taken_out_and_the_rest_of_the_file_stays_as_it_was(
    conversation: Conversation, do: Do, home: Path
) -> None:
    file = home / ".claude" / "settings.json"
    file.write_text(SETTINGS)
    for behavior, rule in (("deny", "Bash(rm *)"), ("ask", "Python"), ("allow", "Bash(pytest *)")):
        assert do("add_rule", scope="user", behavior=behavior, rule=rule)["file"] == str(file)
        shown = row(conversation, "rules", rule)
        assert (shown["behavior"], shown["locked"], shown["inactive"]) == (behavior, "", "")
    assert '"zeta": {"kept": [1,2,  3]}' in file.read_text()
    for behavior, rule in (("allow", "Bash(pytest *)"), ("deny", "Bash(rm *)")):
        do("remove_rule", scope="user", behavior=behavior, rule=rule, file=str(file))
    do("remove_rule", scope="user", behavior="ask", rule="Python", file=str(file))
    kept = json.loads(file.read_text())
    kept["permissions"].pop("ask")
    assert kept == json.loads(SETTINGS)
    for rule in ("Bash(ls *)", "Bash(git status)"):
        do("remove_rule", scope="user", behavior="allow", rule=rule, file=str(file))
    assert json.loads(file.read_text())["permissions"] == {"deny": ["WebFetch"], "allow": [], "ask": []}


@pytest.mark.parametrize(
    ("what", "params", "problem"),
    [
        ("add_rule", {"scope": "user", "behavior": "allow", "rule": "Bash(("}, "Bash(("),
        ("add_rule", {"scope": "managed", "behavior": "allow", "rule": "Bash(ls *)"}, "not changed here"),
        ("remove_rule", {"scope": "user", "behavior": "deny", "rule": "x", "file": "/etc/passwd"}, "not changed here"),
        ("set_setting", {"key": "modell", "value": "x"}, "Did you mean"),
        ("put_server", {"name": "x", "scope": "user", "entry": '{"command": 3}'}, "no `command`"),
        ("put_server", {"name": "x", "scope": "managed", "entry": '{"command": "x"}'}, "not changed here"),
        ("put_definition", {"kind": "skill", "name": "../x", "scope": "user", "text": "", "new": True}, "A name has"),
        ("put_definition", {"kind": "skill", "name": "init", "text": "", "new": False}, "cannot be edited"),
        ("definition_text", {"kind": "skill", "name": "init"}, "cannot be edited"),
        ("why", {"tool": "Nothing", "input": {}}, "was not found"),
        ("change_plugin", {"verb": "install", "id": "x"}, "in the conversation"),
    ],
)
def test_what_a_click_may_not_do_is_refused_in_words(do: Do, home: Path, what: str, params: Any, problem: str) -> None:
    with pytest.raises(CellwrightError) as refused:
        do(what, **params)
    assert problem in refused.value.message
    assert not (home / ".claude" / "settings.json").exists()


def test_a_projects_link_is_not_written_through(conversation: Conversation, do: Do, home: Path, tmp_path: Path) -> None:
    (conversation.cwd / ".claude").symlink_to(home / ".claude")
    for change in (
        {"what": "add_rule", "scope": "project", "behavior": "deny", "rule": "Python"},
        {"what": "put_definition", "kind": "agent", "name": "a", "scope": "project", "new": True}
        | {"text": "---\nname: a\ndescription: b\n---\n"},
    ):
        with pytest.raises(CellwrightError, match="symbolic link"):
            do(**change)
    assert list((home / ".claude").iterdir()) == []


def test_a_servers_secrets_do_not_leave_and_stay_when_its_entry_is_edited(
    conversation: Conversation, do: Do, home: Path
) -> None:
    entry = {"type": "http", "url": "https://x.example/mcp?key=abc123", "headers": {"Authorization": "Bearer hush"}}
    do("put_server", name="docs", scope="user", entry=json.dumps(entry))
    file = home / ".claude.json"
    assert "hush" not in json.dumps(report(conversation))
    assert "abc123" not in json.dumps(report(conversation))
    shown = json.loads(row(conversation, "servers", "docs")["entry"])
    assert shown["headers"] == {"Authorization": MASK}
    shown["headers"]["X-Team"] = "shop"
    do("put_server", name="docs", scope="user", entry=json.dumps(shown), replace=True)
    assert json.loads(file.read_text())["mcpServers"]["docs"] == entry | {
        "headers": {"Authorization": "Bearer hush", "X-Team": "shop"}
    }
    moved = {"type": "http", "url": "https://x.example", "headers": {"Other": MASK}}
    with pytest.raises(CellwrightError, match="enter it again"):
        do("put_server", name="docs", scope="user", entry=json.dumps(moved), replace=True)
    with pytest.raises(CellwrightError, match="already"):
        do("put_server", name="docs", scope="user", entry=json.dumps(entry))
    local = conversation.cwd / ".claude" / "settings.local.json"
    assert do("switch_server", name="docs", on=False) == {"file": str(local)}
    off = row(conversation, "servers", "docs")
    assert (off["state"], off["from"], off["locked"]) == ("off", str(local), "")
    assert json.loads(local.read_text()) == {"deniedMcpServers": [{"serverName": "docs"}]}
    do("switch_server", name="docs", on=True)
    assert (json.loads(local.read_text()), row(conversation, "servers", "docs")["enabled"]) == ({}, True)
    do("drop_server", name="docs", scope="user")
    assert report(conversation)["servers"] == []


def test_a_pasted_json_is_taken_as_documentation_shows_it(conversation: Conversation, do: Do) -> None:
    do("put_server", name="", scope="local", entry='{"mcpServers": {"web": {"url": "https://x.example/mcp"}}}')
    found = row(conversation, "servers", "web")
    assert (found["transport"], found["scope"]) == ("http", "local")


def test_a_folders_server_runs_only_as_it_was_shown(conversation: Conversation, do: Do) -> None:
    file = conversation.cwd / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": {"theirs": {"command": "npx", "args": ["theirs"]}}}))
    seen = row(conversation, "servers", "theirs")["pending"]
    assert any("npx" in line for line in seen)
    with pytest.raises(CellwrightError, match="waits for your approval"):
        do("connect_server", name="theirs")
    file.write_text(json.dumps({"mcpServers": {"theirs": {"command": "npx", "args": ["other"]}}}))
    conversation.features.mcp.refresh()
    with pytest.raises(CellwrightError, match="changed meanwhile"):
        do("approve_server", name="theirs", seen=seen)
    assert "theirs" in conversation.features.mcp.found.pending
    do("approve_server", name="theirs", seen=row(conversation, "servers", "theirs")["pending"])
    assert "theirs" in conversation.features.mcp.found.entries


def test_skills_and_agents_are_added_edited_switched_and_deleted(
    conversation: Conversation, do: Do, home: Path
) -> None:
    text = "---\nname: notes\ndescription: Writes notes.\n---\n\nWrite.\n"
    for kind, part, file in (("skill", "skills", "skills/notes/SKILL.md"), ("agent", "agents", "agents/notes.md")):
        place = home / ".claude" / file
        assert do("put_definition", kind=kind, name="notes", scope="user", text=text, new=True)["file"] == str(place)
        assert row(conversation, part, "notes")["description"] == "Writes notes."
        do("put_definition", kind=kind, name="notes", text=text.replace("Writes", "Edits"))
        assert do("definition_text", kind=kind, name="notes")["text"] == place.read_text()
        do("switch_definition", kind=kind, name="notes", on=False)
        off = row(conversation, part, "notes")
        assert (off["enabled"], off["off_by"][0]["scope"]) == (False, "user")
        do("switch_definition", kind=kind, name="notes", on=True, scope="user")
        assert row(conversation, part, "notes")["enabled"]
        do("drop_definition", kind=kind, name="notes")
        assert not place.exists()
        assert row(conversation, part, next(each["name"] for each in report(conversation)[part]))["locked"]


def test_why_names_the_rule_and_its_file(conversation: Conversation, do: Do, home: Path) -> None:
    (home / ".claude" / "settings.json").write_text(SETTINGS)
    conversation.thread.call(conversation.in_force.refresh)
    denied = do("why", tool="WebFetch", input={"url": "https://x.example", "prompt": "?"})
    assert (denied["behavior"], denied["rule"]) == ("deny", "WebFetch")
    assert denied["from"] == str(home / ".claude" / "settings.json")
    asks = do("why", tool="Bash", input={"command": "make all"})
    assert asks["behavior"] == "ask"
    assert asks["suggestions"]


def test_a_setting_is_set_and_unset_in_the_users_own_file(conversation: Conversation, do: Do, home: Path) -> None:
    assert do("set_setting", key="cellwright.commandTimeout", value="30")["file"] == str(
        home / ".claude" / "settings.json"
    )
    shown = next(
        each for each in report(conversation)["settings"]["rows"] if each["key"] == "cellwright.commandTimeout"
    )
    assert (shown["value"], shown["locked"]) == ("30", "")
    do("set_setting", key="cellwright.commandTimeout", value=None)
    assert json.loads((home / ".claude" / "settings.json").read_text()) == {"cellwright": {}}


def test_the_settings_that_are_changed_most_are_listed_though_no_file_sets_them(
    conversation: Conversation, do: Do
) -> None:
    rows = report(conversation)["settings"]["rows"]
    common = ["model", "permissions.defaultMode", "effortLevel", "outputStyle", "cellwright.theme"]
    assert [each["key"] for each in rows][:5] == common
    mode = rows[1]
    assert (mode["value"], mode["from"], mode["locked"]) == ("default", "", "")
    assert "plan" in mode["choices"]
    assert rows[3]["choices"][0] == "default"
    do("set_setting", key="permissions.defaultMode", value="plan")
    changed = report(conversation)["settings"]["rows"]
    assert [each["key"] for each in changed][:5] == common
    assert changed[1]["value"] == "plan"
    assert changed[1]["from"].endswith("settings.json")


def test_a_rules_meaning_is_said() -> None:
    assert "`npm run *`" in rule_meaning("Bash(npm run *)")
    assert "MCP server docs" in rule_meaning("mcp__docs__search")
    assert rule_meaning("Python") == "all Python code"
    assert str(parse_rule("Bash(npm run *)")) == "Bash(npm run *)"
