"""What a turn changed, in figures for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from cellwright.checkpoints.records import CellChange, FileChange
from cellwright.events import Changed
from cellwright.tools.files.diff import diff_texts
from cellwright.tools.files.formats.text import NotText, decode
from cellwright.tools.files.originals import original
from cellwright.tools.paths import shown_path

COUNTED_BYTES = 2**20
"""Lines of larger files are not counted: the user waits for it."""


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
    return Changed(f"{shown_path(cwd, cell.notebook)}#{cell.cell_id}", kind, *cell_counts(cell.before, cell.after))


def cell_counts(before: str | None, after: str | None) -> tuple[int | None, int | None]:
    """How many lines of a cell's source were added and removed, told by the hashes of the cells in the store."""
    old, new = cell_source(before), cell_source(after)
    if (old is None) != (before is None) or (new is None) != (after is None):
        return None, None
    return line_counts(old, new)


def cell_source(name: str | None) -> bytes | None:
    """The source of a cell in the store; None where it is not kept."""
    data = None if name is None else original(name)
    return None if data is None else str(json.loads(data)["source"]).encode("utf-8", "surrogatepass")


def line_counts(before: bytes | None, after: bytes | None) -> tuple[int | None, int | None]:
    """How many lines were added and removed; None for what is too long, or no text."""
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
