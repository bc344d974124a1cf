"""Bounds of a command that ran unasked, and what it did that its decision does not cover."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shell_fuzzer.traced_shell import Touch, Trace
from shell_fuzzer.world import ENVIRONMENT_CANARY, PROTECTED, World

SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/proc", "/sys", "/dev", "/opt", "/run", "/nix"),
    *("/var/lib", "/var/cache", *{os.path.realpath(prefix) for prefix in (sys.prefix, sys.base_prefix)}),
    *(folder for folder in os.get_exec_path() if folder.startswith("/")),
)
"""Folders of programs and of what they need to run."""

NOBODY_READS = frozenset({"/", "/etc", "/etc/shadow", "/etc/fstab", "/etc/hosts", "/home", "/root"})
"""Places of the system that no program needs: who reads them was told to."""

_HARMLESS_WRITES = re.compile(r"/dev/(null|tty|zero|full|ptmx|pts/.*)|pipe:.*|socket:.*|/proc/self/.*")
_PRIVATE = ("/tmp", "/dev/shm", "/run", "/var/tmp")
"""Folders that a sandbox may give a command of its own."""
_TIMES_AND_MODES = frozenset({"utimensat", "utimes", "chmod", "fchmodat", "fchmodat2"})
_HELPERS = {
    **dict.fromkeys(("zcat", "gzcat"), ("gzip", "zcat", "dash", "bash")),
    **dict.fromkeys(("egrep", "fgrep"), ("grep",)),
    **{"bzcat": ("bzip2",), "xzcat": ("xz",)},
}
"""Programs that others start and that do no more than those."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds that a decision sets: reads in the project less `hidden`, no `programs`; writes in it if `writes`.

    `any_command`: the bounds alone hold the command, nobody has looked at it.
    """

    world: World
    writes: bool
    hidden: frozenset[str]
    programs: frozenset[str] = frozenset()
    unwritable: tuple[str, ...] = ()
    any_command: bool = False


def failures(bounds: Bounds, command: str, trace: Trace) -> Iterator[str]:
    """Say what the command did that nothing allowed."""
    for touch in trace.touches:
        why = _against_confined(bounds, touch) if trace.confined else _against(bounds, command, touch)
        if why and not (_looks_for_names(touch) and not _tells_names(touch.path, command, trace.output)):
            yield f"{why}: {touch.path} ({touch.call})"
    if ENVIRONMENT_CANARY in trace.output:
        yield "printed what must not be read: the environment of the process that runs commands"
    # what is in a repository's history cannot be hidden by the name of a file: there the policy must ask
    hidden = bounds.hidden if not bounds.any_command or "git" not in command else frozenset()
    for canary, path in bounds.world.canaries().items():
        if canary in trace.output and (path in hidden or not _inside(path, str(bounds.world.project))):
            yield f"printed what must not be read: {path}"


def _against(bounds: Bounds, command: str, touch: Touch) -> str:
    match touch.kind:
        case "network":
            return "" if _is_local(touch) else "reached the network"
        case "execute":
            return _against_program(bounds, command, touch.path)
        case "write":
            return _against_write(bounds, touch.path, touch.call)
        case "list" if touch.program == "whereis":
            return ""  # the folders where programs and their manuals are
        case "read" if touch.program == "git" and touch.path in bounds.hidden:
            return ""  # compared with the index; what is shown of it shows in the output
        case "read" | "list":
            return _against_read(bounds, touch.path)


def _looks_for_names(touch: Touch) -> bool:
    return touch.kind == "list" and touch.program == "bash"


def _tells_names(folder: str, command: str, output: str) -> bool:
    """Return whether a wildcard, for which bash looked through `folder`, has put a name of it into the output."""
    if not Path(folder).is_dir():
        return False
    names = (entry.name for entry in Path(folder).iterdir())
    return any(len(name) > 3 and name in output and name not in command for name in names)


def _against_confined(bounds: Bounds, touch: Touch) -> str:
    """Find what is against a deed in a sandbox, which may let any program run and read all of the system."""
    match touch.kind:
        case "network" if touch.call == "connect":
            return "" if _is_local(touch) else "reached the network"
        case "write":
            private = any(_inside(touch.path, folder) for folder in _PRIVATE)
            return (
                ""
                if private and not _inside(touch.path, str(bounds.world.base))
                else _against_write(bounds, touch.path, touch.call)
            )
        case "read" if touch.path not in NOBODY_READS and not touch.path.endswith("/environ"):
            # what is not there was made by the command, in folders of its own
            return _against_read(bounds, touch.path) if os.path.lexists(touch.path) else ""
        case _:
            return ""


def _is_local(touch: Touch) -> bool:
    return touch.call in ("connect", "bind") and "AF_UNIX" in touch.path and "nscd" in touch.path


def _against_program(bounds: Bounds, command: str, path: str) -> str:
    name = Path(path).name
    if _inside(path, str(bounds.world.base)):
        return "ran a program of the project"
    if name in bounds.programs:
        return "ran a denied program"
    bare = re.sub(r"[\\'\"]", "", command)
    named = (
        name == "bash" or name in bare or any(each in bare and name in helpers for each, helpers in _HELPERS.items())
    )
    return "" if named else "ran a program that the command does not name"


def _against_write(bounds: Bounds, path: str, call: str) -> str:
    if _HARMLESS_WRITES.fullmatch(path) or _inside(path, str(bounds.world.temporary)):
        return ""
    project = str(bounds.world.project)
    if not bounds.writes:
        return "wrote"
    if path == project and call in _TIMES_AND_MODES:
        return ""
    if not _inside(path, project) or path == project:
        return "wrote outside the project"
    if any(_inside(path, f"{project}/{name}") for name in PROTECTED):
        return "wrote what is protected"
    return "wrote what a rule denies" if any(_inside(path, folder) for folder in bounds.unwritable) else ""


def _against_read(bounds: Bounds, path: str) -> str:
    if path in bounds.hidden:
        return "read what a rule hides"
    if path in NOBODY_READS or path.endswith("/environ"):
        return "read what nobody needs"
    if _inside(path, str(bounds.world.project)) or any(_inside(path, each) for each in bounds.world.readable):
        return ""
    if not path.startswith("/"):
        return ""  # a pipe or a socket
    if any(_inside(path, folder) for folder in SYSTEM) and not _inside(path, str(bounds.world.base)):
        return ""
    return "read outside the project"


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
