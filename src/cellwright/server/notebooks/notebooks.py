"""This server's notebooks for kernels: in the shared document if there is one, else by the contents manager.

`PlainCells` changes a notebook's JSON as the contents manager gives and takes it, `SharedCells` a shared document of
jupyter-collaboration: whoever has the notebook open sees each change at once.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from typing import Any

from jupyter_server.utils import ensure_async
from tornado.web import HTTPError

from cellwright.server.notebooks.cells import (
    Json,
    NotebookRefusal,
    all_cells,
    change_cells,
    put_outputs,
    read_back,
)
from cellwright.tools.notebook.notebook_source import joined

FIRST_MINOR_WITH_IDS = 5


class SharedCells:
    """`Cells` of a `jupyter_ydoc.YNotebook`: the document itself, not a copy. Used inside of one of its transactions."""

    def __init__(self, document: Any) -> None:
        self._document = document

    def names(self) -> list[str]:
        return [str(cell["id"]) for cell in self._document.ycells]

    def get(self, position: int) -> Mapping[str, Any]:
        cell: Json = self._document.get_cell(position)
        # a document of an old format names no ids where it is read, yet holds some
        return {**cell, "id": str(self._document.ycells[position]["id"])}

    def is_running(self, position: int) -> bool:
        return bool(self._document.ycells[position].get("execution_state") == "running")

    def insert(self, position: int, cell: Json) -> None:
        self._document.ycells.insert(position, self._document.create_ycell(copy.deepcopy(cell)))

    def delete(self, position: int) -> None:
        del self._document.ycells[position]

    def set_source(self, position: int, source: str) -> None:
        text = self._document.ycells[position]["source"]
        start, end, new = difference(str(text), source)
        # positions in a pycrdt.Text count bytes of UTF-8
        old = str(text).encode()
        first, last = len(str(text)[:start].encode()), len(old) - len(str(text)[end:].encode())
        if last > first:
            del text[first:last]
        if new:
            text.insert(first, new)

    def set_outputs(self, position: int, outputs: list[Json], execution_count: int | None, *, running: bool) -> None:
        from pycrdt import Array  # there where there are shared documents

        cell = self._document.ycells[position]
        shared = [_shared_output(output) for output in outputs]
        if isinstance(there := cell.get("outputs"), Array):
            there.clear()
            there.extend(shared)
        else:
            cell["outputs"] = Array(shared)
        cell["execution_count"] = execution_count
        cell["execution_state"] = "running" if running else "idle"

    def set_attachments(self, position: int, attachments: Json) -> None:
        self._document.ycells[position]["attachments"] = attachments


def _shared_output(output: Json) -> Any:
    """An output as `jupyter_ydoc` keeps it: text that streams can grow in its place."""
    from pycrdt import Map, Text

    made = copy.deepcopy(output)
    if made.get("output_type") == "stream":
        made["text"] = Text(joined(made.get("text", "")))
    return Map(made)


def difference(old: str, new: str) -> tuple[int, int, str]:
    """From where to where `old` differs from `new`, and what stands there then: the rest is left to who types in it.

    >>> difference("x = 1  # one", "x = 2  # one")
    (4, 5, '2')
    """
    least = min(len(old), len(new))
    start = next((at for at in range(least) if old[at] != new[at]), least)
    tail = 0
    while tail < least - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return start, len(old) - tail, new[start : len(new) - tail]


class PlainCells:
    """`Cells` in `content`, a notebook of nbformat 4, which is changed in place."""

    def __init__(self, content: Json) -> None:
        self._cells: list[Json] = content["cells"]
        self._has_ids = content.get("nbformat_minor", 0) >= FIRST_MINOR_WITH_IDS

    def names(self) -> list[str]:
        names = [str(cell.get("id", "")) if self._has_ids else "" for cell in self._cells]
        return [name or f"cell-{position}" for position, name in enumerate(names)]

    def get(self, position: int) -> Mapping[str, Any]:
        return self._cells[position]

    def is_running(self, position: int) -> bool:
        return False  # nobody runs what is in a file

    def insert(self, position: int, cell: Json) -> None:
        made = copy.deepcopy(cell)
        if not self._has_ids:
            made.pop("id", None)
        self._cells.insert(position, made)

    def delete(self, position: int) -> None:
        del self._cells[position]

    def set_source(self, position: int, source: str) -> None:
        self._cells[position]["source"] = source

    def set_outputs(self, position: int, outputs: list[Json], execution_count: int | None, *, running: bool) -> None:
        self._cells[position].update(outputs=copy.deepcopy(outputs), execution_count=execution_count)

    def set_attachments(self, position: int, attachments: Json) -> None:
        self._cells[position]["attachments"] = attachments


CLAUDE = "Claude"
"""The origin of transactions, as others see it."""

OLDEST_MAJOR = 4


class ServedNotebooks:
    """`contents` is the server's contents manager; `collaboration` the extension `jupyter_server_ydoc`, if it is there."""

    def __init__(self, contents: Any, collaboration: Any = None) -> None:
        self._contents = contents
        self._collaboration = collaboration
        self._saving = asyncio.Lock()
        """The lock that lets one kernel read and save with no other saves in between."""

    async def is_shared(self, path: str) -> bool:
        """Return whether somebody has the notebook open in a shared document."""
        return await self._document(path) is not None

    async def cells(self, params: Mapping[str, Any]) -> Json:
        """The method `cells`."""
        path, outputs = str(params["path"]), params.get("outputs") is True
        document = await self._document(path)
        if document is not None:
            return {"cells": all_cells(SharedCells(document), outputs=outputs), "unsaved": bool(document.dirty)}
        return {"cells": all_cells(PlainCells((await self._read(path))["content"]), outputs=outputs), "unsaved": False}

    async def change(self, params: Mapping[str, Any]) -> Json:
        """The method `change`."""
        path, changes = str(params["path"]), params["changes"]
        document = await self._document(path)
        if document is not None:
            with document.ydoc.transaction(origin=CLAUDE):
                changed = change_cells(SharedCells(document), changes)
            return {"changed": read_back(SharedCells(document), changed)}
        async with self._saving:
            model = await self._read(path)
            changed = change_cells(PlainCells(model["content"]), changes)
            await self._write(path, model)
            return {"changed": read_back(PlainCells((await self._read(path))["content"]), changed)}

    async def outputs(self, params: Mapping[str, Any]) -> None:
        """The method `outputs`."""
        path = str(params["path"])
        document = await self._document(path)
        if document is not None:
            with document.ydoc.transaction(origin=CLAUDE):
                put_outputs(SharedCells(document), params)
            return
        async with self._saving:
            model = await self._read(path)
            put_outputs(PlainCells(model["content"]), params)
            await self._write(path, model)

    async def _document(self, path: str) -> Any:
        """The shared document itself; None where nobody has it open so."""
        if self._collaboration is None:
            return None
        return await self._collaboration.get_document(
            path=path, content_type="notebook", file_format="json", copy=False
        )

    async def _read(self, path: str) -> Json:
        try:
            model: Json = await ensure_async(self._contents.get(path, content=True, type="notebook"))
        except HTTPError as error:
            code = "not_open" if error.status_code == 404 else "failed"
            raise NotebookRefusal(code, f"{path} cannot be read by the server: {_error_text(error)}.") from error
        if model["content"].get("nbformat", 0) < OLDEST_MAJOR:
            raise NotebookRefusal("failed", f"{path} is in the format of before 2015 (nbformat 3).")
        return model

    async def _write(self, path: str, model: Json) -> None:
        """Save what was read, if nobody has saved something else since."""
        try:
            now = await ensure_async(self._contents.get(path, content=False))
            if now["last_modified"] != model["last_modified"]:
                raise NotebookRefusal("failed", f"{path} was changed by someone else just now. Read it again.")
            saved = {"type": "notebook", "format": "json", "content": model["content"]}
            await ensure_async(self._contents.save(saved, path))
        except HTTPError as error:
            code = "read_only" if error.status_code == 403 else "failed"
            raise NotebookRefusal(code, f"{path} cannot be saved by the server: {_error_text(error)}.") from error


def _error_text(error: HTTPError) -> str:
    return str(error.log_message or error.reason or error)
