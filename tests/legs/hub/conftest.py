"""One JupyterHub for all tests of the room, with its users in it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cellwright.testing import MessagesServer

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode leaves a test's own folder out


@pytest.fixture(scope="session")
def model() -> Iterator[MessagesServer]:
    """The API behind the hub's proxy."""
    with MessagesServer(api_key="sk-ant-of-the-hub-alone") as server:
        yield server


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory, model: MessagesServer) -> Iterator[object]:
    missing = [
        name
        for name, there in (
            ("jupyterhub", importlib.util.find_spec("jupyterhub")),
            ("configurable-http-proxy", shutil.which("configurable-http-proxy")),
        )
        if not there
    ]
    if missing and os.environ.get("CELLWRIGHT_REQUIRE_HUB"):
        pytest.fail(f"missing: {', '.join(missing)}")
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: make leg LEG=jupyterhub installs them")
    from hub import running_hub  # jupyterhub's neighbours, only where it is there

    with running_hub(tmp_path_factory.mktemp("hub"), model.url, model.api_key) as running:
        for name in ("alice", "bob", "carol"):
            running.log_in(name)
        yield running
