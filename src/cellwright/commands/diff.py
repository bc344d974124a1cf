"""`/diff`: what the session, or one turn of it, has changed in files and cells, as a diff."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from cellwright.checkpoints.journal import UNKNOWN, CellChange, CheckpointTurn, FileChange, History
from cellwright.checkpoints.turn_recorder import cell_source, shown_cell
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.text import counted
from cellwright.tools.files.changes import diff_texts
from cellwright.tools.files.file_state import original, sha256
from cellwright.tools.paths import shown_path

DIFF = "[last|TURN]"
SHOWN_CHARS = 40_000
"""Of all diffs together; a longer one is cut, which is said."""

MAX_BYTES = 2_000_000
"""A larger file is named and not shown."""


class ShownChange(Struct, frozen=True):
    """One file or cell: the diff, and what there is to say of it."""

    where: str
    figures: str
    diff: str
    remark: str = ""


async def diff_page(call: CommandCall) -> CommandPage:
    """Show what the session has changed; `last` and a number mean one turn."""
    conversation = call.conversation
    checkpoints = conversation.checkpoints
    if not checkpoints.enabled():
        message = "Changes are not kept here: fileCheckpointingEnabled is false in the settings. `git diff` may help."
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
    try:
        history = checkpoints.journal(checkpoints.session_of(conversation.sessions.current)).history
    except OSError as error:
        message = f"The undo log of this session cannot be read: {error}."
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from error
    turns, title = _turns(history, call.text)
    return await asyncio.to_thread(_page, turns, title, conversation.cwd)


def _turns(history: History, text: str) -> tuple[list[CheckpointTurn], str]:
    changing = [turn for turn in history.turns if turn.changed_files or turn.changed_cells]
    match text.lower():
        case "":
            return changing, "What this session has changed"
        case "last":
            return changing[-1:], f"What turn {changing[-1].number} has changed" if changing else "Nothing was changed"
        case number if number.isdecimal() and (turn := history.turn(int(number))) is not None:
            return [turn], f"What turn {turn.number} has changed"
        case _:
            message = f"{text!r} is not a turn of this session. Usage: {DIFF}; /rewind lists the turns."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)


def _page(turns: Sequence[CheckpointTurn], title: str, cwd: Path) -> CommandPage:
    changes = [*_files(turns, cwd), *_cells(turns, cwd)]
    if not changes:
        text = "No file and no cell differs. What commands and code did besides is in /rewind."
        return CommandPage([Section(title, text=text)])
    rows: list[Row] = [("what", "lines", "")]
    rows += [(change.where, change.figures, change.remark) for change in changes]
    text = f"{counted(len(turns), 'turn')}. /undo takes back the last one, /rewind more."
    sections = [Section(title, rows, text)]
    left = SHOWN_CHARS
    for change in changes:
        if not change.diff:
            continue
        shown = change.diff if len(change.diff) <= left else change.diff[: change.diff.rfind("\n", 0, max(left, 0)) + 1]
        cut = (
            ""
            if shown == change.diff
            else f"The rest of it ({len(change.diff) - len(shown):,} characters) is left out."
        )
        sections.append(Section(f"{change.where} {change.figures}".strip(), text=cut, code=shown, language="diff"))
        left -= len(shown)
        if left <= 0:
            break
    return CommandPage(sections)


def _files(turns: Sequence[CheckpointTurn], cwd: Path) -> Iterator[ShownChange]:
    changes: dict[Path, list[FileChange]] = {}
    for turn in turns:
        for file in turn.changed_files:
            changes.setdefault(file.path, []).append(file)
    for path, steps in changes.items():
        where = shown_path(cwd, path)
        first = steps[0].before
        before = None if first is None else original(first.sha256)
        after, remark = _now(path, steps[-1].after)
        if (first is not None and before is None) or remark == UNKNOWN:
            yield ShownChange(where, "", "", "changed; its content before or after was not kept")
            continue
        if change := _shown(where, before, after, remark):
            yield change


def _now(path: Path, left: str | None) -> tuple[bytes | None, str]:
    """Read back what the turn left in the file, with a remark; where that is not kept any more, what it holds now."""
    try:
        held = path.read_bytes() if path.stat().st_size <= MAX_BYTES else None
    except FileNotFoundError:
        return (
            (None, "") if left is None else (original(left), "gone since") if original(left) else (None, "gone since")
        )
    except OSError:
        return None, UNKNOWN
    if held is None:
        return None, UNKNOWN
    if left == UNKNOWN or left == sha256(held):
        return held, ""
    if left is None:
        return None, "there again since"
    kept = original(left)
    return (kept, "changed again since") if kept is not None else (held, "changed again since: its current content")


def _cells(turns: Sequence[CheckpointTurn], cwd: Path) -> Iterator[ShownChange]:
    changes: dict[tuple[Path, str], list[CellChange]] = {}
    for turn in turns:
        for cell in turn.changed_cells:
            changes.setdefault((cell.notebook, cell.cell_id), []).append(cell)
    for (notebook, _), steps in changes.items():
        first, last = steps[0].before, steps[-1].after
        where = shown_cell(notebook, first, last, cwd)
        before, after = cell_source(first), cell_source(last)
        moved = "moved" if any(step.moved for step in steps) else ""
        change = _shown(where, before, after, moved)
        if change is not None:
            yield change
        elif moved:
            yield ShownChange(where, "", "", moved)


def _shown(where: str, before: bytes | None, after: bytes | None, remark: str) -> ShownChange | None:
    """The change from one content to the other; None where they are the same."""
    if before == after:
        return None
    kind = "new" if before is None else "deleted" if after is None else ""
    remark = ", ".join(filter(None, (kind, remark)))
    texts = [None if data is None else _text(data) for data in (before, after)]
    if any(data is not None and text is None for data, text in zip((before, after), texts, strict=True)):
        return ShownChange(where, "", "", ", ".join(filter(None, (remark, "no text"))))
    diff = diff_texts(texts[0], texts[1], where)
    return ShownChange(where, diff.counts, diff.text, remark)


def _text(data: bytes) -> str | None:
    if b"\0" in data or len(data) > MAX_BYTES:
        return None
    return data.decode("utf-8", "replace")
