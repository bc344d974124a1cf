"""The sandbox as the policy sees it: what this machine can enforce, and what the settings ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from cellwright.agent.calls.approval import Confinement, Container


def _enforces_all(_confinement: Confinement) -> str:
    return ""


class SandboxAbilities(Struct, frozen=True, kw_only=True):
    """The abilities of this machine's sandbox; that a command reads, writes and reaches nothing else it always can.

    `name` is what the sandbox is called to people. `hides`: single files below a readable folder can be hidden.
    `protects`: places below a writable folder can be protected, also those that do not exist yet. `hosts`: the network can
    be bounded to named hosts. `protects_patterns`: each change of a command can be judged before it is made.
    `why_not` says why one confinement cannot be enforced, as the files are now; "" where it can.
    """

    name: str
    hides: bool
    protects: bool
    hosts: bool
    protects_patterns: bool = False
    why_not: Callable[[Confinement], str] = _enforces_all


class ContainerSetting(Struct, frozen=True):
    """A container as the settings say it; `problem` says why there is none, `notices` what of its file is not used."""

    container: Container | None = None
    problem: str = ""
    notices: tuple[str, ...] = ()


FindAbilities = Callable[[], SandboxAbilities | None]
"""Finds what the sandbox of this machine can enforce, None where there is none; the same each time."""


class SandboxRules(Struct, frozen=True, kw_only=True):
    """A policy's knowledge of the sandbox: its means, and Claude Code's `sandbox.*` settings.

    `means` are its abilities (None: there is none here), or a function that finds them: the first decision about a command
    waits for that, and nothing before it. The defaults are those of the settings. Paths are absolute; a folder stands for
    all below it.

    `enabled`: every command is confined, not only what runs unasked; `auto_allow`: such a command needs no question.
    `excluded`: rules for Bash whose commands are never confined. `allow_unsandboxed`: a question may offer to run without.
    `allowed_hosts`, `denied_hosts` and `asked_hosts` are read by `rules/domain_pattern.py`; what is asked about is not
    allowed by another list. `ask_hosts`: the user is asked about those and about all that no list names.
    `container`: what is confined runs in there (None: in none). `in_container`: what holds instead for the commands of Bash
    and RunTests, and for fresh kernels (None: nothing else).
    """

    means: SandboxAbilities | FindAbilities | None = None
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
    asked_hosts: Sequence[str] = ()
    ask_hosts: bool = True
    container: Container | None = None
    in_container: SandboxRules | None = None

    @property
    def abilities(self) -> SandboxAbilities | None:
        """The abilities of this machine's sandbox; None where there is none."""
        return self.means() if callable(self.means) else self.means

    def why_not(self, confinement: Confinement) -> str:
        """Say why `confinement` cannot be enforced here, as the files are now; "" where it can."""
        abilities = self.abilities
        return "this machine has no sandbox" if abilities is None else abilities.why_not(confinement)


NO_SANDBOX = SandboxRules()
