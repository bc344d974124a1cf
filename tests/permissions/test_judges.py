"""What each kind of tool may do in each mode, and what it says when it may not."""

from __future__ import annotations

import pytest

from cellwright.agent.calls.approval import ToolUse
from cellwright.agent.calls.permission_gate import no_user_text
from cellwright.events import Preview
from cellwright.permissions.policy import JUDGES, PermissionPolicy
from declared_tools import tool_named
from row_tables import for_each_row

READS = ("allow", "allow", "allow", "allow", "allow")
ASKS = ("ask", "ask", "deny", "deny", "allow")
EDITS = ("ask", "allow", "deny", "deny", "allow")
ASKS_IN_PLAN = ("ask", "ask", "ask", "deny", "allow")
QUESTION = ("ask", "ask", "ask", "deny", "ask")
MODES = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")

PATCH = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-x\n+y\n"

CALLS = [
    ("Read", {"file_path": "src/a.py"}, READS),
    ("Grep", {"pattern": "x"}, READS),
    ("Glob", {"pattern": "**/*.py"}, READS),
    ("LS", {"path": "src"}, READS),
    ("FileTree", {"path": "src"}, READS),
    ("FileTree", {}, READS),
    ("FindReferences", {"name": "f", "path": "src"}, READS),
    ("NotebookRead", {"notebook_path": "nb.ipynb"}, READS),
    ("Git", {"subcommand": "status"}, READS),
    ("Git", {"subcommand": "diff", "args": ["HEAD~1", "--", "src/a.py"]}, READS),
    ("Edit", {"file_path": "src/a.py"}, EDITS),
    ("Write", {"file_path": "src/new.py"}, EDITS),
    ("MultiEdit", {"file_path": "src/a.py"}, EDITS),
    ("EditSymbol", {"file_path": "src/a.py", "symbol": "f"}, EDITS),
    ("NotebookEdit", {"notebook_path": "nb.ipynb"}, EDITS),
    ("ApplyPatch", {"patch": PATCH}, EDITS),
    ("Python", {"code": "1"}, ASKS),
    ("Branch", {"code": "1"}, ASKS),
    ("Branch", {"code": "1", "setting": "on", "unconfined": "No Landlock."}, ASKS),
    ("NotebookRun", {"which": "all", "codes": ["1"]}, ASKS),
    ("NotebookVerify", {"codes": ["1"]}, ASKS),
    ("Variables", {}, READS),
    ("Bash", {"command": "make"}, ASKS),
    ("RunTests", {}, ASKS),
    ("RunTests", {"path": "tests"}, ASKS),
    ("Lint", {"paths": ["src"]}, ASKS),
    ("Lint", {"paths": ["src"], "fix": True}, ASKS),
    ("my_deploy", {}, ASKS),
    ("mcp__git__push", {}, ASKS),
    ("WebFetch", {"url": "https://example.com/", "prompt": "p"}, ASKS_IN_PLAN),
    ("WebSearch", {"query": "q"}, ASKS_IN_PLAN),
    ("Skill", {"skill": "commit"}, ASKS_IN_PLAN),
    ("Agent", {"prompt": "p"}, READS),
    ("Task", {"prompt": "p"}, READS),
    ("TodoWrite", {"todos": []}, READS),
    ("TodoRead", {}, READS),
    ("TaskCreate", {"subject": "s"}, READS),
    ("TaskGet", {"taskId": "1"}, READS),
    ("TaskUpdate", {"taskId": "1"}, READS),
    ("TaskList", {}, READS),
    ("TaskStop", {"task_id": "1"}, READS),
    ("EnterPlanMode", {}, READS),
    ("AskUserQuestion", {"questions": []}, QUESTION),
    ("ExitPlanMode", {"plan": "p"}, ("deny", "deny", "ask", "deny", "deny")),
]


@for_each_row(("tool", "tool_input", "expected"), CALLS)
def test_in_each_mode(place, tool, tool_input, expected):
    decided = tuple(place.policy(mode).decide(tool_named(tool), tool_input).behavior for mode in MODES)
    assert decided == expected


def test_every_kind_of_access_is_in_the_table_above():
    assert {tool_named(tool).access.kind for tool, _, _ in CALLS} == set(JUDGES)


