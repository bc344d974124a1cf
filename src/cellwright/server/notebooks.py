"""This server's notebooks for kernels, changed as a kernel asks for it: the methods of docs/protocol/notebook.md.

The algorithm is one for every place that a notebook can be in; `Cells` is what it needs of the place. `PlainCells`
changes a notebook's JSON as the contents manager gives and takes it, `SharedCells` a shared document of
jupyter-collaboration: whoever has the notebook open sees each change at once.
"""

from __future__ import annotations

import asyncio
import copy
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from jupyter_server.utils import ensure_async
from msgspec import Struct
from tornado.web import HTTPError

from cellwright.tools.notebook.notebook_source import added_outputs, joined, joined_output

Json = dict[str, Any]


class NotebookRefusal(Exception):
    """It cannot be done, and nothing was: `code` says why, for programs."""

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = dict(details or {})


class Cells(Protocol):
    """The cells of one notebook, each with a name of its own. What is changed is kept together, by whoever made this."""

    has_ids: bool
    """False for a notebook of a format without ids: a cell is named by its position, and a change renames those behind."""

    def names(self) -> list[str]:
        """The cells' ids, in order; `cell-N` for one that has none."""

    def get(self, position: int) -> Mapping[str, Any]:
        """A cell as nbformat 4 has it."""

    def is_running(self, position: int) -> bool:
        """Return whether the cell is being run, or waits for it."""

    def insert(self, position: int, cell: Json) -> None: ...

    def delete(self, position: int) -> None: ...

    def set_source(self, position: int, source: str) -> None: ...

    def set_outputs(
        self, position: int, outputs: list[Json], execution_count: int | None, *, running: bool
    ) -> None: ...

    def set_attachments(self, position: int, attachments: Json) -> None: ...


class _Step(Struct):
    """The outcome of one change: the cell's name and position, the cell before and after (None: there is none)."""

    id: str
    position: int
    was: int
    before: Json | None
    after: Json | None

    def to_json(self) -> Json:
        return {
            "id": self.id,
            "position": self.position,
            "was": self.was,
            "before": self.before,
            "after": self.after,
        }


def cell_json(cells: Cells, position: int, *, outputs: bool = True) -> Json:
    """A cell as the protocol has it."""
    cell = cells.get(position)
    is_code = cell["cell_type"] == "code"
    return {
        "id": cells.names()[position],
        "cell_type": cell["cell_type"],
        "source": joined(cell["source"]),
        "metadata": dict(cell.get("metadata") or {}),
        "execution_count": cell.get("execution_count") if is_code else None,
        "outputs": [joined_output(output) for output in cell.get("outputs") or ()] if outputs and is_code else [],
        "attachments": dict(cell.get("attachments") or {}),
    }


def all_cells(cells: Cells, *, outputs: bool) -> list[Json]:
    """All cells as the protocol has them."""
    return [cell_json(cells, position, outputs=outputs) for position in range(len(cells.names()))]


