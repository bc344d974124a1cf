"""Every code block of the documents does what a reader would do with it: run in a kernel, a shell, a server's settings.

The model answers anything it is asked with a sentence, or with a value that fits the schema. A block that cannot be run
says why, where it stands: ```` ```sh not-run="installs from a package index" ````. One that another test runs names it
in the same place, as `run-by`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from traitlets import HasTraits
from traitlets.config import Config

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode leaves both out
sys.path.insert(0, str(Path(__file__).parents[1] / "kernel" / "support"))

from fences import ROOT, Fence, fences
from following import answer, failed_cells, failed_commands, make_project
from notebook_kernel import model_of, running_kernel

from cellwright.server.hub_proxy import HubProxy
from cellwright.server.server_extension import CellwrightApp
from cellwright.testing import MessagesServer
from forked.forked_python import jupyter_place

pytestmark = pytest.mark.kernel

MAX_NOT_RUN = 16
"""More than these would say that the rule is no longer one."""

READ = {"text", "json", "markdown", "js"}
CLASSES: dict[str, type[HasTraits]] = {"CellwrightApp": CellwrightApp, "HubProxy": HubProxy}


@pytest.fixture(scope="module")
def blocks() -> list[Fence]:
    return fences()


@pytest.fixture(scope="module")
def model() -> Iterator[MessagesServer]:
    with MessagesServer(answer) as server:
        yield server


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def test_every_block_is_of_a_kind_that_is_executed_or_says_why_not(blocks: list[Fence]) -> None:
    assert [fence.place for fence in blocks if fence.kind not in {"cell", "config", "shell", *READ}] == []
    cells = [fence for fence in blocks if not fence.language]
    assert [fence.place for fence in cells if not fence.code.startswith("%")] == [], (
        "a block without a language is a cell"
    )
    not_run = {fence.place: fence.not_run for fence in blocks if fence.not_run}
    assert len(not_run) <= MAX_NOT_RUN, not_run
    assert [fence.place for fence in blocks if fence.kind == "js" and not fence.elsewhere] == []
    assert [fence.place for fence in blocks if fence.run_by and not (ROOT / fence.run_by).is_file()] == []


def test_what_is_only_read_can_be_read(blocks: list[Fence]) -> None:
    for fence in blocks:
        if fence.kind == "json":
            json.loads(fence.code)
        elif fence.kind == "markdown" and fence.code.startswith("---\n"):
            assert isinstance(yaml.safe_load(fence.code.split("---\n")[1]), dict), fence.place


def test_settings_of_the_server_name_traits_that_take_them(blocks: list[Fence]) -> None:
    for fence in blocks:
        if fence.kind != "config" or fence.elsewhere:
            continue
        config = Config()
        code = fence.code.replace('open("/etc/jupyterhub/anthropic-key").read().strip()', '"k"')
        exec(compile(code, fence.place, "exec"), {"c": config})
        for name, values in config.items():
            if name in CLASSES:
                assert set(values) - set(CLASSES[name].class_trait_names(config=True)) == set(), fence.place
                CLASSES[name](config=config)


def test_cells_run(blocks: list[Fence], model: MessagesServer, project: Path, own_place: Path) -> None:
    cells = [fence for fence in blocks if fence.kind == "cell" and not fence.elsewhere]
    places = {
        "HOME": str(own_place),
        "CELLWRIGHT_HOME": str(own_place / "cellwright"),
        "MPLBACKEND": "agg",
        "JPY_SESSION_NAME": str(project / "02.ipynb"),
    }
    with running_kernel(project, {**model_of(model), **places}) as kernel:
        assert kernel.run("%load_ext cellwright").status == "ok"
        assert failed_cells(kernel, cells) == {}
    assert [request.error for request in model.rejected] == []


def test_commands_run(blocks: list[Fence], model: MessagesServer, project: Path, own_place: Path) -> None:
    environ = {
        **os.environ,
        **model_of(model),
        **jupyter_place(os.environ),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    assert failed_commands(blocks, project, environ) == {}
    assert [request.error for request in model.rejected] == []
