"""A decision about a tool's name is the one about the tool, for every built-in tool, and asks about any other."""

from __future__ import annotations

from typing import get_args

import pytest

from cellwright.permissions.modes import Mode
from declared_tools import declared, tool_named

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
