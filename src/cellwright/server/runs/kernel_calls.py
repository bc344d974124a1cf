"""Calls of tools by other agents in the kernels of this server (`/cellwright/mcp`): which kernel, and the way there.

A notebook that has a kernel may be open in a front end with changes that are in no file. So what is about it is done in
its kernel, which knows the pages that show it; a file is only changed here where no front end can have it open. Pages
say which documents they hold with unsaved changes (docs/protocol/documents.md), to their kernels and to this server.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jupyter_server.utils import ensure_async
from msgspec import Struct

from cellwright.agent.calls.tool_names import access_of, changes_cells
from cellwright.events import ToolEnd
from cellwright.server.api_error import RouteError
from cellwright.server.notebooks import ServedNotebooks
from cellwright.server.relay import Relays
from cellwright.tools.mcp.kernel_tools import NOTEBOOK_TOOLS, AskQuestion, KernelTool, TellProgress, kernel_tools

FORGOTTEN_SECONDS = 60.0
MAX_PAGES = 50
"""Of one user at once: a further one takes the place of that which was not heard of for longest."""

MAX_PATH_CHARS = 200_000
"""Of all paths of a page; those behind are passed over."""

MAX_LISTED = 20


class UnsavedDocuments:
    """`root` is the folder that the pages' paths start from. From any thread."""

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._lock = threading.Lock()
        self._pages: dict[tuple[str, str], tuple[float, frozenset[str]]] = {}

    def take(self, owner: str, page: str, paths: Sequence[str]) -> None:
        """A page of the user `owner` says which of its documents are unsaved: its newest word counts."""
        found = frozenset(
            os.path.realpath(self._root / without_drive(path)) for path in _bounded(paths) if "\0" not in path
        )
        with self._lock:
            self._forget_old()
            self._pages.pop((owner, page), None)
            own = [key for key in self._pages if key[0] == owner]  # the longest unheard first
            for key in own[: max(len(own) + 1 - MAX_PAGES, 0)]:
                del self._pages[key]
            self._pages[owner, page] = self._clock(), found

    def is_unsaved(self, path: Path) -> bool:
        """Return whether some page has `path`, a real path, open with unsaved changes."""
        with self._lock:
            self._forget_old()
            return any(str(path) in paths for _, paths in self._pages.values())

    def _forget_old(self) -> None:
        now = self._clock()
        self._pages = {page: said for page, said in self._pages.items() if now - said[0] <= FORGOTTEN_SECONDS}


def _bounded(paths: Sequence[str]) -> Iterator[str]:
    left = MAX_PATH_CHARS
    for path in paths:
        left -= len(path)
        if left >= 0:
            yield path


def without_drive(path: str) -> str:
    """The path of a document as the files have it.

    >>> without_drive("RTC:plots/a.ipynb"), without_drive("RTC:/plots/a.ipynb"), without_drive("plots/a:b.ipynb")
    ('plots/a.ipynb', 'plots/a.ipynb', 'plots/a:b.ipynb')
    """
    return (path.partition(":")[2] if ":" in path.partition("/")[0] else path).lstrip("/")


class _NotReachedError(RouteError):
    """The call never came to the kernel."""


class RunningNotebook(Struct, frozen=True):
    """A notebook with a kernel: its path as the server has it, and the file that it is."""

    path: str
    file: Path
    kernel_id: str


class KernelAccess(Struct, frozen=True):
    """The parts of the server by which kernels are found and reached. `root` is its folder, a real path."""

    kernels: Any
    sessions: Any
    relays: Relays
    served: ServedNotebooks
    unsaved: UnsavedDocuments
    root: Path


