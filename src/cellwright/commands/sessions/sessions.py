"""`/sessions`, `/resume`, `/fork`, `/rename`, `/tag`, `/clear`, `/export` and `/cells`: sessions as they are kept.

Which there are, which one continues, and a conversation written to a file; `/cells` gives what Claude ran as ordinary cells.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from cellwright.agent.recording.recordings import prompt_key
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.config.trust.project_files import project_folder
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.conversation import Conversation
from cellwright.markdown.escaping import escaped
from cellwright.redaction.redaction import JsonRedaction, redaction_of, replaced_in_words
from cellwright.sessions.catalog.catalog import Catalog, CatalogEntry, tree_of
from cellwright.sessions.catalog.metadata import shown_tags, title_of, write_tags, write_title
from cellwright.sessions.claude_code import ClaudeCodeSession, named
from cellwright.sessions.export import (
    FORMATS,
    Exchange,
    Export,
    changed_files,
    code_cell,
    code_cells,
    exchanges_of,
    markdown_cell,
    notebook_text,
)
from cellwright.sessions.project_writes import write_file
from cellwright.sessions.provenance import PROMPT, provenance_of
from cellwright.sessions.session import Session
from cellwright.sessions.transcripts.transcript import each_message, is_said
from cellwright.sessions.transcripts.transcript_file import Line
from cellwright.text import dollars
from cellwright.tools.notebook.open_notebook import CellPosition, Insert, OpenNotebook

RESUME = "[ID | WORDS]"
SESSIONS = "[WORDS]"
FORK = "[ID] [TURN]"
RENAME = "[TITLE]"
TAG = "[TAG …]"

SHOWN = 20
INDENT = "\u2003"
"""A wide space: in a table's cell others are run together."""

EXPORT = "[markdown|notebook|json|cells] [FILE]"
CELLS = "[all|TURN] [FILE]"

ENDINGS = {name: form.ending for name, form in FORMATS.items()}

Json = Mapping[str, Any]


async def sessions_page(call: CommandCall) -> CommandPage:
    """The sessions of this folder, or those in which words are found."""
    found = await asyncio.to_thread(Catalog().search, call.text, call.conversation.cwd, limit=SHOWN + 1)
    return CommandPage([_listed(found, call, as_tree=not call.text)])


async def resume_page(call: CommandCall) -> CommandPage:
    """Go on with another session: by its id, or by words if they are found in one alone; without either the list."""
    conversation = call.conversation
    if not call.text:
        return await sessions_page(call)
    conversation.runs.refuse_while_running()
    entry = await asyncio.to_thread(_only_one, call.text, conversation.cwd, conversation.in_force.environment)
    if isinstance(entry, CatalogEntry | ClaudeCodeSession):
        await go_on(conversation, partial(conversation.sessions.find, entry.id))
        return _now_in("Resumed", conversation.sessions.current)
    section = _listed(entry, call)
    return CommandPage(
        [Section(section.title, section.rows, f"{section.text} Several hold these words: /resume ID takes one.")]
    )


async def fork_page(call: CommandCall) -> CommandPage:
    """Go on in a copy of this session or of another, or of its first turns."""
    conversation = call.conversation
    words = call.text.split()
    turn = int(words.pop()) if words and words[-1].isdecimal() else None
    if len(words) > 1:
        message = f"/fork takes {FORK}, and not {call.text!r}. Turns count from 1. Nothing was forked."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    session_id = words[0] if words else _started_session(conversation).id
    await fork(conversation, session_id, turn)
    before = conversation.sessions.current.forked_from
    return _now_in("Forked", conversation.sessions.current, f"The session {before} stays as it was.")


async def rename_page(call: CommandCall) -> CommandPage:
    """Name this session; without a title the small model does, for one small request."""
    session = call.conversation.sessions.current
    path = _kept(session)
    if call.text:
        title = await asyncio.to_thread(write_title, path, call.text)
        call.conversation.observers.session_changed(session)
        return CommandPage([Section("Renamed", text=f"This session is “{title}” now.")])
    cost_before = session.cost_usd
    title = await call.conversation.features.titles.make(session)
    await asyncio.to_thread(write_title, path, "")  # the user has asked for the model's
    call.conversation.observers.session_changed(session)
    cost = None if session.cost_usd is None or cost_before is None else session.cost_usd - cost_before
    price = "its cost is unknown" if cost is None else f"it cost {dollars(cost)}"
    return CommandPage([Section("Renamed", text=f"This session is “{title}” now. The small model named it; {price}.")])


