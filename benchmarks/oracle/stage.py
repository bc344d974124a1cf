"""The place of a scene: a home, a project that git knows, a scripted model, and the surfaces that a user asks on."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.oracle.stable import Stable
from cellwright.testing import MessagesServer, RecordedRequest

ROOT = Path(__file__).parents[2]
SUPPORT = [str(ROOT / "tests" / folder) for folder in ("shared", "kernel/support", "server/support")]
"""Where the tests keep their kernels, panels and servers."""

MCP_SERVERS = ROOT / "tests" / "shared" / "mcp_servers"
SECONDS = 240

HEADERS = ("anthropic-version", "anthropic-beta", "content-type", "accept", "x-api-key", "authorization")
"""The headers of a request that decide what is answered."""

IN_SHELL = """
import atexit, json, sys
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
config = Config()
config.HistoryManager.hist_file = ":memory:"
config.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=config)
shell.run_cell("%load_ext cellwright", store_history=True)
for number, cell in enumerate(json.load(open(sys.argv[1])), 1):
    print(f"In [{number}]:")
    shell.run_cell(cell, store_history=True, cell_id=f"cell-{number}")
shell.run_cell("%unload_ext cellwright")
"""


class Stage:
    """What a scene writes and asks; `printed` holds the lines of the surfaces by a name for each.

    The model answers with what is left of the script; where a scene's requests come in no fixed order, its turns say `when`.
    """

    def __init__(self, root: Path, server: MessagesServer, python: Path) -> None:
        self.root, self.server, self.python_program = root, server, python
        self.home, self.project = root / "home", root / "home" / "project"
        self.printed: dict[str, str] = {}
        self.project.mkdir(parents=True)
        self.environ = {
            "HOME": str(self.home),
            "CELLWRIGHT_HOME": str(self.home / "cellwright"),
            "IPYTHONDIR": str(self.home / "ipython"),
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": server.api_key,
            "CELLWRIGHT_MAX_RETRIES": "1",
            "CELLWRIGHT_MCP_WAIT": str(SECONDS),
            "MCP_TIMEOUT": str(SECONDS * 1_000),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "src"),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
            "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        self.write("project/README.md", "# Tides\n\nLevels of the sea at Brest.\n")
        self.write("project/tides.py", "def level(hour):\n    return hour * 2\n\n\nprint(level(3))\n")
        self.write("project/data/levels.csv", "hour,level\n0,1.5\n6,4.0\n12,1.25\n")
        self.run("git", "init", "-q", "-b", "main")
        self.run("git", "add", ".")
        self.run("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qm", "Levels of the sea")

    def run(self, *argv: str, folder: Path | None = None, piped: str = "", **environ: str) -> tuple[int, str, str]:
        """Run a program to its end."""
        done = subprocess.run(
            argv,
            cwd=folder or self.project,
            env={**self.environ, **environ},
            input=piped,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def write(self, name: str, content: Any) -> Path:
        """Write a file below the home; what is no text as JSON."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return path

    def settings(self, **values: Any) -> None:
        """Write the user's settings."""
        self.write(".claude/settings.json", values)

    def answers(self, *turns: Any) -> None:
        """Add turns to the script."""
        self.server.add(*turns)

    def keep(self, name: str, text: str) -> None:
        """Keep what a surface printed."""
        self.printed[f"{len(self.printed) + 1:02d}-{name}"] = text

    def command(self, *arguments: str, piped: str = "", **environ: str) -> str:
        """Run `cellwright` in the project and keep what it prints; its stdout."""
        argv = (str(self.python_program), "-m", "cellwright.terminal.main", *arguments)
        code, out, err = self.run(*argv, piped=piped, **environ)
        self.keep(
            "command", f"$ cellwright {' '.join(arguments)}\nexit code {code}\n--- stdout\n{out}--- stderr\n{err}"
        )
        return out

    def python(self, code: str, **environ: str) -> str:
        """Run a program in the project and keep what it prints."""
        script = self.root / "program.py"
        script.write_text(textwrap.dedent(code), "utf-8")
        exit_code, out, err = self.run(str(self.python_program), str(script), **environ)
        self.keep("program", f"exit code {exit_code}\n--- stdout\n{out}--- stderr\n{err}")
        return out

    def cells(self, *cells: str, **environ: str) -> str:
        """Run cells in an IPython shell with Cellwright loaded and keep what it prints."""
        places = self.root / "shell.py", self.root / "cells.json"
        places[0].write_text(IN_SHELL, "utf-8")
        places[1].write_text(json.dumps([textwrap.dedent(cell) for cell in cells]), "utf-8")
        exit_code, out, err = self.run(str(self.python_program), *map(str, places), **environ)
        self.keep("shell", f"exit code {exit_code}\n--- stdout\n{out}--- stderr\n{err}")
        return out

    @contextlib.contextmanager
    def kernel(self) -> Iterator[Any]:
        """A kernel with Cellwright loaded, as tests have it."""
        from notebook_kernel import running_kernel

        with running_kernel(self.project, self.environ) as kernel:
            assert kernel.run("%load_ext cellwright").status == "ok"
            yield kernel

    @contextlib.contextmanager
    def jupyter_server(self) -> Iterator[Any]:
        """A Jupyter Server whose kernels ask the scene's model, as tests have it."""
        from jupyter_process import jupyter_server

        with jupyter_server(self.root / "server", environ=self.environ) as server:
            yield server

    def mcp(self, name: str = "plain", *arguments: str) -> dict[str, Any]:
        """The entry of an MCP server of the tests."""
        return {"command": str(self.python_program), "args": [str(MCP_SERVERS / f"{name}_server.py"), *arguments]}

    def files(self) -> dict[str, str]:
        """What the scene leaves to be compared, by the names of files."""
        stable = Stable(
            [
                (str(self.python_program), "<python>"),
                (sys.executable, "<python>"),
                (str(self.project), "<project>"),
                (str(self.project).replace("/", "-"), "<project-as-name>"),
                (str(self.home), "<home>"),
                (str(self.root), "<root>"),
                (str(self.root).replace("/", "-"), "<root-as-name>"),
                (str(ROOT), "<repository>"),
            ]
        )
        kept = {f"request-{number:02d}.txt": stable(_shown(each)) for number, each in enumerate(self._requests(), 1)}
        kept |= {f"{name}.txt": stable(text, printed=True) for name, text in self.printed.items()}
        if self.server.rejected or self.server.remaining_turns or self.server.exhausted:
            refused = "\n".join(each.error for each in self.server.rejected)
            kept["script.txt"] = stable(
                f"{refused}\nturns left: {self.server.remaining_turns}, exhausted: {self.server.exhausted}\n"
            )
        return kept

    def _requests(self) -> list[RecordedRequest]:
        """The requests; those of a conversation in their order, conversations by their first words."""
        place = str(self.root)
        return sorted(self.server.requests, key=lambda each: (each.action, _beginning(each).replace(place, "")))


def _beginning(request: RecordedRequest) -> str:
    body = request.body if isinstance(request.body, dict) else {}
    first = next(iter(body.get("messages", ())), {})
    return json.dumps([body.get("model"), first.get("content")])


def _shown(request: RecordedRequest) -> str:
    """The line, the headers and the very bytes of a request."""
    query = f"?{request.query}" if request.query else ""
    headers = "".join(f"{name}: {request.headers[name]}\n" for name in HEADERS if name in request.headers)
    return f"{request.method} {request.path}{query}\n{headers}\n{request.raw.decode()}\n"
