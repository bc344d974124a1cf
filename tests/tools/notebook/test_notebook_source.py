"""Notebooks as they are on people's disks: with broken cells, without ids, paired with a text, of 150 MB."""

from __future__ import annotations

import base64
import json
import os
import sys

import pytest

from cellwright.errors import ErrorCode
from cellwright.tools.notebook.notebook_source import CHECKED_BYTES, open_notebook


def written(tools, cells, minor=5, **metadata):
    content = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": minor}
    (tools.cwd / "n.ipynb").write_text(json.dumps(content, indent=1) + "\n")


def code(cell_id, source="x = 1"):
    return {
        "cell_type": "code",
        "id": cell_id,
        "metadata": {},
        "execution_count": None,
        "source": source,
        "outputs": [],
    }


def cells_of(tools):
    return json.loads((tools.cwd / "n.ipynb").read_text())["cells"]


@pytest.fixture
def broken(tools):
    without_source = {key: value for key, value in code("b").items() if key != "source"}
    without_type = {"id": "c", "metadata": {}, "source": "y = 2"}
    neither = {"id": "d", "metadata": {}}
    written(tools, [code("a"), without_source, without_type, neither])
    return tools


def test_a_broken_cell_is_shown_as_such_and_the_others_are_changed(broken):
    text = str(broken.result("Read", file_path="n.ipynb").content)
    assert "no source." in text
    assert "no cell_type." in text
    assert "no cell_type and" in text
    assert "y = 2" in text
    assert "broken" in broken.text("NotebookRead", notebook_path="n.ipynb", outline=True)
    before = cells_of(broken)
    broken.result("NotebookEdit", notebook_path="n.ipynb", cell_id="a", new_source="x = 3")
    after = cells_of(broken)
    assert after[0]["source"] == "x = 3"
    assert after[1:] == before[1:]


def test_a_broken_cell_is_mended_or_deleted(broken):
    broken.result("Read", file_path="n.ipynb")
    given = {"notebook_path": "n.ipynb"}
    broken.result("NotebookEdit", **given, cell_id="b", new_source="")
    broken.result("NotebookEdit", **given, cell_id="b", new_source="z = 1")
    error = broken.error("NotebookEdit", **given, cell_id="c", new_source="y = 3")
    assert error.code == ErrorCode.INVALID_PARAMETERS
    assert "no cell_type:" in error.message
    broken.result("NotebookEdit", **given, cell_id="c", cell_type="code")
    broken.result("NotebookEdit", **given, cell_id="d", edit_mode="delete")
    assert [(cell["id"], cell["cell_type"], cell["source"]) for cell in cells_of(broken)] == [
        ("a", "code", "x = 1"),
        ("b", "code", "z = 1"),
        ("c", "code", "y = 2"),
    ]


@pytest.mark.parametrize(("minor", "given"), [(5, True), (4, False)])
def test_a_written_notebook_gets_the_ids_that_its_format_asks_for(tools, minor, given):
    cells = [code("kept"), *({k: v for k, v in code("").items() if k != "id"} for _ in range(2))]
    content = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": minor}
    text = tools.text("Write", file_path="n.ipynb", content=json.dumps(content, indent=2))
    assert ("had no id" in text) is given
    found = [cell.get("id") for cell in cells_of(tools)]
    assert found[0] == "kept"
    assert all(found) is given
    assert len(set(found)) == (3 if given else 2)
    assert (tools.cwd / "n.ipynb").read_text().startswith('{\n  "cells"')
    again = tools.text("Write", file_path="n.ipynb", content=json.dumps(content, indent=2))
    assert "already" in again


def test_a_notebook_in_another_encoding_is_changed_in_it_and_that_is_said(tools):
    written(tools, [code("a", "print('Список продаж в магазине')"), code("b")])
    path = tools.cwd / "n.ipynb"
    path.write_bytes(json.dumps(json.loads(path.read_text()), indent=1, ensure_ascii=False).encode("cp1251"))
    tools.result("Read", file_path="n.ipynb")
    done = tools.text("NotebookEdit", notebook_path="n.ipynb", cell_id="b", new_source="'итого'")
    assert "as Windows-1251," in done
    assert json.loads(path.read_bytes().decode("cp1251"))["cells"][1]["source"] == "'итого'"


