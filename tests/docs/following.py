"""What a reader does with the blocks of the documents: a project, cells in a kernel, commands in a shell."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import nbformat
from fences import ROOT, Fence
from notebook_kernel import NotebookKernel

from cellwright.testing import say
from cellwright.testing.script import Part

KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
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


def make_project(folder: Path) -> Path:
    """Make the folder that the documents speak of: a small project with data, tests and a history."""
    shutil.copytree(ROOT / "src" / "cellwright" / "terminal" / "demo" / "sample_project", folder)
    (folder / "scans").mkdir()
    shutil.copy(ROOT / "docs" / "images" / "context.png", folder / "scans" / "0417.png")
    rows = "customer,price,text,comment,level\n1,2.5,Good.,dry,3.1\n2,,Bad.,wet,\n"
    for name in ("sales.csv", "data/sales.csv", "reviews.csv", "tides.csv", "data/tides.csv"):
        (folder / name).write_text(rows)
    for name in ("02.ipynb", "analysis.ipynb", "report.ipynb", "n.ipynb"):
        cells = [nbformat.v4.new_code_cell(code) for code in ("%load_ext cellwright", "%%claude\nSum it up.")]
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=KERNEL), folder / name)
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "As it was"]):
        subprocess.run([*git, *command], cwd=folder, check=True)
    return folder


# a prompt of many that fails is a row without a value
NO_ROW_FAILED = """
import cellwright.python_api.map_result
for _each in [*globals().values()]:
    if isinstance(_each, cellwright.python_api.map_result.MapResult):
        assert not _each.errors, _each.errors[0].error
"""


def failed_cells(kernel: NotebookKernel, fences: Iterable[Fence]) -> dict[str, str]:
    """Run the cells, each page in a namespace of its own; give the errors by their places."""
    failed, page = {}, ""
    for fence in fences:
        if fence.kind != "cell" or fence.elsewhere:
            continue
        if fence.page != page:
            page = fence.page
            assert (cell := kernel.run(AS_AT_FIRST)).status == "ok", cell.error
        for code in filter(None, (fence.given, fence.code)):
            cell = kernel.run(code)
            if cell.status == "ok" and "cellwright.map(" in code:
                cell = kernel.run(NO_ROW_FAILED)
            if cell.status != "ok":
                failed[fence.place] = cell.error
    return failed


def failed_commands(fences: Iterable[Fence], folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Run the commands in `folder`; give the ends of the errors by their places."""
    failed = {}
    for fence in fences:
        if fence.kind != "shell" or fence.elsewhere:
            continue
        code = fence.code
        if fence.language == "console":
            code = "\n".join(line[2:] for line in code.splitlines() if line.startswith("$ "))
        done = subprocess.run(
            ["bash", "-eu", "-c", f"{fence.given}\n{code}"],
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            failed[fence.place] = done.stderr[-600:]
    return failed
