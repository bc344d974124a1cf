"""The reasons to ask about a command's parts, the strongest first: deleting before connecting, before running code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

from msgspec import structs

from cellwright.agent.calls.approval import Decision
from cellwright.permissions.judges.simple_command import CommandFacts, needs_approval, writes_files
from cellwright.permissions.shell.conservative_parse import SHELLS
from cellwright.permissions.shell.deleted_places import DELETERS, EMPTIERS
from cellwright.text import visible_line


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
    """The decision to ask with: one that no mode waves through first, then the strongest cause; None without any.

    People read of the other parts, too.
    """
    asking = [(facts, decision) for facts, decision in asked if decision.behavior == "ask"]
    if not asking:
        return None
    ranked = sorted(asking, key=lambda each: (each[1].firm, cause(each[0])), reverse=True)
    return structs.replace(ranked[0][1], for_people=_reasons(ranked))


MAX_SAID = 6
"""Of more programs, or reasons, the rest is counted."""


def _reasons(ranked: Sequence[tuple[CommandFacts, Decision]]) -> str:
    """Say every reason once; programs that only need approval are named in one sentence."""
    plain = [bool(facts.words) and decision.reason == needs_approval(facts) for facts, decision in ranked]
    named = (visible_line(facts.words[0].text) for (facts, _), is_plain in zip(ranked, plain, strict=True) if is_plain)
    programs = [f"`{name}`" for name in dict.fromkeys(named)]
    if len(programs) > MAX_SAID:
        programs[MAX_SAID:] = [f"{len(programs) - MAX_SAID} more"]
    running = f"Running {' and '.join(filter(None, (', '.join(programs[:-1]), *programs[-1:])))} needs your approval."
    said = dict.fromkeys(
        running if is_plain else decision.reason for (_, decision), is_plain in zip(ranked, plain, strict=True)
    )
    more = [f"{len(said) - MAX_SAID} more reasons."] if len(said) > MAX_SAID else []
    return " ".join([*list(said)[:MAX_SAID], *more])