async def tag_page(call: CommandCall) -> CommandPage:
    """Give this session tags; without any it loses those it has."""
    tags = await asyncio.to_thread(
        write_tags, _kept(call.conversation.sessions.current), call.text.replace(",", " ").split()
    )
    text = (
        f"Tags of this session: {shown_tags(tags)}. It is not deleted for its age." if tags else "It has no tags now."
    )
    return CommandPage([Section("Tagged", text=text)])


def clear_page(call: CommandCall) -> CommandPage:
    """Go on with a new session."""
    conversation = call.conversation
    before = conversation.sessions.started
    conversation.sessions.start_new()
    kept = before is not None and before.path is not None and before.encoded
    text = f"`/resume {before.id}` returns to the one before." if kept and before is not None else ""
    return CommandPage([Section("A new session", text=text)])


async def go_on(conversation: Conversation, find: Callable[[], Session | None]) -> None:
    """Go on with the session that `find` gives, on a thread of its own; None: with the one that is used already.

    Raises `CellwrightError` while a run goes on or waits, and what `find` raises.
    """
    conversation.runs.refuse_while_running()
    session = await asyncio.to_thread(find)
    if session is None:
        return
    try:
        conversation.sessions.use(session)
    except CellwrightError:  # a run has begun meanwhile
        session.close()
        raise


async def fork(conversation: Conversation, session_id: str, turn: int | None) -> None:
    """Go on in a fork of the session of this id, or of its first turns. Raises as `go_on`."""
    current = conversation.sessions.started
    mode = current.mode if current is not None and current.id == session_id else None

    def forked() -> Session:
        session = Catalog().fork(session_id, turn, conversation.cwd)
        session.mode = mode
        return session

    await go_on(conversation, forked)


def _only_one(
    text: str, cwd: Path, environ: Mapping[str, str]
) -> CatalogEntry | ClaudeCodeSession | Sequence[CatalogEntry]:
    """The session that is meant, or those that may be. Raises `CellwrightError` where none is."""
    catalog = Catalog()
    try:
        return catalog.entry(text, cwd)
    except CellwrightError as error:
        if error.code != ErrorCode.SESSION_NOT_FOUND:
            raise
        if (foreign := named(text, cwd, environ)) is not None:
            return foreign
        if not (found := catalog.search(text, cwd, limit=SHOWN + 1)):
            raise
    titled = [entry for entry in found if entry.title.casefold() == text.casefold()]
    return titled[0] if len(titled) == 1 else found[0] if len(found) == 1 else found


def _started_session(conversation: Conversation) -> Session:
    session = conversation.sessions.current
    if session.path is None or not session.encoded:
        message = "There is nothing to fork yet: this conversation has no messages. /fork ID takes another session."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return session


def _kept(session: Session) -> Path:
    if session.path is None or not session.path.exists():
        message = "This session is not kept on disk yet: it is with the first prompt. Nothing was changed."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return session.path


def _listed(found: Sequence[CatalogEntry], call: CommandCall, *, as_tree: bool = False) -> Section:
    if not found:
        what = f"that holds {call.text!r}" if call.text else "yet"
        return Section("Sessions", text=f"No session of {call.conversation.cwd} {what}.")
    current = call.conversation.sessions.started
    here = current.id if current is not None else ""
    head: Row = ("title", "when", "turns", "cost", "id")
    shown = tree_of(found[:SHOWN]) if as_tree else found[:SHOWN]
    rows = [head, *(_row(entry, here) for entry in shown)]
    more = " There are more: say words that were said in it." if len(found) > SHOWN else ""
    return Section("Sessions", rows, f"/resume ID continues one.{more}")


def _row(entry: CatalogEntry, here: str) -> Row:
    marks = ("current",) if entry.id == here else ("open elsewhere",) if entry.in_use else ()
    damaged = ("its beginning is gone",) if entry.is_beginning_gone else ("damaged",) if entry.damaged else ()
    notes = "".join(f" ({mark})" for mark in (*marks, *damaged))
    words = " · ".join(
        part for part in (branch(entry) + entry.title + notes, shown_tags(entry.tags), entry.snippet) if part
    )
    return words, when(entry.updated), str(entry.turns), price(entry.cost_usd), entry.id


def branch(entry: CatalogEntry) -> str:
    """The lines that put a fork below its session; "" for one that stands by itself."""
    return f"{INDENT * (entry.depth - 1)}└ " if entry.depth else ""


