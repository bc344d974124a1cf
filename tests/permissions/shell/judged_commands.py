"""Shell commands judged in a place, and tables of them."""

from __future__ import annotations

import re

import pytest

from declared_tools import tool_named

ALLOW, ASK, DENY = "allow", "ask", "deny"


def decide(place, command, mode="default", cwd=None, **rules):
    tool_input = {"command": place.fill(command)} | ({"cwd": str(cwd)} if cwd else {})
    return place.policy(mode, **rules).decide(tool_named("Bash"), tool_input)


def behavior(place, command, mode="default", cwd=None, **rules):
    return decide(place, command, mode, cwd, **rules).behavior


def table(text: str) -> list[object]:
    """One case a line: expected, a rule for allowing (or `-`), the command; tabs between, `⏎` is a line end."""
    cases = []
    for line in text.strip("\n").splitlines():
        expected, rule, command = (part.strip() for part in line.split("¦"))
        command = re.sub(r"\\u(\w{4})", lambda code: chr(int(code[1], 16)), command.replace("⏎", "\n"))
        cases.append(
            pytest.param(command, [] if rule == "-" else rule.split(" + "), expected, id=f"{command} [{rule}]")
        )
    return cases
