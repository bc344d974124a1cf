"""`/diff` and `/index`: what was changed in the project's files and cells, and how complete the index of its code is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from cellwright.checkpoints.journal import UNKNOWN, CellChange, CheckpointTurn, FileChange, History
from cellwright.checkpoints.turn_recorder import cell_source, shown_cell
from cellwright.codebase.index_reader import IndexJob, IndexStatus
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.conversation import Conversation
from cellwright.text import counted, visible_line
from cellwright.tools.code.navigation.index_processes import ProjectEmbedding
from cellwright.tools.code.navigation.project_code import ProjectCode, project_code
from cellwright.tools.files.changes import diff_texts
from cellwright.tools.files.file_state import original, sha256
from cellwright.tools.paths import shown_path

DIFF = "[last|TURN]"

MAX_BYTES = 2_000_000
"""A larger file is named and not shown."""

INDEX = "[rebuild|embed]"
USAGE = (
    "/index brings the index of the code up to date and shows it; /index rebuild makes it anew; /index embed agrees to "
    "what the embedding in your settings sends or downloads."
)


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
    left = 40_000  # characters of all diffs together; a longer one is cut, which is said
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
    is_text = all(data is None or (b"\0" not in data and len(data) <= MAX_BYTES) for data in (before, after))
    if not is_text:
        return ShownChange(where, "", "", ", ".join(filter(None, (remark, "no text"))))
    old, new = (None if data is None else data.decode("utf-8", "replace") for data in (before, after))
    diff = diff_texts(old, new, where)
    return ShownChange(where, diff.counts, diff.text, remark)


async def index_page(call: CommandCall) -> CommandPage:
    """Bring the index up to date, or begin it anew, and show how far it is."""
    if call.text not in ("", "rebuild", "embed"):
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{USAGE} Nothing was done.")
    code = _code_of(call.conversation)
    if call.text == "rebuild" and (await code.status()).state != "idle":
        message = (
            "The index is being written just now. Ask for a rebuild when that is done; /index shows how far it is."
        )
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{message} Nothing was done.")
    if call.text == "embed":
        if code.embedding is None:
            message = "No embedding is configured: set `cellwright.embedding` in ~/.claude/settings.json first."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{message} Nothing was done.")
        try:
            code.embedding.agree()
        except OSError as error:
            message = f"Your answer cannot be kept: {visible_line(str(error))}. Nothing is sent or downloaded."
            raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from None
    await code.refresh(rebuild=call.text == "rebuild")
    status = await code.status()
    rows: list[Row] = [
        ("", ""),
        ("project", visible_line(str(code.root))),
        ("state", code.problem or state_words(status)),
        ("files", f"{status.files:,} with {status.lines:,} lines"),
        ("definitions", f"{status.symbols:,}"),
        ("kept in", f"{visible_line(str(code.database))} ({status.bytes / 2**20:,.1f} MB)"),
    ]
    if status.most_files:
        rows.append(("left out", f"what the project has besides these {status.most_files:,} files; Grep finds it"))
    rows += [(f"job {number}: {job.name}", job_words(job)) for number, job in enumerate(status.jobs, start=1)]
    rows.append(("meaning", embedding_words(code.embedding, status)))
    if status.checked:
        rows.append(("looked through", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status.checked))))
    return CommandPage([Section("Index of the code", rows)])


def state_words(status: IndexStatus) -> str:
    """Say how complete an index is.

    >>> state_words(IndexStatus(exists=True, state="symbols", total=200, left=50))
    'being built: 75% of 200 files'
    """
    if not status.exists:
        return "not built yet: the first search of the code builds it, or /index"
    if not status.complete:
        way = "being built" if status.state != "idle" else "begun, continues with the next question"
        return f"{way}: {status.share:.0%} of {status.total:,} files"
    if not status.texts_complete:
        return f"definitions complete; texts for SemanticSearch: {status.left:,} files left"
    return "complete" if status.state == "idle" else "complete; being brought up to date"


def job_words(job: IndexJob) -> str:
    """Say how far a job of the index is.

    >>> job_words(IndexJob("texts", "running", 2_000, 500))
    'running, 500 of 2,000 files left'
    """
    return f"{job.state}, {job.left:,} of {job.total:,} files left" if job.left else job.state


def embedding_words(embedding: ProjectEmbedding | None, status: IndexStatus) -> str:
    """Say how much is found by meaning, and what stands in the way.

    >>> embedding_words(None, IndexStatus())
    'no embedding is set up: SemanticSearch goes by words'
    """
    if embedding is None:
        return "no embedding is set up: SemanticSearch goes by words"
    model = visible_line(embedding.settings.model)
    if not embedding.is_agreed():
        return f"{model} is not used yet: {visible_line(embedding.settings.agreement)}. /index embed agrees to that"
    if status.embedding_problem:
        return f"{model}: {visible_line(status.embedding_problem)}"
    at_it = ", more to come" if status.is_embedding else ""
    return f"{model}: {status.vectors:,} of {status.units:,} texts{at_it}"


async def index_row(conversation: Conversation) -> Row:
    """The line of `/status`; it starts nothing."""
    status = await _code_of(conversation).status()
    size = f", {status.files:,} files" if status.exists else ""
    return ("index of the code", f"{state_words(status)}{size}")


def _code_of(conversation: Conversation) -> ProjectCode:
    settings = conversation.in_force.settings
    return project_code(
        conversation.cwd, (*settings.deny, *settings.ask), conversation.in_force.environ, settings.embedding
    )
