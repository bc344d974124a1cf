"""Refusals that a confined command met, read from what it wrote: for Claude, which would take a refusal for a bug."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from cellwright.agent.calls.approval import Confinement
from cellwright.sandbox.paths import below
from cellwright.text import lazy_pattern

MOST_NAMED = 3
_MOST_CHARS = 100_000
"""A failure is told at the end."""

_REFUSED = lazy_pattern(
    r"permission denied|operation not permitted|read-only file system|device or resource busy|\bE(?:ACCES|PERM|ROFS)\b"
    r"|attempt to write a readonly database|unable to open database file",
    re.IGNORECASE,
)
_ABSENT = lazy_pattern(r"no such file or directory|\bENOENT\b|cannot open|not found", re.IGNORECASE)
_NETWORK = lazy_pattern(
    r"could not resolve|name resolution|name or service not known|nodename nor servname|network is unreachable"
    r"|\bEAI_AGAIN\b|\bENOTFOUND\b|\bENETUNREACH\b|failed to establish a new connection|error resolving|unable to resolve"
    r"|dial tcp|socket: operation not permitted|socket\(\): operation not permitted|could not connect to server",
    re.IGNORECASE,
)
_OTHER_DISK = lazy_pattern(r"cross-device link|\bEXDEV\b", re.IGNORECASE)
GPU_DEVICES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/kfd")
_ABOUT_GPU = lazy_pattern(r"cuda|\bgpus?\b|torch|tensorflow|\bjax\b|cupy|cudf|pynvml", re.IGNORECASE)
_SIGNAL = lazy_pattern(r"\bkill\b.*operation not permitted", re.IGNORECASE)
_SETUP = lazy_pattern(r"^bwrap: (.+)$", re.MULTILINE)
_QUOTED_PATH = lazy_pattern(r"['\"`‘“]([^'\"`’”]+)['\"`’”]")
_ERRNO_PATH = lazy_pattern(r"\[Errno \d+\] [\w -]+: '([^']+)'$")
_PATH_BEFORE = lazy_pattern(
    r"(?:^|: |\s)([^\s:'\"‘’]+): (?:permission denied|operation not|read-only|no such|device or)", re.I
)


def refusals(output: str, confinement: Confinement, cwd: str = "/") -> tuple[str, ...]:
    """Name what a confined command in `cwd` was refused, as far as its output shows it."""
    tail = output[-_MOST_CHARS:]
    if setup := _SETUP.search(tail):
        return (f"a sandbox that can be made ({setup[1]})",)
    return tuple(dict.fromkeys(_refusals(tail, confinement, cwd)))


def absent_gpu(text: str, devices: Sequence[str] = GPU_DEVICES) -> str:
    """Say that a confined command has no GPU if this machine has one and `text`, the command and its output, is about it."""
    if not _ABOUT_GPU.search(text) or not any(map(os.path.exists, devices)):
        return ""
    return (
        "The command ran in a sandbox, where no GPU can be used; this machine has one. If it is needed, call Bash again "
        "with `dangerouslyDisableSandbox: true`."
    )


def explain_refusals(output: str, confinement: Confinement, cwd: str = "/") -> str:
    """Say in a sentence or two what a confined command in `cwd` that failed was refused; "" where nothing shows that."""
    tail = output[-_MOST_CHARS:]
    if setup := _SETUP.search(tail):
        return f"The command did not run: its sandbox could not be made ({setup[1]}). {way_out()}"
    named = list(dict.fromkeys(_refusals(tail, confinement, cwd)))
    if not named:
        return ""
    more = len(named) - MOST_NAMED
    told = "; ".join([*named[:MOST_NAMED], *([f"and {more} more"] if more > 0 else [])])
    return f"The command ran in a sandbox, which refused it: {told}. {way_out()}"


def way_out() -> str:
    """Say what Claude can do where a sandbox is in the way."""
    return (
        "This is no fault of the command or of the files. If it is needed, call Bash again with "
        "`dangerouslyDisableSandbox: true`, and the user is asked whether it may run without the sandbox."
    )


def _refusals(output: str, confinement: Confinement, cwd: str) -> Iterator[str]:
    for line in output.splitlines():
        if _NETWORK.search(line):
            if not confinement.any_host:
                hosts = ", ".join(confinement.hosts or ())
                yield f"the network (it may reach {hosts} only)" if hosts else "the network"
        elif _SIGNAL.search(line):
            yield "signals to processes outside of it"
        elif _OTHER_DISK.search(line) and confinement.protects is not None:
            yield "renaming a folder that was there before the command (`mv` copies it instead)"
        elif said := _REFUSED.search(line):
            path = _path(line, cwd)
            writes = "read-only" in said[0].lower() or said[0] == "EROFS"
            # Python says what it was: what may be read was to be written
            writes |= bool(path) and "[Errno 13]" in line and _is_open(path, confinement)
            what = "writing" if writes else "access to"
            yield f"{what} {path}" if path else line.strip()[:200]
        elif _ABSENT.search(line):
            path = _path(line, cwd)
            # what is not mounted does not exist for it
            if path and os.path.lexists(path) and not _is_open(path, confinement):
                yield f"access to {path}, which exists"


def _path(line: str, cwd: str) -> str:
    """The path that a line of an error is about; "" where none can be told."""
    quoted = [path for path in _QUOTED_PATH.findall(line) if "/" in path or os.path.lexists(os.path.join(cwd, path))]  # noqa: PTH118
    quoted += _ERRNO_PATH.findall(line)
    found = _PATH_BEFORE.search(line)
    path = quoted[-1] if quoted else found[1] if found else ""
    return os.path.normpath(os.path.join(cwd, path)) if path else ""  # noqa: PTH118


def _is_open(path: str, confinement: Confinement) -> bool:
    return any(below(path, folder) for folder in (*confinement.read, *confinement.write))
