"""A notebook in its file is an `OpenNotebook`; what is not changed keeps its bytes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from open_notebook_conformance import CASES, reset, seen

from cellwright.errors import ToolError
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import Replace

EMPTY = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "notebook.ipynb"
    path.write_text(json.dumps(EMPTY, indent=1) + "\n", "utf-8")
    return path


@pytest.mark.parametrize("case", CASES)
def test_conforms(path: Path, case: str) -> None:
    async def run() -> None:
        notebook = FileNotebook(path)
        await reset(notebook)
        await CASES[case](notebook)

    asyncio.run(run())


def test_one_cell_is_one_hunk(path: Path) -> None:
    async def run() -> None:
        notebook = FileNotebook(path)
        await reset(notebook)
        before = path.read_text("utf-8").splitlines()
        third = (await seen(notebook))[2]
        await notebook.change([Replace(cell_id="c3", expect=third.sha256, source="y = 4")])
        after = path.read_text("utf-8").splitlines()
        assert [line for line in after if line not in before] == ['    "y = 4"']
        assert len(before) == len(after)

    asyncio.run(run())


def test_outputs_are_written_as_nbformat_does(path: Path) -> None:
    asyncio.run(reset(FileNotebook(path)))
    [cell, *_] = json.loads(path.read_text("utf-8"))["cells"]
    assert cell["outputs"] == [{"name": "stdout", "output_type": "stream", "text": ["one\n"]}]


def test_what_is_no_notebook_says_so(tmp_path: Path) -> None:
    path = tmp_path / "broken.ipynb"
    path.write_text("{", "utf-8")
    with pytest.raises(ToolError, match="not a notebook that can be used"):
        asyncio.run(FileNotebook(path).cells())
    path.write_text(
        json.dumps({"worksheets": [{"cells": []}], "metadata": {}, "nbformat": 3, "nbformat_minor": 0}), "utf-8"
    )
    with pytest.raises(ToolError, match="nbformat 3"):
        asyncio.run(FileNotebook(path).cells())
