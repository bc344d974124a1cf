"""Hooks from what an agent is given, and the hooks of several places as one.

Most runs have no hooks, so the modules that make them are imported only when there are some.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cellwright.agent.hooks.protocol import NO_HOOKS, Hooks

if TYPE_CHECKING:
    from cellwright.agent.hooks.callbacks import HookCallbacks


def as_hooks(given: Hooks | HookCallbacks) -> Hooks:
    """Hooks from what an `AgentSetup` was given. Raises `CellwrightError` CONFIG_INVALID for an event that there is not."""
    if not isinstance(given, Mapping):
        return given
    if not given:
        return NO_HOOKS
    from cellwright.agent.hooks.callbacks import callback_hooks

    return callback_hooks(given)


def together(*hooks: Hooks) -> Hooks:
    """All of `hooks` as one."""
    parts = tuple(part for part in hooks if part is not NO_HOOKS)
    if len(parts) > 1:
        from cellwright.agent.hooks.hook_answers import HooksTogether

        return HooksTogether(parts)
    return parts[0] if parts else NO_HOOKS
