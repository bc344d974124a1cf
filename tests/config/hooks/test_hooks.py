"""Hooks of settings files: what is read of them, which of them run, and that the documents tell of every event."""

import json
import os
import re
from pathlib import Path

import pytest
from hook_scenes import call_fields, command, fire, group, hooks_of, source
from msgspec.structs import replace

from cellwright.agent.hooks.callbacks import matcher_problem, matches
from cellwright.agent.hooks.protocol import EVENTS, NO_HOOK_RESULT, NO_HOOKS
from cellwright.config.hooks.asked_hooks import filled_in
from cellwright.config.hooks.hooks import hook_problems, hooks_from, settings_hooks
from cellwright.config.settings.settings import load_settings
from row_tables import for_each_row

DOCUMENT = Path(__file__).parents[3] / "docs" / "hooks.md"


# matchers

MATCHERS = [
    # names and lists
    ("", "Bash", True),
    ("*", "Bash", True),
    ("Bash", "Bash", True),
    ("Bash", "bash", False),
    ("Bash", "BashOutput", False),
    ("run_command", "Bash", True),
    ("read_file|write_file", "Write", True),
    ("read_file", "Write", False),
    ("Edit|Write", "Write", True),
    ("Edit,Write", "Edit", True),
    ("Edit, Write", "Write", True),
    ("Edit | Write", "Write", True),
    ("Edit|Write", "NotebookEdit", False),
    ("mcp__github", "mcp__github__get", False),
    ("mcp__my-server__tool", "mcp__my-server__tool", True),
    # expressions, not anchored
    ("mcp__github__.*", "mcp__github__get", True),
    ("mcp__.*__write.*", "mcp__fs__write_file", True),
    (".*Edit", "NotebookEdit", True),
    ("^Edit", "NotebookEdit", False),
    ("^(Edit|Write)$", "Write", True),
    ("Edit.*|Bash", "Bash", True),
    ("Notebook.", "NotebookEdit", True),
    ("(?<kind>Note)book.", "NotebookEdit", True),
    ("^Write$", "Write\n", False),
    ("[A-Z]ash$", "Bash", True),
    # what cannot be followed matches everything
    ("(unclosed", "Bash", True),
    ("(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", True),
    ("(a|a)*b", "Bash", True),
    (".*.*.*.*.*x", "Bash", True),
    ("[" * 2000, "Bash", True),
]


@for_each_row(("matcher", "name", "expected"), MATCHERS, ids=lambda value: str(value)[:40])
def test_a_matcher_means_these_calls(matcher, name, expected):
    assert matches(matcher, "PreToolUse", {"tool_name": name}) is expected


@for_each_row("matcher", ["(unclosed", "(a+)+$", "(a|a)*b", ".*.*.*.*.*x", "[" * 2000, "(x{2,}){2,}.", "a{99}{99}."])
def test_an_expression_without_bounds_is_not_searched_with(matcher):
    assert matcher_problem(matcher) is not None


@pytest.mark.parametrize("matcher", ["mcp__.*", r"mcp__a\.b__.*", "Edit.*|Write.*", "^x[*+]y$", "a(b|c)d."])
def test_usual_expressions_are_followed(matcher):
    assert matcher_problem(matcher) is None


@for_each_row(
    ("matcher", "runs"),
    [
        ("Bash(git *)", "nothing"),
        ("Bash(*)", "everything"),
        ("run_command(ls)", "nothing"),
        ("Edit(/src/**)", "everything"),
    ],
)
def test_a_permission_rule_as_a_matcher_is_remarked_upon(matcher, runs):
    (problem,) = hook_problems([source({"PreToolUse": [group(command("true"), matcher=matcher)]})])
    name = matcher.partition("(")[0]
    rule = f"`{matcher}` is a permission rule; a hook's matcher names tools (`{name}`), and its `if` takes a rule."
    assert rule in problem
    assert f"for {runs}." in problem


@for_each_row("matcher", ["Bash", "Edit(or|)", "Notebook(Edit|Read)", "mcp__(a|b)__x", "^(Edit|Write)$"])
def test_an_expression_is_no_permission_rule(matcher):
    assert hook_problems([source({"PreToolUse": [group(command("true"), matcher=matcher)]})]) == []


def test_what_is_no_tool_may_be_called_as_a_rule_is():
    assert hook_problems([source({"SubagentStop": [group(command("true"), matcher="Agent(x)")]})]) == []


FIELDS = [
    ("SessionStart", "source", "resume"),
    ("SessionEnd", "reason", "clear"),
    ("Notification", "notification_type", "permission_prompt"),
    ("SubagentStop", "agent_type", "Explore"),
    ("PreCompact", "trigger", "auto"),
    ("ConfigChange", "source", "user_settings"),
    ("StopFailure", "error", "rate_limit"),
    ("UserPromptExpansion", "command_name", "review"),
    ("InstructionsLoaded", "load_reason", "include"),
    ("Elicitation", "mcp_server_name", "github"),
    ("PermissionRequest", "tool_name", "Bash"),
]


