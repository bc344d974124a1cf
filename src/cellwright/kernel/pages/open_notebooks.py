"""The notebook that this kernel runs, and those that its pages show: the kernel's `OpenNotebooks`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from cellwright.kernel.pages.live_notebook import (
    NOT_SHOWN,
    LiveNotebook,
    Provenance,
    SeenSources,
    drawn_outputs,
    no_provenance,
)
from cellwright.kernel.pages.pages import SERVER, PageConnection, PageNotebook, Pages
from cellwright.kernel.run.front_end import FrontEnd
from cellwright.kernel.run.notebook_trust import read_notebook
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import Cell, DrawnOutput, KernelRemarks, NothingOpen, OpenNotebook
from cellwright.tools.paths import real_path

CONNECT_SECONDS = 6.0
"""The time after loading that a page may take to connect before it counts as none."""

RELOAD_SECONDS = 12.0
"""So long a page may take to be back: what is written to the file meanwhile, it may have read before."""

COMES_BACK_SECONDS = 600.0
"""So long the file stays as it is for a page with unsaved changes that has fallen silent."""

TICK_SECONDS = 0.02


def _no_remarks(_cells: Sequence[Cell]) -> KernelRemarks:
    return KernelRemarks()


class KernelNotebooks:
    """The notebooks of this kernel's pages. `remarks` is what the kernel says of the cells of its own.

    `provenance` is what cells that are changed now keep of the reason, in their metadata; None: nothing.
    """

    def __init__(
        self,
        pages: Pages,
        remarks: Callable[[Sequence[Cell]], KernelRemarks] = _no_remarks,
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
        from cellwright.tools.notebook.file_notebook import FileNotebook  # few notebooks are worked on closed

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
        if self._pages.may_come_back(real, COMES_BACK_SECONDS):
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
        while self._connecting() or self._pages.is_reloading(RELOAD_SECONDS):
            await asyncio.sleep(TICK_SECONDS)

    async def displayed(self, keys: Sequence[str]) -> list[DrawnOutput]:
        if not keys:
            return []
        page = await self._pages.of_user()
        if page is None:
            return [NOT_SHOWN] * len(keys)
        return await drawn_outputs(self._pages, page, {"outputs": [{"display": key} for key in keys]}, len(keys))

    def _connecting(self) -> bool:
        return not self._pages.any_came and time.monotonic() - self._loaded < CONNECT_SECONDS

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
