"""A turn is taken back in a cell: asked in the widget, by `input()`, or not at all; Claude is told with the next prompt."""

from __future__ import annotations

from pathlib import Path

import pytest
from notebook_kernel import NotebookKernel, Page

from cellwright.testing import MessagesServer, say, turn, use

pytestmark = pytest.mark.kernel


def edit_notes(kernel: NotebookKernel, model: MessagesServer, project: Path) -> Path:
    notes = project / "notes.txt"
    notes.write_text("alpha\n")
    edit = use("Edit", file_path="notes.txt", old_string="alpha", new_string="beta")
    model.add(turn(use("Read", file_path="notes.txt")), turn(edit), turn(say("Done.")))
    cell = kernel.run("%%claude --new --mode acceptEdits\nrename it")
    assert notes.read_text() == "beta\n"
    assert "1 file changed (/undo)" in cell.outputs[-1]["text/plain"]
    return notes


def test_in_the_widget(kernel: NotebookKernel, page: Page, model: MessagesServer, project: Path):
    notes = edit_notes(kernel, model, project)
    assert page.wait_for_op("changes")["files"] == [{"where": "notes.txt", "kind": "changed", "added": 1, "removed": 1}]
    cell = kernel.begin("%claude /undo")
    ask = page.wait_for_op("ask", cell)
    assert (ask["name"], ask["kind"], ask["title"]) == ("Undo", "trust", "Undo “rename it”?")
    assert "notes.txt will be restored · +1 −1" in ask["detail"]
    assert [choice["key"] for choice in ask["choices"]] == ["1", "2", "4"]
    page.answer(ask["question"], "allow")
    kernel.finish(cell)
    assert cell.status == "ok"
    assert notes.read_text() == "alpha\n"
    assert len(cell.outputs) == 1
    assert "Undone: turn 1" in cell.outputs[-1]["text/plain"]
    model.add(turn(say("I see.")))
    kernel.run("%%claude\nand now?")
    told = str(model.requests[-1].body["messages"][-1])
    assert "The user has undone turn 1 “rename it”. Restored to the state before your changes: notes.txt." in told


def test_by_input_and_out_of_the_conversation(kernel: NotebookKernel, model: MessagesServer, project: Path):
    notes = edit_notes(kernel, model, project)
    cell = kernel.begin("%claude /undo", allow_stdin=True)
    kernel.answer_input(cell, "2")
    kernel.finish(cell)
    assert notes.read_text() == "alpha\n"
    model.add(turn(say("New.")))
    kernel.run("%%claude\nafresh")
    assert len(model.requests[-1].body["messages"]) == 1


def test_a_no_leaves_everything(kernel: NotebookKernel, model: MessagesServer, project: Path):
    notes = edit_notes(kernel, model, project)
    cell = kernel.begin("%claude /undo", allow_stdin=True)
    kernel.answer_input(cell, "4")
    kernel.finish(cell)
    assert notes.read_text() == "beta\n"
    assert "Nothing was changed" in cell.outputs[-1]["text/plain"]


def test_where_nobody_can_be_asked(kernel: NotebookKernel, model: MessagesServer, project: Path):
    notes = edit_notes(kernel, model, project)
    cell = kernel.run("%claude /undo", cell_id=None)
    assert "Nobody could answer, so nothing was changed" in cell.outputs[-1]["text/plain"]
    assert notes.read_text() == "beta\n"
    kernel.run("%claude /undo yes", cell_id=None)
    assert notes.read_text() == "alpha\n"
    kernel.run("%claude /redo yes", cell_id=None)
    assert notes.read_text() == "beta\n"
