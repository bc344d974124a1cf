"""The sandbox as the policy sees it: what this machine can enforce, and what the settings ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxAbilities:
    """The powers of this machine's sandbox; that a command reads, writes and reaches nothing else it always can.

    `name` is what the sandbox is called to people. `hides`: single files below a readable folder can be hidden.
    `protects`: places below a writable folder can be protected, also those that do not exist yet. `hosts`: the network can
    be bounded to named hosts.
    """

    name: str
    hides: bool
    protects: bool
    hosts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRules:
    """The sandbox as a policy knows it: its abilities (None: there is none here) and Claude Code's `sandbox.*` settings.

    The defaults are those of the settings. Paths are absolute; a folder stands for all below it.

    `enabled`: every command is confined, not only what runs unasked; `auto_allow`: such a command needs no question.
    `excluded`: rules for Bash whose commands are never confined. `allow_unsandboxed`: a question may offer to run without.
    """

    abilities: SandboxAbilities | None = None
    enabled: bool = False
    auto_allow: bool = True
    excluded: Sequence[str] = ()
    allow_unsandboxed: bool = True
    allow_write: Sequence[str] = ()
    deny_write: Sequence[str] = ()
    deny_read: Sequence[str] = ()
    allow_read: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    denied_hosts: Sequence[str] = ()


NO_SANDBOX = SandboxRules()
