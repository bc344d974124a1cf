"""The strongest of the reasons to ask about a command's parts: deleting before connecting, before running code."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from cellwright.agent.calls.approval import Decision
from cellwright.permissions.judges.simple_command import CommandFacts, writes_files
from cellwright.permissions.shell.conservative_parse import SHELLS
from cellwright.permissions.shell.deleted_places import DELETERS, EMPTIERS


class Cause(IntEnum):
    """The effects of a command that need the user's approval, the weakest first."""

    APPROVAL = 0
    WRITES = 1
    UNKNOWN = 2
    NETWORK = 3
    DESTROYS = 4


_DESTROYERS = frozenset(
    {*DELETERS, *EMPTIERS, "dd", "mkfs", "fdisk", "parted", "wipefs", "blkdiscard"}
    | {"kill", "pkill", "killall", "reboot", "shutdown", "poweroff", "userdel"}
)
_CONNECTS = frozenset(
    {"curl", "wget", "aria2c", "http", "https", "ftp", "sftp", "lftp", "ssh", "scp", "rsync", "rclone", "nc", "ncat"}
    | {"netcat", "socat", "telnet", "gh", "glab", "aws", "gcloud", "az", "psql", "mysql", "twine", "ollama"}
    | {"apt", "apt-get", "brew", "conda", "mamba", "npm", "npx", "pip", "pip3", "pnpm", "uv", "uvx", "yarn"}
)
_RUNS_CODE = frozenset(
    {*SHELLS, "python", "python3", "ipython", "pypy3", "perl", "ruby", "node", "deno", "bun", "php", "lua", "Rscript"}
    | {"julia", "awk", "make", "eval", "source", ".", "env", "xargs", "pytest", "sudo"}
)
_GIT_DESTROYS = (("clean",), ("reset", "--hard"), ("push", "--force"), ("push", "-f"), ("checkout", "--"), ("rm",))
_GIT_CONNECTS = frozenset({"clone", "fetch", "pull", "push", "submodule"})


def cause(facts: CommandFacts) -> Cause:
    """Say what a simple command may do, as far as its words tell."""
    program = facts.words[0] if facts.words else None
    arguments = [word.text for word in facts.words[1:]]
    name = program.text.rpartition("/")[2] if program is not None else ""
    if name in _DESTROYERS or (name == "find" and "-delete" in arguments):
        return Cause.DESTROYS
    if name == "git":
        if any(all(word in arguments for word in words) for words in _GIT_DESTROYS):
            return Cause.DESTROYS
        if _GIT_CONNECTS.intersection(arguments):
            return Cause.NETWORK
    if name in _CONNECTS:
        return Cause.NETWORK
    if program is not None and (program.dynamic or facts.gets_more or "/" in program.text or name in _RUNS_CODE):
        return Cause.UNKNOWN
    return Cause.WRITES if facts.changed is not None or writes_files(facts) else Cause.APPROVAL


def strongest(asked: Iterable[tuple[CommandFacts, Decision]]) -> Decision | None:
    """The decision to ask with: one that no mode waves through first, then the strongest cause; None without any."""
    ranked = [(decision.firm, cause(facts), decision) for facts, decision in asked if decision.behavior == "ask"]
    return max(ranked, key=lambda each: each[:2])[2] if ranked else None