@for_each_row(("tool", "tool_input"), [call[:2] for call in CALLS])
@for_each_row("mode", MODES)
def test_deny_and_ask_rules_hold_for_all_of_them_in_every_mode(place, tool, tool_input, mode):
    name = "Agent" if tool == "Task" else tool
    denied = place.policy(mode, deny=[name], allow=[name]).decide(tool_named(tool), tool_input)
    assert (denied.behavior, denied.rule) == ("deny", name)
    asked = place.policy(mode, ask=[name], allow=[name]).decide(tool_named(tool), tool_input)
    assert asked.behavior in ("ask", "deny")
    assert asked.firm or asked.behavior == "deny"


@for_each_row(("tool", "tool_input", "expected"), CALLS)
def test_where_nobody_can_be_asked_the_way_out_is_a_rule_that_works(place, tool, tool_input, expected):
    decision = place.policy().decide(tool_named(tool), tool_input)
    if decision.behavior != "ask" or expected is QUESTION:
        return
    use = ToolUse("1", tool, tool_input, decision, Preview("p", ""))
    said = no_user_text(use)
    rules = decision.suggestions[-1].rules
    assert all(f"`{rule}`" in said for rule in rules)
    assert "would allow it" in said
    assert place.policy("dontAsk", allow=list(rules)).decide(tool_named(tool), tool_input).behavior == "allow"
    silent = place.policy("dontAsk").decide(tool_named(tool), tool_input)
    assert all(f"`{rule}`" in silent.reason for rule in rules)


@pytest.mark.parametrize("tool", ["AskUserQuestion", "ExitPlanMode"])
def test_no_rule_answers_a_question_to_the_user(place, tool):
    policy = place.policy("plan", allow=[tool, "AskUserQuestion(*)", "*"])
    decision = policy.decide(tool_named(tool), {"plan": "p"})
    assert (decision.behavior, decision.firm, decision.suggestions) == ("ask", True, ())
    silent = place.policy("dontAsk", allow=[tool]).decide(tool_named(tool), {"plan": "p"})
    assert silent.behavior == "deny"


def test_there_is_no_plan_to_approve_outside_plan_mode(place):
    decision = place.policy("acceptEdits").decide(tool_named("ExitPlanMode"), {"plan": "p"})
    assert decision.behavior == "deny"
    assert "acceptEdits, not in plan mode" in decision.reason


def test_in_plan_mode_only_what_says_that_it_reads_is_asked_for(place):
    policy = place.policy("plan", allow=["mcp__docs", "mcp__git__push", "my_deploy"])
    assert policy.decide(tool_named("mcp__docs__find", read_only=True), {}).behavior == "allow"
    assert policy.decide(tool_named("mcp__other__find", read_only=True), {}).behavior == "ask"
    assert policy.decide(tool_named("mcp__git__push"), {}).behavior == "deny"
    assert policy.decide(tool_named("my_deploy"), {}).behavior == "deny"
    assert policy.decide(tool_named("my_lookup", read_only=True), {}).behavior == "allow"
    assert "needs another mode" in policy.decide(tool_named("Edit"), {"file_path": "src/a.py"}).reason


# ---- patches ----


def rename(old: str, new: str) -> str:
    return f"diff --git a/{old} b/{new}\nsimilarity index 100%\nrename from {old}\nrename to {new}\n"


def create(path: str, mode: str = "100644") -> str:
    return f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{path}\n"


def delete(path: str) -> str:
    return f"diff --git a/{path} b/{path}\ndeleted file mode 100644\n--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"


def edit(path: str) -> str:
    return f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-x\n+y\n"


def copy(old: str, new: str) -> str:
    return f"diff --git a/{old} b/{new}\nsimilarity index 100%\ncopy from {old}\ncopy to {new}\n"