def change_cells(cells: Cells, changes: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Make all changes, or none: raises NotebookRefusal. Names are meant as the changes before have left them.

    What was made still has to be kept, and is read back by `read_back`.
    """
    _check(cells, changes)
    return [_step(cells, change).to_json() for change in changes]


def read_back(cells: Cells, changed: list[Json]) -> list[Json]:
    """`changed` with what the notebook holds now, of the last change of each cell."""
    names = cells.names()
    if cells.has_ids:
        last = {each["id"]: each for each in changed}
        places = [(each, names.index(name) if name in names else None) for name, each in last.items()]
    else:
        places = [(each, place) for each, place, is_last in _places_now(changed) if is_last]
    for each, position in places:
        if position is None:
            each["after"] = None
        elif each["after"] is not None:
            each.update(id=names[position], position=position, after=cell_json(cells, position))
    return changed


def _places_now(changed: Sequence[Json]) -> Iterator[tuple[Json, int | None, bool]]:
    """Follow the cell of each change through the changes after it: its position now, and whether none of them was of it.

    >>> inserted = {"position": 0, "was": 0, "before": None, "after": {}}
    >>> [(place, is_last) for _, place, is_last in _places_now([inserted, inserted])]
    [(1, True), (0, True)]
    """
    for number, each in enumerate(changed):
        place, is_last = each["position"] if each["after"] is not None else None, True
        for later in changed[number + 1 :]:
            was, now = later["was"], later["position"]
            if place is None:
                break
            is_inserted, is_gone = later["before"] is None, later["after"] is None
            if not is_inserted and place == was:
                place, is_last = None if is_gone else now, False
                continue
            place -= not is_inserted and was < place
            place += not is_gone and now <= place
        yield each, place, is_last


def put_outputs(cells: Cells, put: Mapping[str, Any]) -> None:
    """Outputs that a kernel has for a cell which it ran itself. Raises NotebookRefusal."""
    name = str(put.get("id"))
    position = cells.names().index(name) if name in cells.names() else None
    if position is None:
        raise NotebookRefusal("no_cell", f"Cell {name} was not found.")
    cell = cell_json(cells, position)
    if cell["cell_type"] != "code":
        raise NotebookRefusal("not_code", f"Cell {name} is not a code cell: it has no outputs.")
    if put.get("expect") is not None and cell["source"] != put["expect"]:
        raise _conflict([{"id": name, "now": cell["source"]}])
    outputs = added_outputs(() if put.get("clear") else cell["outputs"], put.get("outputs") or ())
    running = put.get("running") is True
    cells.set_outputs(position, outputs, None if running else put.get("execution_count"), running=running)


class _Sketch(Struct):
    """A cell, as far as a check needs it; `name` is empty where it is named by its position."""

    name: str
    source: str
    running: bool = False


def _check(cells: Cells, changes: Sequence[Mapping[str, Any]]) -> None:
    """Go through all changes without making them: what is shared with others cannot be taken back half done."""
    there = [
        _Sketch(name if cells.has_ids else "", joined(cells.get(position)["source"]), cells.is_running(position))
        for position, name in enumerate(cells.names())
    ]
    conflicts: list[Json] = []
    for change in changes:
        names = [sketch.name or f"cell-{position}" for position, sketch in enumerate(there)]
        if change["type"] == "insert":
            # one whose id is taken gets another, which no change can know
            name = "a new one" if change["id"] in names else change["id"]
            there.insert(_place(names, change), _Sketch(name if cells.has_ids else "", change["source"]))
            continue
        at = _index(names, change["id"])
        sketch = there[at]
        if sketch.running:
            message = f"Cell {names[at]} is running, or waits to be run: it can be changed when it has ended."
            raise NotebookRefusal("running", message)
        if change["type"] == "move":
            to = _place(names, change)
            there.insert(to - (to > at), there.pop(at))
            continue
        if sketch.source != change["expect"]:
            conflicts.append({"id": names[at], "now": sketch.source})
        if change["type"] == "delete":
            del there[at]
        elif change["source"] is not None:
            sketch.source = change["source"]
    if conflicts:
        raise _conflict(conflicts)


def _conflict(conflicts: list[Json]) -> NotebookRefusal:
    return NotebookRefusal("conflict", "Cells have changed since they were read.", {"conflicts": conflicts})


def _index(names: Sequence[str], name: str) -> int:
    if name not in names:
        known = ", ".join(names[:40]) or "none"
        raise NotebookRefusal("no_cell", f"Cell {name} was not found. The cells are: {known}.")
    return names.index(name)


def _place(names: Sequence[str], change: Mapping[str, Any]) -> int:
    where = change["where"]
    if where == "start":
        return 0
    if where == "end":
        return len(names)
    return _index(names, change["beside"]) + int(where == "after")


def _step(cells: Cells, change: Mapping[str, Any]) -> _Step:
    if change["type"] == "insert":
        return _insert(cells, change)
    at = _index(cells.names(), change["id"])
    before = cell_json(cells, at)
    now = at
    if change["type"] == "delete":
        cells.delete(at)
        return _Step(change["id"], at, at, before, None)
    if change["type"] == "move":
        to = _place(cells.names(), change)
        now = to - (to > at)
        if now != at:
            same = dict(cells.get(at))
            cells.delete(at)
            cells.insert(now, same)
    else:
        _replace(cells, at, change, before)
    return _Step(cells.names()[now], now, at, before, cell_json(cells, now))


def _insert(cells: Cells, change: Mapping[str, Any]) -> _Step:
    names = cells.names()
    at = _place(names, change)
    cell_id = change["id"]
    while cell_id in names:
        cell_id = f"{change['id']}-{secrets.token_hex(2)}"
    cell = {name: change[name] for name in ("cell_type", "source", "metadata")} | {"id": cell_id}
    if change["cell_type"] == "code":
        cell |= {"outputs": list(change["outputs"]), "execution_count": change["execution_count"]}
    elif change["attachments"]:
        cell["attachments"] = dict(change["attachments"])
    cells.insert(at, cell)
    return _Step(cells.names()[at], at, at, None, cell_json(cells, at))


def _replace(cells: Cells, at: int, change: Mapping[str, Any], before: Json) -> None:
    source = before["source"] if change["source"] is None else change["source"]
    kind = before["cell_type"] if change["cell_type"] is None else change["cell_type"]
    if kind != before["cell_type"]:
        other = _of_other_type(cells.get(at), change, kind, source)
        cells.delete(at)
        cells.insert(at, other)
        return
    if source != before["source"]:
        cells.set_source(at, source)
    if kind != "code":
        if change["attachments"]:
            cells.set_attachments(at, dict(change["attachments"]))
    elif change["outputs"] is not None:
        cells.set_outputs(at, list(change["outputs"]), change["execution_count"], running=False)
    elif source != before["source"]:
        cells.set_outputs(at, [], None, running=False)


def _of_other_type(cell: Mapping[str, Any], change: Mapping[str, Any], kind: str, source: str) -> Json:
    same: Json = {name: cell[name] for name in ("id", "metadata") if name in cell}
    same |= {"cell_type": kind, "source": source}
    if kind == "code":
        return {**same, "outputs": list(change["outputs"] or ()), "execution_count": change["execution_count"]}
    attachments = change["attachments"] or cell.get("attachments")
    return {**same, "attachments": attachments} if attachments else same


class SharedCells:
    """`Cells` of a `jupyter_ydoc.YNotebook`: the document itself, not a copy. Used inside of one of its transactions."""

    has_ids = True

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
        self.has_ids = content.get("nbformat_minor", 0) >= 5

    def names(self) -> list[str]:
        names = [str(cell.get("id", "")) if self.has_ids else "" for cell in self._cells]
        return [name or f"cell-{position}" for position, name in enumerate(names)]

    def get(self, position: int) -> Mapping[str, Any]:
        return self._cells[position]

    def is_running(self, position: int) -> bool:
        return False  # nobody runs what is in a file

    def insert(self, position: int, cell: Json) -> None:
        made = copy.deepcopy(cell)
        if not self.has_ids:
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
        if model["content"].get("nbformat", 0) < 4:
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
    message = error.log_message or error.reason or str(error)
    return message % error.args if error.log_message and error.args else message
