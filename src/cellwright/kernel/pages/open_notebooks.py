"""The notebook that this kernel runs, and those that its pages show: the kernel's `OpenNotebooks`.

A notebook that is open in a page is read and changed there, through the comm `cellwright.notebook`.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from cellwright.errors import ErrorCode, ToolError
from cellwright.kernel.pages.comm import PageError
from cellwright.kernel.pages.pages import SERVER, PageConnection, PageGone, PageNotebook, Pages
from cellwright.kernel.run.notebook import FrontEnd, read_notebook
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import (
    Cell,
    CellChange,
    CellConflict,
    CellPosition,
    ChangedCell,
    Conflict,
    Delete,
    DrawnOutput,
    Insert,
    KernelRemarks,
    Move,
    NothingOpen,
    OpenNotebook,
    Output,
    OutputPlace,
    Replace,
    source_sha256,
)
from cellwright.tools.paths import real_path

MEDIA_TYPES = ("image/png", "image/jpeg")

NOT_SHOWN = DrawnOutput(problem="no page of the user's shows it")
GONE = DrawnOutput(problem="the page that showed it does not answer")

PROBLEMS: Mapping[str, str] = {
    "consent": "the user was asked in the page whether you may see rendered outputs and has not answered yet",
    "refused": "the user's settings do not let you see rendered outputs",
    "not_shown": "no page of the user's shows it",
    "changed": "the output is another one by now; read the cell again",
    "hidden": "it is collapsed, or scrolled out of view and not drawn; ask the user to show it",
    "frame": "it is in a frame of another site, which the page cannot read",
    "foreign": "it holds pictures of another site, which the page cannot read",
    "too_large": "it has too many parts to be drawn as a picture",
    "late": "the page did not finish drawing it in time",
    "failed": "the page could not make a picture of it",
    "too_many": "one call shows at most eight such pictures; read fewer cells",
    "empty": "",
}

CONNECT_SECONDS = 6.0
"""The time after loading that a page may take to connect before it counts as none."""

RELOAD_SECONDS = 12.0
"""So long a page may take to be back: what is written to the file meanwhile, it may have read before."""

TICK_SECONDS = 0.02


async def drawn_outputs(pages: Pages, page: PageConnection, params: Mapping[str, Any], count: int) -> list[DrawnOutput]:
    """Ask `page` for pictures of the `count` outputs that `params` name: one each, or the reason why there is none."""
    try:
        # a page takes 15 seconds at most for the user's consent, which it asks for once, and ten to draw
        answer = await pages.request(page, "pictures", params, 30.0)
    except PageGone:
        return [GONE] * count
    except PageError as error:
        # a page that was loaded before an upgrade knows of no pictures
        reason = "its page has to be reloaded first" if error.code == "unknown_method" else error.message.rstrip(".")
        return [DrawnOutput(problem=reason)] * count
    found = answer.get("pictures") if isinstance(answer, Mapping) else None
    given = found if isinstance(found, list) else []
    return [_drawn(given[index] if index < len(given) else None) for index in range(count)]


def _drawn(value: object) -> DrawnOutput:
    match value:
        case {"data": str(data), "media_type": str(kind), **more} if kind in MEDIA_TYPES:
            if len(data) > 4_000_000:
                return DrawnOutput(problem=PROBLEMS["too_large"])
            note = "[its lower part is cut off]" if more.get("cut") is True else ""
            return DrawnOutput(data=data, media_type=kind, note=note)
        case {"problem": str(problem)}:
            return DrawnOutput(problem=PROBLEMS.get(problem, PROBLEMS["failed"]))
    return DrawnOutput(problem=PROBLEMS["failed"])


class SeenSources:
    """Sources by their sha256, as they were read from pages: a page compares texts, who asks for a change names hashes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sources: OrderedDict[str, str] = OrderedDict()

    def add(self, source: str) -> None:
        # a longer source is read again before it is compared
        if len(source) > 100_000:
            return
        with self._lock:
            self._sources[source_sha256(source)] = source
            self._sources.move_to_end(source_sha256(source))
            while len(self._sources) > 2_000:
                self._sources.popitem(last=False)

    def get(self, sha256: str) -> str | None:
        with self._lock:
            return self._sources.get(sha256)


