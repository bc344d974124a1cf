"""The notebook tools on a notebook that is open: what is shown, changed, refused and previewed."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tool_groups import file_tools, notebook_tools

from cellwright.agent.tool import CannotBeDone, Tool, ToolContext, ToolResult
from cellwright.errors import ToolError
from cellwright.tools.files.file_state import FileState
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import Cell, NothingOpen, OpenNotebook, Replace

CONTEXT = ToolContext("toolu_test", lambda **_: None)


class Shown(FileNotebook):
    """An open document. Where a page has it in memory, this one has a file of its own."""

    live = True
    where = "JupyterLab"

    def __init__(self, document: Path, path: Path) -> None:
        super().__init__(document)
        self.shown_at = path

    @property
    def path(self) -> Path:
        return self.shown_at


class OneOpen(NothingOpen):
    def __init__(self, notebook: Shown | None, refused: str = "") -> None:
        self.notebook = notebook
        self.refused = refused

    def at(self, path: Path) -> OpenNotebook | None:
        return self.notebook if self.notebook is not None and path == self.notebook.shown_at else None

    def refusal(self, _path: Path) -> str:
        return self.refused


class Desk:
    """A session's tools, a notebook `n.ipynb`, and what is shown of it, with changes that are not in the file."""

    def __init__(self, folder: Path, *sources: str) -> None:
        self.path = self._write(folder / "n.ipynb", *(f"{source} # saved" for source in sources))
        (folder / "document").mkdir()
        self.notebook = Shown(self._write(folder / "document" / "n.ipynb", *sources), self.path)
        self.open = OneOpen(self.notebook)
        self.state = FileState()
        tools = [*notebook_tools(self.state, folder, self.open), *file_tools(self.state, folder, self.open)]
        self.tools: dict[str, Tool] = {tool.name: tool for tool in tools}

    @staticmethod
    def _write(path: Path, *sources: str) -> Path:
        cells = [
            {"cell_type": "code", "id": f"c{at}", "metadata": {}, "execution_count": 1, "outputs": [], "source": text}
            for at, text in enumerate(sources)
        ]
        content = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        path.write_text(json.dumps(content, indent=1), "utf-8")
        return path

    def run(self, name: str, **tool_input: Any) -> ToolResult:
        key = "file_path" if name == "Read" else "notebook_path"
        result = asyncio.run(_awaited(self.tools[name].call({key: "n.ipynb", **tool_input}, CONTEXT)))
        return result if isinstance(result, ToolResult) else ToolResult(result)

    def text(self, name: str, **tool_input: Any) -> str:
        content = self.run(name, **tool_input).content
        return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)

    def error(self, **tool_input: Any) -> ToolError:
        with pytest.raises(ToolError) as caught:
            self.run("NotebookEdit", **tool_input)
        return caught.value

    def preview(self, **tool_input: Any) -> Any:
        make = self.tools["NotebookEdit"].preview
        assert make is not None
        return asyncio.run(_awaited(make({"notebook_path": "n.ipynb", **tool_input})))

    def cells(self) -> list[Cell]:
        return asyncio.run(self.notebook.cells())

    def sources(self) -> list[str]:
        return [cell.source for cell in self.cells()]

    def type(self, cell_id: str, source: str) -> None:
        """The user types into a cell."""
        cell = next(cell for cell in self.cells() if cell.id == cell_id)
        asyncio.run(self.notebook.change([Replace(cell_id=cell_id, expect=cell.sha256, source=source)]))


async def _awaited(work: Any) -> Any:
    return await work


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, "x = 1", "y = 2", "z = 3")


@pytest.mark.parametrize("name", ["NotebookRead", "Read"])
def test_what_is_read_is_the_open_document(desk: Desk, name: str) -> None:
    text = desk.text(name)
    assert "x = 1" in text
    assert "saved" not in text.replace("unsaved", "")
    assert "[Open in JupyterLab" in text
    desk.open.notebook = None
    assert "x = 1 # saved" in desk.text(name)


def test_a_part_of_it_and_its_outline_can_be_read(desk: Desk) -> None:
    assert "y = 2" not in desk.text("NotebookRead", cells="1")
    assert "y = 2" in desk.text("NotebookRead", outline=True)
    assert "y = 2" not in desk.text("Read", limit=1)


@pytest.mark.parametrize("name", ["NotebookRead", "Read"])
def test_a_cell_that_was_shown_is_changed_in_the_document_alone(desk: Desk, name: str) -> None:
    on_disk = desk.path.read_bytes()
    desk.run(name)
    result = desk.run("NotebookEdit", cell_id="c1", new_source="y = 5")
    assert "code cell c1 (" in str(result.content)
    assert "Open in JupyterLab" in str(result.content)
    assert "saved to disk" in str(result.content)
    assert desk.sources() == ["x = 1", "y = 5", "z = 3"]
    assert desk.path.read_bytes() == on_disk
    assert result.display is not None
    assert result.display["cell_id"] == "c1"
    assert "+y = 5" in result.display["diff"]
    # what it wrote it knows
    desk.run("NotebookEdit", cell_id="c1", new_source="y = 6")


