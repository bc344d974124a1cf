"""A kernel of the versions that a hosted notebook pins, with Cellwright loaded, and the scripted model behind it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "kernel" / "support"))  # importlib mode leaves it out

from notebook_kernel import NotebookKernel, model_of, running_kernel

from cellwright.testing import MessagesServer


@pytest.fixture
def model() -> Iterator[MessagesServer]:
    with MessagesServer() as server:
        yield server
        assert [request.error for request in server.rejected] == []
        assert server.remaining_turns == 0


@pytest.fixture
def kernel(model: MessagesServer, tmp_path: Path, own_place: Path) -> Iterator[NotebookKernel]:
    """The kernel, at work in `tmp_path`."""
    places = {"HOME": str(own_place), "CELLWRIGHT_HOME": str(own_place / "cellwright")}
    with running_kernel(tmp_path, {**model_of(model), **places, "IPYTHONDIR": str(own_place / "ipython")}) as kernel:
        loaded = kernel.run("%load_ext cellwright")
        assert loaded.status == "ok", loaded.error
        yield kernel