@for_each_row(
    ("patch", "expected"),
    [
        (edit("src/a.py"), "allow"),
        (edit("src/a.py") + create("src/new.py") + delete("notes.txt"), "allow"),
        (rename("src/a.py", "src/c.py"), "allow"),
        ("Some words before.\n\n" + edit("src/a.py"), "allow"),
        (edit('"src/a.py"'), "allow"),
        # each file counts, wherever it stands in the patch
        (edit("src/a.py") + edit(".git/config"), "ask"),
        (create(".mcp.json") + edit("src/a.py"), "ask"),
        (create(".claude/settings.json"), "ask"),
        (create("conf/.GIT/hooks/post-checkout"), "ask"),
        (delete(".git/index"), "ask"),
        (rename("src/a.py", ".vscode/tasks.json"), "ask"),
        (rename(".vscode/tasks.json", "src/a.json"), "ask"),
        (rename("src/a.py", "sitecustomize.py"), "ask"),
        (copy("src/a.py", ".bashrc"), "ask"),
        (edit("../outside/data.csv"), "ask"),
        (edit("src/../../outside/data.csv"), "ask"),
        (rename("src/a.py", "../outside/a.py"), "ask"),
        (rename("../outside/data.csv", "src/a.csv"), "ask"),
        (copy("../outside/data.csv", "src/a.csv"), "ask"),
        (create("link-out/new.csv"), "ask"),
        (edit("link-file"), "ask"),
        (delete("back/a.py"), "ask"),
        # a link may lead anywhere
        (create("src/link", "120000"), "ask"),
        (create("sub", "160000"), "ask"),
        # deny rules
        (edit("src/a.py") + edit("secrets/key.pem"), "deny"),
        (rename("secrets/key.pem", "src/key.txt"), "deny"),
        (rename("src/a.py", "secrets/a.py"), "deny"),
        (delete("secrets/key.pem"), "deny"),
        (create("secrets/new"), "deny"),
        (copy("secrets/key.pem", "src/key.txt"), "deny"),
        (edit("SECRETS/key.pem"), "deny"),
        (create(".env.local"), "allow"),
        (create("src/.env"), "deny"),
        (edit("link-env"), "deny"),
        # not understood
        ("", "deny"),
        ("just words", "deny"),
        ("--- a/src/a.py\n+++ b/src/b.py\n@@ -1 +1 @@\n-x\n+y\n", "deny"),
        ("*** Begin Patch\n*** Update File: src/a.py\n", "deny"),
        ("@@ -1 +1 @@\n-x\n+y\n", "deny"),
        (edit("src/a\0.py"), "deny"),
    ],
)
def test_patches(place, patch, expected):
    policy = place.policy("acceptEdits", deny=["Read(./secrets/**)", "Read(.env)"])
    assert policy.decide(tool_named("ApplyPatch"), {"patch": patch}).behavior == expected
    if expected == "deny":
        bypassing = place.policy("bypassPermissions", deny=["Read(./secrets/**)", "Read(.env)"], allow=["ApplyPatch"])
        assert bypassing.decide(tool_named("ApplyPatch"), {"patch": patch}).behavior == "deny"


@pytest.mark.parametrize("tool_input", [{}, {"patch": None}, {"patch": 1}, {"patch": [PATCH]}])
def test_a_patch_of_a_wrong_type_is_denied(place, tool_input):
    assert place.policy("bypassPermissions").decide(tool_named("ApplyPatch"), tool_input).behavior == "deny"


def test_what_strip_takes_off_counts(place):
    policy = place.policy("acceptEdits")
    patch = edit("src/a.py").replace("a/src", "x/y/.git").replace("b/src", "x/y/.git")
    assert policy.decide(tool_named("ApplyPatch"), {"patch": patch, "strip": 3}).behavior == "allow"
    assert policy.decide(tool_named("ApplyPatch"), {"patch": patch, "strip": 2}).behavior == "ask"


def test_a_patch_is_allowed_by_the_rules_of_its_files_together(place):
    patch = edit("src/a.py") + create("../outside/new.csv")
    decision = place.policy().decide(tool_named("ApplyPatch"), {"patch": patch})
    (offer,) = decision.suggestions
    assert offer.rules == (place.fill("Edit(/{project}/src/a.py)"), place.fill("Edit(/{home}/outside/new.csv)"))
    assert offer.scope == "session"
    assert place.policy(allow=[offer.rules[0]]).decide(tool_named("ApplyPatch"), {"patch": patch}).behavior == "ask"
    assert place.policy(allow=list(offer.rules)).decide(tool_named("ApplyPatch"), {"patch": patch}).behavior == "allow"
    many = "".join(create(f"../outside/{number}") for number in range(6))
    assert place.policy().decide(tool_named("ApplyPatch"), {"patch": many}).suggestions == ()


