"""The wheel, and an environment into which users' own pip has installed it: no node, nothing of this checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# importlib mode leaves them out
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "kernel" / "support"))

from fresh_environment import Installation, install, installed_mib, packages

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def installation(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A fresh environment that has the wheel, by the pip that its Python brings along."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    base = os.path.realpath(sys.executable)
    subprocess.run([base, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    install(python, str(wheel))
    yield Installation(python, packages(python), installed_mib(folder))
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def python(installation: Installation) -> Path:
    """The interpreter of that environment."""
    return installation.python