Provenance = Callable[[], Mapping[str, str] | None]
"""The reason for the changes that are made now, for the cells' metadata; None if they keep none."""


def no_provenance() -> None:
    """Return None: changed cells keep nothing of the reason."""


class LiveNotebook:
    """An `OpenNotebook` in the pages that show it: the first that answers. One of them may be the server."""

    def __init__(self, pages: Pages, path: Path, seen: SeenSources, provenance: Provenance = no_provenance) -> None:
        self._pages = pages
        self._path = path
        self._seen = seen
        self._provenance = provenance

    @property
    def path(self) -> Path:
        return self._path

    @property
    def live(self) -> bool:
        shown = (page.shows(self._path) for page in self._pages.showing(self._path))
        return next((notebook.route for notebook in shown if notebook is not None), "page") != "contents"

    @property
    def where(self) -> str:
        if not self.live:
            return "the file on the server"
        front_end = next((page.front_end for page in self._pages.showing(self._path)), "")
        # without its version
        return front_end.rpartition(" ")[0] or "Jupyter"

    async def cells(self, *, outputs: bool = True) -> list[Cell]:
        answer = await self._ask("cells", {"outputs": outputs})
        cells = [cell_of(value, position) for position, value in enumerate(answer["cells"])]
        for cell in cells:
            self._seen.add(cell.source)
        return cells

    async def change(self, changes: Sequence[CellChange]) -> list[ChangedCell]:
        expected = await self._expected(changes)
        asked = [_change_json(change, source) for change, source in zip(changes, expected, strict=True)]
        answer = await self._ask("change", {"changes": asked, "provenance": self._provenance()})
        changed = [_changed(change, value) for change, value in zip(changes, answer["changed"], strict=True)]
        for each in changed:
            self._verify(each)
        return changed

    async def put_outputs(
        self,
        cell_id: str,
        *,
        expect: str | None,
        outputs: Sequence[Output],
        execution_count: int | None = None,
        clear: bool = False,
        running: bool = False,
    ) -> None:
        source = None if expect is None else await self._source_of(cell_id, expect)
        params = {"id": cell_id, "expect": source, "outputs": [dict(output) for output in outputs]}
        await self._ask("outputs", {**params, "execution_count": execution_count, "clear": clear, "running": running})

    async def pictures(self, places: Sequence[OutputPlace]) -> list[DrawnOutput]:
        try:
            page = await self._pages.answering(self._path)
        except PageGone:
            return [GONE] * len(places)
        shown = page.shows(self._path)
        if shown is None or shown.route != "page":
            return [NOT_SHOWN] * len(places)
        asked = [{"cell": place.cell_id, "index": place.index, "kinds": list(place.kinds)} for place in places]
        return await drawn_outputs(self._pages, page, {"path": shown.served_path, "outputs": asked}, len(places))

    async def _expected(self, changes: Sequence[CellChange]) -> list[str | None]:
        """The sources that changes were made from. Raises CellConflict if one is in no page."""
        known: dict[str, str] = {}
        expected: list[str | None] = []
        for change in changes:
            if not isinstance(change, Replace | Delete):
                expected.append(None)
                continue
            earlier = known.get(change.cell_id)
            if earlier is not None and source_sha256(earlier) == change.expect:
                source = earlier
            else:
                source = await self._source_of(change.cell_id, change.expect)
            expected.append(source)
            if isinstance(change, Replace):
                known[change.cell_id] = source if change.source is None else change.source
        return expected

    async def _source_of(self, cell_id: str, sha256: str) -> str:
        if (source := self._seen.get(sha256)) is not None:
            return source
        cells = {cell.id: cell.source for cell in await self.cells(outputs=False)}
        now = cells.get(cell_id)
        if now is None:
            raise no_cell(cell_id, list(cells), self._path.name)
        if source_sha256(now) != sha256:
            raise CellConflict(self._path.name, [Conflict(cell_id, sha256, now)])
        return now

    async def _ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        page = None
        try:
            page = await self._pages.answering(self._path)
            shown = page.shows(self._path)
            if shown is None:  # it was closed or renamed just now
                raise PageGone
            result = await self._pages.request(page, method, {"path": shown.served_path, **params})
        except PageGone:
            raise self._page_gone(method, page) from None
        except PageError as error:
            raise self._refused(error) from error
        return result if isinstance(result, Mapping) else {}

    def _page_gone(self, method: str, page: PageConnection | None) -> ToolError:
        name = self._path.name
        if page is None or method == "cells":
            text = (
                f"The page in which {name} was open does not answer any more. Nothing was changed. Call again: it is taken "
                "from where it is now."
            )
        else:
            text = (
                f"The page in which {name} is open has not said whether it made the change. Read the notebook before you "
                "continue."
            )
        return ToolError(text, code=ErrorCode.FILE_ACCESS_ERROR)

    def _refused(self, error: PageError) -> ToolError:
        conflicts = error.details.get("conflicts")
        if error.code == "conflict" and isinstance(conflicts, list):
            found = [Conflict(str(each["id"]), "", each.get("now")) for each in conflicts]
            return CellConflict(self._path.name, found)
        codes = {"no_cell": ErrorCode.INVALID_PARAMETERS, "not_code": ErrorCode.INVALID_PARAMETERS}
        return ToolError(
            f"{error.message} Nothing was changed.", code=codes.get(error.code, ErrorCode.FILE_ACCESS_ERROR)
        )

    def _verify(self, changed: ChangedCell) -> None:
        """Raise ToolError where what was read back is not what was asked for."""
        change, after = changed.change, changed.after
        match change:
            case Delete():
                done = after is None
            case Move():
                done = after is not None
            case Insert():
                done = after is not None and (after.source, after.cell_type) == (change.source, change.cell_type)
            case Replace():
                done = after is not None and (change.source is None or after.source == change.source)
                done = done and (change.cell_type is None or after is None or after.cell_type == change.cell_type)
        if not done:
            raise ToolError(
                f"Cell {changed.id} of {self._path.name} does not hold the written text: someone else changed it "
                "at the same time. Read it again.",
                code=ErrorCode.FILE_ACCESS_ERROR,
            )


