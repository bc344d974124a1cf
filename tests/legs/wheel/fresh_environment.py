"""Users' environments as they are: their own pip, no node on PATH, nothing of this checkout."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

OF_ENVIRONMENTS = {"cellwright", "pip", "setuptools", "wheel"}


class Installation(NamedTuple):
    """An environment with the wheel: its interpreter, and what was in it before a test installed more."""

    python: Path
    packages: list[str]
    mib: float


def install(python: Path, *what: str) -> None:
    command = [str(python), "-m", "pip", "install", "-q", *what]
    subprocess.run(command, check=True, env=without_this_checkout(), cwd=python.parent)


@functools.cache
def _programs() -> str:
    """A folder with this machine's programs but node's: those of one folder with others cannot be left out of PATH."""
    folder = Path(tempfile.mkdtemp(prefix="programs-"))
    for each in os.environ["PATH"].split(os.pathsep):
        for program in Path(each).iterdir() if Path(each).is_dir() else ():
            if program.name not in ("node", "nodejs", "npm", "npx") and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return str(folder)


def without_this_checkout() -> dict[str, str]:
    """The environment of a user who has neither node nor our sources."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTEST_CURRENT_TEST")}
    return {**kept, "PATH": _programs()}


def packages(python: Path) -> list[str]:
    """The names of what is installed, but for what every environment has."""
    done = subprocess.run([python, "-m", "pip", "list", "--format=json"], capture_output=True, text=True, check=True)
    names = {each["name"].lower().replace("_", "-") for each in json.loads(done.stdout)}
    return sorted(names - OF_ENVIRONMENTS)


def installed_mib(folder: Path) -> float:
    """The room on the disk, as `du` counts it."""
    done = subprocess.run(["du", "-sk", str(folder)], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0]) / 1024
