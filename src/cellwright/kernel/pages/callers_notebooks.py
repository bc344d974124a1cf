"""The open notebooks as other agents' calls work on them: never a file that somebody may have open elsewhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from cellwright.kernel.pages.open_notebooks import CONNECT_SECONDS, RELOAD_SECONDS, TICK_SECONDS, KernelNotebooks
from cellwright.kernel.pages.pages import SERVER, Pages
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import Cell, DrawnOutput, KernelRemarks, NothingOpen, OpenNotebook
from cellwright.tools.paths import real_path


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