class CallsInKernels:
    """One user's calls, a `KernelCaller`. `agent` names whoever calls, to kernels; `names` are the tools to offer."""

    def __init__(self, access: KernelAccess, agent: str, names: Sequence[str]) -> None:
        self._access = access
        self._agent = agent
        self.tools: Sequence[KernelTool] = kernel_tools(names, by_id=True)

    async def call(
        self, name: str, tool_input: Mapping[str, Any], ask: AskQuestion | None, tell: TellProgress
    ) -> ToolEnd | None:
        try:
            if name in NOTEBOOK_TOOLS:
                return await self._in_notebook(name, tool_input, ask, tell)
            running = await self._running()
            kernel_id, notebook = self._which(name, tool_input, running)
            return await self._in_kernel(kernel_id, notebook, name, tool_input, ask, tell)
        except RouteError as error:
            return _failed(name, error.message)

    async def _in_notebook(
        self, name: str, tool_input: Mapping[str, Any], ask: AskQuestion | None, tell: TellProgress
    ) -> ToolEnd | None:
        said = tool_input.get(access_of(name).field)
        if not isinstance(said, str) or not said.lower().endswith(".ipynb") or "\0" in said:
            return None
        file = self._file(said)
        notebook = next((each for each in await self._running() if each.file == file), None)
        if notebook is None:
            if changes_cells(name) and (self._access.unsaved.is_unsaved(file) or await self._is_shared(file)):
                how = "have its kernel started there, or have it saved and closed"
                return _failed(name, f"{file.name} is open without a kernel. Nothing was changed: {how}.")
            return None
        try:
            return await self._in_kernel(notebook.kernel_id, notebook, name, tool_input, ask, tell)
        except _NotReachedError as error:
            if changes_cells(name) and self._front_ends(notebook.kernel_id):
                message = (
                    f"{notebook.path} may be open in a front end, and its kernel cannot be asked to change it there: "
                    f"{error.message} Nothing was changed. Mend that, or close the notebook and shut its kernel down."
                )
                return _failed(name, message)
            return None  # there is the file, and nobody has it open, or it is only read

    def _which(
        self, name: str, tool_input: Mapping[str, Any], running: Sequence[RunningNotebook]
    ) -> tuple[str, RunningNotebook | None]:
        """The kernel that a call is about. Raises RouteError, with what there is."""
        said, kernel_id = tool_input.get("notebook_path"), tool_input.get("kernel_id")
        if isinstance(said, str) and "\0" not in said:
            file = self._file(said)
            found = [each for each in running if each.file == file]
            if not found:
                what = f"{said} has no running kernel" if file.is_file() else f"Notebook {said} was not found"
                raise self._unclear(f"{what}. Start one for it in Jupyter, or choose another.", running)
        elif isinstance(kernel_id, str):
            if kernel_id not in self._access.kernels:
                raise self._unclear(f"Kernel {kernel_id[:100]} was not found.", running)
            found = [each for each in running if each.kernel_id == kernel_id]
            if not found and access_of(name).kind != "cells":
                return kernel_id, None
        else:
            found = list(running)
        kernels = {each.kernel_id for each in found}
        if len(kernels) != 1 or (access_of(name).kind == "cells" and len(found) != 1):
            raise self._unclear("Say which notebook is meant (notebook_path), or which kernel (kernel_id).", running)
        return found[0].kernel_id, found[0]

    def _unclear(self, message: str, running: Sequence[RunningNotebook]) -> RouteError:
        listed = [f"{each.path} (kernel {each.kernel_id})" for each in running[:MAX_LISTED]]
        more = f" and {len(running) - MAX_LISTED} more" if len(running) > MAX_LISTED else ""
        there = f"Notebooks with a kernel: {', '.join(listed)}{more}." if listed else "No notebook has a kernel now."
        return RouteError(404, "NOT_FOUND", f"{message} {there}")

    async def _in_kernel(
        self,
        kernel_id: str,
        notebook: RunningNotebook | None,
        name: str,
        tool_input: Mapping[str, Any],
        ask: AskQuestion | None,
        tell: TellProgress,
    ) -> ToolEnd:
        passed = {key: value for key, value in tool_input.items() if key not in ("kernel_id", "notebook_path")}
        field = access_of(name).field
        if notebook is not None and field in ("file_path", "notebook_path"):
            passed[field] = str(notebook.file)
        async with contextlib.AsyncExitStack() as stack:
            try:
                relay = await stack.enter_async_context(self._access.relays.held(kernel_id))
            except RouteError as error:
                raise _NotReachedError(error.status, error.code, error.message, error.details) from error
            params = {
                "agent": self._agent,
                "client": "Another agent",
                "name": name,
                "input": passed,
                "notebook": None if notebook is None else str(notebook.file),
                "front_ends": self._front_ends(kernel_id, ours=1) > 0,
                "options": {},
            }
            end = await relay.call_tool(params, ask, tell)
        return ToolEnd("", name, end["status"], end["content"], 0.0, structured=end.get("structured"))

    def _front_ends(self, kernel_id: str, ours: int = 0) -> int:
        """The connections to a kernel through this server, less `ours`."""
        if kernel_id not in self._access.kernels:  # it ended since it was found
            return 0
        model = self._access.kernels.kernel_model(kernel_id)
        return int(model.get("connections") or 0) - ours

    async def _running(self) -> list[RunningNotebook]:
        """The notebooks of this server that have a kernel."""
        access = self._access
        sessions = await ensure_async(access.sessions.list_sessions())
        return [
            RunningNotebook(session["path"], self._file(without_drive(session["path"])), session["kernel"]["id"])
            for session in sessions
            if session.get("type") == "notebook"
            and session.get("path")
            and (session.get("kernel") or {}).get("id") in access.kernels
        ]

    def _file(self, path: str) -> Path:
        return Path(os.path.realpath(self._access.root / path))

    async def _is_shared(self, file: Path) -> bool:
        """Return whether somebody has the notebook open in a document that pages share."""
        if not file.is_relative_to(self._access.root):
            return False
        return await self._access.served.is_shared(file.relative_to(self._access.root).as_posix())


def _failed(name: str, message: str) -> ToolEnd:
    return ToolEnd("", name, "error", message, 0.0)
