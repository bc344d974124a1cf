"""The rules a permission question offers, from the narrowest that helps: for this session, and to keep."""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH119, PTH120

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from cellwright.errors import CellwrightError
from cellwright.events import Suggestion
from cellwright.permissions.file_calls import path_of, text_field
from cellwright.permissions.path_patterns import escaped
from cellwright.permissions.paths import PathProblem, inside, places
from cellwright.permissions.rules import EDITORS, READERS, parse_rule
from cellwright.permissions.simple_commands import NotSimple, read_simple
from cellwright.visible_text import visible_line

PREFIXES_FOR_SESSION = tuple(
    tuple(prefix.split())
    for prefix in (
        *("pytest", "python -m pytest", "python3 -m pytest", "ruff", "mypy", "npm test", "cargo test", "cargo build"),
        *("cargo check", "go test", "go build", "go vet", "git status", "git diff", "git log", "git show"),
    )
)
"""Commands repeated with other arguments all day: for a session their prefix is offered, not the exact command."""


def suggestions_for(
    tool_name: str, tool_input: Mapping[str, Any], folders: Sequence[str], cwd: str
) -> list[Suggestion]:
    """Rules that might allow the call, "session" before "always". Whether they do is for the policy to check."""
    if tool_name == "Bash":
        offered = _for_command(text_field(tool_input, "command").strip())
    elif tool_name in READERS | EDITORS:
        offered = _for_file(tool_name, path_of(tool_name, tool_input, cwd), folders, cwd)
    elif tool_name == "Python":
        offered = [Suggestion(("Python",), "session", "all Python of this session")]
    else:
        offered = _for_tool(tool_name)
    return [suggestion for suggestion in offered if all(map(_is_rule, suggestion.rules))]


def _for_tool(tool_name: str) -> list[Suggestion]:
    return [
        Suggestion((tool_name,), "session", f"all calls of {tool_name} in this session"),
        Suggestion((tool_name,), "always", f"always allow {tool_name} in this project"),
    ]


def _for_command(command: str) -> list[Suggestion]:
    if "*" in command:
        return []  # no rule can say it: a `*` in a rule stands for anything
    try:
        words = [word.text for word in read_simple(command)]
    except NotSimple:
        return []
    exact = f"Bash({command})"
    for prefix in PREFIXES_FOR_SESSION:
        if tuple(words[: len(prefix)]) == prefix:
            start = " ".join(prefix)
            session = Suggestion(
                (f"Bash({start} *)",), "session", f"every command that starts with `{start}`, this session"
            )
            break
    else:
        session = Suggestion((exact,), "session", "this exact command, for this session")
    return [session, Suggestion((exact,), "always", f"always allow exactly `{visible_line(command)}` in this project")]


def _is_rule(text: str) -> bool:
    try:
        return str(parse_rule(text)) == text
    except CellwrightError:
        return False


def _for_file(tool_name: str, path: str, folders: Sequence[str], cwd: str) -> list[Suggestion]:
    try:
        found = places(path, cwd) if path else ()
    except PathProblem:
        return []
    if not found:
        return []
    reads = tool_name in READERS
    rule_tool, doing = ("Read", "reads") if reads else ("Edit", "edits")
    for folder in folders:
        if not reads and all(inside(place, folders) for place in found) and inside(found[0], [folder]):
            rule = f"Edit(/{escaped(folder)}/**)"
            named = f"this folder ({visible_line(os.path.basename(folder))})" if folder == cwd else visible_line(folder)
            return [Suggestion((rule,), "session", f"all edits in {named} for this session")]
    exact = f"{rule_tool}(/{escaped(found[0])})"
    if reads:
        parent = os.path.dirname(found[0])
        return [
            Suggestion(
                (f"Read(/{escaped(parent)}/**)",), "session", f"all reads in {visible_line(parent)} of this session"
            ),
            Suggestion((exact,), "always", f"always allow reading {visible_line(found[0])} in this project"),
        ]
    return [Suggestion((exact,), "session", f"all {doing} of {visible_line(found[0])} in this session")]
