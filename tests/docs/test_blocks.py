"""Every code block of the documents does what a reader would do with it: run in a kernel, a shell, a server's settings.

The model answers anything it is asked with a sentence, or with a value that fits the schema. A block that cannot be run
says why, where it stands: ```` ```sh not-run="installs from a package index" ````. One that another test runs names it
in the same place, as `run-by`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from traitlets import HasTraits
from traitlets.config import Config

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode leaves both out
sys.path.insert(0, str(Path(__file__).parents[1] / "kernel" / "support"))

from fences import ROOT, Fence, fences
from notebook_kernel import model_of, running_kernel

from cellwright.server.hub_proxy import HubProxy
from cellwright.server.server_extension import CellwrightApp
from cellwright.testing import MessagesServer, say
from cellwright.testing.server.script import Part
from forked.forked_python import jupyter_place

pytestmark = pytest.mark.kernel

MAX_NOT_RUN = 16
"""More than these would say that the rule is no longer one."""

KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
READ = {"text", "json", "markdown", "js"}
CLASSES: dict[str, type[HasTraits]] = {"CellwrightApp": CellwrightApp, "HubProxy": HubProxy}
AS_AT_FIRST = """
for _each in get_ipython().configurables:
    if type(_each).__name__ == "Claude":
        for _name, _trait in _each.traits(config=True).items():
            setattr(_each, _name, _trait.default(_each))
get_ipython().run_line_magic("reset", "-f")
"""


def answer(body: dict[str, Any]) -> Part:
    """What the model says: a value that fits where one is asked for, else a sentence."""
    form = (body.get("output_config") or {}).get("format") or {}
    return say(json.dumps(_value(form["schema"], form["schema"])) if form else "It is done.")


def _value(schema: dict[str, Any], root: dict[str, Any]) -> Any:
    if "$ref" in schema:
        return _value(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "enum" in schema or "const" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: _value(each, root) for name, each in schema.get("properties", {}).items()}
        case "array":
            return [_value(schema["items"], root)]
        case "integer" | "number":
            return 1
        case "boolean":
            return True
    return "a word"


@pytest.fixture(scope="module")
def blocks() -> list[Fence]:
    return fences()


@pytest.fixture(scope="module")
def model() -> Iterator[MessagesServer]:
    with MessagesServer(answer) as server:
        yield server


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder that the documents speak of: a small project with data, tests and a history."""
    folder = tmp_path / "project"
    shutil.copytree(ROOT / "src" / "cellwright" / "terminal" / "demo" / "sample_project", folder)
    (folder / "scans").mkdir()
    shutil.copy(ROOT / "docs" / "images" / "context.png", folder / "scans" / "0417.png")
    rows = "customer,price,text,comment,level\n1,2.5,Good.,dry,3.1\n2,,Bad.,wet,\n"
    for name in ("sales.csv", "data/sales.csv", "reviews.csv", "tides.csv", "data/tides.csv"):
        (folder / name).write_text(rows)
    for name in ("02.ipynb", "report.ipynb", "n.ipynb"):
        cells = [nbformat.v4.new_code_cell(code) for code in ("%load_ext cellwright", "%%claude\nSum it up.")]
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=KERNEL), folder / name)
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "As it was"]):
        subprocess.run([*git, *command], cwd=folder, check=True)
    return folder


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
    failed, page = {}, ""
    with running_kernel(project, {**model_of(model), **places}) as kernel:
        assert kernel.run("%load_ext cellwright").status == "ok"
        for fence in cells:
            if fence.page != page:
                page = fence.page
                assert (cell := kernel.run(AS_AT_FIRST)).status == "ok", cell.error

            for code in filter(None, (fence.given, fence.code)):
                if (cell := kernel.run(code)).status != "ok":
                    failed[fence.place] = cell.error
    assert failed == {}
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
    failed = {}

    for fence in blocks:
        if fence.kind != "shell" or fence.elsewhere:
            continue
        code = fence.code
        if fence.language == "console":
            code = "\n".join(line[2:] for line in code.splitlines() if line.startswith("$ "))
        done = subprocess.run(
            ["bash", "-eu", "-c", f"{fence.given}\n{code}"],
            cwd=project,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            failed[fence.place] = done.stderr[-600:]
    assert failed == {}
    assert [request.error for request in model.rejected] == []
