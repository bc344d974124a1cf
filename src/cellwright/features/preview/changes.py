"""The things that a preview would change, numbered, and how each that is accepted comes to the user's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from cellwright.errors import ToolError
from cellwright.features.preview.staged_tree import FileChange, StagedTree
from cellwright.text import counted, visible_line
from cellwright.tools.files.atomic_write import FileWrite, write_together
from cellwright.tools.files.changes import diff_texts
from cellwright.tools.files.file_state import FileState, UpcomingChange
from cellwright.tools.files.staged_file import FileChanged
from cellwright.tools.notebook.file_notebook import FileNotebook, cells_of
from cellwright.tools.notebook.open_notebook import (
    CellChange,
    CellConflict,
    CellPosition,
    Delete,
    Insert,
    OpenNotebook,
    OpenNotebooks,
    Replace,
    cell_name,
    source_sha256,
)

if TYPE_CHECKING:
    from cellwright.conversation.kernel_copies import CellOutputsKept, Variable

DETAIL_CHARS = 20_000

Kind = Literal["file", "cell", "variable", "code"]


class Item(Struct, frozen=True):
    """One thing to accept. `number` counts from 1; `title` names it in a line, `detail` shows it."""

    number: int
    kind: Kind
    title: str
    detail: str
    file: FileChange | None = None
    notebook: str = ""
    cell: CellChange | None = None
    behind: tuple[str, ...] = ()
    """The ids of the cells before a new one, the nearest first."""
    name: str = ""
    needed: bool = False
    """Of code: some of its variables come over in no other way."""


def items_of(
    tree: StagedTree, outputs: CellOutputsKept, variables: Sequence[Variable], codes: Sequence[str]
) -> list[Item]:
    """List the changes of the preview, as it is now."""
    found: list[Item] = []

    def add(kind: Kind, title: str, detail: str, **more: Any) -> None:
        found.append(Item(len(found) + 1, kind, visible_line(title, 200), _cut(detail), **more))

    changed = tree.changed()
    several = sum(change.name.endswith(".ipynb") for change in changed) > 1
    for change in changed:
        if change.name.endswith(".ipynb") and change.before is not None and change.after is not None:
            for title, detail, cell, behind in _cell_changes(change, outputs):
                add(
                    "cell",
                    f"{title} in {change.name}" if several else title,
                    detail,
                    notebook=change.name,
                    cell=cell,
                    behind=behind,
                )
            continue
        add("file", *_file_words(change, conflict=not tree.is_as_copied(change.name)), file=change)
    for variable in variables:
        if not variable.why_not:
            add("variable", variable.text, "", name=variable.name)
    others = [f"{variable.text} ({variable.why_not})" for variable in variables if variable.why_not]
    if codes and variables:
        title = f"Run the turn's code in your kernel ({counted(len(codes), 'call')})"
        add("code", title, "\n".join([*others, "", "\n\n".join(codes)]).strip(), needed=bool(others))
    return found


def _cut(detail: str) -> str:
    rest = len(detail) - DETAIL_CHARS
    return detail if rest <= 0 else f"{detail[:DETAIL_CHARS]}\n[… {rest:,} characters more]"


def _file_words(change: FileChange, *, conflict: bool) -> tuple[str, str]:
    what = "new file" if change.before is None else "deleted" if change.after is None else ""
    if conflict:
        what = "it has changed on disk since, so it will stay as it is there"
    title = f"{change.name} ({what})" if what else change.name
    try:
        texts = [None if data is None else data.decode() for data in (change.before, change.after)]
    except UnicodeDecodeError:
        return f"{title} {len(change.after or b''):,} bytes", "(not text)"
    diff = diff_texts(texts[0], texts[1], change.name)
    return f"{title} {diff.counts}", diff.text


CellWords = tuple[str, str, CellChange, tuple[str, ...]]


def _cell_changes(change: FileChange, outputs: CellOutputsKept) -> list[CellWords]:
    """The cells that differ; a cell that only moved is none."""
    assert change.before is not None
    assert change.after is not None
    try:
        before, after = cells_of(change.before), cells_of(change.after)
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
    was = {cell.id: cell for cell in before}
    there = {cell.id for cell in after}
    found: list[CellWords] = []
    for index, cell in enumerate(after):
        kept = outputs.get((change.name, cell.id))
        given = kept[1] if kept is not None and kept[0] == cell.sha256 else None
        shown = f"\n[{counted(len(given), 'output')}]" if given else ""
        name = cell_name(cell.position, cell.execution_count, cell.source)
        old = was.get(cell.id)
        if old is None:
            insert = Insert(
                place=CellPosition("start"),
                cell_type=cell.cell_type,  # type: ignore[arg-type]  # judged by who makes the change
                source=cell.source,
                cell_id=cell.id,
                outputs=given or (),
            )
            behind = tuple(each.id for each in reversed(after[:index]))
            found.append((f"New {name}", cell.source + shown, insert, behind))
        elif (old.source, old.cell_type) != (cell.source, cell.cell_type) or given is not None:
            diff = diff_texts(old.source, cell.source, name).text
            replaced = Replace(
                cell_id=cell.id,
                expect=old.sha256,
                source=cell.source,
                cell_type=cell.cell_type,  # type: ignore[arg-type]  # as above
                outputs=given,
            )
            words = f"Edit {name}" if old.source != cell.source else f"Outputs of {name}"
            found.append((words, (diff or cell.source) + shown, replaced, ()))
    for cell in before:
        if cell.id not in there:
            name = cell_name(cell.position, cell.execution_count, cell.source)
            gone = Delete(cell_id=cell.id, expect=source_sha256(cell.source))
            found.append((f"Delete {name}", cell.source, gone, ()))
    return found


class Acceptance(Struct):
    """Brings what is accepted of a preview into the project, kept like any other change: `recorded` keeps a notebook's."""

    tree: StagedTree
    state: FileState
    notebooks: OpenNotebooks
    recorded: Callable[[OpenNotebook], OpenNotebook]

    async def take(self, item: Item) -> str:
        """Make one change; gives why it could not be made, "" when it is."""
        try:
            if item.file is not None:
                return await asyncio.to_thread(self._file, item.file)
            assert item.cell is not None
            return await self._cell(item, item.cell)
        except CellConflict:
            return "the cell was changed since; nothing of it was changed"
        except FileChanged:
            return "the file was changed since; it was left as it is"
        except ToolError as error:
            return error.message
        except OSError as error:
            return f"{error.strerror or error}"

    def _file(self, change: FileChange) -> str:
        path = self.tree.project / change.name
        if Path(path.parent).resolve() != path.parent:
            return "a folder on its way is a link now"
        if self.state.is_unsaved(path):
            return "it is open in an editor with unsaved changes, which would be lost"
        status = path.lstat() if path.exists() or path.is_symlink() else None
        if not self.tree.is_as_copied(change.name):
            return "it has changed on disk since the turn began, so it was left as it is there"
        before = path.read_bytes() if status is not None else None
        self.state.keeper.before_changes([UpcomingChange(path=path, before=before, after=change.after, status=status)])
        executable = change.executable if change.after is not None and status is None else None
        write_together([FileWrite(path=path, replacing=status, after=change.after, executable=executable)])
        self.state.keeper.after_changes([path])
        self.state.forget([path])
        return ""

    async def _cell(self, item: Item, change: CellChange) -> str:
        await self.notebooks.settled()
        path = self.tree.project / item.notebook
        notebook: OpenNotebook | None = self.notebooks.at(path)
        if notebook is None:
            if why := self.notebooks.refusal(path):
                return why
            notebook = FileNotebook(path)
        if isinstance(change, Insert):
            there = {cell.id for cell in await notebook.cells(outputs=False)}
            anchor = next((each for each in item.behind if each in there), None)
            place = CellPosition("start") if anchor is None else CellPosition("after", anchor)
            change = Insert(
                place=place,
                cell_type=change.cell_type,
                source=change.source,
                cell_id=change.cell_id,
                outputs=change.outputs,
            )
        await self.recorded(notebook).change([change])
        return ""
