"""The small project of `tests/codebase`, whose code the tools find."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "codebase"))  # importlib mode leaves it out

from indexed_project import make_project


@pytest.fixture
def root(own_place: Path, tmp_path: Path) -> Path:
    """The project, with a place of its own for the index."""
    return make_project(tmp_path)
