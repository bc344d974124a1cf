"""The command in a process of its own, in a folder of its own, against a local Messages API."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pexpect
import pytest

from cellwright.testing import MessagesServer
from forked.forked_python import program_in

ARGV = [sys.executable, "-m", "cellwright.terminal.main"]
SECONDS = 120


class Terminal(pexpect.spawn):
    """The command on a terminal."""

    def wait_for_prompt(self) -> None:
        """Wait until a prompt can be typed.

        What is typed before that is read by what goes on: Claude is told it, or it becomes the next prompt's beginning.
        """
        self.expect_exact("What should Claude do?")


@dataclass(frozen=True)
class Cellwright:
    """Runs the command in `folder`."""

    folder: Path
    environ: Mapping[str, str]

    @property
    def argv(self) -> list[str]:
        """The beginning of its line where it has no terminal: it is forked, with its modules imported."""
        return [program_in(self.environ), *ARGV[1:]]

    def run(self, *arguments: str, piped: str | bytes = b"", **environ: str) -> subprocess.CompletedProcess[str]:
        """One command without a terminal, with `piped` on its stdin."""
        data = piped.encode() if isinstance(piped, str) else piped
        done = subprocess.run(
            [*self.argv, *arguments],
            cwd=self.folder,
            env={**self.environ, **environ},
            input=data,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        """One command without a terminal that goes on beside the test; its number is what it says of itself."""
        return subprocess.Popen(
            [*ARGV, *arguments],
            cwd=self.folder,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def terminal(self, *arguments: str, columns: int = 100, rows: int = 40, **environ: str) -> Terminal:
        """One command on a terminal."""
        return Terminal(
            ARGV[0],
            [*ARGV[1:], *arguments],
            cwd=str(self.folder),
            env={**self.environ, **environ},  # type: ignore[arg-type]
            dimensions=(rows, columns),
            encoding="utf-8",
            timeout=SECONDS,
            preexec_fn=_hear_hangups,
        )


def _hear_hangups() -> None:
    """A terminal's programs hear them also where the tests were started by `nohup`."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def command_for(tmp_path: Path) -> Callable[[MessagesServer], Cellwright]:
    """The command, set up for a server."""
    folder = tmp_path / "project"
    folder.mkdir()

    def for_server(server: MessagesServer | None) -> Cellwright:
        environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        environ |= {"TERM": "xterm-256color", "CELLWRIGHT_MAX_RETRIES": "1"}
        if server is not None:
            environ |= {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
        return Cellwright(folder, environ)

    return for_server


AS_CLAUDE = """#!{python}
import sys
from cellwright.terminal.main import main
sys.exit(main())
"""


@dataclass(frozen=True)
class Shell:
    """Runs lines of bash in `folder`, where `claude` on the PATH is our command."""

    folder: Path
    environ: Mapping[str, str]

    def run(self, line: str, *arguments: str, piped: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        """One line, with `piped` on its stdin and `$1` … as `arguments`."""
        return subprocess.run(
            ["bash", "-c", line, "bash", *arguments],
            cwd=self.folder,
            env={**self.environ, **environ},
            input=piped,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )


@pytest.fixture
def shell_for(tmp_path: Path, command_for: Callable[[MessagesServer], Cellwright]) -> Callable[..., Shell]:
    """A shell that is set up for a server, in a folder of `tmp_path`."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "claude").write_text(AS_CLAUDE.format(python=program_in(os.environ)), "utf-8")
    (programs / "claude").chmod(0o755)
    environ_of = command_for

    def for_server(server: MessagesServer, folder: str = "work") -> Shell:
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        (tmp_path / "project").mkdir(exist_ok=True)
        environ = dict(environ_of(server).environ)
        return Shell(place, {**environ, "PATH": f"{programs}:{environ['PATH']}"})

    return for_server