@for_each_row(("event", "field", "value"), FIELDS)
def test_a_matcher_is_about_the_events_own_field(event, field, value):
    assert matches(value, event, {field: value})
    assert not matches(value, event, {field: "another"})


@pytest.mark.parametrize("event", ["UserPromptSubmit", "Stop", "PostToolBatch", "CwdChanged", "MessageDisplay"])
def test_an_event_without_a_field_has_no_matcher(event):
    assert matches("anything", event, {})


def test_a_changed_file_is_matched_by_its_name():
    assert matches(".envrc|.env", "FileChanged", {"file_path": "/a/b/.env"})
    assert not matches("b", "FileChanged", {"file_path": "/a/b/.env"})


# `if`

CONDITIONS = [
    ("Bash(git *)", "Bash", {"command": "git status"}, True),
    ("Bash(git *)", "Bash", {"command": "cd x && git push"}, True),
    ("Bash(git *)", "Bash", {"command": "FOO=1 git push"}, True),
    ("Bash(git *)", "Bash", {"command": "ls -la"}, False),
    ("Bash(git *)", "Bash", {"command": "legit status"}, False),
    ("Bash(git *)", "Bash", {"command": "if then ((( git"}, True),
    ("Bash(git *)", "Bash", {"command": "$TOOL push"}, True),
    ("Bash(git *)", "Bash", {"command": 'eval "$x"'}, True),
    ("Bash(git *)", "Edit", {"file_path": "git"}, False),
    ("Edit(*.ts)", "Edit", {"file_path": "src/a.ts"}, True),
    ("Edit(*.ts)", "Write", {"file_path": "src/a.ts"}, True),
    ("Edit(*.ts)", "Edit", {"file_path": "src/a.py"}, False),
    ("Read(.env)", "Read", {"file_path": ".env"}, True),
    ("change", "change", {}, True),
    ("change", "look", {}, False),
    ("mcp__github", "mcp__github__get", {}, True),
    ("Bash((", "Bash", {"command": "ls"}, True),
]


@for_each_row(("rule", "name", "tool_input", "expected"), CONDITIONS, ids=str)
def test_a_condition_is_a_permission_rule(tmp_path, rule, name, tool_input, expected):
    hook = command("echo x >&2; exit 2", **{"if": rule})
    hooks = hooks_of(tmp_path, {"PreToolUse": [group(hook)]})
    said = fire(hooks, tmp_path, "PreToolUse", **call_fields(name, **tool_input))
    assert (said.behavior == "deny") is expected


# what is read

BROKEN = [
    ({"type": "command"}, "`command` is missing"),
    ({"type": "command", "command": " "}, "`command` is missing"),
    ({"type": "command", "command": "x", "timeout": "soon"}, "`timeout`"),
    ({"type": "command", "command": "x", "timeout": 0}, "`timeout`"),
    ({"type": "command", "command": "x", "timeout": True}, "`timeout`"),
    ({"type": "command", "command": "x", "args": "y"}, "`args`"),
    ({"type": "command", "command": "x", "args": [1]}, "`args`"),
    ({"type": "command", "command": "x", "shell": "fish"}, "`shell`"),
    ({"type": "command", "command": "x", "onFailure": "panic"}, "`onFailure`"),
    ({"type": "command", "command": "x", "async": 1}, "`async`"),
    ({"type": "http"}, "`url` is missing"),
    ({"type": "http", "url": "http://x", "headers": {"a": 1}}, "`headers`"),
    ({"type": "mcp_tool", "server": "x"}, "`tool` is missing"),
    ({"type": "prompt"}, "`prompt` is missing"),
    ({"type": "plugin"}, "no type 'plugin'"),
    ("echo", "not an object"),
    ({"command": "x"}, "no type None"),
]


@for_each_row(("broken", "why"), BROKEN, ids=str)
def test_a_broken_hook_is_named_and_left_out_alone(tmp_path, broken, why):
    hooks = hooks_of(tmp_path, {"PreToolUse": [group(broken, command("echo no >&2; exit 2"))]})
    (problem,) = hooks.arrived().problems
    assert "hooks.PreToolUse" in problem
    assert why in problem
    assert fire(hooks, tmp_path, "PreToolUse", **call_fields()).behavior == "deny"
    assert hooks.arrived() == NO_HOOK_RESULT


