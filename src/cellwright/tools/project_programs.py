"""Finding a project's programs: Python modules in the kernel's own environment first, then what the project installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode
from cellwright.tools.paths import shown_path

ENVIRONMENTS = (".venv", "venv", "env")


def check_folder(cwd: Path, folder: Path) -> None:
    """Raise ToolError unless `folder`, a tool's `path`, is one."""
    if not folder.is_dir():
        hint = " path is the project's folder; name files in paths." if folder.exists() else ""
        raise ToolError(f"{shown_path(cwd, folder)} is no folder.{hint}", code=ErrorCode.FILE_PATH_INVALID)


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


def on_path(name: str, environ: Mapping[str, str]) -> str | None:
    """A program in an absolute folder of PATH."""
    folders = [part for part in environ.get("PATH", os.defpath).split(os.pathsep) if Path(part).is_absolute()]
    return shutil.which(name, path=os.pathsep.join(folders)) if folders else None