def test_a_very_long_patch_is_judged_as_a_small_one_and_its_deny_rules_hold(place):
    many = "".join(create(f"src/{number}.py") for number in range(501))
    policy = place.policy("acceptEdits", deny=["Read(.env)"])
    decision = policy.decide(tool_named("ApplyPatch"), {"patch": many})
    assert decision.behavior == "allow", "as a small one would be"
    asking = place.policy("default").decide(tool_named("ApplyPatch"), {"patch": many})
    assert (asking.behavior, asking.suggestions) == ("ask", ())
    assert policy.decide(tool_named("ApplyPatch"), {"patch": many + create(".env")}).behavior == "deny"
    endless = "".join(create(f"src/{number}") for number in range(10_001))
    assert place.policy("bypassPermissions").decide(tool_named("ApplyPatch"), {"patch": endless}).behavior == "deny"


# ---- git, linters, tests ----


@for_each_row(
    ("tool_input", "expected"),
    [
        ({"subcommand": "status"}, "allow"),
        ({"subcommand": "log", "args": ["--oneline", "-n", "5"]}, "allow"),
        ({"subcommand": "log", "args": ["main..feature"]}, "allow"),
        ({"subcommand": "diff", "path": "src"}, "ask"),
        ({"subcommand": "diff", "args": ["--stat"]}, "allow"),
        ({"subcommand": "diff", "args": ["--stat", "-p"]}, "ask"),
        ({"subcommand": "log", "args": ["-wp"]}, "ask"),
        ({"subcommand": "log", "args": ["--check"]}, "ask"),
        ({"subcommand": "show", "args": ["abc1234", "--", "src/a.py"]}, "ask"),
        ({"subcommand": "show", "args": ["--stat", "abc1234"]}, "ask"),
        ({"subcommand": "show", "args": ["abc1234^{commit}", "--", "src/a.py"]}, "allow"),
        ({"subcommand": "show", "args": ["HEAD", "--", "src"]}, "ask"),
        ({"subcommand": "blame", "args": ["src/a.py"]}, "allow"),
        ({"subcommand": "diff", "args": ["--", "src/a.py", "notes.txt"]}, "allow"),
        ({"subcommand": "diff", "args": ["--", "."]}, "ask"),
        ({"subcommand": "diff", "args": ["--", "*.py"]}, "ask"),
        ({"subcommand": "diff", "args": ["--", ":(icase).ENV"]}, "ask"),
        ({"subcommand": "show", "args": ["HEAD"]}, "ask"),
        ({"subcommand": "log", "args": ["-p"]}, "ask"),
        ({"subcommand": "log", "args": ["-U3"]}, "ask"),
        ({"subcommand": "log", "args": ["-L1,5:src/a.py"]}, "ask"),
        # named outright
        ({"subcommand": "show", "args": ["HEAD:.env"]}, "deny"),
        ({"subcommand": "show", "args": ["HEAD:src/../.env"]}, "deny"),
        ({"subcommand": "show", "args": [":0:.env"]}, "deny"),
        ({"subcommand": "show", "args": ["HEAD:secrets/key.pem"], "path": "src"}, "deny"),
        ({"subcommand": "diff", "args": ["--", ".env"]}, "deny"),
        ({"subcommand": "diff", "args": ["--", "secrets"]}, "deny"),
        ({"subcommand": "diff", "args": ["--", "../.env"], "path": "src"}, "deny"),
        ({"subcommand": "blame", "args": [".ENV"]}, "deny"),
        ({"subcommand": "show", "args": ["a:b:c:.env"]}, "deny"),
        ({"subcommand": "show", "args": [":" * 1000 + ".env"]}, "ask"),
        ({"subcommand": "log", "args": ["-L1,5:.env"]}, "deny"),
        ({"subcommand": "status", "path": "secrets"}, "deny"),
        # elsewhere
        ({"subcommand": "status", "path": "../outside"}, "ask"),
        ({"subcommand": "status", "path": "link-out"}, "ask"),
        ({"subcommand": "status", "path": "/"}, "ask"),
        ({"subcommand": "diff", "args": ["--", "/etc/passwd"]}, "ask"),
        ({"subcommand": "log", "args": ["--", "../outside/data.csv"]}, "ask"),
        ({"subcommand": "log", "args": [1, None, {}]}, "allow"),
        ({"subcommand": "log", "args": "HEAD:.env"}, "allow"),
    ],
)
def test_git_with_files_that_may_not_be_read(place, tool_input, expected):
    policy = place.policy(deny=["Read(.env)", "Read(./secrets/**)"])
    assert policy.decide(tool_named("Git", read_only=True), tool_input).behavior == expected
    if expected == "deny":
        assert place.policy("bypassPermissions", deny=["Read(.env)", "Read(./secrets/**)"]).decide(
            tool_named("Git"), tool_input
        ).behavior == ("deny")
    else:
        assert place.policy("plan").decide(tool_named("Git"), tool_input).behavior in ("allow", "ask")


