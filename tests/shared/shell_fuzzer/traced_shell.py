"""A shell that is watched: runs one command after another under strace and tells every file, program and socket it used.

strace and the commands are in a bubblewrap of their own where nothing but the throw-away world can be written and there is
no network, so that a hole that is found does no harm.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

COMMAND_SECONDS = 2.0
"""The time that a command may take."""
TRACE_SECONDS = 60.0
"""The time that strace may take to tell of it, and to end: more than on the busiest machine."""

_SYSCALLS = (
    *(
        "open",
        "openat",
        "openat2",
        "creat",
        "chdir",
        "fchdir",
        "clone",
        "clone3",
        "fork",
        "vfork",
        "execve",
        "execveat",
    ),
    *(
        "unlink",
        "unlinkat",
        "rename",
        "renameat",
        "renameat2",
        "mkdir",
        "mkdirat",
        "rmdir",
        "link",
        "linkat",
        "symlink",
    ),
    *(
        "symlinkat",
        "chmod",
        "fchmod",
        "fchmodat",
        "fchmodat2",
        "chown",
        "lchown",
        "fchown",
        "fchownat",
        "utime",
        "utimes",
    ),
    *("utimensat", "futimesat", "truncate", "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr"),
    *("fremovexattr", "mknod", "mknodat"),
)
_OTHER_SYSCALLS = ("socket", "connect", "bind", "sethostname", "mount", "ptrace")

Kind = Literal["read", "list", "write", "execute", "network"]


@dataclass(frozen=True, slots=True)
class Touch:
    """One thing that `program` did by the system call `call`; `path` is real, or for the network what was asked for."""

    kind: Kind
    path: str
    call: str
    program: str


@dataclass(frozen=True, slots=True)
class Trace:
    """The deeds of a command, and what it printed. `confined`: it ran in a sandbox."""

    touches: tuple[Touch, ...]
    output: str
    timed_out: bool
    confined: bool


def missing_means() -> str:
    """Say what this machine lacks to run commands watched and contained; "" where nothing is missing."""
    for program in ("bash", "strace", "bwrap"):
        if shutil.which(program) is None:
            return f"needs {program}"
    tried = subprocess.run(
        [*_contained(Path("/tmp")), *_watched("/dev/null"), "true"], capture_output=True, text=True, check=False
    )
    return tried.stderr.strip() if tried.returncode else ""


def _contained(world: Path) -> list[str]:
    """The start of a command that can change nothing but what is below `world`."""
    return [
        # a sandbox inside writes below /proc to make its namespaces
        *(
            "bwrap",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--bind",
            "/proc",
            "/proc",
            "--bind",
            str(world),
            str(world),
        ),
        *("--unshare-net", "--unshare-ipc", "--die-with-parent", "--"),
    ]


def _watched(trace: str) -> list[str]:
    """The start of a command whose successful system calls are written to the file `trace`."""
    calls = ",".join(f"?{name}" for name in (*_SYSCALLS, *_OTHER_SYSCALLS))
    how = ("-f", "-yy", "-qq", "-z", "--seccomp-bpf", "--decode-pids=pidns", "-s", "4096")
    return ["strace", *how, "-e", f"trace={calls}", "-o", trace]


class TracedShell:
    """The watched process that decides and runs commands, and how far its trace has been read.

    `base` is the only folder that can be written; the environment of commands is `environ`, less what children do not get.
    `abilities` are those of the sandbox that it can confine commands by, empty where there is none. `not_started`: why
    commands that were allowed could not be confined. A command may take `seconds`.
    """

    def __init__(self, base: Path, environ: Mapping[str, str], seconds: float) -> None:
        self._seconds = seconds
        trace = base / "trace"
        trace.touch()
        self._trace = trace.open("rb")
        self._process = subprocess.Popen(
            [*_contained(base), *_watched(str(trace)), sys.executable, "-m", "shell_fuzzer.driver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            text=True,
        )
        self.abilities: Mapping[str, Any] = self._answer()
        self.not_started: Counter[str] = Counter()

    def run(self, given: Mapping[str, Any]) -> Trace | None:
        """Have a command decided, and run to its end where it is allowed; None where it is not."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({**given, "seconds": self._seconds}) + "\n")
        self._process.stdin.flush()
        told = self._answer()
        lines = self._lines()
        if not told["allowed"]:
            self.not_started.update({told["not_started"]: 1} if "not_started" in told else {})
            return None
        touches = touches_in(lines, told["pid"], given["folder"])
        return Trace(tuple(dict.fromkeys(touches)), told["output"], told["timed_out"], told["confined"])

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("The process that strace watches has ended.")
        return dict(json.loads(answer))

    def close(self) -> None:
        """End the watched process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(TRACE_SECONDS)
        self._trace.close()

    def _lines(self) -> list[str]:
        """Return the new lines, up to the mark that the driver sets behind each command."""
        lines: list[str] = []
        rest = b""
        deadline = time.monotonic() + TRACE_SECONDS
        while time.monotonic() < deadline:
            rest += self._trace.readline()
            if not rest.endswith(b"\n"):
                time.sleep(0.0005)  # strace is about to write it
                continue
            line, rest = rest.decode("utf-8", "surrogateescape").rstrip("\n"), b""
            if _MARK.match(line):
                return whole_lines(lines)
            lines.append(line)
        raise RuntimeError("strace has not told the end of a command.")


def whole_lines(lines: Sequence[str]) -> list[str]:
    """Put together the lines of calls that strace has told in two parts, since another process was told in between."""
    whole: list[str] = []
    begun: dict[str, str] = {}
    last = ""
    for line in lines:
        process = line.partition(" ")[0]
        if line.endswith(_UNFINISHED):
            begun[process], last = line.removesuffix(_UNFINISHED), process
        elif resumed := _RESUMED.match(line):
            whole.append(begun.pop(process, "") + line[resumed.end() :])
        elif line.startswith(")"):
            whole.append(begun.pop(last, "") + line)
        else:
            whole.append(line)
    return whole


_UNFINISHED = " <unfinished ...>"
_RESUMED = re.compile(r"\d+ +<\.\.\. \w+ resumed>")
_MARK = re.compile(r'\d+ +chdir\("//\.//"')
_STARTS_PROCESS = frozenset({"clone", "clone3", "fork", "vfork"})
_CALL = re.compile(r"(?P<pid>\d+) +(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>.*)", re.DOTALL)
_PATH = re.compile(r'(?:(?:AT_FDCWD|\d+)<(?P<folder>(?:[^<>\\]|\\.)*)>(?:\(deleted\))?, )?"(?P<path>(?:[^"\\]|\\.)*)"')
_DESCRIPTOR = re.compile(r"(?:AT_FDCWD|\d+)<(?P<path>(?:[^<>\\]|\\.)*)>")
_OPEN_FLAGS = re.compile(r"\bO_[A-Z_|]+")
_NULL_DEVICE = "<char 1:3>"
_WRITING = frozenset({"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_TMPFILE"})


def touches_in(lines: Sequence[str], pid: int, cwd: str) -> Iterator[Touch]:
    """Find what the process `pid`, which started in `cwd`, and all its descendants did."""
    calls = [found for line in lines if (found := _CALL.fullmatch(line))]
    # the lines of a child may come before its parent's call has returned
    parents = {_started(call["result"]): int(call["pid"]) for call in calls if call["name"] in _STARTS_PROCESS}
    folders = {pid: cwd}
    programs = {pid: ""}
    begun: set[int] = set()
    for call in calls:
        process, name, parent = int(call["pid"]), call["name"], parents.get(int(call["pid"]), 0)
        if process not in folders:
            if parent not in folders:
                continue  # the driver itself
            folders[process], programs[process] = folders[parent], programs[parent]
            begun |= {process} if parent in begun else set()
        folder = folders[process]
        if name in ("chdir", "fchdir"):
            folders[process] = os.path.realpath(_named(call["arguments"], folder)[-1])
        elif name not in _STARTS_PROCESS:
            # what confines a command, or bounds its memory, does so before the shell
            begun |= {process} if name == "execve" and "/bash" in call["arguments"].partition(",")[0] else set()
            if name in ("execve", "execveat"):
                programs[process] = Path(_named(call["arguments"].partition(", [")[0], folder)[-1]).name
            if process in begun:
                for kind, path in _touched(name, call["arguments"], call["result"], folder):
                    yield Touch(kind, path, name, programs[process])


def _started(result: str) -> int:
    """The number, as strace counts, of the process that a call has started: in a sandbox it may have two."""
    return int(result.partition("/* ")[2].split()[0] if "/* " in result else result.split()[0])


def _touched(name: str, arguments: str, result: str, folder: str) -> Iterator[tuple[Kind, str]]:
    if name in ("open", "openat", "openat2", "creat"):
        yield from _opened(name, arguments, result, folder)
    elif name in ("execve", "execveat"):
        yield "execute", _named(arguments.partition(", [")[0], folder)[-1]
    elif name in _OTHER_SYSCALLS:
        if not arguments.startswith(("AF_UNIX", "AF_NETLINK")):
            yield "network", arguments
    else:
        named = _named(arguments, folder)
        # what a symbolic link says is no file
        for path in named[-1:] if name.startswith("symlink") else named:
            yield "write", path


def _opened(name: str, arguments: str, result: str, folder: str) -> Iterator[tuple[Kind, str]]:
    if _NULL_DEVICE in result:
        return  # also what a sandbox lays over a file
    at = _DESCRIPTOR.match(result)
    path = _unescaped(at["path"]) if at else _named(arguments, folder)[-1]
    given = _OPEN_FLAGS.search(_PATH.sub("", arguments))
    flags = frozenset(given[0].split("|")) if given else frozenset()
    if "O_PATH" in flags:
        return
    if name == "creat" or flags & _WRITING:
        yield "write", path
    if "O_WRONLY" not in flags and name != "creat":
        yield "list" if "O_DIRECTORY" in flags or Path(path).is_dir() else "read", path


def _named(arguments: str, folder: str) -> list[str]:
    """The real paths of the entries that the arguments of a call name; of a link, that of the link itself."""
    found = []
    for match in _PATH.finditer(arguments):
        start = _unescaped(match["folder"]) if match["folder"] is not None else folder
        path = (
            f"{start}/{_unescaped(match['path'])}" if not match["path"].startswith("/") else _unescaped(match["path"])
        )
        above, _, name = (path.rstrip("/") or "/").rpartition("/")
        found.append(
            os.path.realpath(path)
            if name in ("", ".", "..")
            else f"{os.path.realpath(above or '/').rstrip('/')}/{name}"
        )
    if not found and (at := _DESCRIPTOR.match(arguments)):
        found.append(_unescaped(at["path"]))
    return found or [folder]


def _unescaped(text: str) -> str:
    raw = codecs.escape_decode(text.encode("utf-8", "surrogateescape"))[0]
    return os.fsdecode(raw)