def no_cell(cell_id: str, known: Sequence[str], display_path: str) -> ToolError:
    """The error for a cell that is not there."""
    listed = ", ".join(known[:40]) + (" …" if len(known) > 40 else "")
    return ToolError(
        f"Cell {cell_id} was not found in {display_path}. The cells are: {listed or 'none'}. Nothing was changed.",
        code=ErrorCode.INVALID_PARAMETERS,
    )


def cell_of(value: Mapping[str, Any], position: int) -> Cell:
    """A cell as a page gives it."""
    count = value.get("execution_count")
    return Cell(
        id=str(value["id"]),
        cell_type=str(value["cell_type"]),
        source=str(value["source"]),
        position=position,
        execution_count=count if isinstance(count, int) else None,
        outputs=tuple(value.get("outputs") or ()),
        # what a front end keeps for itself is no part of the notebook
        metadata={name: part for name, part in (value.get("metadata") or {}).items() if name != "trusted"},
        attachments=value.get("attachments") or {},
    )


def _changed(change: CellChange, value: Mapping[str, Any]) -> ChangedCell:
    position, before, after = value["position"], value.get("before"), value.get("after")
    was = value.get("was", position)
    return ChangedCell(
        change=change,
        id=str(value["id"]),
        position=position,
        before=None if before is None else cell_of(before, was),
        after=None if after is None else cell_of(after, position),
    )


def _location_json(place: CellPosition) -> dict[str, str]:
    return {"where": place.where, "beside": place.anchor_id}


def _change_json(change: CellChange, source: str | None) -> dict[str, Any]:
    match change:
        case Replace():
            return {
                "type": "replace",
                "id": change.cell_id,
                "expect": source,
                "source": change.source,
                "cell_type": change.cell_type,
                "outputs": None if change.outputs is None else [dict(output) for output in change.outputs],
                "execution_count": change.execution_count,
                "attachments": None if change.attachments is None else dict(change.attachments),
            }
        case Insert():
            return {
                "type": "insert",
                **_location_json(change.place),
                "cell_type": change.cell_type,
                "source": change.source,
                "id": change.cell_id or new_cell_id(),
                "metadata": {name: part for name, part in change.metadata.items() if name != "trusted"},
                "attachments": dict(change.attachments),
                "outputs": [dict(output) for output in change.outputs],
                "execution_count": change.execution_count,
            }
        case Delete():
            return {"type": "delete", "id": change.cell_id, "expect": source}
        case Move():
            return {"type": "move", "id": change.cell_id, **_location_json(change.place)}


