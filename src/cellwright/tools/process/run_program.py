"""Running a project's own program (a test runner, a linter) to its end, with its output seen live."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode
from cellwright.tools.command_exit import exit_code
from cellwright.tools.process.children import child_processes
from cellwright.tools.process.environment import child_environment
from cellwright.tools.shell.run_command import ShellCommand, ShellRun

SHOWN_CHARS = 12_000
MEMORY_MB = 8_192


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: its exit code as a shell shows it, head and tail of what it wrote, the file with all of it."""

    exit_code: int
    output: str
    output_path: Path | None


async def run_program(
    arguments: Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    seconds: float,
    progress: Callable[..., None],
    stdout: Path | None = None,
) -> Ended:
    """Run it like a command of Bash: no secrets, its own group, ended with us. `stdout` takes its standard output.

    Raises ToolError with what it wrote so far when its time is over.
    """
    redirect = f" > {shlex.quote(str(stdout))}" if stdout is not None else ""
    command = ShellCommand(
        command=shlex.join(arguments) + redirect,
        cwd=cwd,
        environ=child_environment(environ),
        memory_mb=MEMORY_MB,
        shown_chars=SHOWN_CHARS,
    )
    run = ShellRun(command, child_processes(), progress)
    if not await run.wait(seconds):
        await run.stop()
        raise ToolError(
            f"{Path(arguments[0]).name} was stopped after {seconds:g} s. Give more timeout_seconds, or less to do (paths, "
            f"filter). Its output so far:\n{run.output.text()}",
            code=ErrorCode.EXECUTION_TIMEOUT,
        )
    return Ended(exit_code(run.returncode), run.output.text(), run.output.path)