def test_cells_are_inserted_moved_and_deleted(desk: Desk) -> None:
    desk.run("NotebookRead")
    made = desk.run("NotebookEdit", edit_mode="insert", cell_type="code", new_source="new", cell_id="c0")
    assert "cell 2 of 4" in str(made.content)
    assert made.display is not None
    name = made.display["cell_id"]
    assert name in str(made.content)
    moved = desk.text("NotebookEdit", edit_mode="move", cell_id=name, position="end")
    assert "(index 3)" in moved
    assert desk.sources() == ["x = 1", "y = 2", "z = 3", "new"]
    # it was not read, but it is the model's own
    desk.run("NotebookEdit", edit_mode="delete", cell_id=name)
    desk.run("NotebookEdit", edit_mode="insert", cell_type="markdown", new_source="# top", position="start")
    assert desk.sources() == ["# top", "x = 1", "y = 2", "z = 3"]


def test_a_cell_that_was_not_shown_is_left_alone(desk: Desk) -> None:
    desk.run("NotebookRead", cells="1")
    assert "was not shown" in desk.error(cell_id="c1", new_source="y").message
    assert "was not shown" in desk.error(cell_id="c1", edit_mode="delete").message
    assert desk.sources() == ["x = 1", "y = 2", "z = 3"]


def test_what_was_typed_since_is_told_and_then_known(desk: Desk) -> None:
    desk.run("NotebookRead")
    desk.type("c1", "y = 2\nmine = 1")
    for call in ({"new_source": "y = 5"}, {"edit_mode": "delete"}):
        desk.state.cells.add(desk.path, {"c1": "y = 2"})
        error = desk.error(cell_id="c1", **call)
        assert "Nothing was changed" in error.message
        assert "```\ny = 2\n```" in error.message
        assert "```\ny = 2\nmine = 1\n```" in error.message
        assert error.details["conflict"]["now"] == "y = 2\nmine = 1"
    desk.run("NotebookEdit", cell_id="c1", new_source="y = 5\nmine = 1")
    assert desk.sources()[1] == "y = 5\nmine = 1"


def test_the_question_shows_three_versions_and_tells_the_model_nothing(desk: Desk) -> None:
    desk.run("NotebookRead")
    plain = desk.preview(cell_id="c1", new_source="y = 5")
    assert plain.warning == ""
    assert "-y = 2" in plain.detail
    assert "+y = 5" in plain.detail
    desk.type("c1", "y = 2  # mine")
    asked = desk.preview(cell_id="c1", new_source="y = 5")
    assert "Somebody changed this" in asked.warning
    assert "+y = 2  # mine" in asked.detail
    assert "+y = 5" in asked.detail
    assert "Nothing was changed" in desk.error(cell_id="c1", new_source="y = 5").message


def test_a_cell_that_was_deleted_is_a_conflict_too(desk: Desk) -> None:
    desk.run("NotebookRead")
    desk.run("NotebookEdit", edit_mode="delete", cell_id="c2")
    desk.state.cells.add(desk.path, {"c2": "z = 3"})
    assert "was deleted since" in desk.error(cell_id="c2", new_source="z = 4").message
    assert "Cell c9 was" in desk.error(cell_id="c9", new_source="z = 4").message


def test_an_edit_that_comes_between_plan_and_change_is_a_conflict(tmp_path: Path) -> None:
    class Typing(Shown):
        async def change(self, changes: Sequence[Any]) -> Any:
            [cell] = [cell for cell in await self.cells() if cell.id == "c0"]
            await super().change([Replace(cell_id="c0", expect=cell.sha256, source="typed = 1")])
            return await super().change(changes)

    desk = Desk(tmp_path, "x = 1")
    desk.open.notebook = Typing(tmp_path / "document" / "n.ipynb", desk.path)
    desk.run("NotebookRead")
    assert "typed = 1" in desk.error(cell_id="c0", new_source="x = 2").message
    assert desk.sources() == ["typed = 1"]


def test_what_was_read_in_the_file_counts_when_it_is_opened(desk: Desk) -> None:
    desk.open.notebook = None
    desk.run("NotebookRead")
    desk.run("NotebookEdit", cell_id="c0", new_source="x = 1")
    desk.open.notebook = desk.notebook
    desk.run("NotebookEdit", cell_id="c0", new_source="x = 2")
    assert desk.sources()[0] == "x = 2"
    # in the file it is another one than in the document
    assert "has changed since" in desk.error(cell_id="c1", new_source="y").message


def test_nothing_is_written_behind_a_front_end_that_cannot_be_asked(desk: Desk) -> None:
    desk.open.notebook = None
    desk.open.refused = "It is running elsewhere. Nothing was changed."
    desk.run("NotebookRead")
    assert desk.error(cell_id="c0", new_source="x = 2").message == desk.open.refused
    with pytest.raises(CannotBeDone, match=re.escape(desk.open.refused)):
        desk.preview(cell_id="c0", new_source="x = 2")
    assert "x = 1 # saved" in desk.path.read_text("utf-8")


def test_the_same_source_again_changes_nothing(desk: Desk) -> None:
    desk.run("NotebookRead")
    assert "exactly this already" in desk.text("NotebookEdit", cell_id="c0", new_source="x = 1")
    assert desk.cells()[0].execution_count == 1
