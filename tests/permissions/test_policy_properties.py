"""What holds for any call and any rules: it always decides, and rules only ever pull in their own direction."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.permissions.modes import MODES
from cellwright.permissions.policy import JUDGES, PermissionPolicy
from cellwright.permissions.rules.rule import compile_rule, grant_problem, parse_rule, restriction_problem
from declared_tools import tool_named

LOOSENESS = {"deny": 0, "ask": 1, "allow": 2}
ROOT = Path(tempfile.gettempdir()).resolve()

PIECES = [
    *("rm", "git", "status", "-rf", "src", "a.py", ".env", "secrets", "/", "/etc/passwd", "..", ".", "~", "~/x", "*"),
    *("?", "[a]", "{a,b}", "$X", "$(", ")", "`", "'", '"', "\\", " ", " ", " ", "\n", ";", "&&", "|", ">", "<<", "#"),
    *("=", ":", "\0", "\ud800", "\u202e", "é", "e\u0301", "\t", "//", "**", "!", ".git/", ".claude/", "sudo ", "ls"),
    *("bash -c ", "xargs ", "domain:", "https://", "example.com", "@", "mcp__", "__", "model:opus", "--- a/", "+++ b/"),
    *("@@ -1 +1 @@\n-x\n+y\n", "diff --git a/x b/x\n", "rename from ", "HEAD:", "--", "true"),
]
TEXT = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
ABSOLUTE = TEXT.map(lambda text: f"{ROOT}/{text}")
VALUES = st.one_of(TEXT, ABSOLUTE, st.none(), st.booleans(), st.integers(), st.lists(TEXT, max_size=3))
FIELDS = ["file_path", "notebook_path", "path", "paths", "pattern", "glob", "code", "command", "patch", "strip", "url"]
CALLS = st.one_of(
    st.tuples(st.just("Bash"), st.fixed_dictionaries({"command": TEXT})),
    st.tuples(
        st.sampled_from([*sorted(JUDGES), "Task", "x", "mcp__git__push", "mcp__a__b__c", "mcp__"]),
        st.dictionaries(st.sampled_from([*FIELDS, "subagent_type", "skill", "args", "fix", "model"]), VALUES),
    ),
)


def is_rule(text: str) -> bool:
    try:
        parse_rule(text)
    except CellwrightError:
        return False
    return True


TOOLS = [*sorted(JUDGES), "Task", "x", "*", "mcp__*", "mcp__git", "mcp__git__push", "mcp__git__p*", "T*"]
RULES = st.one_of(st.sampled_from(TOOLS), st.builds("{}({})".format, st.sampled_from(TOOLS), TEXT)).filter(is_rule)
RULE_LISTS = st.lists(RULES, max_size=3)


CHANGING = ("Edit", "Write", "MultiEdit", "EditSymbol", "NotebookEdit", "ApplyPatch", "Python", "RunTests", "Lint", "x")


def policy(mode: str, deny: list[str], ask: list[str], allow: list[str]) -> PermissionPolicy:
    return PermissionPolicy(mode, deny=deny, ask=ask, allow=allow, roots=[ROOT / "p"], cwd=ROOT / "p")


@settings(derandomize=True, max_examples=400, deadline=None, database=None)
@given(CALLS, st.sampled_from(MODES), RULE_LISTS, RULE_LISTS, RULE_LISTS, RULES)
def test_rules_pull_in_their_own_direction(call, mode, deny, ask, allow, rule):
    tool, tool_input = call
    before = policy(mode, deny, ask, allow).decide(tool_named(tool), tool_input)
    assert before.reason.endswith(".")
    assert not (before.behavior == "allow" and mode == "plan" and tool in CHANGING)

    def looseness(*rules: list[str]) -> int:
        return LOOSENESS[policy(mode, *rules).decide(tool_named(tool), tool_input).behavior]

    assert looseness([*deny, rule], ask, allow) <= LOOSENESS[before.behavior]
    assert looseness(deny, [*ask, rule], allow) <= LOOSENESS[before.behavior]
    assert looseness(deny, ask, [*allow, rule]) >= LOOSENESS[before.behavior]


@settings(derandomize=True, max_examples=300, deadline=None, database=None)
@given(CALLS, st.sampled_from(["default", "acceptEdits", "dontAsk"]), RULE_LISTS)
def test_what_is_offered_would_allow_the_call_and_can_be_shown_whole(call, mode, rules):
    tool, tool_input = call
    before = policy(mode, rules, [], [])
    for suggestion in before.decide(tool_named(tool), tool_input).suggestions:
        assert before.allowing(suggestion.rules).decide(tool_named(tool), tool_input).behavior == "allow"
        assert 1 <= len(suggestion.rules) <= 5
        assert all(str(parse_rule(rule)) == rule and len(rule) <= 400 for rule in suggestion.rules)
        assert suggestion.scope == "session" or tool not in CHANGING or tool in ("RunTests", "Lint", "x")


@settings(derandomize=True, max_examples=300, deadline=None, database=None)
@given(CALLS, RULE_LISTS, RULE_LISTS, RULE_LISTS, st.booleans())
def test_a_stricter_mode_never_loosens(call, deny, ask, allow, read_only):
    tool, tool_input = call
    decided = [
        policy(mode, deny, ask, allow).decide(tool_named(tool, read_only=read_only), tool_input) for mode in MODES
    ]
    allowed = [decision.behavior == "allow" for decision in decided]
    assert allowed == sorted(allowed), "from the strictest mode to the loosest, what is allowed stays allowed"
    looseness = [LOOSENESS[decision.behavior] for decision in decided[MODES.index("default") :]]
    assert looseness == sorted(looseness)
    if tool != "ExitPlanMode":
        assert LOOSENESS[decided[0].behavior] <= looseness[0]


@settings(derandomize=True, max_examples=200, deadline=None, database=None)
@given(CALLS, RULE_LISTS, st.sampled_from(MODES), st.sampled_from(MODES))
def test_a_variant_of_a_policy_is_the_policy_made_so(call, rules, mode, other):
    tool, tool_input = call
    assert policy(mode, [], [], []).in_mode(other).allowing(rules).decide(tool_named(tool), tool_input) == policy(
        other, [], [], rules
    ).decide(tool_named(tool), tool_input)


@settings(derandomize=True, max_examples=300, deadline=None, database=None)
@given(CALLS, RULE_LISTS, st.sampled_from(["bypassPermissions", "acceptEdits", "default"]))
def test_what_blocks_leaving_the_project_only_tightens(call, allow, mode):
    tool, tool_input = call
    free = policy(mode, [], [], allow).decide(tool_named(tool), tool_input)
    blocked = PermissionPolicy(
        mode,
        allow=allow,
        roots=[ROOT / "p"],
        cwd=ROOT / "p",
        block_reads_outside=True,
        block_writes_outside=True,
    ).decide(tool_named(tool), tool_input)
    assert LOOSENESS[blocked.behavior] <= LOOSENESS[free.behavior]


@settings(derandomize=True, max_examples=500, deadline=None, database=None)
@given(st.one_of(st.text(max_size=40), TEXT, st.builds("{}({})".format, st.sampled_from(TOOLS), st.text(max_size=30))))
def test_any_text_is_a_rule_or_an_error_that_names_it(text):
    if not is_rule(text):
        with pytest.raises(CellwrightError, match="permission rule") as caught:
            parse_rule(text)
        assert caught.value.code == ErrorCode.CONFIG_INVALID
        return
    rule = parse_rule(text)
    assert (grant_problem(rule) is None) == (compile_rule(rule, "allow", "/") is not None)
    problem = restriction_problem(rule)
    assert problem is None or text.strip() in problem
    for behavior in ("deny", "ask"):
        assert compile_rule(rule, behavior, "/") is not None, "a restriction is never dropped"
    made = PermissionPolicy(deny=[text], ask=[text], allow=[text], roots=[ROOT / "p"], cwd=ROOT / "p")
    assert made.decide(tool_named("x"), {"a": 1}).behavior in ("deny", "ask")
