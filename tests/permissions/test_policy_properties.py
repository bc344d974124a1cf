"""What holds for any call and any rules: it always decides, and rules only ever pull in their own direction."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.errors import CellwrightError
from cellwright.permissions.modes import MODES
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.rules import parse_rule

LOOSENESS = {"deny": 0, "ask": 1, "allow": 2}
ROOT = Path(tempfile.gettempdir()).resolve()

PIECES = [
    *(
        "rm",
        "git",
        "status",
        "-rf",
        "src",
        "a.py",
        ".env",
        "secrets",
        "/",
        "/etc/passwd",
        "..",
        ".",
        "~",
        "~/x",
        "*",
        "?",
    ),
    *(
        "[a]",
        "{a,b}",
        "$X",
        "$(",
        ")",
        "`",
        "'",
        '"',
        "\\",
        " ",
        " ",
        " ",
        "\n",
        ";",
        "&&",
        "|",
        ">",
        "<<",
        "#",
        "=",
        ":",
    ),
    *(
        "\0",
        "\ud800",
        "\u202e",
        "é",
        "e\u0301",
        "\t",
        "//",
        "**",
        "!",
        ".git/",
        ".claude/",
        "sudo ",
        "bash -c ",
        "xargs ",
        "ls",
    ),
]
TEXT = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
ABSOLUTE = TEXT.map(lambda text: f"{ROOT}/{text}")
CALLS = st.one_of(
    st.tuples(st.just("Bash"), st.fixed_dictionaries({"command": TEXT})),
    st.tuples(
        st.sampled_from(["Read", "Edit", "Write", "Glob", "Grep", "LS", "NotebookEdit", "NotebookRead", "Python", "x"]),
        st.dictionaries(
            st.sampled_from(["file_path", "notebook_path", "path", "pattern", "glob", "code"]),
            st.one_of(TEXT, ABSOLUTE, st.none(), st.integers()),
        ),
    ),
)


def is_rule(text: str) -> bool:
    try:
        parse_rule(text)
    except CellwrightError:
        return False
    return True


TOOLS = ["Bash", "Read", "Edit", "Write", "Grep", "Python", "x", "*", "mcp__*"]
RULES = st.one_of(st.sampled_from(TOOLS), st.builds("{}({})".format, st.sampled_from(TOOLS), TEXT)).filter(is_rule)
RULE_LISTS = st.lists(RULES, max_size=3)


def policy(mode: str, deny: list[str], ask: list[str], allow: list[str]) -> PermissionPolicy:
    return PermissionPolicy(mode, deny=deny, ask=ask, allow=allow, roots=[ROOT / "p"], cwd=ROOT / "p")


@settings(derandomize=True, max_examples=400, deadline=None, database=None)
@given(CALLS, st.sampled_from(MODES), RULE_LISTS, RULE_LISTS, RULE_LISTS, RULES)
def test_rules_pull_in_their_own_direction(call, mode, deny, ask, allow, rule):
    tool, tool_input = call
    before = policy(mode, deny, ask, allow).decide(tool, tool_input)
    assert before.reason.endswith(".")
    assert not (before.behavior == "allow" and mode == "plan" and tool in ("Edit", "Write", "NotebookEdit", "Python"))

    def looseness(*rules: list[str]) -> int:
        return LOOSENESS[policy(mode, *rules).decide(tool, tool_input).behavior]

    assert looseness([*deny, rule], ask, allow) <= LOOSENESS[before.behavior]
    assert looseness(deny, [*ask, rule], allow) <= LOOSENESS[before.behavior]
    assert looseness(deny, ask, [*allow, rule]) >= LOOSENESS[before.behavior]


@settings(derandomize=True, max_examples=300, deadline=None, database=None)
@given(CALLS, st.sampled_from(["default", "acceptEdits", "dontAsk"]), RULE_LISTS)
def test_what_is_offered_would_allow_the_call(call, mode, rules):
    tool, tool_input = call
    before = policy(mode, rules, [], [])
    for suggestion in before.decide(tool, tool_input).suggestions:
        assert before.allowing([suggestion.rules[0]]).decide(tool, tool_input).behavior == "allow"
