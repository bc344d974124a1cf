"""The record of a turn while it runs: each file is kept and written down before its first change.

A change by an editing tool is told before it is made. A change made by other ways during a call (a command, a
formatter that a hook runs) in a file of the turn is found when the call is over, and counts as the turn's. A change
between calls is somebody else's, and is not taken back.

Hashes tell what files hold now; a turn's changes are summed up for people in lines added and removed.
`RecordedNotebooks` are the conversation's notebooks, whose cells are kept before they change.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from cellwright.agent.tool import Tool
from cellwright.checkpoints.journal import UNKNOWN, CellChange, CheckpointTurn, FileChange, FileContent, Journal, Json
from cellwright.errors import ToolError
from cellwright.events import Changed, TurnChanged
from cellwright.permissions.policy import PermissionPolicy
from cellwright.text import visible_line
from cellwright.tools.files.changes import diff_texts
from cellwright.tools.files.encodings import NotText, decode
from cellwright.tools.files.file_state import KEPT_FILE_BYTES, UpcomingChange, keep_original, original, sha256
from cellwright.tools.notebook.open_notebook import (
    Cell,
    ChangedCell,
    DrawnOutput,
    Insert,
    KernelRemarks,
    Move,
    OpenNotebook,
    OpenNotebooks,
    Output,
    OutputPlace,
    cell_name,
)
from cellwright.tools.notebook.open_notebook import (
    CellChange as CellEdit,
)
from cellwright.tools.paths import shown_path

_TAKEN_BACK = ("files", "notebooks", "search", "planning")
"""Categories whose tools have no effects but changed files and cells, unless one says that it has."""

COUNTED_BYTES = 2**20
"""Lines of larger files are not counted: the user waits for it."""


def effect_of(tool: Tool, tool_input: Mapping[str, Any], roots: Sequence[Path]) -> str:
    """The title of a call that has effects besides changed files and cells; empty for one that has none.

    A command counts unless it only reads. What is not known counts.
    """
    said = tool.has_effects() if callable(tool.has_effects) else tool.has_effects
    if not (tool.category not in _TAKEN_BACK if said is None else said):
        return ""
    if tool.read_only and tool.category != "web":
        return ""
    if tool.access.kind == "shell" and _only_reads(tool, tool_input, roots):
        return ""
    return visible_line(f"{tool.name}: {_title(tool, tool_input)}".removesuffix(": "), 200)


def _title(tool: Tool, tool_input: Mapping[str, Any]) -> str:
    if isinstance(command := tool_input.get("command"), str):
        return command
    try:
        return tool.title(tool_input) if tool.title is not None else ""
    except Exception:  # noqa: BLE001  a title is the tool's own code, which may fail as it likes
        return ""


def _only_reads(tool: Tool, tool_input: Mapping[str, Any], roots: Sequence[Path]) -> bool:
    facts = tool.facts(tool_input) if tool.facts is not None else {}
    # without a rule, what is allowed is what changes nothing
    decision = PermissionPolicy(roots=tuple(roots), cwd=roots[0]).decide(tool, {**tool_input, **facts})
    return decision.behavior == "allow"


def changed_file(file: FileChange, cwd: Path) -> Changed:
    """A file of a turn, compared with what is on the disk now."""
    before = None if file.before is None else original(file.before.sha256)
    after = None if file.after is None else _read(file.path)
    kind = _kind(file.before is None, file.after is None)
    where = shown_path(cwd, file.path)
    if (before is None) != (file.before is None) or (after is None) != (file.after is None):
        return Changed(where, kind)
    return Changed(where, kind, *line_counts(before, after))


def changed_cell(cell: CellChange, cwd: Path) -> Changed:
    """A cell of a turn."""
    kind = _kind(cell.before is None, cell.after is None)
    where = shown_cell(cell.notebook, cell.before, cell.after, cwd)
    return Changed(where, kind, *cell_counts(cell.before, cell.after))


def shown_cell(notebook: Path, before: str | None, after: str | None, cwd: Path) -> str:
    """The cell as its user sees it, or saw it before the change: `cell [3] in analysis.ipynb`.

    `before` and `after` are its hashes in the store.
    """
    kept = [cell for name in (after, before) if (cell := _kept_cell(name)) is not None]
    count = next((cell["execution_count"] for cell in kept if cell["execution_count"]), None)
    source = str(kept[0]["source"]) if kept else ""
    return f"{cell_name(None, count, source)} in {shown_path(cwd, notebook)}"


def cell_counts(before: str | None, after: str | None) -> tuple[int | None, int | None]:
    """Count the lines added to and removed from a cell's source, given the hashes of the cells in the store."""
    old, new = cell_source(before), cell_source(after)
    if (old is None) != (before is None) or (new is None) != (after is None):
        return None, None
    return line_counts(old, new)


