"""Running a project's own program (a test runner, a linter) to its end, with its output seen live.

Programs are looked for first among the Python modules of the kernel's own environment, then in what the project
installed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from cellwright.agent.calls.approval import Confinement, also_writing, in_engine, without_hosts
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.paths import shown_path
from cellwright.tools.process.child_processes import Command
from cellwright.tools.process.runner import RunningProgram, child_environment
from cellwright.tools.shell.run_command import LiveOutput, exit_code

SHOWN_CHARS = 12_000
MEMORY_MB = 8_192


class ProgramExit(Struct, frozen=True):
    """A program's end: its exit code as a shell shows it, head and tail of what it wrote, the file with all of it."""

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
    confinement: Confinement | None = None,
    scratch: Path | None = None,
) -> ProgramExit:
    """Run it like a command of Bash: no secrets, bounded, ended with us. `stdout` takes its standard output.

    `confinement` is what it may touch (None: no bounds); it writes to `scratch`, a folder of ours, in any case.

    Raises ToolError when it cannot be started, and with what it wrote so far when its time is over.
    """
    # a container has the folder that `scratch` lies in already
    if scratch is not None and (confinement is None or not in_engine(confinement)):
        confinement = also_writing(confinement, scratch)
    live = LiveOutput(SHOWN_CHARS, progress)
    command = Command(
        arguments=arguments,
        cwd=cwd,
        # which a shell would set, and some programs believe
        environ={**child_environment(environ), "PWD": str(cwd)},
        memory_mb=MEMORY_MB,
        confinement=without_hosts(confinement),
        says=lambda line: progress(message=line),
    )
    name = Path(arguments[0]).name
    with contextlib.ExitStack() as until_its_end:
        until_its_end.callback(live.close)
        try:
            # a container may have to be made first, and the loop goes on meanwhile
            if stdout is None:
                program = await RunningProgram.started(command, output=live.take)
            else:
                file = until_its_end.enter_context(stdout.open("wb"))
                program = await RunningProgram.started(command, output=file.fileno(), errors=live.take)
        except (OSError, ValueError) as error:  # no descriptors left; too long, or a NUL byte in it
            raise ToolError(f"{name} could not be started: {error}.", code=ErrorCode.EXECUTION_ERROR) from error
        in_time = await program.finish(seconds)
    if not in_time:
        raise ToolError(
            f"{name} was stopped after {seconds:g} s. Give more timeout_seconds, or less to do (paths, "
            f"filter). Its output so far:\n{live.kept.text()}",
            code=ErrorCode.EXECUTION_TIMEOUT,
        )
    return ProgramExit(exit_code(program.exit_code), live.kept.text(), live.kept.path)


ENVIRONMENTS = (".venv", "venv", "env")


def check_folder(cwd: Path, folder: Path) -> None:
    """Raise ToolError unless `folder`, a tool's `path`, is one."""
    if not folder.is_dir():
        hint = " path is the project's folder; name files in paths." if folder.exists() else ""
        raise ToolError(f"{shown_path(cwd, folder)} is not a folder.{hint}", code=ErrorCode.FILE_PATH_INVALID)


def python_with(module: str, folder: Path) -> str | None:
    """An interpreter that has `module`: the one we run in, or that of the project's own virtual environment."""
    if importlib.util.find_spec(module) is not None:
        return sys.executable
    for name in ENVIRONMENTS:
        packages = [*folder.glob(f"{name}/lib/python*/site-packages/{module}"), *folder.glob(f"{name}/Lib/*/{module}")]
        for python in (folder / name / "bin" / "python", folder / name / "Scripts" / "python.exe"):
            if packages and os.access(python, os.X_OK):
                return str(python)
    return None


def own_program(name: str) -> str | None:
    """A program of the environment we run in; nothing that a project could have put there."""
    file = Path(sys.executable).parent / (f"{name}.exe" if os.name == "nt" else name)
    return str(file) if os.access(file, os.X_OK) else None


def node_program(name: str, folder: Path) -> str | None:
    """A program of the project's node_modules, in `folder` or above it."""
    for place in (folder, *folder.parents):
        file = place / "node_modules" / ".bin" / name
        if file.exists():
            return str(file)
    return None


def on_path(name: str, environ: Mapping[str, str] | None) -> str | None:
    """A program in an absolute folder of PATH; its name alone where another system than this one looks for it."""
    if environ is None:
        return name
    folders = [part for part in environ.get("PATH", os.defpath).split(os.pathsep) if Path(part).is_absolute()]
    return shutil.which(name, path=os.pathsep.join(folders)) if folders else None
