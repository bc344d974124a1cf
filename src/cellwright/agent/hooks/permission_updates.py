"""Claude Code's PermissionUpdate objects: what hooks are offered, and what they may change with a permission.

Only grants are taken: allow rules (for the session; those for the user's own settings of the project are kept there too)
and a mode that is not the one without questions. The rest is refused, and said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from cellwright.events import Suggestion
from cellwright.text import lazy_pattern

SETTABLE_MODES = ("default", "acceptEdits", "plan", "dontAsk")
"""The modes that a hook may put a session into."""

_RULE = lazy_pattern(r"([^()]+)\((.*)\)", re.DOTALL)


class Updates(Struct, frozen=True):
    """The part of the updates that is taken; `problems` say what is not. `kept_rules` are some of `rules`."""

    rules: tuple[str, ...] = ()
    kept_rules: tuple[str, ...] = ()
    mode: str | None = None
    problems: tuple[str, ...] = ()


def offered_updates(suggestions: Iterable[Suggestion]) -> list[dict[str, Any]]:
    """The suggestions of a permission question as a hook gets them (`permission_suggestions`)."""
    return [
        {
            "type": "addRules",
            "rules": [_as_value(rule) for rule in suggestion.rules],
            "behavior": "allow",
            "destination": "localSettings" if suggestion.scope == "always" else "session",
        }
        for suggestion in suggestions
    ]


def read_updates(updates: Any) -> Updates:
    """Read the grants from a list of updates."""
    if not isinstance(updates, Sequence) or isinstance(updates, str):
        return Updates(problems=("`updatedPermissions` is not a list",))
    rules: list[str] = []
    kept: list[str] = []
    mode, problems = None, []
    for update in updates:
        kind = update.get("type") if isinstance(update, Mapping) else None
        if kind == "addRules" and update.get("behavior") == "allow":
            given = update.get("rules")
            found = [_as_rule(value) for value in given] if isinstance(given, list) else [None]
            read = [rule for rule in found if rule is not None]
            rules += read
            kept += read if update.get("destination") == "localSettings" else []
            if None in found:
                problems.append("a rule in `updatedPermissions` has no `toolName`, and grants nothing")
        elif kind == "setMode" and update.get("mode") in SETTABLE_MODES:
            mode = update["mode"]
        elif kind == "setMode":
            problems.append(f"a hook cannot put the session into the mode {update.get('mode')!r}")
        else:
            problems.append(f"the permission update {kind!r} ({_behavior(update)}) is not taken from a hook")
    return Updates(tuple(rules), tuple(kept), mode, tuple(problems))


def _behavior(update: Any) -> str:
    return str(update.get("behavior", "no behavior")) if isinstance(update, Mapping) else "no object"


def _as_value(rule: str) -> dict[str, str]:
    found = _RULE.fullmatch(rule)
    return {"toolName": found[1], "ruleContent": found[2]} if found else {"toolName": rule}


def _as_rule(value: Any) -> str | None:
    name = value.get("toolName") if isinstance(value, Mapping) else None
    if not isinstance(name, str) or not name:
        return None
    content = value.get("ruleContent")
    return f"{name}({content})" if isinstance(content, str) and content else name