def cell_source(name: str | None) -> bytes | None:
    """The source of a cell in the store; None if absent."""
    cell = _kept_cell(name)
    return None if cell is None else str(cell["source"]).encode("utf-8", "surrogatepass")


def _kept_cell(name: str | None) -> Json | None:
    if name is None or (data := original(name)) is None:
        return None
    cell: Json = json.loads(data)
    return cell


def line_counts(before: bytes | None, after: bytes | None) -> tuple[int | None, int | None]:
    """Count the lines added and removed; None for what is too long, or no text."""
    if max(len(before or b""), len(after or b"")) > COUNTED_BYTES:
        return None, None
    try:
        diff = diff_texts(_text(before), _text(after), "")
    except NotText:
        return None, None
    return diff.added, diff.removed


def _text(data: bytes | None) -> str | None:
    return None if data is None else decode(data)[0]


def _kind(is_new: bool, is_gone: bool) -> Literal["created", "changed", "deleted"]:
    return "created" if is_new else "deleted" if is_gone else "changed"


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.stat().st_size <= COUNTED_BYTES else b"\0" * (COUNTED_BYTES + 1)
    except OSError:
        return None


Mark = tuple[int, int, int, int]


class PathState(Struct, frozen=True):
    """The state of a path: nothing (`held` None, no `problem`), a file, or something that is none (`problem`)."""

    held: FileContent | None
    status: os.stat_result | None = None
    problem: str = ""

    @property
    def sha256(self) -> str | None:
        """The hash of the content, None for no file, "unknown" for what is none."""
        return UNKNOWN if self.problem else None if self.held is None else self.held.sha256


def at(path: Path) -> PathState:
    """Examine what is at `path`, a real path. Never raises."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "a folder or a device"
            return PathState(None, problem=f"it is {kind} now")
        if status.st_size > KEPT_FILE_BYTES:
            return PathState(None, problem=f"it is larger than {KEPT_FILE_BYTES // 2**20} MB now")
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            digest = hashlib.sha256()
            while block := file.read(2**20):
                digest.update(block)
    except FileNotFoundError:
        return PathState(None)
    except NotADirectoryError:
        return PathState(None)
    except OSError as error:
        return PathState(None, problem=f"it cannot be read ({error.strerror})")
    return PathState(FileContent(digest.hexdigest(), stat.S_IMODE(status.st_mode)), status)


def mark_of(path: Path) -> Mark | None:
    """Return the mark that tells in no time that a file was not changed; None where there is no file."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode


logger = logging.getLogger(__name__)


