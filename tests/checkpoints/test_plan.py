"""Cells of a notebook that is open: kept before they change, taken back one by one, never over what the user typed since."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cellwright.conversation.core import Host
from cellwright.features.conversation import Conversation
from cellwright.testing import use
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import OpenNotebook


class OpenInAPage:
    """A front end whose document is a file: what it shows is what is in there."""

    def __init__(self, path: Path) -> None:
        self.notebook = FileNotebook(path)

    def own(self) -> OpenNotebook | None:
        return None

    def at(self, path: Path) -> OpenNotebook | None:
        return self.notebook if path == self.notebook.path else None

    async def settled(self) -> None:
        pass

    def refusal(self, path: Path) -> str:
        return "it is open in a page" if path.name == "other.ipynb" else ""


def cell(name: str, source: str, kind: str = "code", count: int | None = None) -> dict[str, Any]:
    more = {"outputs": [], "execution_count": count} if kind == "code" else {}
    return {"cell_type": kind, "id": name, "metadata": {}, "source": source, **more}


def edit(mode: str, **fields: Any) -> Any:
    return use("NotebookEdit", notebook_path="n.ipynb", edit_mode=mode, **fields)


READ = use("NotebookRead", notebook_path="n.ipynb")
CELLS = [cell("one", "a = 1", count=7), cell("two", "b = 2"), cell("three", "# three", "markdown")]
EMPTY = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
CHANGES = [
    READ,
    edit("replace", cell_id="one", new_source="a = 10"),
    edit("delete", cell_id="two"),
    edit("insert", cell_type="code", new_source="c = 3", position="end"),
]


@pytest.fixture
def notebook(work, tmp_path):
    def make(*prompts: list[Any]) -> Any:
        there = work(*prompts)
        path = there.put("n.ipynb", json.dumps({"cells": CELLS, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
        there.conversation.close()
        there.conversation = Conversation(
            Host(cwd=there.cwd, interface="a test", environ=there.environ, open_notebooks=OpenInAPage(path))
        )
        return there

    return make


def sources(there: Any) -> dict[str, str]:
    found = json.loads(there.read("n.ipynb"))["cells"]
    return {each["id"]: "".join(each["source"]) for each in found}


def typed(there: Any, name: str, source: str) -> None:
    """The user types into a cell."""
    found = json.loads(there.read("n.ipynb"))
    for each in found["cells"]:
        each["source"] = source if each["id"] == name else each["source"]
    there.put("n.ipynb", json.dumps(found))


def test_changed_deleted_and_new_cells_are_taken_back_and_brought_back(notebook):
    there = notebook(CHANGES)
    before = sources(there)
    there.say("Work on it")
    after = sources(there)
    assert after["one"] == "a = 10"
    assert "two" not in after
    assert [(each.where, each.kind) for each in there.changed.cells] == [
        ("cell [7] in n.ipynb", "changed"),
        ("cell “b = 2” in n.ipynb", "deleted"),
        ("cell “c = 3” in n.ipynb", "created"),
    ]
    assert there.changed.files == ()
    page = there.type("/undo")
    assert "cell “b = 2” in n.ipynb" in page
    assert list(sources(there).items()) == list(before.items())
    there.type("/redo")
    assert sources(there) == after


def test_a_deleted_cell_comes_back_below_one_that_goes(notebook):
    insertion = edit("insert", cell_id="one", cell_type="code", new_source="c = 3")
    there = notebook([READ, insertion, edit("delete", cell_id="two")])
    before = sources(there)
    there.say("Work on it")
    after = sources(there)
    assert "two" not in after
    there.type("/undo")
    assert list(sources(there).items()) == list(before.items())
    there.type("/redo")
    assert list(sources(there).values()) == list(after.values())


def test_what_the_user_typed_since_is_left(notebook):
    there = notebook(CHANGES)
    there.say()
    typed(there, "one", "a = 11  # mine")
    page = there.type("/undo")
    assert "cell [7] in n." in page
    assert "it has changed since then" in page
    assert sources(there) == {"one": "a = 11  # mine", "two": "b = 2", "three": "# three"}


def test_what_the_user_typed_between_two_turns_is_left(notebook):
    there = notebook(
        [READ, edit("replace", cell_id="one", new_source="a = 10")],
        [READ, edit("replace", cell_id="one", new_source="a = 12")],
    )
    there.say()
    typed(there, "one", "a = 11")
    there.say()
    page = there.type("/undo 2")
    assert "has changed since" in page
    assert sources(there)["one"] == "a = 12"
    there.type("/undo")
    assert sources(there)["one"] == "a = 11"


def test_a_moved_cell_goes_back(notebook):
    there = notebook([READ, edit("move", cell_id="three", position="start")])
    there.say()
    assert list(sources(there)) == ["three", "one", "two"]
    there.type("/undo")
    assert list(sources(there)) == ["one", "two", "three"]


def test_an_edit_that_was_refused_is_no_change(notebook):
    there = notebook([READ, edit("replace", cell_id="nowhere", new_source="x")])
    there.say()
    assert not any(event for event in there.events if type(event).__name__ == "TurnChanged")


def test_a_notebook_that_is_gone_is_named(notebook):
    there = notebook(CHANGES)
    there.say()
    (there.cwd / "n.ipynb").unlink()
    assert "as they are" in there.type("/undo")


def test_the_file_of_a_notebook_that_was_opened_since_is_left(notebook):
    there = notebook([use("Write", file_path="other.ipynb", content=EMPTY)])
    there.say()
    assert "open in a page" in there.type("/undo force")
    assert there.read("other.ipynb") == EMPTY