def test_git_prints_anything_where_no_rule_hides_a_file(place):
    for subcommand in ("diff", "show", "blame", "log"):
        assert place.policy().decide(tool_named("Git"), {"subcommand": subcommand, "args": ["-p"]}).behavior == "allow"


@for_each_row(
    ("tool_input", "rules", "expected"),
    [
        ({"paths": ["src"]}, {"allow": ["Lint"]}, "allow"),
        ({"paths": ["../outside"]}, {"allow": ["Lint"]}, "ask"),
        ({"paths": ["src", "/etc"]}, {"allow": ["Lint"]}, "ask"),
        ({"paths": ["src"], "fix": True}, {"allow": ["Lint"]}, "ask"),
        ({"paths": ["src"], "fix": True}, {"allow": ["Lint", "Edit"]}, "allow"),
        ({"paths": ["src"], "fix": True}, {"allow": ["Lint", "Edit(/src/**)"]}, "allow"),
        ({"paths": ["src"], "fix": True}, {"allow": ["Lint", "Edit(/src/*)", "Edit(/src)"]}, "ask"),
        ({"paths": ["src"], "fix": True}, {"deny": ["Edit(b.py)"], "allow": ["Lint", "Edit"]}, "deny"),
        ({"paths": ["src"], "fix": True}, {"ask": ["Edit(b.py)"], "allow": ["Lint", "Edit"]}, "ask"),
        ({"paths": ["src/a.py"], "fix": True}, {"allow": ["Lint", "Edit(/src/**)"]}, "allow"),
        ({"paths": [".git/x.py"], "fix": True}, {"allow": ["Lint", "Edit"]}, "ask"),
        ({"paths": ["src"], "fix": True}, {"deny": ["Edit(/src/**)"], "allow": ["Lint", "Edit"]}, "deny"),
        ({"paths": ["src"], "fix": False}, {"deny": ["Edit(/src/**)"], "allow": ["Lint"]}, "allow"),
        ({"paths": [".env"]}, {"deny": ["Read(.env)"], "allow": ["Lint"]}, "deny"),
        ({"fix": True}, {"allow": ["Lint"]}, "ask"),
        ({"fix": True}, {"allow": ["Lint", "Edit"]}, "allow"),
        ({}, {"allow": ["Lint"]}, "allow"),
        ({}, {"deny": ["Lint(fix:true)"], "allow": ["Lint"]}, "allow"),
        ({"path": "src", "paths": ["a.py"], "fix": True}, {"allow": ["Lint", "Edit(/src/**)"]}, "allow"),
        ({"path": "src", "paths": ["../notes.txt"], "fix": True}, {"allow": ["Lint", "Edit(/src/**)"]}, "ask"),
        # what the tool knows of the linter
        ({"paths": ["src"], "runs_project_code": False}, {}, "allow"),
        ({"paths": ["src"], "runs_project_code": True}, {}, "ask"),
        ({"paths": ["../outside"], "runs_project_code": False}, {}, "ask"),
        ({"paths": ["src"], "runs_project_code": False, "fix": True}, {}, "ask"),
        ({"paths": ["src"], "runs_project_code": False, "fix": True}, {"allow": ["Edit"]}, "allow"),
        ({"paths": ["src"], "runs_project_code": False}, {"ask": ["Lint"]}, "ask"),
        ({"paths": ["src"], "runs_project_code": False}, {"mode": "plan"}, "allow"),
        ({"paths": ["src"], "runs_project_code": False, "fix": True}, {"mode": "plan"}, "deny"),
        ({"paths": ["src"], "fix": True}, {"mode": "acceptEdits", "allow": ["Lint"]}, "allow"),
        ({"paths": ["src"], "runs_project_code": False, "fix": True}, {"mode": "acceptEdits"}, "allow"),
        ({"fix": True}, {"deny": ["Lint(fix:true)"], "allow": ["Lint", "Edit"]}, "deny"),
    ],
)
def test_linters(place, tool_input, rules, expected):
    assert place.policy(**rules).decide(tool_named("Lint"), tool_input).behavior == expected