class TurnRecorder:
    """Keeps what one run changes. Used by the agent's loop and by worker threads of its tools."""

    def __init__(
        self, journal: Journal, turn: CheckpointTurn, roots: Sequence[Path], on_end: Callable[[], None]
    ) -> None:
        self.turn = turn
        self._on_end = on_end
        self._journal = journal
        self._roots = roots
        self._lock = threading.RLock()
        self._marks: dict[Path, Mark | None] = {}
        self._steady: set[Path] = set()
        self._expected: dict[Path, str | None] = {}
        self._made_anew: set[Path] = set()
        self._program: list[Path] = []
        self._unkept: set[str] = set()

    async def before_call(self, tool: Tool, tool_input: Mapping[str, Any]) -> None:
        def look_before() -> None:
            """Note which files of the turn are as it left them."""
            with self._lock:
                self._steady = {path for path, file in self.turn.files.items() if self._sha256(path) == file.after}

        if effect := effect_of(tool, tool_input, self._roots):
            self._write({"effect": effect})
        if not tool.read_only:
            await asyncio.to_thread(look_before)

    async def after_call(self, tool: Tool) -> None:
        if not tool.read_only:  # others run beside these, and leave files as they are
            await asyncio.to_thread(self._look_after)

    def end(self) -> TurnChanged | None:
        self._on_end()
        with self._lock:
            self._write({"end": self.turn.number})
            turn, cwd = self.turn, self._roots[0]
            files = tuple(changed_file(file, cwd) for file in turn.changed_files)
            cells = tuple(changed_cell(cell, cwd) for cell in turn.changed_cells)
            if not (files or cells or turn.effects):
                return None
            return TurnChanged(turn.number, files, cells, tuple(turn.effects), tuple(sorted(self._unkept)))

    def before_changes(self, changes: Sequence[UpcomingChange]) -> None:
        """Keep what is there, and write down what will be; see `Keeper`."""
        with self._lock:
            changed = [change for change in changes if change.before != change.after or change.changes_mode]
            self._write(*[self._line(change) for change in changed])
            self._expected |= {
                change.path: None if change.before is None else sha256(change.before) for change in changed
            }
            self._made_anew |= {change.path for change in changed if change.before is None}

    def after_changes(self, paths: Sequence[Path]) -> None:
        """The changes were made. What else becomes of the files until the call is over is the call's doing, too."""
        with self._lock:
            self._steady.update(paths)
            for path in paths:
                self._expected.pop(path, None)
            made = self._made_anew.intersection(paths)
            self._write(*[line for path in made if (line := self._other_mode(path)) is not None])
            self._made_anew -= made

    def _other_mode(self, path: Path) -> Json | None:
        """The line for a file of the turn that is there again with another mode than it had; None where it is not."""
        file, mark = self.turn.files.get(path), mark_of(path)
        if file is None or file.before is None or mark is None or stat.S_IMODE(mark[-1]) == file.before.mode:
            return None
        return {"file": str(path), "before": None, "after": file.after, "kept": True, "mode_changed": True}

    def before_program(self, paths: Sequence[Path]) -> None:
        """Keep files that a program may change now."""
        with self._lock:
            lines: list[Json] = []
            for path in paths:
                now = at(path)
                if now.held is not None and path not in self.turn.files:
                    kept = self._keep_file(path, now.held)
                    held = now.held.to_json()
                    lines.append({"file": str(path), "before": held, "after": UNKNOWN, "kept": kept, "folders": []})
            self._write(*lines)
            self._program = list(paths)

    def after_program(self) -> None:
        """The program is done: what it left is what the turn left."""
        with self._lock:
            self._write(*[line for path in self._program if (line := self._found(path)) is not None])
            self._program = []

    def write_cells(self, *lines: Json) -> None:
        """Write down what becomes of cells."""
        with self._lock:
            self._write(*lines)

    def keep(self, data: bytes, what: str) -> tuple[str, bool]:
        """Keep a content; its hash, and whether it is kept. `what` names it to the user if not."""
        name = sha256(data)
        kept = keep_original(data, name, safely=True)
        if not kept:
            self._unkept.add(what)
        return name, kept

    def _line(self, change: UpcomingChange) -> Json:
        after = None if change.after is None else sha256(change.after)
        line: dict[str, Any] = {"file": str(change.path), "before": None, "after": after, "kept": True, "folders": []}
        if change.changes_mode:
            line["mode_changed"] = True
        if change.before is not None:
            name, line["kept"] = self.keep(change.before, str(change.path))
            mode = stat.S_IMODE(change.status.st_mode) if change.status is not None else 0o600
            line["before"] = FileContent(name, mode).to_json()
        else:
            # those that have to be made for it, the innermost first
            line["folders"] = [str(folder) for folder in change.path.parents if not folder.exists()]
        before = line["before"]
        # anew: it holds neither what the turn left nor what was there before it
        known, now = self.turn.files.get(change.path), None if before is None else before["sha256"]
        line["anew"] = known is not None and now not in (known.before and known.before.sha256, *known.left)
        return line

    def _look_after(self) -> None:
        """Take what else the call changed in the turn's files for its own."""
        with self._lock:
            not_made = self._expected.items()
            self._write(*[{"file": str(path), "before": None, "after": was, "kept": True} for path, was in not_made])
            self._expected, self._made_anew = {}, set()
            self._write(*[line for path in self._steady if (line := self._found(path)) is not None])
            self._steady = set()

    def _found(self, path: Path) -> Json | None:
        """The line for a file that holds something else than was written down; None where it does not."""
        file = self.turn.files.get(path)
        if file is None or (now := self._sha256(path)) == file.after:
            return None
        held = at(path).held
        mode_changed = file.before is not None and held is not None and held.mode != file.before.mode
        return {"file": str(path), "before": None, "after": now, "kept": True, "mode_changed": mode_changed}

    def _sha256(self, path: Path) -> str | None:
        """The hash of what is at `path`, as far as possible without reading it again."""
        mark, file = mark_of(path), self.turn.files[path]
        if path in self._marks and self._marks[path] == mark:
            return file.after
        now = at(path).sha256
        if now == file.after:
            self._marks[path] = mark
        return now

    def _keep_file(self, path: Path, held: FileContent) -> bool:
        try:
            data = path.read_bytes()
        except OSError:
            return False
        return self.keep(data, str(path)) == (held.sha256, True)

    def _write(self, *lines: Json) -> None:
        if not lines:
            return
        try:
            self._journal.append(*lines)
        except OSError as error:
            logger.warning("what the turn changes could not be written down: %s", error)
            self._unkept.update(str(line[key]) for line in lines for key in ("file", "cell") if key in line)


CurrentTurn = Callable[[], TurnRecorder | None]


