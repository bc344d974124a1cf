"""NotebookRead: the cells of a notebook file that are wanted, and as much of their outputs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, structs

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import Content, Tool, ToolAccess, ToolLimits, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.text import counted, lazy_pattern
from cellwright.tools.files.changes import in_thread
from cellwright.tools.files.encodings import NotText
from cellwright.tools.files.file_state import FileState, SeenFile
from cellwright.tools.files.read import MAX_CHARS, read_limits
from cellwright.tools.files.text import open_regular
from cellwright.tools.inputs import NotebookPath
from cellwright.tools.notebook.notebook_json import POSITION
from cellwright.tools.notebook.notebook_page import (
    NO_REMARKS,
    OUTPUT_CHARS,
    NotebookPage,
    notebook_page,
    outline,
    pictures_of,
    with_pictures,
)
from cellwright.tools.notebook.notebook_source import (
    NotANotebook,
    NotebookSource,
    live_note,
    live_source,
    open_notebook,
    with_note,
)
from cellwright.tools.notebook.open_notebook import Cell, KernelRemarks, NothingOpen, OpenNotebook, OpenNotebooks
from cellwright.tools.paths import file_errors, not_found, real_path, resolve_path, shown_path

DESCRIPTION = """\
Show cells of a Jupyter notebook (.ipynb) of any size: their ids, types, sources and outputs. A notebook that is open in \
the user's front end is shown as it is there, unsaved changes included.
- Choose cells by id (cell_ids) or by number (cells="3-7"); without either, all that fit. outline=true gives a line for \
each cell, to find those that matter in a large notebook.
- outputs: "none", "short" (the default: a few lines, images named) or "full" (images as images; charts, widgets and \
styled tables as the user's page draws them, where the user allows it).
- When one result does not hold it all it ends with [PARTIAL: …], which says how to go on."""

CELL_RANGE = lazy_pattern(r"(\d+)\s*(-)?\s*(\d+)?")


class NotebookReadInput(ToolInput):
    """The input of NotebookRead."""

    notebook_path: NotebookPath
    cell_ids: (
        Annotated[
            tuple[Annotated[str, Meta(min_length=1)], ...],
            Meta(min_length=1, description="The cells to show, by id; cell-N (N from 0) where they have none."),
        ]
        | None
    ) = None
    cells: (
        Annotated[
            str,
            Meta(
                pattern=r"^\s*\d+\s*(-\s*\d*\s*)?(,\s*\d+\s*(-\s*\d*\s*)?)*$",
                description='The cells to show, by number from 1: "3", "3-7", "12-" (to the end), "1,5-8".',
            ),
        ]
        | None
    ) = None
    outputs: Annotated[
        Literal["none", "short", "full"], Meta(description="How much to show of what the cells gave.")
    ] = "short"
    outline: Annotated[
        bool, Meta(description="Only a line for each cell: number, id, type, first line, size of its outputs.")
    ] = False


class NotebookReadOutput(ToolOutput):
    """The cells that were shown: their numbers, from 1, of `total`. `open_in`: where the notebook is open and was read.

    `size` and `modified` are the file's; None where it was not read.
    """

    path: str
    cells: tuple[int, ...]
    total: int
    size: int | None = None
    modified: float | None = None
    open_in: str | None = None


def _counted_cells(ranges: str) -> str:
    """Count the cells that `1,5-8` names: these numbers are not the ones beside cells."""
    found = [CELL_RANGE.fullmatch(part.strip()) for part in ranges.split(",")]
    if not all(each and (each[3] or not each[2]) for each in found):
        return "cells"
    return counted(sum(int(each[3] or each[1]) - int(each[1]) + 1 for each in found if each), "cell")


def notebook_read_tool(state: FileState, cwd: Path, notebooks: OpenNotebooks | None = None) -> Tool:
    """NotebookRead. `state` is the session's memory of files; relative paths start at `cwd`.

    `notebooks` are those that are open; None: there are none.
    """
    opened = notebooks or NothingOpen()

    def title(input: NotebookReadInput) -> str:
        display_path = shown_path(cwd, cwd / input.notebook_path)
        if input.outline:
            return f"Outline {display_path}"
        if ids := input.cell_ids:
            return f"Read {'a cell' if len(ids) == 1 else counted(len(ids), 'cell')} of {display_path}"
        return f"Read {f'{_counted_cells(input.cells)} of ' if input.cells else ''}{display_path}"

    @tool(
        name="NotebookRead",
        other_names=("read_notebook",),
        output=NotebookReadOutput,
        description=DESCRIPTION,
        access=ToolAccess("read", "notebook_path"),
        read_only=True,
        category="notebooks",
        everyday=True,
        best_for="cells and outputs",
        limits=ToolLimits(
            result_chars=MAX_CHARS + OUTPUT_CHARS["full"], result_tokens=read_limits(os.environ, large=False).tokens
        ),
        examples=[
            {"notebook_path": "analysis.ipynb", "outline": True},
            {"notebook_path": "analysis.ipynb", "cell_ids": ["3f2a9c1e", "cell-4"], "outputs": "full"},
            {"notebook_path": "analysis.ipynb", "cells": "10-20", "outputs": "none"},
        ],
        title=title,
    )
    async def notebook_read(input: NotebookReadInput) -> ToolResult:
        path = resolve_path(cwd, input.notebook_path)
        display_path = shown_path(cwd, path)
        max_chars = read_limits(os.environ, large=False).chars
        await opened.settled()
        if (notebook := opened.at(real_path(path))) is not None:
            cells = await notebook.cells(outputs=input.outputs != "none")
            if input.outputs == "full" and not input.outline:
                positions = _positions(live_source(cells), input, display_path)
                pictures = await pictures_of(notebook, [cells[position] for position in positions])
                cells = with_pictures(cells, pictures)
            own = opened.own()
            is_own = own is not None and own.path == notebook.path

            def work_live(_: Callable[[], bool]) -> ToolResult:
                remarks = opened.remarks(cells) if is_own else NO_REMARKS
                return _read_live(notebook, cells, display_path, input, max_chars, state, remarks)

            return await in_thread(work_live)
        own = opened.own()
        own_cells = await own.cells(outputs=False) if own is not None and own.path == real_path(path) else None

        def work(stopped: Callable[[], bool]) -> ToolResult:
            remarks = opened.remarks(own_cells) if own_cells is not None else NO_REMARKS
            with file_errors(display_path):
                return _read(path, display_path, input, max_chars, state, stopped, remarks)

        return await in_thread(work)

    return notebook_read


def _read(
    path: Path,
    display_path: str,
    input: NotebookReadInput,
    max_chars: int,
    state: FileState,
    stopped: Callable[[], bool],
    remarks: KernelRemarks,
) -> ToolResult:
    real = real_path(path)
    if not real.exists():
        raise not_found(path, display_path)
    with open_regular(real, display_path) as file:
        if real.suffix.lower() != ".ipynb":
            raise ToolError(f"{display_path} is not a notebook (.ipynb). Use Read.", code=ErrorCode.FILE_PATH_INVALID)
        status = os.fstat(file.fileno())
        try:
            source = open_notebook(file, status.st_size, stopped)
            positions = _positions(source, input, display_path)
            seen = SeenFile(status.st_mtime_ns, status.st_size, source.sha256)
            output = NotebookReadOutput(
                path=real.as_posix(),
                cells=_numbers(positions),
                total=len(source.cells),
                size=status.st_size,
                modified=status.st_mtime,
            )
            if input.outline:
                return ToolResult(_outline(source, positions, display_path, max_chars, remarks), structured=output)
            page = notebook_page(source, positions, input.outputs, max_chars, remarks)
            # which cells they are says which are known, not how far the file was read
            state.read(real, seen, 2 + seen.size, 0, to_the_end=False, parts=frozenset(page.sources))
            state.cells.add(real, page.known)
            output = structs.replace(output, cells=_numbers(page.shown))
            return ToolResult(_cells(source, positions, page, display_path, remarks), structured=output)
        except NotANotebook as error:
            problem = str(error)
        except NotText:
            problem = "it is binary data"
    raise ToolError(
        f"{display_path} cannot be read as a notebook: {problem}. Read shows it as text.",
        code=ErrorCode.FILE_ACCESS_ERROR,
    )


def _read_live(
    notebook: OpenNotebook,
    cells: Sequence[Cell],
    display_path: str,
    input: NotebookReadInput,
    max_chars: int,
    state: FileState,
    remarks: KernelRemarks,
) -> ToolResult:
    source = live_source(cells)
    positions = _positions(source, input, display_path)
    note = live_note(notebook)
    if input.outline:
        outline_text = f"{_outline(source, positions, display_path, max_chars, remarks)}\n{note}"
        return ToolResult(outline_text, structured=_live_output(notebook, positions, len(source.cells)))
    page = notebook_page(source, positions, input.outputs, max_chars, remarks)
    state.cells.add(notebook.path, page.known)
    return ToolResult(
        with_note(_cells(source, positions, page, display_path, remarks), note),
        structured=_live_output(notebook, page.shown, len(source.cells)),
    )


def _live_output(notebook: OpenNotebook, positions: Sequence[int], total: int) -> NotebookReadOutput:
    return NotebookReadOutput(
        path=notebook.path.as_posix(),
        cells=_numbers(positions),
        total=total,
        open_in=notebook.where if notebook.live else None,
    )


def _numbers(positions: Sequence[int]) -> tuple[int, ...]:
    return tuple(position + 1 for position in positions)


def _cells(
    source: NotebookSource, positions: Sequence[int], page: NotebookPage, display_path: str, remarks: KernelRemarks
) -> Content:
    total = len(source.cells)
    if not total:
        return f"[{display_path} is a notebook without cells.]"
    if page.left:
        page.add_text(
            f"[PARTIAL: {counted(len(page.shown), 'cell')} of the {len(positions)} that were asked for; one result "
            f'holds no more. Go on with cells="{range_words(page.left)}".]'
        )
    elif len(page.shown) < total:
        page.add_text(f"[{len(page.shown)} of {counted(total, 'cell')} of {display_path}]")
    if remarks.of_all and len(positions) == total:
        page.add_text(f"[{remarks.of_all}]\n")
    return page.blocks


def _outline(
    source: NotebookSource, positions: Sequence[int], display_path: str, max_chars: int, remarks: KernelRemarks
) -> str:
    total = len(source.cells)
    text, left = outline(source, positions, max_chars, remarks)
    words = f"{display_path}: nbformat {source.major}.{source.minor}, {counted(total, 'cell')}, {source.size:,} bytes"
    more = f'\n[PARTIAL: go on with cells="{range_words(left)}" and outline.]' if left else ""
    of_all = f"\n[{remarks.of_all}]" if remarks.of_all else ""
    return f"{words}\n{text}{more}{of_all}"


def _positions(source: NotebookSource, input: NotebookReadInput, display_path: str) -> Sequence[int]:
    """The positions (from 0) of the cells that are asked for, in the notebook's order."""
    total = len(source.cells)
    if input.cells is None and input.cell_ids is None:
        return range(total)
    selected: set[int] = set()
    for part in (input.cells or "").split(","):
        if found := CELL_RANGE.fullmatch(part.strip()):
            first = int(found[1])
            last = int(found[3]) if found[3] else total if found[2] else first
            if not 1 <= first <= total or last < first:
                raise _bad(
                    f'There are no cells "{part.strip()}": {display_path} has {counted(total, "cell")}, from 1 on.'
                )
            selected.update(range(first - 1, min(last, total)))
    if input.cell_ids is not None:
        selected.update(_by_id(source, input.cell_ids, display_path))
    return sorted(selected)


def _by_id(source: NotebookSource, cell_ids: Sequence[str], display_path: str) -> set[int]:
    names: dict[str, list[int]] = {}
    for position in range(len(source.cells)):
        names.setdefault(source.name(position, source.head(position)), []).append(position)
    selected: set[int] = set()
    for cell_id in cell_ids:
        if cell_id not in names:
            at = POSITION.fullmatch(cell_id)
            hint = f' Cells with ids are found by number with cells="{int(at[1]) + 1}".' if at else ""
            raise _bad(f"Cell {cell_id} was not found in {display_path}. outline=true lists the cells.{hint}")
        selected.update(names[cell_id])
    return selected


def _bad(message: str) -> ToolError:
    return ToolError(message, code=ErrorCode.INVALID_PARAMETERS)


def range_words(positions: Sequence[int]) -> str:
    """Positions (from 0) as numbers from 1: `1-3,5`."""
    parts: list[list[int]] = []
    for position in positions:
        if parts and parts[-1][-1] == position:
            parts[-1][1:] = [position + 1]
        else:
            parts.append([position + 1])
    return ",".join("-".join(map(str, part)) for part in parts)
