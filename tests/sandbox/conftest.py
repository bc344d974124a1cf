"""Each test of a sandbox is judged with every means that this machine has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cellwright.sandbox.mechanisms import Sandbox
from cellwright.sandbox.private_folder import PrivateFolder
from confined import Confined, sandbox_by


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture(params=["Landlock", "bubblewrap"])
def confined(request: pytest.FixtureRequest, root: Path) -> Iterator[Confined]:
    yield from _confined(sandbox_by(request.param), root)


@pytest.fixture
def mounted(root: Path) -> Iterator[Confined]:
    """By bubblewrap, for what Landlock cannot do."""
    yield from _confined(sandbox_by("bubblewrap"), root)


@pytest.fixture
def landlocked(root: Path) -> Iterator[Confined]:
    """By Landlock, for what is its own."""
    yield from _confined(sandbox_by("Landlock"), root)


def _confined(sandbox: Sandbox, root: Path) -> Iterator[Confined]:
    private = PrivateFolder()
    yield Confined(sandbox, private, root)
    private.close()