class RecordedNotebooks:
    """`OpenNotebooks` that keeps the cells of each that it gives."""

    def __init__(self, notebooks: OpenNotebooks, turn: CurrentTurn) -> None:
        self._notebooks = notebooks
        self._turn = turn

    def own(self) -> OpenNotebook | None:
        return self._recorded(self._notebooks.own())

    def at(self, path: Path) -> OpenNotebook | None:
        return self._recorded(self._notebooks.at(path))

    def refusal(self, path: Path) -> str:
        return self._notebooks.refusal(path)

    def remarks(self, cells: Sequence[Cell]) -> KernelRemarks:
        return self._notebooks.remarks(cells)

    async def settled(self) -> None:
        await self._notebooks.settled()

    async def displayed(self, keys: Sequence[str]) -> list[DrawnOutput]:
        return await self._notebooks.displayed(keys)

    def _recorded(self, notebook: OpenNotebook | None) -> OpenNotebook | None:
        return None if notebook is None else RecordedNotebook(notebook, self._turn)


class RecordedNotebook:
    """An `OpenNotebook` that keeps its cells before they change. Outputs alone are not kept: a run gives them anew."""

    def __init__(self, notebook: OpenNotebook, turn: CurrentTurn) -> None:
        self._notebook = notebook
        self._turn = turn

    @property
    def path(self) -> Path:
        return self._notebook.path

    @property
    def live(self) -> bool:
        return self._notebook.live

    @property
    def where(self) -> str:
        return self._notebook.where

    async def cells(self, *, outputs: bool = True) -> list[Cell]:
        return await self._notebook.cells(outputs=outputs)

    async def change(self, changes: Sequence[CellEdit]) -> list[ChangedCell]:
        turn = self._turn()
        if turn is None:
            return await self._notebook.change(changes)
        named = {change.cell_id for change in changes if not isinstance(change, Insert)}
        cells = await self._notebook.cells() if named else []
        before = _before(turn, self.path, cells, named)
        await asyncio.to_thread(turn.write_cells, *before)
        try:
            done = await self._notebook.change(changes)
        except ToolError:
            unchanged = [{**line, "after": line["before"], "after_source": line["before_source"]} for line in before]
            await asyncio.to_thread(turn.write_cells, *unchanged)
            raise
        await asyncio.to_thread(turn.write_cells, *_after(turn, self.path, done))
        return done

    async def pictures(self, places: Sequence[OutputPlace]) -> list[DrawnOutput]:
        return await self._notebook.pictures(places)

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
        await self._notebook.put_outputs(
            cell_id,
            expect=expect,
            outputs=outputs,
            execution_count=execution_count,
            clear=clear,
            running=running,
        )


def cell_data(cell: Cell) -> bytes:
    """A cell as it is kept."""
    data = {
        "cell_type": cell.cell_type,
        "source": cell.source,
        "execution_count": cell.execution_count,
        "outputs": [dict(output) for output in cell.outputs],
        "metadata": dict(cell.metadata),
        "attachments": dict(cell.attachments),
    }
    return json.dumps(data, sort_keys=True).encode()


def _before(turn: TurnRecorder, notebook: Path, cells: Sequence[Cell], named: set[str]) -> list[Json]:
    """The lines for cells that are about to change."""
    lines: list[Json] = []
    for cell in cells:
        if cell.id in named:
            anchor_id = cells[cell.position - 1].id if cell.position else ""
            line = _line(turn, notebook, cell.id, cell, None, anchor_id=anchor_id, after=UNKNOWN)
            known = turn.turn.cells.get((notebook, cell.id))
            if known is not None and cell.sha256 not in (known.before_source, *known.left):
                line["anew"] = True  # somebody else changed it between two changes of the turn
            lines.append(line)
    return lines


def _after(turn: TurnRecorder, notebook: Path, done: Sequence[ChangedCell]) -> list[Json]:
    """The lines for cells that were changed: the last of each says what it is now."""
    last = {change.id: change for change in done}
    first = {change.id: change for change in reversed(done)}
    moved = {change.id for change in done if isinstance(change.change, Move)}
    lines = [_line(turn, notebook, name, first[name].before, last[name].after) for name in last]
    return [{**line, "moved": True} if line["cell"] in moved else line for line in lines]


def _line(
    turn: TurnRecorder,
    notebook: Path,
    name: str,
    before: Cell | None,
    now: Cell | None,
    *,
    anchor_id: str = "",
    after: str | None = None,
) -> dict[str, Any]:
    line: dict[str, Any] = {"cell": name, "notebook": str(notebook), "before": None, "after": after, "kept": True}
    for cell, when in ((before, "before"), (now, "after")):
        if cell is None:
            continue
        what = f"{cell_name(cell.position, cell.execution_count, cell.source)} in {notebook}"
        line[when], is_kept = turn.keep(cell_data(cell), what)
        if when == "before":
            line["kept"] = is_kept
    sources = {
        "before_source": None if before is None else before.sha256,
        "after_source": None if now is None else now.sha256,
    }
    return {**line, **sources, "beside": anchor_id}
