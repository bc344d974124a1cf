"""`CLAUDE_ENV_FILE`: a file into which some hooks write `export NAME=value` for the shell commands that follow.

What the file sets is found out by bash itself, with the rights that the hook had.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from cellwright.agent.calls.tool_results import made_output_folder
from cellwright.config.hooks.process import run_program
from cellwright.tools.process.children import MARK_NAME, ChildProcesses

EXPORT_VARIABLE = "CLAUDE_ENV_FILE"
EXPORTING = frozenset({"SessionStart", "Setup", "CwdChanged", "FileChanged"})
"""The events whose hooks may set variables."""

_SHELLS_OWN = frozenset({"_", "SHLVL", "PWD", "OLDPWD", MARK_NAME, EXPORT_VARIABLE})
_READ = 'set -a; . "$1" >/dev/null 2>&1; exec /usr/bin/env -0'


@contextlib.contextmanager
def export_file(event: str) -> Iterator[Path | None]:
    """An empty file for one hook of `event`; None where the event has none. Raises OSError."""
    if event not in EXPORTING:
        yield None
        return
    descriptor, name = tempfile.mkstemp(dir=made_output_folder(), prefix="exports-")
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


async def read_exports(
    file: Path, folder: Path, environ: Mapping[str, str], children: ChildProcesses
) -> dict[str, str]:
    """The variables that the script in `file` sets anew or otherwise. Raises OSError."""
    bash = shutil.which("bash", path=environ.get("PATH"))
    if bash is None or not file.exists() or file.stat().st_size == 0:
        return {}
    arguments = [bash, "--noprofile", "--norc", "-c", _READ, "bash", str(file)]
    ended = await run_program(arguments, b"", cwd=folder, environ=environ, children=children)
    pairs = [line.partition("=") for line in ended.output.split("\0") if line]
    return {name: value for name, _, value in pairs if name not in _SHELLS_OWN and environ.get(name) != value}
