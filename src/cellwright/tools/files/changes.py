"""A change of one file: worked out without writing, shown to the user, then written as a whole or not at all."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from msgspec import Struct, field

from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import CannotBeDone, ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Preview
from cellwright.text import counted
from cellwright.tools.files.atomic_write import write_atomically
from cellwright.tools.files.diff import Diff
from cellwright.tools.files.encodings import Encoding
from cellwright.tools.files.file_state import FileState, UpcomingChange, kept_originals, sha256
from cellwright.tools.files.staged_file import FileChanged
from cellwright.tools.paths import file_errors, real_path, resolve_path, shown_path

T = TypeVar("T")


class AffectedFile(Struct, kw_only=True, frozen=True):
    """A file that a call wrote; `added` and `removed` count lines."""

    path: str
    type: Literal["create", "update", "delete"]
    added: int
    removed: int


class FilesOutput(ToolOutput):
    """The work of a tool that writes files: each file, and all in words. No file: all were already as wanted.

    `replacements_made` counts the places where text was replaced, None if that was not the way. `edit_summary` says how much
    changed, `preview` is the new text around each change, with line numbers.
    """

    summary: str
    files: tuple[AffectedFile, ...]
    replacements_made: int | None = None
    edit_summary: str = ""
    preview: str = ""


class Change(Struct, frozen=True, kw_only=True):
    """The contents of a file, present and wanted. `before` and `replacing` are None where there is no file yet.

    `title` says in a few words what is done to what; `result` is what the model is told when it is done.
    """

    path: Path
    """The real file: symbolic links are followed."""
    display_path: str
    before: bytes | None
    replacing: os.stat_result | None
    after: bytes
    diff: Diff
    title: str
    result: str
    whole: bool
    """True when the model then knows all of the file."""
    parts: frozenset[str] = frozenset()
    """The parts of a notebook that the model then knows (see `Seen.parts`)."""
    cells: Mapping[str, str] = field(default_factory=dict)
    """The sources of notebook cells that the model then knows, by the cells' names."""
    moves_cells: bool = False
    """True when cells may have other places than before, and so other names."""
    encoding: Encoding | None = None
    """The encoding of `after`; None for what is not text."""
    replacements: int | None = None
    """The number of places where text is replaced; None for a change of another kind."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """More for the views, beside what `display` always has."""

    def display(self) -> dict[str, Any]:
        """Build what views, hooks and recordings get; `originals` says where what was there is kept."""
        before = None if self.before is None else sha256(self.before)
        return {
            "diff": self.diff.text,
            "structuredPatch": self.diff.structured_patch(),
            "path": self.path.as_posix(),
            "before_sha256": before,
            "after_sha256": sha256(self.after),
            "type": "create" if self.before is None else "update",
            **kept_originals({self.display_path: before}),
            **self.about,
        }

    def output(self) -> FilesOutput:
        """The change for programs."""
        if self.after == self.before:
            return FilesOutput(summary=self.title, files=(), replacements_made=self.replacements and 0)
        affected = AffectedFile(
            path=self.path.as_posix(),
            type="create" if self.before is None else "update",
            added=self.diff.added,
            removed=self.diff.removed,
        )
        made = "" if self.replacements is None else f"{counted(self.replacements, 'replacement')}, "
        return FilesOutput(
            summary=f"{self.title} ({self.diff.counts})",
            files=(affected,),
            replacements_made=self.replacements,
            edit_summary=f"{made}{self.diff.counts} lines",
            preview=self.diff.excerpt,
        )

    def commit(self, state: FileState, stopped: Callable[[], bool]) -> None:
        """Write it, unless `stopped()` or the file changed meanwhile."""
        if stopped():
            raise ToolError("Stopped before the file was written; it is unchanged.", code=ErrorCode.INTERRUPTED)
        if self.after == self.before:
            return
        if state.is_unsaved(self.path):
            way_out = "Ask the user to save it (then read it again) or to close it."
            if self.path.suffix.lower() == ".ipynb":
                way_out = "Change its cells with NotebookEdit, which edits the open document."
            raise ToolError(
                f"{self.display_path} "
                f"is open in the user's editor with unsaved changes, which would be lost; nothing was written. "
                f"{way_out}",
                code=ErrorCode.FILE_ACCESS_ERROR,
            )
        state.keeper.before_changes(
            [UpcomingChange(path=self.path, before=self.before, after=self.after, status=self.replacing)]
        )
        try:
            with file_errors(self.display_path):
                status = write_atomically(self.path, self.after, replacing=self.replacing)
        except FileChanged:
            raise ToolError(
                f"{self.display_path} was changed by someone else just now; nothing was written. Read it again.",
                code=ErrorCode.FILE_ACCESS_ERROR,
            ) from None
        state.keeper.after_changes([self.path])
        state.wrote(self.path, status, sha256(self.after), whole=self.whole, parts=self.parts, encoding=self.encoding)
        if self.moves_cells:
            state.cells.forget(self.path)
        state.cells.add(self.path, self.cells)


Plan = Callable[[Path, str], Change]
"""A function from a file at a path to what a tool would make of it, and how that is shown. Reads, never writes."""


async def make_change(plan: Plan, file_path: str, cwd: Path, state: FileState) -> ToolResult:
    """Plan the change of the file that `file_path` names, and write it, in a worker thread."""

    def work(stopped: Callable[[], bool]) -> ToolResult:
        change = _planned(plan, file_path, cwd)
        change.commit(state, stopped)
        return ToolResult(change.result + _partners(change), change.display(), structured=change.output())

    return await in_thread(work)


async def preview_change(plan: Plan, file_path: str, cwd: Path, title: str) -> Preview:
    """The planned change's title and diff.

    Raises CannotBeDone, under `title`, for a change that cannot be made: the reason may quote the file.
    """

    def work(_stopped: Callable[[], bool]) -> Preview:
        path = cwd / file_path
        link = f"Writes through a symbolic link to {real_path(path).as_posix()}." if path.is_symlink() else ""
        try:
            change = _planned(plan, file_path, cwd)
        except ToolError as error:
            preview = Preview(title, kind="diff", path=shown_path(cwd, path), warning=link)
            raise CannotBeDone(error, preview, [path]) from error
        counts = f"{change.title} ({change.diff.counts})"
        return Preview(counts, change.diff.text, "diff", path=change.display_path, warning=link)

    return await in_thread(work)


def _partners(change: Change) -> str:
    if change.after == change.before:
        return ""
    from cellwright.tools.notebook.jupytext_pair import pair_note  # with the first change

    return pair_note(change.path, change.display_path, changed=True)


def _planned(plan: Plan, file_path: str, cwd: Path) -> Change:
    path = resolve_path(cwd, file_path)
    display_path = shown_path(cwd, path)
    with file_errors(display_path):
        return plan(path, display_path)


async def in_thread(work: Callable[[Callable[[], bool]], T]) -> T:
    """Run `work(stopped)` in a worker thread; `stopped()` turns true when the caller is cancelled."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(work, stop.is_set)
    finally:
        stop.set()