@for_each_row(
    ("tool_input", "rules", "expected"),
    [
        ({}, {"allow": ["RunTests"]}, "allow"),
        ({"paths": ["tests/test_a.py::test_b"]}, {"allow": ["RunTests"]}, "allow"),
        ({"paths": ["tests", "src"]}, {"allow": ["RunTests"]}, "allow"),
        ({"path": "src", "paths": ["../tests"]}, {"allow": ["RunTests"]}, "allow"),
        ({"path": "src", "paths": ["../../outside"]}, {"allow": ["RunTests"]}, "ask"),
        ({"path": "../outside"}, {"allow": ["RunTests"]}, "ask"),
        ({"path": "../outside"}, {"allow": ["RunTests", "Read(~/outside)"]}, "allow"),
        ({"path": "link-out"}, {"allow": ["RunTests"]}, "ask"),
        ({"paths": ["link-out/test_a.py::x"]}, {"allow": ["RunTests"]}, "ask"),
        ({"args": ["-x", "-k", "name"]}, {"allow": ["RunTests"]}, "allow"),
        ({"args": ["--rootdir=/etc"]}, {"allow": ["RunTests"]}, "ask"),
        ({"args": ["/etc/x"]}, {"allow": ["RunTests"]}, "ask"),
        ({"args": ["-c=.env"]}, {"allow": ["RunTests"], "deny": ["Read(.env)"]}, "deny"),
        ({"path": "secrets"}, {"allow": ["RunTests"], "deny": ["Read(./secrets/**)"]}, "deny"),
        ({"path": "src", "paths": ["../secrets"]}, {"allow": ["RunTests"], "deny": ["Read(./secrets/**)"]}, "deny"),
        ({"path": "tests"}, {"allow": ["Read", "Edit", "Bash"]}, "ask"),
    ],
)
def test_tests(place, tool_input, rules, expected):
    assert place.policy(**rules).decide(tool_named("RunTests"), tool_input).behavior == expected


# ---- what the settings forbid outright ----


@for_each_row("mode", MODES)
@for_each_row(
    ("tool", "tool_input"),
    [
        ("Read", {"file_path": "/etc/hosts"}),
        ("Read", {"file_path": "link-file"}),
        ("Grep", {"pattern": "x", "path": ".."}),
        ("Glob", {"pattern": "/etc/*"}),
        ("Glob", {"pattern": "*/../../x"}),
        ("LS", {"path": "~/outside"}),
        ("Git", {"subcommand": "status", "path": ".."}),
        ("RunTests", {"path": "/etc"}),
    ],
)
def test_reading_outside_can_be_forbidden(place, mode, tool, tool_input):
    policy = PermissionPolicy(
        mode, allow=["Read(//**)", tool], roots=[place.project], cwd=place.project, block_reads_outside=True
    )
    decision = policy.decide(tool_named(tool), tool_input)
    assert decision.behavior == "deny"
    assert "permissions.blockReadsOutsideWorkingDirectories" in decision.reason
    assert policy.decide(tool_named("Read"), {"file_path": "src/a.py"}).behavior == "allow"


@for_each_row("mode", ["default", "acceptEdits", "bypassPermissions"])
@for_each_row(
    ("tool", "tool_input"),
    [
        ("Write", {"file_path": "/etc/x"}),
        ("Edit", {"file_path": "link-file"}),
        ("NotebookEdit", {"notebook_path": "../outside/nb.ipynb"}),
        ("ApplyPatch", {"patch": edit("src/a.py") + create("../outside/new")}),
        ("Lint", {"fix": True, "paths": ["/etc"]}),
    ],
)
def test_writing_outside_can_be_forbidden(place, mode, tool, tool_input):
    policy = PermissionPolicy(
        mode, allow=["Edit(//**)", tool], roots=[place.project], cwd=place.project, block_writes_outside=True
    )
    decision = policy.decide(tool_named(tool), tool_input)
    assert decision.behavior == "deny"
    assert "permissions.blockWritesOutsideWorkingDirectories" in decision.reason
    assert policy.decide(tool_named("Write"), {"file_path": "src/new.py"}).behavior == "allow"
    assert policy.decide(tool_named("Read"), {"file_path": "/etc/hosts"}).behavior == "allow"


