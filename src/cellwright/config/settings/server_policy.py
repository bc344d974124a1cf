"""The policy of a Jupyter server, as the kernels it starts get it: a layer of settings under the machine's own.

The server puts it into the environment variable CELLWRIGHT_POLICY, in the format of `managed-settings.json`. Only what
takes away counts of it, so that nobody gains by setting the variable. Code in the kernel can take it out of its own
environment: in the kernel it is for people who keep to it; what has to hold is held by the proxy (decisions/policy.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cellwright.config.settings.layers import Layer, Merged
from cellwright.model.credentials import leads_to_a_model

VARIABLE = "CELLWRIGHT_POLICY"
LABEL = "the administrator of this Jupyter server"

_TAKES_AWAY: Mapping[tuple[str, ...], Any] = {
    ("permissions", "disableBypassPermissionsMode"): "disable",
    ("sandbox", "failIfUnavailable"): True,
    ("sandbox", "autoAllowBashIfSandboxed"): False,
    ("sandbox", "allowUnsandboxedCommands"): False,
    ("sandbox", "filesystem", "denyWrite"): None,
    ("sandbox", "filesystem", "denyRead"): None,
    ("sandbox", "network", "deniedDomains"): None,
    ("cellwright", "inlineCompletion"): False,
    ("cellwright", "redactSecrets"): True,
    ("cellwright", "ownCredentials"): False,
    ("cellwright", "allowedModels"): None,
    ("cellwright", "allowedModes"): None,
    ("cellwright", "allowedTools"): None,
    ("cellwright", "allowedMcpServers"): None,
    ("cellwright", "deniedTools"): None,
    ("fileCheckpointingEnabled",): None,
    ("allowManagedHooksOnly",): True,
}
"""The settings that count, each with the one value that does; None: every value."""

_WHERE_UNREADABLE = {"permissions": {"disableBypassPermissionsMode": "disable", "defaultMode": "default"}}


def servers_policy(environ: Mapping[str, str], notices: list[str]) -> tuple[Layer, Mapping[str, Any]]:
    """The layer, and what it says; what is wrong with it is added to `notices`."""
    layer = Layer(scope="managed", label=LABEL, root=Path("/"), folder=Path("/"))
    text = environ.get(VARIABLE, "").strip()
    if not text:
        return layer, {}
    try:
        policy_values = json.loads(text)
        return layer, _restricting(policy_values)
    except (ValueError, RecursionError, AttributeError):
        notices.append(f"{VARIABLE} cannot be read: no mode looser than `default` is allowed. Restart the kernel.")
        return layer, _WHERE_UNREADABLE


def own_credentials(merged: Merged) -> bool:
    """Return whether users' settings may name the account that pays."""
    return merged.value("cellwright", "ownCredentials") is not False


def own_environment(merged: Merged) -> dict[str, str] | None:
    """The settings' `env`, less what leads to another account where that is not wanted."""
    env: dict[str, str] | None = merged.value("env")
    if env is None or own_credentials(merged):
        return env
    return {name: value for name, value in env.items() if not leads_to_a_model(name)}


def _restricting(values: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for path, only in _TAKES_AWAY.items():
        place: Any = values
        for name in path:
            place = place.get(name) if isinstance(place, dict) else None
        if place is None or (only is not None and place != only):
            continue
        into = kept
        for name in path[:-1]:
            into = into.setdefault(name, {})
        into[path[-1]] = place
    values.keys()  # an object, or it cannot be read
    return kept
