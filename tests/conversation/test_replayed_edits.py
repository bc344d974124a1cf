"""Recorded edits made again: once, in the notebook as it is, and never over something else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import nbformat
import pytest

from cellwright.agent.recording.recordings import Edit
from cellwright.conversation.replayed_edits import ReplayedEdits
from cellwright.errors import ToolError
from cellwright.tools.files.file_state import FileState
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import NothingOpen, OpenNotebook, source_sha256

CELLS = (("one", "a = 1"), ("two", "b = 2"), ("three", "c = 3"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    cells = [nbformat.v4.new_code_cell(source, id=name) for name, source in CELLS]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "n.ipynb")
    return tmp_path / "n.ipynb"


def cells(path: Path) -> list[tuple[str, str]]:
    return [(cell.id, cell.source) for cell in nbformat.read(path, as_version=4).cells]


def shown(before: str | None, after: str | None, cell_id: str) -> dict[str, Any]:
    """The `display` of a call that changed this cell."""
    was, now = (None if source is None else source_sha256(source) for source in (before, after))
    return {"path": "n.ipynb", "cell_id": cell_id, "cell_sha256": {"before": was, "after": now}}


def edit(path: Path, tool_input: dict[str, Any], display: dict[str, Any], *later: str | None) -> bool:
    edits = ReplayedEdits(path.parent, FileState(), NothingOpen(), FileNotebook)
    hashes = frozenset(None if source is None else source_sha256(source) for source in later)
    return asyncio.run(edits.edit_cell({"notebook_path": "n.ipynb", **tool_input}, display, hashes))


REPLACE = ({"cell_id": "two", "new_source": "b = 20"}, shown("b = 2", "b = 20", "two"))
INSERT = (
    {"edit_mode": "insert", "cell_id": "one", "cell_type": "code", "new_source": "new"},
    shown(None, "new", "made-then"),
)
DELETE = ({"edit_mode": "delete", "cell_id": "two"}, shown("b = 2", None, "two"))
MOVE = (
    {"edit_mode": "move", "cell_id": "three", "target_id": "one", "position": "before"},
    shown("c = 3", "c = 3", "three"),
)
ONE, TWO, THREE = CELLS


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        (REPLACE, [ONE, ("two", "b = 20"), THREE]),
        (INSERT, [ONE, ("made-then", "new"), TWO, THREE]),
        (DELETE, [ONE, THREE]),
        (MOVE, [THREE, ONE, TWO]),
    ],
    ids=["replace", "insert", "delete", "move"],
)
def test_each_edit_is_made_once(path: Path, recorded: Any, expected: list[tuple[str, str]]) -> None:
    assert edit(path, *recorded)
    assert cells(path) == expected
    data = path.read_bytes()
    assert edit(path, *recorded)
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    ("source", "recorded", "said"),
    [
        ("b = 'mine'", REPLACE, "Cell two of n.ipynb is not as it was when this turn was recorded"),
        ("b = 'mine'", DELETE, "is not as it was"),
        (None, REPLACE, "is not there any more"),
    ],
)
def test_what_somebody_else_made_of_a_cell_is_left(path: Path, source: str | None, recorded: Any, said: str) -> None:
    notebook = nbformat.read(path, as_version=4)
    if source is None:
        del notebook.cells[1]
    else:
        notebook.cells[1].source = source
    nbformat.write(notebook, path)
    data = path.read_bytes()
    with pytest.raises(ToolError, match=said):
        edit(path, *recorded)
    assert path.read_bytes() == data


def test_a_cell_with_the_id_of_the_new_one_is_left(path: Path) -> None:
    edit(path, *INSERT)
    mine = ({**INSERT[0]}, shown(None, "other", "made-then"))
    with pytest.raises(ToolError, match="is there already, with another source"):
        edit(path, *mine)
    gone = ({**INSERT[0], "cell_id": "nobody"}, shown(None, "new", "another"))
    with pytest.raises(ToolError, match="belongs beside cell nobody"):
        edit(path, *gone)


def test_what_a_later_step_left_stays(path: Path) -> None:
    data = path.read_bytes()
    # the second time the notebook is as the whole recording left it
    assert edit(path, {"cell_id": "two", "new_source": "b = 1"}, shown("b = 0", "b = 1", "two"), "b = 2")
    assert edit(path, *INSERT, None)
    assert path.read_bytes() == data


def test_a_cell_that_was_run_meanwhile_is_the_same_cell(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[1].outputs = [nbformat.v4.new_output("stream", text="ran\n")]
    notebook.cells[1].execution_count = 7
    nbformat.write(notebook, path)
    assert edit(path, *REPLACE)
    assert cells(path)[1] == ("two", "b = 20")


def test_another_type_is_made_once(path: Path) -> None:
    recorded = ({"cell_id": "two", "cell_type": "markdown"}, shown("b = 2", "b = 2", "two"))
    for _ in range(2):
        assert edit(path, *recorded)
        assert nbformat.read(path, as_version=4).cells[1].cell_type == "markdown"


class Running(NothingOpen):
    """The notebook runs where no front end can be asked."""

    def refusal(self, _path: Path) -> str:
        return "n.ipynb is the notebook that is running."


class Shown(NothingOpen):
    def __init__(self, notebook: OpenNotebook) -> None:
        self.notebook = notebook

    def at(self, path: Path) -> OpenNotebook | None:
        return self.notebook


def test_the_running_notebook_is_not_changed_behind_its_back(path: Path) -> None:
    edits = ReplayedEdits(path.parent, FileState(), Running(), FileNotebook)
    with pytest.raises(ToolError, match="that is running"):
        asyncio.run(edits.edit_cell({"notebook_path": "n.ipynb", **REPLACE[0]}, REPLACE[1], frozenset()))


def test_an_open_notebook_is_changed_where_it_is_open(path: Path, tmp_path: Path) -> None:
    document = tmp_path / "document.ipynb"
    document.write_bytes(path.read_bytes())
    edits = ReplayedEdits(path.parent, FileState(), Shown(FileNotebook(document)), FileNotebook)
    data = path.read_bytes()
    assert asyncio.run(edits.edit_cell({"notebook_path": "n.ipynb", **REPLACE[0]}, REPLACE[1], frozenset()))
    assert (path.read_bytes(), cells(document)[1]) == (data, ("two", "b = 20"))
    # an old recording knows the file as a whole only, and that is not what is open
    with pytest.raises(ToolError, match="Record it again"):
        asyncio.run(edits.edit_cell({"notebook_path": "n.ipynb", **REPLACE[0]}, {"path": "n.ipynb"}, frozenset()))


def test_a_file_with_unsaved_changes_is_left(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("a = 1\n")
    edits = ReplayedEdits(tmp_path, FileState(lambda path: path == file), NothingOpen(), FileNotebook)
    with pytest.raises(ToolError, match="open in an editor with unsaved changes"):
        asyncio.run(edits.write_file(Edit(file, None, None), b"a = 2\n"))
    assert file.read_text() == "a = 1\n"
