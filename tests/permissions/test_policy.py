"""The policy as a whole: other tools, modes, rules as they are written, and what a decision says."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.permissions.modes import Mode
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.rules.rule import grant_problem, parse_rule
from declared_tools import declared, tool_named
from row_tables import for_each_row

INPUTS = (
    {},
    {"file_path": "src/a.py", "path": "src/a.py", "notebook_path": "nb.ipynb", "pattern": "*", "command": "ls src"},
    {
        "file_path": ".env",
        "path": ".env",
        "notebook_path": ".env",
        "pattern": ".env",
        "command": "rm -rf ..",
        "fix": True,
    },
    {"url": "https://example.org/x", "query": "x", "prompt": "x", "subagent_type": "a", "skill": "s", "code": "1"},
    {"file_path": "/etc/passwd", "path": "/etc", "command": "cat /etc/passwd", "patch": "x", "cwd": "/"},
)
RULES = (
    {},
    {"deny": ["Read(.env)", "Agent(a)", "WebFetch(domain:example.org)"], "ask": ["Edit(src/**)"]},
    {"allow": ["Read", "Edit", "Bash", "Python", "mcp__s"], "deny": ["mcp__s__bad", "Grep"]},
)


@pytest.mark.parametrize(
    ("mode", "python", "reading", "changing"),
    [
        ("default", "ask", "allow", "ask"),
        ("acceptEdits", "ask", "allow", "ask"),
        ("plan", "deny", "allow", "deny"),
        ("dontAsk", "deny", "allow", "deny"),
        ("bypassPermissions", "allow", "allow", "allow"),
    ],
)
def test_tools_without_rules_of_their_own(place, mode, python, reading, changing):
    policy = place.policy(mode)
    assert policy.decide(tool_named("Python"), {"code": "1"}).behavior == python
    assert policy.decide(tool_named("Python", read_only=True), {"code": "1"}).behavior == python
    assert policy.decide(tool_named("my_lookup", read_only=True), {"key": "x"}).behavior == reading
    assert policy.decide(tool_named("my_deploy"), {"to": "x"}).behavior == changing
    assert policy.decide(tool_named("mcp__git__push"), {}).behavior == changing


@for_each_row(
    ("rule", "tool", "expected"),
    [
        ("Python", "Python", "allow"),
        ("Python(*)", "Python", "allow"),
        ("python", "Python", "allow"),
        ("Python(import os)", "Python", "ask"),
        ("my_deploy", "my_deploy", "allow"),
        ("my_deploy", "My_Deploy", "ask"),
        ("my_*", "my_deploy", "ask"),
        ("*", "my_deploy", "ask"),
        ("mcp__git__push", "mcp__git__push", "allow"),
        ("mcp__git__push", "mcp__git__pull", "ask"),
        ("mcp__git", "mcp__git__push", "allow"),
        ("mcp__git", "mcp__github__push", "ask"),
        ("mcp__git__*", "mcp__git__push", "allow"),
        ("mcp__git__pu*", "mcp__git__push", "allow"),
        ("mcp__git__pu*", "mcp__git__clone", "ask"),
        ("mcp__*", "mcp__git__push", "ask"),
        ("mcp__*__push", "mcp__git__push", "ask"),
        ("WebSearch", "WebSearch", "allow"),
        ("WebSearch(x)", "WebSearch", "ask"),
    ],
)
def test_allowing_by_name(place, rule, tool, expected):
    assert place.policy(allow=[rule]).decide(tool_named(tool), {}).behavior == expected


@for_each_row(
    ("rule", "tool", "expected"),
    [
        ("Python", "Python", "deny"),
        ("Python(import os)", "Python", "deny"),
        ("my_*", "my_deploy", "deny"),
        ("MY_DEPLOY", "my_deploy", "deny"),
        ("mcp__*", "mcp__git__push", "deny"),
        ("mcp__git", "mcp__git__push", "deny"),
        ("mcp__git__*", "mcp__git__push", "deny"),
        ("*__push", "mcp__git__push", "deny"),
        ("*", "anything", "deny"),
        ("*(x)", "anything", "deny"),
        # a specifier that is not understood here restricts every use
        ("WebFetch(domain:x.org)", "WebFetch", "deny"),
        ("Agent(Explore, Plan)", "Agent", "deny"),
        ("WebSearch(domain:x.org)", "WebSearch", "deny"),
        ("mcp__git", "mcp__github__push", "allow"),
        ("Bash(rm *)", "my_deploy", "allow"),
        ("Read(.env)", "my_deploy", "allow"),
    ],
)
def test_denying_by_name(place, rule, tool, expected):
    policy = place.policy("bypassPermissions", deny=[rule], allow=["Python", "my_deploy", "WebFetch"])
    assert policy.decide(tool_named(tool), {}).behavior == expected


MALFORMED = [
    *(
        "",
        " ",
        "()",
        "(x)",
        "Bash(",
        "Bash)",
        "Bash(ls",
        "Bash()",
        "Bash( )",
        "Bash ls",
        "Bash(ls) x",
        "1x",
        "Edit(!x)",
    ),
    *("Edit(*.{py,md})", "Read(**/../x)", "Bash(" + "x" * 5_000 + ")", "Read(a\0b)", "Read(~root/x)", "Read(\ud800)"),
]


@for_each_row("rule", MALFORMED)
@for_each_row("behavior", ["deny", "ask", "allow"])
def test_a_malformed_rule_is_an_error_that_names_it(place, rule, behavior):
    with pytest.raises(CellwrightError) as caught:
        place.policy(**{behavior: [rule]})
    assert caught.value.code == ErrorCode.CONFIG_INVALID
    assert rule.strip()[:40] in caught.value.message


@for_each_row(
    ("rule", "why"),
    [
        ("*", "by name"),
        ("mcp__*", "by name"),
        ("Bash(* --version)", "any program"),
        ("Bash(a && b)", "joins commands"),
        ("Bash(echo $X *)", "expansion"),
        ("Write(/src/**)", "Edit(/src/**)"),
        ("Glob(/src/**)", "Read(/src/**)"),
        ("WebFetch(x.org)", "WebFetch(domain:example.com)"),
        ("WebFetch(domain:x)", None),
        ("Agent(model:opus, x)", "not one name"),
        ("WebSearch(x)", "`WebSearch` without"),
        ("my_tool(to:x)", "only be denied or asked for"),
        ("Bash(ls *)", None),
        ("Edit(/src/**)", None),
        ("Read", None),
        ("mcp__git__*", None),
    ],
)
def test_an_allow_rule_that_grants_nothing_says_why(rule, why):
    problem = grant_problem(parse_rule(rule))
    assert (problem is None) if why is None else (why in (problem or "") and rule in (problem or ""))


def test_deny_goes_before_ask_and_ask_before_allow(place):
    tool_input = {"command": "make"}
    rules = {"deny": ["Bash(make)"], "ask": ["Bash(make *)"], "allow": ["Bash"]}
    assert place.policy(**rules).decide(tool_named("Bash"), tool_input).rule == "Bash(make)"
    assert (
        place.policy(ask=rules["ask"], allow=rules["allow"]).decide(tool_named("Bash"), tool_input).rule
        == "Bash(make *)"
    )
    assert place.policy(allow=rules["allow"]).decide(tool_named("Bash"), tool_input).rule == "Bash"


@for_each_row(
    ("tool", "tool_input", "session", "label", "always"),
    [
        ("Python", {"code": "1"}, "Python", "all Python of this session", None),
        ("my_deploy", {}, "my_deploy", "my_deploy", "my_deploy"),
        ("Edit", {"file_path": "src/a.py"}, "Edit(/{project}/**)", "all edits in this folder", None),
        ("Write", {"file_path": "../outside/x"}, "Edit(/{home}/outside/x)", "{home}/outside/x", None),
        ("Edit", {"file_path": ".git/config"}, None, "", None),
        ("Edit", {"file_path": "link-file"}, None, "", None),
        (
            "Read",
            {"file_path": "../outside/x"},
            "Read(/{home}/outside/**)",
            "{home}/outside",
            "Read(/{home}/outside/x)",
        ),
        ("Grep", {"path": "../outside"}, "Read(/{home}/outside/**)", "{home}/outside", "Read(/{home}/outside/**)"),
        ("Read", {"file_path": "../x"}, "Read(/{home}/x)", "{home}/x", "Read(/{home}/x)"),
        ("Read", {"file_path": "/x"}, "Read(//x)", "/x", "Read(//x)"),
        ("LS", {"path": ".."}, "Read(/{home})", "{home}", "Read(/{home})"),
        ("Read", {"file_path": "link-file"}, None, "", None),
        ("Write", {"file_path": "../outside/[x]*"}, "Edit(/{home}/outside/[[]x][*])", "", None),
    ],
)
def test_what_is_offered(place, tool, tool_input, session, label, always):
    decision = place.policy().decide(tool_named(tool), tool_input)
    assert decision.behavior == "ask"
    offered = {suggestion.scope: suggestion for suggestion in decision.suggestions}
    assert ("session" in offered, "always" in offered) == (session is not None, always is not None)
    if session is not None:
        assert offered["session"].rules == (place.fill(session),)
        assert place.fill(label) in offered["session"].label
    if always is not None:
        assert offered["always"].rules == (place.fill(always),)
    for suggestion in decision.suggestions:
        assert place.policy().allowing([suggestion.rules[0]]).decide(tool_named(tool), tool_input).behavior == "allow"


def test_all_edits_of_a_folder_behind_a_link_are_offered(place):
    linked = place.home / "way-in"
    policy = PermissionPolicy(roots=[linked], cwd=linked)
    for path in ("src/a.py", str(linked / "src/a.py"), str(place.project / "src/a.py")):
        (offer,) = policy.decide(tool_named("Edit"), {"file_path": path}).suggestions
        assert offer.label == "all edits in this folder (way-in) for this session"
        allowing = policy.allowing(offer.rules)
        assert allowing.decide(tool_named("Write"), {"file_path": path}).behavior == "allow"
        assert allowing.decide(tool_named("Write"), {"file_path": "new.py"}).behavior == "allow"
        for other in ("../outside/x", str(place.home / "proj-evil/x"), ".mcp.json", "link-file"):
            assert allowing.decide(tool_named("Write"), {"file_path": other}).behavior == "ask"


def test_what_is_asked_about_in_a_folder_behind_a_link_is_named_from_there(place):
    linked = place.home / "way-in"
    policy = PermissionPolicy(roots=[linked], cwd=linked)
    assert policy.decide(tool_named("Edit"), {"file_path": "src/a.py"}).reason.startswith("Edits src/a.py")
    assert policy.decide(tool_named("Edit"), {"file_path": "link-in/a.py"}).reason.startswith("Edits link-in/a.py")


@pytest.mark.parametrize("skill", ["p*", "*"])
def test_no_rule_is_offered_for_a_skill_that_a_rule_would_take_for_any(place, skill):
    decision = place.policy().decide(tool_named("Skill"), {"skill": skill})
    assert (decision.behavior, decision.suggestions) == ("ask", ())


def test_what_a_session_allowed_covers_no_more_than_it_said(place):
    decision = place.policy().decide(tool_named("Edit"), {"file_path": "src/a.py"})
    policy = place.policy().allowing([decision.suggestions[0].rules[0]])
    assert policy.decide(tool_named("Write"), {"file_path": "notes.txt"}).behavior == "allow"
    assert policy.decide(tool_named("Write"), {"file_path": ".mcp.json"}).behavior == "ask"
    assert policy.decide(tool_named("Write"), {"file_path": "../proj-evil/x"}).behavior == "ask"
    assert policy.decide(tool_named("Bash"), {"command": "touch x"}).behavior == "ask"


@for_each_row(
    ("tool", "tool_input"),
    [
        ("Bash", {"command": "make"}),
        ("Edit", {"file_path": "x"}),
        ("Python", {"code": "1"}),
        ("deploy", {}),
        ("Read", {"file_path": "/x"}),
    ],
)
@for_each_row("mode", ["default", "plan", "acceptEdits", "dontAsk", "bypassPermissions"])
@for_each_row("rules", [{}, {"deny": ["*"]}, {"ask": ["*"]}, {"allow": ["Bash", "Edit", "Python"]}])
def test_every_decision_gives_its_reason_as_a_sentence(place, tool, tool_input, mode, rules):
    decision = place.policy(mode, **rules).decide(tool_named(tool), tool_input)
    assert decision.reason[0].isupper() or decision.reason[0] in "`/"
    assert decision.reason.endswith(".")
    if rules == {"deny": ["*"]}:
        assert decision.behavior == "deny"
        assert decision.rule == "*"


def test_it_cannot_be_changed(place):
    policy = place.policy(allow=["Bash(make)"])
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.mode = "bypassPermissions"  # type: ignore[misc]
    more = policy.allowing(["Python"])
    assert policy.decide(tool_named("Python"), {}).behavior == "ask"
    assert more.decide(tool_named("Python"), {}).behavior == "allow"
    assert more.decide(tool_named("Bash"), {"command": "make"}).behavior == "allow"
    assert policy.allowing([]) is policy


def test_its_defaults_are_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    policy = PermissionPolicy()
    assert policy.mode == "default"
    assert policy.decide(tool_named("Read"), {"file_path": "x"}).behavior == "allow"
    assert policy.decide(tool_named("Read"), {"file_path": str(tmp_path.parent / "x")}).behavior == "ask"


def test_a_single_string_is_one_rule_and_not_its_letters():
    assert PermissionPolicy(allow="Bash(make)").decide(tool_named("Bash"), {"command": "make"}).behavior == "allow"
    assert PermissionPolicy(deny="Python").decide(tool_named("Python"), {}).behavior == "deny"


@for_each_row("value", [None, 1, ["a"], {"a": 1}, ""])
@for_each_row("tool", ["Bash", "Read", "Edit", "Glob", "Grep", "NotebookEdit", "LS"])
def test_input_of_a_wrong_type_is_never_allowed_to_change_anything(place, tool, value):
    tool_input = dict.fromkeys(("command", "file_path", "notebook_path", "pattern"), value)
    decision = place.policy("acceptEdits").decide(tool_named(tool), tool_input)
    assert decision.behavior in ("ask", "deny") or tool in ("Glob", "Grep", "LS", "Read")


def test_who_has_no_rules_for_commands_does_not_import_the_shell(tmp_path):
    code = (
        "import sys\n"
        "from cellwright.permissions.policy import PermissionPolicy\n"
        "from cellwright.tools.files.file_state import FileState\n"
        "from cellwright.tools.files.read import read_tool\n"
        "from pathlib import Path\n"
        "rules = {'deny': ['Read(.env)', 'WebFetch(domain:example.com)'], 'allow': ['Skill(a)', 'Edit(/src/**)']}\n"
        "policy = PermissionPolicy(**rules, cwd=sys.argv[1])\n"
        "decision = policy.decide(read_tool(FileState(), Path(sys.argv[1])), {'file_path': 'a.txt'})\n"
        "print(decision.behavior, [name for name in sys.modules if name.startswith('cellwright.permissions.shell')])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == "allow []\n"


@pytest.mark.parametrize("mode", get_args(Mode))
def test_a_name_is_judged_as_the_tool(place, mode):
    for rules in RULES:
        policy = place.policy(mode, **rules)
        for name, tool in declared().items():
            assert policy.hides(name) == policy.hides(tool)
            for tool_input in INPUTS:
                assert policy.decide(name, tool_input) == policy.decide(tool, tool_input), (name, tool_input, rules)


@pytest.mark.parametrize("name", ["mcp__s__t", "mcp__s__bad", "Unknown", "", "Task", "bash", "Bash ", "nosuch__Read"])
def test_other_names_are_judged_as_tools_that_declare_nothing(place, name):
    for rules in RULES:
        policy = place.policy(**rules)
        if name == "bash":
            assert policy.decide(name, {"command": "ls"}).behavior == "ask"
        elif name:
            assert policy.decide(name, {}).behavior == policy.decide(tool_named(name), {}).behavior
        else:
            assert policy.decide(name, {}).behavior == "ask"


def test_an_older_name_is_the_tool_it_names_now(place):
    policy = place.policy(deny=["Read(.env)"])
    for name in ("Read", "read_file"):
        assert policy.decide(name, {"file_path": ".env"}).behavior == "deny"