def new_cell_id() -> str:
    """An id as nbformat makes them."""
    return secrets.token_hex(4)


class KernelNotebooks:
    """The notebooks of this kernel's pages. `remarks` is what the kernel says of the cells of its own.

    `provenance` is what cells that are changed now keep of the reason, in their metadata; None: nothing.
    """

    def __init__(
        self,
        pages: Pages,
        remarks: Callable[[Sequence[Cell]], KernelRemarks] = lambda _cells: KernelRemarks(),
        provenance: Provenance = no_provenance,
    ) -> None:
        self._pages = pages
        self.remarks = remarks
        self._provenance = provenance
        self._seen = SeenSources()
        self._loaded = time.monotonic()
        self._named: Path | None = None
        self._document: Path | None = None
        self._shown: Path | None = None
        self._front_end: FrontEnd | None = None
        self._running = ""

    def cell_runs(self, front_end: FrontEnd, document: Path | None, named: Path | None) -> None:
        """A prompt begins: `document` is the notebook it seems to stand in, `named` the one that its user says."""
        self._front_end = front_end
        request = {} if front_end.kernel is None else front_end.kernel.get_parent("shell")
        self._running = str(request.get("content", {}).get("code", "")).strip()
        self._document = None if document is None else real_path(document)
        self._named = None if named is None else real_path(named)
        self._pages.prefer(front_end.page)

    def own(self) -> OpenNotebook | None:
        shown = self._own_shown()
        if shown is not None:
            self._shown = shown.path
            return LiveNotebook(self._pages, shown.path, self._seen, self._provenance)
        path = self._named or self._last_known
        if path is None or not path.is_file():
            return None

        return FileNotebook(path)

    def at(self, path: Path) -> OpenNotebook | None:
        real = real_path(path)
        pages = self._pages.showing(real)
        if not pages or _is_just_a_file(pages[0], real):
            return None
        return LiveNotebook(self._pages, real, self._seen, self._provenance)

    def served(self, served_path: str) -> OpenNotebook | None:
        """The notebook that a page shows under this path of its server's; None where none does."""
        shown = (notebook for page in self._pages.all() for notebook in page.notebooks)
        return next((self.at(notebook.path) for notebook in shown if notebook.served_path == served_path), None)

    def refusal(self, path: Path) -> str:
        real = real_path(path)
        # so long the file stays as it is for a page with unsaved changes that has fallen silent
        if self._pages.may_come_back(real, 600.0):
            return (
                f"{path.name} was open with unsaved changes in a page that does not answer (closed by force, or on a "
                "computer that sleeps). Nothing was changed: the page may come back. Ask the user."
            )
        if self._front_end is None or self._pages.any_came or self._pages.showing(real) or real == self._named:
            return ""
        if real != self._last_known and not self._holds_running_cell(real):
            return ""
        if self._front_end.headless:
            how = "no front end is there to be asked (nbclient, papermill), and whoever runs it writes the file when it ends"
        else:
            how = "its front end has not connected to this kernel, so its unsaved contents cannot be seen and would be lost"
        return (
            f"{path.name} is the notebook that is running: {how}. Nothing was changed. Say in your answer what should be "
            f"changed. (The user can allow changes of the file with `%%claude --notebook {path.name}`.)"
        )

    async def settled(self) -> None:
        """Wait until a page that is there has connected: right after loading, and while it is reloaded."""
        if self._front_end is None or self._front_end.kernel is None or self._front_end.headless:
            return
        ends = self._loaded + CONNECT_SECONDS
        while (not self._pages.any_came and time.monotonic() < ends) or self._pages.is_reloading(RELOAD_SECONDS):
            await asyncio.sleep(TICK_SECONDS)

    async def displayed(self, keys: Sequence[str]) -> list[DrawnOutput]:
        if not keys:
            return []
        page = await self._pages.of_user()
        if page is None:
            return [NOT_SHOWN] * len(keys)
        return await drawn_outputs(self._pages, page, {"outputs": [{"display": key} for key in keys]}, len(keys))

    def _own_shown(self) -> PageNotebook | None:
        """The notebook whose page ran the newest prompt, or else one that a page shows as this kernel's."""
        own = [
            notebook
            for page in self._pages.all()
            for notebook in page.notebooks
            if notebook.own and not _is_just_a_file(page, notebook.path)
        ]
        ran = (notebook for notebook in own if notebook.session == self._pages.preferred)
        return next(ran, own[0] if own else None)

    @property
    def _last_known(self) -> Path | None:
        """The path of the notebook when a page showed it, or when the kernel was started."""
        return self._shown or self._document

    def _holds_running_cell(self, path: Path) -> bool:
        """Return whether the cell that is running stands in this file."""
        content = read_notebook(path) if self._running else None
        return content is not None and any(
            cell["cell_type"] == "code" and cell["source"].strip() == self._running for cell in content["cells"]
        )


