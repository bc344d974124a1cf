"""`if` of a hook: one permission rule, asked by the permission policy's own means which calls it is about."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from cellwright.errors import CellwrightError
from cellwright.permissions.policy import PermissionPolicy


def concerns(rule: str, tool_name: str, tool_input: Mapping[str, Any], cwd: str) -> bool:
    """Whether `rule` is about this call. A command that cannot be taken apart may be what it is about, so it is."""
    try:
        decision = _asking(rule, cwd).decide(tool_name, tool_input)
    except CellwrightError:  # the rule cannot be read: told when the hooks were read
        return True
    return decision.behavior == "deny" or (tool_name == "Bash" and decision.behavior == "ask")


def condition_problem(rule: str) -> str | None:
    """Why `rule` cannot be read; the hook then runs for every call."""
    try:
        _asking(rule, "/")
    except CellwrightError as error:
        return error.message
    return None


@functools.lru_cache(maxsize=128)
def _asking(rule: str, cwd: str) -> PermissionPolicy:
    # a rule that restricts is read widely: any part of a command, any spelling of a path
    return PermissionPolicy(mode="bypassPermissions", deny=(rule,), roots=(cwd,), cwd=cwd)