@for_each_row(
    ("event", "entry"),
    [
        ("Stop", {"hooks": "x"}),
        ("Stop", "x"),
        ("Stop", {"hooks": [], "matcher": 7}),
        ("Stopp", {"hooks": []}),
        ("Stop", {"hooks": [command("x", **{"if": "Bash"})]}),
        ("SessionStart", {"hooks": [{"type": "http", "url": "http://x"}]}),
        ("SessionStart", {"hooks": [{"type": "prompt", "prompt": "x"}]}),
        ("Notification", {"hooks": [{"type": "agent", "prompt": "x"}]}),
        ("PreToolUse", {"matcher": "(", "hooks": [command("true")]}),
        ("PreToolUse", {"hooks": [command("true", **{"if": "Bash(("})]}),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_said(tmp_path, event, entry):
    assert len(hooks_of(tmp_path, {event: [entry]}).arrived().problems) == 1


def test_without_hooks_there_are_none(tmp_path):
    assert hooks_from([], environ=os.environ, project=tmp_path) is NO_HOOKS
    assert hooks_of(tmp_path, {"Stop": []}) is NO_HOOKS


def test_a_session_end_has_little_time(tmp_path):
    hooks = hooks_of(tmp_path, {"SessionEnd": [group(command("sleep 60"))]})
    assert "within 1.5 s" in fire(hooks, tmp_path, "SessionEnd", reason="other").problems[0]


# MCP tools


def mcp_hooks(tmp_path, call):
    hook = {"type": "mcp_tool", "server": "audit", "tool": "check", "input": {"cmd": "${tool_input.command}"}}
    return hooks_of(tmp_path, {"PreToolUse": [group(hook)]}, call_mcp_tool=call)


def test_an_mcp_tool_answers_with_text(tmp_path):
    called = []

    async def call(server, tool, tool_input):
        called.append((server, tool, tool_input))
        return '{"decision": "block", "reason": "audited"}'

    said = fire(mcp_hooks(tmp_path, call), tmp_path, "PreToolUse", **call_fields(command="ls"))
    assert (said.behavior, said.reason) == ("deny", "audited")
    assert called == [("audit", "check", {"cmd": "ls"})]


def test_an_mcp_tool_that_fails_decides_nothing(tmp_path):
    async def call(server, tool, tool_input):
        raise LookupError("no such server")

    said = fire(mcp_hooks(tmp_path, call), tmp_path, "PreToolUse", **call_fields())
    assert said.behavior == ""
    assert "no such server" in said.problems[0]


def test_without_mcp_servers_a_hook_says_so(tmp_path):
    said = fire(mcp_hooks(tmp_path, None), tmp_path, "PreToolUse", **call_fields())
    assert "none is connected" in said.problems[0]


def test_placeholders_of_an_mcp_tools_input():
    fields = {"tool_input": {"path": "a", "lines": [1, 2]}, "cwd": "/x"}
    value = {
        "whole": "${tool_input.lines}",
        "part": "file ${tool_input.path} in ${cwd}: ${tool_input.lines}",
        "none": "${tool_input.nothing}",
        "list": ["${cwd}", 3],
    }
    assert filled_in(value, fields) == {
        "whole": [1, 2],
        "part": "file a in /x: [1, 2]",
        "none": None,
        "list": ["/x", 3],
    }


# where they come from


OWN, MANAGED = command("echo own >&2; exit 2"), command("echo managed >&2; exit 2")
SOURCES = (source({"Stop": [group(OWN)]}), source({"Stop": [group(MANAGED)]}, "managed", "managed"))


@pytest.mark.parametrize(
    ("changed", "trusted", "expected"),
    [
        ({}, True, ["managed", "own"]),
        ({"allow_managed_hooks_only": True}, True, ["managed"]),
        ({"disable_all_hooks": True}, True, ["managed"]),
        ({}, False, ["managed"]),
    ],
    ids=str,
)
def test_whose_hooks_run(tmp_path, changed, trusted, expected):
    settings = replace(load_settings(tmp_path, os.environ), hooks=SOURCES, **changed)
    said = fire(settings_hooks(settings, os.environ, trusted=trusted), tmp_path, "Stop")
    assert sorted(said.reason.split()) == expected


def test_the_administrator_can_switch_all_hooks_off(tmp_path):
    managed = tmp_path / "managed"
    managed.mkdir()
    text = json.dumps({"disableAllHooks": True, "hooks": {"Stop": [group(MANAGED)]}})
    (managed / "managed-settings.json").write_text(text, "utf-8")
    settings = load_settings(tmp_path, os.environ, managed=managed)
    assert settings.hooks
    assert settings_hooks(settings, os.environ, trusted=True) is NO_HOOKS


# the document

ROW = re.compile(r"^\| `(\w+)` \| (fires|comes with|no meaning) \| \S", re.MULTILINE)


def test_the_document_tells_of_every_event():
    rows = ROW.findall(DOCUMENT.read_text("utf-8"))
    assert sorted(event for event, _ in rows) == sorted(EVENTS)
    assert len(rows) == 33


def test_what_the_document_says_fires_is_fired_by_the_code():
    rows = dict(ROW.findall(DOCUMENT.read_text("utf-8")))
    sources = Path(__file__).parents[3] / "src" / "cellwright"
    code = "\n".join(path.read_text("utf-8") for path in sources.rglob("*.py"))
    fired = {event for event in EVENTS if re.search(rf'(fire|ask_hooks|fire_hooks)\(\s*"{event}"', code)}
    assert fired == {event for event, fate in rows.items() if fate == "fires"}