def _is_just_a_file(page: PageConnection, path: Path) -> bool:
    """Return whether the server shows it, as a file that this kernel sees as well: there it keeps all its bytes."""
    shown = page.shows(path)
    return shown is not None and shown.route == "contents" and path.is_file()


class CalledFor(Struct, frozen=True):
    """The notebook that a call is about, which this kernel runs; None: it is about the kernel alone.

    `front_ends`: the server has connections of others to this kernel, so that somebody may have the notebook open.
    """

    notebook: Path | None
    front_ends: bool


class CallersNotebooks:
    """The `OpenNotebooks` of agents; `called_for` gives what the call that goes on is about."""

    def __init__(self, pages: Pages, notebooks: KernelNotebooks, called_for: Callable[[], CalledFor | None]) -> None:
        self._pages = pages
        self._notebooks = notebooks
        self._called_for = called_for
        self._waited_for: set[Path] = set()

    def own(self) -> OpenNotebook | None:
        called = self._called_for()
        if called is None or called.notebook is None:
            return None
        path = real_path(called.notebook)
        return self.at(path) or (FileNotebook(path) if path.is_file() else None)

    def at(self, path: Path) -> OpenNotebook | None:
        return self._notebooks.at(path)

    def refusal(self, path: Path) -> str:
        real = real_path(path)
        if refusal := self._notebooks.refusal(real):
            return refusal
        called = self._called_for()
        if called is None or not called.front_ends or called.notebook is None or self._is_shown(real):
            return ""
        if real_path(called.notebook) != real:
            return ""
        return (
            f"{path.name} may be open in a front end that is connected to its kernel and does not show it to Cellwright "
            "(another program than JupyterLab and Notebook 7, or a page without the extension): a change of the file "
            "would be behind its back. Nothing was changed. Have it saved and closed there, or the page reloaded, and "
            "call again."
        )

    def remarks(self, cells: Sequence[Cell]) -> KernelRemarks:
        return self._notebooks.remarks(cells)

    async def displayed(self, keys: Sequence[str]) -> list[DrawnOutput]:
        # what an agent's code displays stands in no cell
        return await NothingOpen().displayed(keys)

    async def settled(self) -> None:
        """Wait until the page has come in which the notebook is open: soon after it is heard that Cellwright is there."""
        called = self._called_for()
        if called is None or called.notebook is None:
            return
        path = real_path(called.notebook)
        deadline = time.monotonic() + CONNECT_SECONDS
        while self._pages.is_reloading(RELOAD_SECONDS) or (
            called.front_ends
            and not self._is_shown(path)
            and path not in self._waited_for
            and time.monotonic() < deadline
        ):
            await asyncio.sleep(TICK_SECONDS)
        # a page that did not come in time is not waited for at every call; it is heard all the same when it comes
        if called.front_ends:
            self._waited_for.add(path)

    def _is_shown(self, path: Path) -> bool:
        """Return whether a page of a user has it, or a document that users share."""
        shown = [(page, page.shows(path)) for page in self._pages.showing(path)]
        return any(
            notebook is not None and (page.front_end != SERVER or notebook.route == "shared")
            for page, notebook in shown
        )
