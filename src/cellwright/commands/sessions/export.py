"""`/export` and `/cells`: the conversation written down, and what Claude ran in it as ordinary cells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cellwright.agent.recording.recordings import prompt_key
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.config.trust.project_files import project_folder
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.markdown.escaping import escaped
from cellwright.redaction.redaction import JsonRedaction, redaction_of, replaced_in_words
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
from cellwright.tools.notebook.open_notebook import CellPosition, Insert, OpenNotebook

EXPORT = "[markdown|notebook|json|cells] [FILE]"
CELLS = "[all|TURN] [FILE]"

ENDINGS = {name: form.ending for name, form in FORMATS.items()}
FILE_MODE = 0o644

Json = Mapping[str, Any]


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
    which, name = _split_range(call.text)
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
        anchor_id = _prompt_cell(answers, session, turn)
        place = CellPosition("after", anchor_id) if anchor_id is not None else CellPosition("end")
        changed = await own.change(_in_a_row(sources, place))
        where = (
            f"after cell {anchor_id}"
            if anchor_id is not None
            else "at the end: the cell that asked is not there any more"
        )
        rows.append((own.path.name, f"{len(changed)} cells of turn {turn.number}, {where}"))
    return rows


def _prompt_cell(answers: Sequence[tuple[str, Json]], session: Session, turn: Exchange) -> str | None:
    """The cell whose prompt began this turn: its answer names the turn, or, played from a recording, the same prompt."""
    own = [cell for cell, origin in answers if (origin["session"], origin.get("turn")) == (session.id, turn.number)]
    key = prompt_key(turn.words, session.cwd)
    same = [cell for cell, origin in answers if origin[PROMPT] == key]
    return next(iter([*own, *same]), None)


def _in_a_row(sources: Sequence[str], place: CellPosition) -> list[Insert]:
    # the last one first, each at the same place: they come to stand in their order
    ordered = reversed(sources) if place.where == "after" else sources
    return [Insert(place=place, cell_type="code", source=source) for source in ordered]


def _split_range(text: str) -> tuple[str, str]:
    """Split off the turns ("" is the last one that ran something) from the file's name, "" where it is not said."""
    first, _, rest = text.partition(" ")
    if first == "all" or (first.isdecimal() and int(first) > 0):
        return first, _file_name(rest)
    return "", _file_name(text)


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
        write_file(path, data, FILE_MODE, top=place.project, make=True)
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
