"""Permission modes: their names, which is stricter, and when the one that asks for nothing is refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

from cellwright.errors import CellwrightError, ErrorCode

Mode = Literal["plan", "dontAsk", "default", "acceptEdits", "bypassPermissions"]
MODES: tuple[Mode, ...] = get_args(Mode)
"""From the strictest to the loosest."""

LISTED_MODES: tuple[str, ...] = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")
"""In the order in which they are offered to people; Shift-Tab goes through them in it."""

MODE_LABELS: Mapping[str, tuple[str, str]] = {
    "default": ("Ask", "Asks before it changes or runs anything"),
    "acceptEdits": ("Accept edits", "Edits files and cells unasked; asks before it runs anything"),
    "plan": ("Plan", "Only looks, then proposes a plan"),
    "dontAsk": ("Only what rules allow", "Never asks: whatever no rule allows is denied"),
    "bypassPermissions": ("Bypass permissions", "Does everything unasked, but what a rule denies"),
}
"""By Claude Code's names: how they are called, and what they do."""

_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")
_CONTAINER_CGROUPS = ("docker", "kubepods", "containerd", "libpod", "lxc")


def mode_name(mode: str) -> str:
    """The mode's one name for people, with the value to type where that is another word.

    >>> mode_name("default"), mode_name("plan")
    ('Ask (default)', 'Plan')
    """
    label = MODE_LABELS[mode][0]
    return label if label.lower() == mode.lower() else f"{label} ({mode})"


def parse_mode(name: str) -> tuple[Mode, str]:
    """The mode called `name`, and a notice for the user or "". Raises CellwrightError CONFIG_INVALID."""
    if name == "auto":
        return (
            "default",
            f"Mode `auto` is not available. {mode_name('default')} applies: it asks before anything is changed.",
        )
    if name == "manual":
        return "default", ""
    for mode in MODES:
        if mode == name:
            return mode, ""
    raise CellwrightError(
        ErrorCode.CONFIG_INVALID,
        f"Unknown permission mode `{name}`. Choose one of {', '.join(map(mode_name, LISTED_MODES))}.",
    )


def stricter(one: Mode, other: Mode) -> Mode:
    """The stricter of two modes."""
    return min(one, other, key=MODES.index)


class HostFacts:
    """The facts that decide whether a session may run without permission checks on this machine."""

    def __init__(self, *, is_root: bool, is_sandbox: bool = False, in_container: bool = False) -> None:
        self.is_root = is_root
        self.is_sandbox = is_sandbox
        self.in_container = in_container


def check_bypass_allowed(facts: HostFacts) -> None:
    """Raise CellwrightError PERMISSION_DENIED if `bypassPermissions` must be refused here."""
    if facts.is_root and not (facts.is_sandbox or facts.in_container):
        raise CellwrightError(
            ErrorCode.PERMISSION_DENIED,
            f"{mode_name('bypassPermissions')} is refused for root: Claude could change anything on this machine unasked. "
            "Run as another user or in a container, or set IS_SANDBOX=1 if this machine may be lost.",
        )


def host_facts(environ: Mapping[str, str]) -> HostFacts:
    """Look at this machine and process."""
    geteuid = getattr(os, "geteuid", None)  # Windows has none
    return HostFacts(
        is_root=geteuid is not None and geteuid() == 0,
        is_sandbox=environ.get("IS_SANDBOX", "") == "1",
        in_container=in_container(environ),
    )


def in_container(environ: Mapping[str, str], root: Path = Path("/")) -> bool:
    """Return whether this process runs in a container that can be recognised."""
    if environ.get("container") or environ.get("KUBERNETES_SERVICE_HOST"):
        return True
    if any((root / file.lstrip("/")).exists() for file in _CONTAINER_FILES):
        return True
    try:
        cgroups = (root / "proc/1/cgroup").read_text("utf-8", errors="replace")
    except OSError:  # no procfs, or not ours to read: nothing recognised
        return False
    return any(name in cgroups for name in _CONTAINER_CGROUPS)
