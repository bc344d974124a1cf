"""Which of an event's calls, sources or reasons a hook's `matcher` means.

Claude Code's rule: letters, digits, `_`, `-`, spaces, `,` and `|` alone are names, one or a list; anything else is a
regular expression, searched for. What cannot be matched in bounded time, or not at all, matches everything: a hook that
guards something rather runs too often.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

MATCHED_FIELDS = {
    **dict.fromkeys(("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest"), "tool_name"),
    "PermissionDenied": "tool_name",
    "SessionStart": "source",
    "Setup": "trigger",
    "SessionEnd": "reason",
    "Notification": "notification_type",
    "SubagentStart": "agent_type",
    "SubagentStop": "agent_type",
    "PreCompact": "trigger",
    "PostCompact": "trigger",
    "ConfigChange": "source",
    "DirectoryAdded": "source",
    "FileChanged": "file_path",
    "StopFailure": "error",
    "InstructionsLoaded": "load_reason",
    "UserPromptExpansion": "command_name",
    "Elicitation": "mcp_server_name",
    "ElicitationResult": "mcp_server_name",
}
"""The field of the input that a matcher is about; an event that is not here has no matcher."""

LONGEST_MATCHER = 1_000
LONGEST_VALUE = 200
"""Characters: longer matchers and values are not searched with a regular expression."""
MOST_REPEATS = 4
"""Unbounded repeats in an expression: its worst case grows with the value's length to this power."""

MOST_TRIES = 8
"""Groups, and parts that may be left out: each can double what has to be tried."""

_NAMES = re.compile(r"[A-Za-z0-9_\- ,|]*")
_NOT_PLAIN = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]", re.DOTALL)
_REPEAT = re.compile(r"[*+]|\{\d*,\}|\{\d{2,}")
_REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{)")


def matches(matcher: str, event: str, fields: Mapping[str, Any]) -> bool:
    """Whether a hook with this `matcher` is told of `event` with the input `fields`."""
    key = MATCHED_FIELDS.get(event)
    if key is None or matcher in ("", "*"):
        return True
    value = str(fields.get(key, ""))
    if event == "FileChanged":
        value = re.split(r"[/\\]", value)[-1]
    if _NAMES.fullmatch(matcher):
        return value in [name.strip() for name in re.split(r"[|,]", matcher)]
    return _searched(matcher, value)


def matcher_problem(matcher: str) -> str | None:
    """Why `matcher` matches everything although it does not say so; None when it can be followed."""
    if _NAMES.fullmatch(matcher) or matcher == "*":
        return None
    if len(matcher) > LONGEST_MATCHER:
        return f"is longer than {LONGEST_MATCHER:,} characters"
    bare = _NOT_PLAIN.sub("x", matcher)
    tries = max(bare.count("("), bare.count("?"))
    if _REPEATED_GROUP.search(bare) or len(_REPEAT.findall(bare)) > MOST_REPEATS or tries > MOST_TRIES:
        return "repeats a group, or repeats too often, so searching with it could take forever"
    try:
        re.compile(_as_python(matcher))
    except (re.error, RecursionError, OverflowError) as error:
        return f"is no regular expression ({error})"
    return None


@functools.lru_cache(maxsize=512)
def _searched(matcher: str, value: str) -> bool:
    if len(value) > LONGEST_VALUE or matcher_problem(matcher) is not None:
        return True
    return re.search(_as_python(matcher), value) is not None


def _as_python(expression: str) -> str:
    """A JavaScript expression as Python spells it: named groups, and an end that is the end."""
    expression = re.sub(r"\(\?<(?![=!])", "(?P<", expression)
    return re.sub(r"(?<!\\)((?:\\\\)*)\$", r"\1\\Z", expression) if "[" not in expression else expression
