"""Pages that behave as other front ends do, with real kernels behind them and the scripted model behind these."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode leaves it out
sys.path.insert(0, str(Path(__file__).parents[2] / "e2e"))

from front_end_page import FrontEndPage
from lab_server import Lab, running_lab

from cellwright.testing import MessagesServer

ROOT = Path(__file__).parents[3]
PAGES = Path(os.environ.get("CELLWRIGHT_FRONT_END_PAGES", ROOT / ".venv" / "front-ends" / "pages"))
COLAB_PYTHON = os.environ.get("CELLWRIGHT_COLAB_PYTHON", str(ROOT / ".venv" / "colab" / "bin" / "python"))


@pytest.fixture(scope="session")
def running_model() -> Iterator[MessagesServer]:
    with MessagesServer(seconds_between_deltas=0.004) as server:
        yield server


@pytest.fixture
def model(running_model: MessagesServer) -> Iterator[MessagesServer]:
    running_model.clear()
    yield running_model
    assert [request.error for request in running_model.rejected] == []
    assert running_model.remaining_turns == 0


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, running_model: MessagesServer) -> Iterator[Lab]:
    """A Jupyter Server that knows two kernels: this environment's, and one of what Google Colab pins."""
    specs = tmp_path_factory.mktemp("kernels") / "kernels" / "colab"
    specs.mkdir(parents=True)
    command = [COLAB_PYTHON, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "Colab", "language": "python"}
    (specs / "kernel.json").write_text(json.dumps(spec))
    config = tmp_path_factory.mktemp("config")
    paths = [str(PAGES.parent), str(Path(sys.prefix) / "share" / "jupyter")]
    (config / "jupyter_server_config.json").write_text(json.dumps({"ServerApp": {"extra_static_paths": paths}}))
    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("JUPYTER_PATH", str(specs.parents[1]))
        environ.setenv("JUPYTER_CONFIG_PATH", str(config))
        home = tmp_path_factory.mktemp("home")
        (root := home / "survey").mkdir()  # what the pictures show of paths begins with ~
        with running_lab(root, home, running_model.url, running_model.api_key) as lab:
            yield lab


@pytest.fixture
def front_end(browser: Any, server: Lab) -> Iterator[Any]:
    """`front_end(name, *sources)`: a notebook of these cells in the page that behaves as `name` does."""
    opened: list[Any] = []

    def show(name: str, *sources: str, kernel: str = "python3", **how: bool) -> FrontEndPage:
        opened.append(page := browser.new_page())
        folder = server.root / f"survey-{len(list(server.root.iterdir())) + 1}" / "tides"  # the name is in pictures
        folder.mkdir(parents=True)
        return FrontEndPage(page, server, f"{server.url}/static/{PAGES.name}/{name}.html", folder).open(
            sources, kernel, how
        )

    yield show
    for page in opened:
        page.close()
    server.end_sessions()
    for running in server.api("GET", "api/kernels"):
        server.api("DELETE", f"api/kernels/{running['id']}")