PERCENT = "# ---\n# jupyter:\n#   jupytext:\n#     formats: ipynb,py:percent\n# ---\n\n# %%\nx = 1\n"


def test_a_jupytext_pair_is_named_when_it_is_read_and_when_one_of_it_is_changed(tools):
    written(tools, [code("a")], jupytext={"formats": "ipynb,py:percent"})
    (tools.cwd / "n.py").write_text(PERCENT)
    assert "jupytext with n" in str(tools.result("Read", file_path="n.ipynb").content)
    changed = tools.text("NotebookEdit", notebook_path="n.ipynb", cell_id="a", new_source="x = 2")
    assert "n.ipynb is paired" in changed
    assert "jupytext --sync" in changed
    assert "jupytext with n" in tools.text("Read", file_path="n.py")
    changed = tools.text("Edit", file_path="n.py", old_string="x = 1", new_string="x = 2")
    assert "n.py is paired" in changed
    patch = "--- a/n.py\n+++ b/n.py\n@@ -8,1 +8,1 @@\n-x = 2\n+x = 3\n"
    assert "n.py is paired" in tools.text("ApplyPatch", patch=patch)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("jupytext.toml", 'formats = "ipynb,py:percent"\n'),
        ("pyproject.toml", '[tool.jupytext]\nformats = "notebooks//ipynb,scripts//py:percent"\n'),
        ("jupytext.toml", '[formats]\n"notebooks/" = "ipynb"\n"scripts/" = "py:percent"\n'),
    ],
)
def test_pairs_of_a_configuration(tools, name, config):
    (tools.cwd / name).write_text(config)
    in_folders = "scripts" in config
    text = tools.cwd / ("scripts/sub" if in_folders else ".") / "n.py"
    notebook = tools.cwd / ("notebooks/sub" if in_folders else ".") / "n.ipynb"
    for path in (text, notebook):
        path.parent.mkdir(parents=True, exist_ok=True)
    text.write_text("x = 1\n")
    notebook.write_text(json.dumps({"cells": [code("a")], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    assert "Paired by jupytext" in tools.text("Read", file_path=str(text))
    assert "Paired by jupytext" in str(tools.result("Read", file_path=str(notebook)).content)
    (tools.cwd / "alone.py").write_text("x = 1\n")
    assert "jupytext" not in tools.text("Read", file_path="alone.py")


def test_a_notebook_of_150_mb_of_plots_is_changed(tools):
    picture = base64.b64encode(os.urandom(750_000)).decode()
    plot = {"output_type": "display_data", "metadata": {}, "data": {"image/png": picture}}
    written(tools, [{**code(f"c{number}"), "outputs": [plot]} for number in range(158)])
    path = tools.cwd / "n.ipynb"
    assert path.stat().st_size > 150 * 2**20
    given = {"notebook_path": "n.ipynb", "cell_ids": ["c3"], "outputs": "none"}
    tools.result("NotebookRead", **given)
    tools.result("NotebookEdit", notebook_path="n.ipynb", cell_id="c3", new_source="x = 2")
    assert "x = 2" in str(tools.result("NotebookRead", **given).content)


def test_the_spans_of_a_large_notebook_are_looked_for_once(tools):
    """What follows in a turn costs a hash of the file, not a pass over its JSON: as often as the same bytes come."""
    written(tools, [code(f"c{number}", "y" * 50_000) for number in range(CHECKED_BYTES // 50_000 + 1)])
    path = tools.cwd / "n.ipynb"

    def lines_run():
        count = 0

        def trace(frame, event, _arg):
            nonlocal count
            count += frame.f_code.co_filename.endswith("notebook_spans.py")
            return trace if frame.f_code.co_filename.endswith("notebook_spans.py") else None

        sys.settrace(trace)
        try:
            with path.open("rb") as file:
                source = open_notebook(file, path.stat().st_size, lambda: False)
        finally:
            sys.settrace(None)
        assert len(source.cells) == CHECKED_BYTES // 50_000 + 1
        return count

    assert lines_run() > 0
    assert lines_run() == 0
