"""Notebooks by the server's routes, the shared document and the contents manager, are `OpenNotebook`s like all others.

The kernel's own client asks (`LiveNotebook`), by messages as they go over the wire.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager, LargeFileManager
from jupyter_ydoc import YNotebook
from open_notebook_conformance import CASES, reset

from cellwright.errors import ToolError
from cellwright.kernel.pages.comm import PageError
from cellwright.kernel.pages.live_notebook import LiveNotebook, SeenSources
from cellwright.server.notebooks.cells import NotebookRefusal
from cellwright.server.notebooks.notebooks import ServedNotebooks
from cellwright.server.notebooks.shared_cells import difference
from cellwright.tools.notebook.open_notebook import CellPosition, Insert, OpenNotebook, Replace


class Wire:
    """What a `LiveNotebook` needs of the kernel's pages: one page, the server. All goes over as JSON."""

    def __init__(self, served: ServedNotebooks, path: Path) -> None:
        self.methods = {"cells": served.cells, "change": served.change, "outputs": served.outputs}
        self.page = SimpleNamespace(front_end="Jupyter Server 2.17", shows=lambda _: self.notebook)
        self.notebook = SimpleNamespace(served_path=path.name, route="contents")

    def showing(self, path: Path) -> list[Any]:
        return [self.page]

    async def answering(self, path: Path) -> Any:
        return self.page

    async def request(self, page: Any, method: str, params: Mapping[str, Any]) -> Any:
        try:
            return json.loads(json.dumps(await self.methods[method](json.loads(json.dumps(params)))))
        except NotebookRefusal as refused:
            raise PageError(refused.code, refused.message, refused.details) from None


class Collaboration:
    """What the extension `jupyter_server_ydoc` offers: the documents that somebody has open, by their paths."""

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {}

    async def get_document(self, *, path: str, content_type: str, file_format: str, copy: bool) -> Any:
        assert (content_type, file_format, copy) == ("notebook", "json", False)
        return self.documents.get(path)


NAME = "notebook.ipynb"


@pytest.fixture(autouse=True)
def own_signatures(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The contents manager signs what it saves, for the user whose data these are."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path_factory.mktemp("jupyter")))


@pytest.fixture(params=["contents", "async contents", "shared"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> ServedNotebooks:
    (tmp_path / NAME).write_text(nbformat.writes(nbformat.v4.new_notebook()), "utf-8")
    if request.param == "async contents":
        return ServedNotebooks(AsyncLargeFileManager(root_dir=str(tmp_path)))
    contents = LargeFileManager(root_dir=str(tmp_path))
    if request.param == "contents":
        return ServedNotebooks(contents)
    collaboration = Collaboration()
    collaboration.documents[NAME] = YNotebook()
    collaboration.documents[NAME].set(nbformat.v4.new_notebook())
    return ServedNotebooks(contents, collaboration)


def opened(served: ServedNotebooks, folder: Path) -> OpenNotebook:
    path = folder / NAME
    return LiveNotebook(Wire(served, path), path, SeenSources())  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES)
def test_conforms(served: ServedNotebooks, tmp_path: Path, case: str) -> None:
    async def run() -> None:
        notebook = opened(served, tmp_path)
        await reset(notebook)
        await CASES[case](notebook)

    asyncio.run(run())


def contents(folder: Path) -> ServedNotebooks:
    return ServedNotebooks(LargeFileManager(root_dir=str(folder)))


def test_what_is_saved_is_a_valid_notebook(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(nbformat.writes(nbformat.v4.new_notebook()), "utf-8")
    asyncio.run(reset(opened(contents(tmp_path), tmp_path)))
    saved = nbformat.read(tmp_path / NAME, 4)
    nbformat.validate(saved)
    assert [cell.id for cell in saved.cells] == ["a1", "b2", "c3"]


def test_a_notebook_whose_cells_have_no_ids_gets_none(tmp_path: Path) -> None:
    old = nbformat.v4.new_notebook(nbformat_minor=4, cells=[])
    old.cells = [{"cell_type": "markdown", "metadata": {}, "source": "# One"}]
    (tmp_path / NAME).write_text(json.dumps(old), "utf-8")

    async def run() -> None:
        notebook = opened(contents(tmp_path), tmp_path)
        [cell] = await notebook.cells()
        assert cell.id == "cell-0"
        [changed, added] = await notebook.change(
            [
                Replace(cell_id="cell-0", expect=cell.sha256, source="# Two"),
                Insert(place=CellPosition("end"), cell_type="code", source="x = 1"),
            ]
        )
        assert changed.after is not None
        assert (changed.after.source, added.id) == ("# Two", "cell-1")

    asyncio.run(run())
    saved = json.loads((tmp_path / NAME).read_text("utf-8"))
    assert saved["nbformat_minor"] == 4
    assert [cell.get("id") for cell in saved["cells"]] == [None, None]


def test_what_somebody_else_saved_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text(nbformat.writes(nbformat.v4.new_notebook()), "utf-8")
    theirs = nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("theirs")]))

    class Meanwhile(LargeFileManager):
        """Somebody saves between our reading and our writing."""

        def get(self, path: str, content: bool = True, **more: Any) -> Any:
            model = super().get(path, content=content, **more)
            if content:
                (tmp_path / NAME).write_text(theirs, "utf-8")
                os.utime(tmp_path / NAME, (1, 1))
            return model

    async def run() -> None:
        notebook = opened(ServedNotebooks(Meanwhile(root_dir=str(tmp_path))), tmp_path)
        with pytest.raises(ToolError, match="changed by someone else"):
            await notebook.change([Insert(place=CellPosition("end"), cell_type="code", source="mine")])

    asyncio.run(run())
    assert path.read_text("utf-8") == theirs


def test_a_notebook_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="cannot be read by the server"):
        asyncio.run(opened(contents(tmp_path), tmp_path).cells())


def test_others_see_each_change_of_a_shared_document_and_keep_what_they_type() -> None:
    collaboration, document = Collaboration(), YNotebook()
    source = "# ä 😀 begin\nx = 1\n# end"
    document.set(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, id="a1")]))
    collaboration.documents[NAME] = document
    seen_by_others: list[Any] = []
    document.observe(lambda topic, event: seen_by_others.append((topic, event)))
    text = document.ycells[0]["source"]
    change = {**REPLACED, "expect": source, "source": source.replace("x = 1", "x = 22")}
    asyncio.run(ServedNotebooks(None, collaboration).change({"path": NAME, "changes": [change]}))
    assert str(text) == "# ä 😀 begin\nx = 22\n# end"  # the same text, not another in its place
    assert seen_by_others


REPLACED = {
    "type": "replace",
    "id": "a1",
    "cell_type": None,
    "outputs": None,
    "execution_count": None,
    "attachments": None,
}


@given(st.text(alphabet="aä😀\n"), st.text(alphabet="aä😀\n"))
def test_the_difference_of_two_texts_makes_one_the_other(old: str, new: str) -> None:
    start, end, text = difference(old, new)
    assert old[:start] + text + old[end:] == new