def when(updated: float) -> str:
    """A time in the user's own time zone, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(updated))


def price(cost_usd: float | None) -> str:
    """A cost for people."""
    return "?" if cost_usd is None else dollars(cost_usd)


def _now_in(title: str, session: Session, more: str = "") -> CommandPage:
    rows = [("title", "session"), (title_of(session), session.id)]
    return CommandPage([Section(title, rows, more)])


async def export_page(call: CommandCall) -> CommandPage:
    """Write the conversation to a file."""
    first, _, rest = call.text.partition(" ")
    if first == "cells":
        return await cells_page(CommandCall(call.conversation, call.options, rest.strip(), call.emit, call.ask_user))
    form = first if first in ENDINGS else "markdown"
    name = _file_name(rest if first in ENDINGS else call.text)
    if name and first not in ENDINGS:
        form = next((form for form, ending in ENDINGS.items() if name.endswith(ending)), "markdown")
    session = call.conversation.sessions.current
    path = free_path(call.conversation.cwd, name, f"claude-{session.id}{ENDINGS[form]}")
    lines = [line for line in session.story_lines() if is_said(line)]
    if not lines:
        raise _nothing_said()
    place = ExportPlace(path, project_folder(call.conversation.cwd))
    return await asyncio.to_thread(_export, form, place, session, lines, call.conversation.in_force.environment)


async def cells_page(call: CommandCall) -> CommandPage:
    """Put what Claude ran into ordinary cells: after the cell that asked for it, or into a notebook of its own."""
    # the turns ("" is the last one that ran something), then the file's name, "" where it is not said
    which, _, rest = call.text.partition(" ")
    if which != "all" and not (which.isdecimal() and int(which) > 0):
        which, rest = "", call.text
    name = _file_name(rest)
    session = call.conversation.sessions.current
    clean = _cleaner(call)
    messages = session.said()
    if not messages:
        raise _nothing_said()
    cleaned = await asyncio.to_thread(clean, [*messages])
    turns = _turns(exchanges_of(cleaned.value), which)
    if not code_cells(turns):
        raise CellwrightError(
            ErrorCode.INVALID_PARAMETERS,
            f"Claude ran no Python and no commands in {_describe_turns(turns)}, so there are no cells to make of it. "
            "`/cells all` takes the whole conversation.",
        )
    own = call.conversation.tools.open_notebooks.own()
    if own is not None and own.live and not name:
        rows = await _insert(own, session, turns)
    else:
        path = free_path(call.conversation.cwd, name, f"claude-{session.id}-cells.ipynb")
        cells: list[Json] = []
        for turn in turns:
            if sources := code_cells([turn]):
                words = " ".join(turn.words.split())[:200]
                cells += [markdown_cell(f"**{turn.number}.** {escaped(words)}"), *map(code_cell, sources)]
        text = notebook_text(cells)
        place = ExportPlace(path, project_folder(call.conversation.cwd))
        await asyncio.to_thread(_write, place, "", text.encode("utf-8", "replace"))
        rows = [(str(path), f"{len(code_cells(turns))} cells of {_describe_turns(turns)}")]
    return CommandPage([Section("Turned into cells", [("where", "what"), *rows], _remarks(turns, cleaned.found))])


class ExportPlace(NamedTuple):
    """The file of an export, and the project whose links are not followed on the way to it."""

    path: Path
    project: Path


class _Cleaned(NamedTuple):
    """Messages with their secrets replaced, and how many of each kind there were."""

    value: Sequence[Json]
    found: Mapping[str, int]


def _cleaner(call: CommandCall) -> Callable[[Sequence[Json]], _Cleaned]:
    environ = call.conversation.in_force.environment

    def clean(messages: Sequence[Json]) -> _Cleaned:
        scan = JsonRedaction(redaction_of(environ))
        value = scan.clean(messages)
        return _Cleaned(value, scan.found)

    return clean


def _nothing_said() -> CellwrightError:
    message = "Nothing to export yet: this conversation has no messages. `--resume ID` continues another."
    return CellwrightError(ErrorCode.INVALID_PARAMETERS, message)


def _export(
    form: str, place: ExportPlace, session: Session, lines: Sequence[Line], environ: Mapping[str, str]
) -> CommandPage:
    model = session.last_model or session.model
    written, secrets = write_export(
        place, form, lambda: each_message(lines), session=session.id, model=model, environ=environ
    )
    return CommandPage([Section("Exported", [("file", "what"), (str(place.path), written)], secrets)])


def write_export(
    place: ExportPlace,
    form: str,
    messages: Callable[[], Iterable[Json]],
    *,
    session: str,
    model: str,
    environ: Mapping[str, str],
    title: str = "",
) -> tuple[str, str]:
    """Write an export and the images that belong to it, as they are read; says what was written, and of secrets in it.

    Raises `CellwrightError`.
    """
    images = 0

    def keep_file(name: str, data: bytes) -> None:
        nonlocal images
        images += 1
        _write(place, name, data)

    export = Export(
        form,
        messages,
        session=session,
        model=model,
        environ=environ,
        title=title,
        folder=f"{place.path.stem}_files",
        keep_file=keep_file,
    )
    _write(place, "", (piece.encode("utf-8", "replace") for piece in export.pieces()))
    beside = f", {images} images in {place.path.stem}_files" if images else ""
    return f"{export.turns} turns, {place.path.stat().st_size:,} bytes{beside}", secrets_replaced(export)


def secrets_replaced(export: Export) -> str:
    """Count the secrets that were replaced, in words; "" if none were found."""
    return _secrets(export.found)


async def _insert(own: OpenNotebook, session: Session, turns: Sequence[Exchange]) -> list[Row]:
    """Cells after the ones that asked for them, told by the provenance of their outputs."""
    answers = [
        (cell.id, origin) for cell in await own.cells() for out in cell.outputs if (origin := provenance_of(out))
    ]
    rows: list[Row] = []
    for turn in turns:
        sources = code_cells([turn])
        if not sources:
            continue
        # the cell whose prompt began this turn: its answer names the turn, or, played from a recording, the same prompt
        asked, key = (session.id, turn.number), prompt_key(turn.words, session.cwd)
        anchors = [cell for cell, origin in answers if (origin["session"], origin.get("turn")) == asked]
        anchors += [cell for cell, origin in answers if origin[PROMPT] == key]
        anchor_id = next(iter(anchors), None)
        place = CellPosition("after", anchor_id) if anchor_id is not None else CellPosition("end")
        # the last one first, each at the same place: they come to stand in their order
        ordered = sources if anchor_id is None else reversed(sources)
        changed = await own.change([Insert(place=place, cell_type="code", source=source) for source in ordered])
        where = (
            f"after cell {anchor_id}"
            if anchor_id is not None
            else "at the end: the cell that asked is not there any more"
        )
        rows.append((own.path.name, f"{len(changed)} cells of turn {turn.number}, {where}"))
    return rows


def _turns(exchanges: Sequence[Exchange], which: str) -> list[Exchange]:
    if which == "all":
        return list(exchanges)
    if which:
        chosen = [exchange for exchange in exchanges if exchange.number == int(which)]
        if not chosen:
            message = f"Turn {which} was not found: the conversation has {len(exchanges)}."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
        return chosen
    running = [exchange for exchange in exchanges if code_cells([exchange])]
    return running[-1:]


def _describe_turns(turns: Sequence[Exchange]) -> str:
    return f"turn {turns[0].number}" if len(turns) == 1 else f"{len(turns)} turns" if turns else "this conversation"


def _file_name(text: str) -> str:
    return text.strip().strip("\"'")


def free_path(folder: Path, name: str, default: str) -> Path:
    """The file to write: the one that was named, which must not be there yet, else a free one. Raises CellwrightError."""
    if name:
        path = (folder / Path(name).expanduser()).absolute()
        if path.exists():
            message = f"{path} already exists, so nothing was written. Name another file, or move it away."
            raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message, details={"path": str(path)})
        return path
    path, number = folder / default, 1
    while path.exists():
        number += 1
        path = folder / f"{Path(default).stem}-{number}{Path(default).suffix}"
    return path


def _write(place: ExportPlace, beside: str, data: bytes | Iterable[bytes]) -> None:
    """Write the export's file, or the one that is named `beside` it."""
    path = place.path.parent / beside if beside else place.path
    try:
        write_file(path, data, 0o644, top=place.project, make=True)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}. Name another file."
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message, details={"path": str(path)}) from error


def _remarks(turns: Sequence[Exchange], found: Mapping[str, int]) -> str:
    files = changed_files(turns)
    edits = (
        f"Edits of files are not among them: {', '.join(files[:8])}{' …' if len(files) > 8 else ''}. " if files else ""
    )
    return f"{edits}{_secrets(found)}".strip()


def _secrets(found: Mapping[str, int]) -> str:
    return f"{replaced_in_words(found)}. Look through the file before you share it." if found else ""
