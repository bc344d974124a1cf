"""Fixtures of the server's room: real Jupyter Servers, with kernels whose model is the strict local server."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from cellwright.testing import MessagesServer

sys.path.insert(0, str(Path(__file__).parent / "support"))  # importlib mode leaves it out
sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))  # what every open notebook must do

from jupyter_process import JupyterServer, jupyter_server

Start = Callable[..., JupyterServer]


@pytest.fixture(scope="module")
def model() -> Iterator[MessagesServer]:
    """The model of every kernel; a test adds the turns that it needs."""
    with MessagesServer() as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, model: MessagesServer) -> Iterator[JupyterServer]:
    """One for the tests of a module."""
    environ = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": model.api_key}
    with jupyter_server(tmp_path_factory.mktemp("server"), environ=environ) as running:
        yield running


@pytest.fixture
def start_server(tmp_path: Path, model: MessagesServer) -> Iterator[Start]:
    """`start_server(*arguments, base_url="/", environ={})`: a server of the test's own."""
    with contextlib.ExitStack() as running:

        def start(*arguments: str, base_url: str = "/", environ: Mapping[str, str] | None = None) -> JupyterServer:
            folder = tmp_path / f"server-{len(list(tmp_path.iterdir()))}"
            said = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": model.api_key, **(environ or {})}
            return running.enter_context(jupyter_server(folder, arguments, said, base_url))

        yield start