def test_a_readable_folder_is_for_reading_and_no_more(place):
    policy = PermissionPolicy(
        "acceptEdits",
        roots=[place.project],
        cwd=place.project,
        readable=[place.home / "outside"],
        block_reads_outside=True,
    )
    assert policy.decide(tool_named("Read"), {"file_path": "link-file"}).behavior == "allow"
    assert policy.decide(tool_named("Grep"), {"pattern": "x", "path": ".."}).behavior == "deny"
    assert (
        policy.decide(tool_named("Read"), {"file_path": str(place.home / "outside" / "data.csv")}).behavior == "allow"
    )
    assert policy.decide(tool_named("Read"), {"file_path": str(place.home / "outside-x")}).behavior == "deny"
    assert policy.decide(tool_named("Edit"), {"file_path": "link-file"}).behavior == "ask"


# ---- what a decision says ----


@for_each_row(
    ("tool", "tool_input", "says"),
    [
        ("Write", {"file_path": "/etc/x"}, "It writes outside the project: /etc/x."),
        ("Read", {"file_path": "/etc/x"}, "It reads outside the project: /etc/x."),
        ("Edit", {"file_path": "link-file"}, "{home}/outside/data.csv by way of {project}/link-file."),
        ("Glob", {"pattern": "*/../../x"}, "Its pattern may lead out of {project}"),
        ("Edit", {"file_path": "src/a.py"}, "Edits src/a.py."),
        ("Edit", {"file_path": ".git/config"}, "is protected (`.git`)"),
        ("WebFetch", {"url": "https://Example.com/x"}, "a request to example.com"),
        ("WebFetch", {"url": "https://a@example.com/x"}, "user name before its host"),
        ("Skill", {"skill": "commit"}, "the skill commit"),
        ("mcp__git__push", {}, "the MCP server git"),
        ("RunTests", {}, "Runs the project's tests"),
    ],
)
def test_the_reason_names_the_cause(place, tool, tool_input, says):
    assert place.fill(says) in place.policy().decide(tool_named(tool), tool_input).reason


def test_protected_files_ask_the_user_whatever_a_hook_says(place):
    assert place.policy("acceptEdits").decide(tool_named("Write"), {"file_path": ".mcp.json"}).firm
    assert not place.policy().decide(tool_named("Write"), {"file_path": "src/a.py"}).firm


@for_each_row(
    ("tool", "tool_input", "rule", "scopes"),
    [
        (
            "WebFetch",
            {"url": "https://Docs.Example.com./a"},
            "WebFetch(domain:docs.example.com)",
            ["session", "always"],
        ),
        ("WebSearch", {"query": "q"}, "WebSearch", ["session", "always"]),
        ("mcp__git__push", {}, "mcp__git__push", ["session", "always"]),
        ("Skill", {"skill": "commit"}, "Skill(commit)", ["session", "always"]),
        ("Skill", {"skill": "commit", "args": "-a"}, "Skill(commit *)", ["session", "always"]),
        ("RunTests", {}, "RunTests", ["session", "always"]),
        ("EditSymbol", {"file_path": "src/a.py"}, "Edit(/{project}/**)", ["session"]),
        ("ApplyPatch", {"patch": PATCH}, "Edit(/{project}/**)", ["session"]),
        ("Python", {"code": "1"}, "Python", ["session"]),
    ],
)
def test_what_is_offered_is_what_would_be_saved(place, tool, tool_input, rule, scopes):
    offered = place.policy().decide(tool_named(tool), tool_input).suggestions
    assert [(offer.scope, offer.rules) for offer in offered] == [(scope, (place.fill(rule),)) for scope in scopes]


@for_each_row(
    ("tool", "tool_input"),
    [
        ("Skill", {"skill": "a b"}),
        ("Skill", {"skill": "a*"}),
        ("Skill", {"skill": "a)"}),
        ("Skill", {}),
        ("Write", {"file_path": "../outside/" + "x" * 400}),
        ("ApplyPatch", {"patch": create("src/link", "120000")}),
        ("mcp__git__pu sh", {}),
        ("mcp__git__*", {}),
    ],
)
def test_nothing_is_offered_that_a_rule_cannot_say_exactly(place, tool, tool_input):
    decision = place.policy().decide(tool_named(tool), tool_input)
    assert decision.behavior == "ask"
    for offer in decision.suggestions:
        assert offer.rules == (tool,) or offer.rules == ("Skill(a*)",)
