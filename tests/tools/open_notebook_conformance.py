"""What every `OpenNotebook` must do; run against the file, and against a page of JupyterLab from inside a busy cell."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from cellwright.errors import ToolError
from cellwright.tools.notebook.open_notebook import (
    Cell,
    CellChange,
    CellConflict,
    CellPosition,
    Delete,
    Insert,
    Move,
    OpenNotebook,
    Replace,
    source_sha256,
)

FIGURE = {"output_type": "display_data", "data": {"image/png": "aGVsbG8=", "text/plain": "<Figure>"}, "metadata": {}}
PRINTED = {"output_type": "stream", "name": "stdout", "text": "one\n"}

SOURCES = (("a1", "code", "x = 1\nprint(x)"), ("b2", "markdown", "# Títle 😀"), ("c3", "code", "y = 2"))
"""The cells that a case begins with: id, type, source. The first has `PRINTED` and was number 3."""


async def reset(notebook: OpenNotebook, keep: str = "") -> None:
    """Give the notebook the cells of `SOURCES`, after the cell `keep`."""
    here = [cell for cell in await notebook.cells(outputs=False) if cell.id != keep]
    await notebook.change(
        [
            *(Delete(cell_id=cell.id, expect=cell.sha256) for cell in here),
            *(
                Insert(place=CellPosition("end"), cell_type=kind, source=text, cell_id=name)
                for name, kind, text in SOURCES
            ),  # type: ignore[arg-type]
        ]
    )
    await notebook.put_outputs("a1", expect=None, outputs=[PRINTED], execution_count=3, clear=True)


async def seen(notebook: OpenNotebook) -> list[Cell]:
    """The cells that are the case's own."""
    return [cell for cell in await notebook.cells() if not cell.id.startswith("cell-")]


def replace(cell: Cell, source: str | None = None, **more: Any) -> Replace:
    return Replace(cell_id=cell.id, expect=cell.sha256, source=source, **more)


async def error_of(work: Awaitable[Any]) -> ToolError:
    try:
        await work
    except ToolError as error:
        return error
    raise AssertionError("it was done")


async def case_cells_are_read_whole(notebook: OpenNotebook) -> None:
    cells = await seen(notebook)
    assert [(cell.id, cell.cell_type, cell.source) for cell in cells] == list(SOURCES)
    assert (cells[0].outputs, cells[0].execution_count) == ((PRINTED,), 3)
    first = next(cell for cell in await notebook.cells(outputs=False) if cell.id == "a1")
    assert first.outputs == ()
    assert first.execution_count == 3
    assert [b.position - a.position for a, b in itertools.pairwise(cells)] == [1, 1]


async def case_a_source_is_replaced_and_its_outputs_go(notebook: OpenNotebook) -> None:
    first = (await seen(notebook))[0]
    [changed] = await notebook.change([replace(first, "x = 2\nprint(x)  # ŧwo 😀")])
    assert changed.before == first
    assert changed.after is not None
    assert (changed.after.source, changed.after.outputs, changed.after.execution_count) == (
        "x = 2\nprint(x)  # ŧwo 😀",
        (),
        None,
    )
    assert (changed.id, changed.position) == ("a1", first.position)
    assert (await seen(notebook))[0] == changed.after


async def case_a_replaced_cell_can_have_its_outputs_back(notebook: OpenNotebook) -> None:
    first = (await seen(notebook))[0]
    [changed] = await notebook.change([replace(first, "x = 2")])
    assert changed.after is not None
    back = replace(changed.after, first.source, outputs=first.outputs, execution_count=first.execution_count)
    [restored] = await notebook.change([back])
    assert restored.after == first


async def case_a_cell_changes_its_type(notebook: OpenNotebook) -> None:
    first, second, _ = await seen(notebook)
    changed = await notebook.change([replace(first, cell_type="markdown"), replace(second, "z = 3", cell_type="code")])
    assert [each.after and each.after.cell_type for each in changed] == ["markdown", "code"]
    now = await seen(notebook)
    assert [(cell.id, cell.cell_type, cell.source) for cell in now[:2]] == [
        ("a1", "markdown", first.source),
        ("b2", "code", "z = 3"),
    ]
    assert now[0].outputs == ()


async def case_cells_are_inserted_where_they_are_wanted(notebook: OpenNotebook) -> None:
    changed = await notebook.change(
        [
            Insert(place=CellPosition("after", "a1"), cell_type="code", source="after"),
            Insert(place=CellPosition("before", "b2"), cell_type="markdown", source="before"),
            Insert(place=CellPosition("end"), cell_type="raw", source=""),
        ]
    )
    now = await seen(notebook)
    assert [cell.source for cell in now] == [SOURCES[0][2], "after", "before", SOURCES[1][2], SOURCES[2][2], ""]
    assert [each.id for each in changed] == [now[1].id, now[2].id, now[5].id]
    assert [each.after for each in changed] == [now[1], now[2], now[5]]
    assert [each.before for each in changed] == [None, None, None]
    [first] = await notebook.change([Insert(place=CellPosition("start"), cell_type="code", source="first")])
    assert first.position == 0
    assert (await notebook.cells())[0].source == "first"


async def case_a_deleted_cell_comes_back_as_it_was(notebook: OpenNotebook) -> None:
    first = (await seen(notebook))[0]
    [gone] = await notebook.change([Delete(cell_id="a1", expect=first.sha256)])
    assert gone.before == first
    assert gone.after is None
    assert [cell.id for cell in await seen(notebook)] == ["b2", "c3"]
    [back] = await notebook.change(
        [
            Insert(
                place=CellPosition("before", "b2"),
                cell_type="code",
                source=first.source,
                cell_id="a1",
                outputs=first.outputs,
                execution_count=first.execution_count,
                metadata=first.metadata,
            )
        ]
    )
    assert back.after == first


async def case_an_id_that_is_taken_is_not_given_twice(notebook: OpenNotebook) -> None:
    [new] = await notebook.change([Insert(place=CellPosition("end"), cell_type="code", source="twin", cell_id="a1")])
    assert new.id != "a1"
    ids = [cell.id for cell in await seen(notebook)]
    assert len(set(ids)) == len(ids) == 4


async def case_cells_are_moved(notebook: OpenNotebook) -> None:
    await notebook.change([Move(cell_id="c3", place=CellPosition("before", "a1"))])
    assert [cell.id for cell in await seen(notebook)] == ["c3", "a1", "b2"]
    [moved] = await notebook.change([Move(cell_id="c3", place=CellPosition("after", "a1"))])
    now = await seen(notebook)
    assert [cell.id for cell in now] == ["a1", "c3", "b2"]
    assert moved.after == now[1]
    await notebook.change([Move(cell_id="a1", place=CellPosition("end"))])
    now = await seen(notebook)
    assert [cell.id for cell in now] == ["c3", "b2", "a1"]
    assert now[2].outputs == (PRINTED,)
    [still] = await notebook.change([Move(cell_id="a1", place=CellPosition("end"))])
    assert still.after == now[2]


async def case_what_was_changed_meanwhile_is_not_overwritten(notebook: OpenNotebook) -> None:
    before = await seen(notebook)
    stale = Replace(cell_id="a1", expect=source_sha256("what it was once"), source="mine")
    error = await error_of(notebook.change([stale]))
    assert isinstance(error, CellConflict)
    assert [(each.cell_id, each.now) for each in error.conflicts] == [("a1", before[0].source)]
    assert isinstance(
        await error_of(notebook.change([Delete(cell_id="b2", expect=source_sha256("old"))])), CellConflict
    )
    assert await seen(notebook) == before


async def case_all_changes_are_made_or_none(notebook: OpenNotebook) -> None:
    before = await seen(notebook)
    fine: list[CellChange] = [
        Insert(place=CellPosition("end"), cell_type="code", source="new"),
        replace(before[2], "y = 3"),
    ]
    await error_of(notebook.change([*fine, Replace(cell_id="a1", expect=source_sha256("no"), source="mine")]))
    assert await seen(notebook) == before
    missing = await error_of(notebook.change([*fine, Delete(cell_id="nowhere", expect=source_sha256(""))]))
    assert "nowhere" in missing.message
    assert "a1" in missing.message
    await error_of(notebook.change([*fine, Move(cell_id="a1", place=CellPosition("after", "nowhere"))]))
    assert await seen(notebook) == before


async def case_changes_build_on_one_another(notebook: OpenNotebook) -> None:
    third = (await seen(notebook))[2]
    changed = await notebook.change(
        [
            Insert(place=CellPosition("after", "c3"), cell_type="code", source="one", cell_id="d4"),
            Insert(place=CellPosition("after", "d4"), cell_type="code", source="two", cell_id="e5"),
            Move(cell_id="d4", place=CellPosition("end")),
            replace(third, "y = 3"),
            Replace(cell_id="c3", expect=source_sha256("y = 3"), source="y = 4"),
        ]
    )
    now = await seen(notebook)
    assert [cell.source for cell in now[2:]] == ["y = 4", "two", "one"]
    assert changed[-1].after == now[2]
    assert changed[-1].before is not None
    assert changed[-1].before.source == "y = 3"


async def case_outputs_are_added_and_exchanged(notebook: OpenNotebook) -> None:
    third = (await seen(notebook))[2]
    await notebook.put_outputs("c3", expect=third.sha256, outputs=[PRINTED, FIGURE], clear=True, running=True)
    more = {"output_type": "stream", "name": "stdout", "text": "two\n"}
    await notebook.put_outputs("c3", expect=None, outputs=[more], running=True)
    await notebook.put_outputs("c3", expect=None, outputs=[more], execution_count=7)
    cell = (await seen(notebook))[2]
    assert [output.get("text") for output in cell.outputs] == ["one\n", None, "two\ntwo\n"]
    assert cell.outputs[1]["data"] == FIGURE["data"]
    assert cell.execution_count == 7
    assert cell.source == third.source
    await notebook.put_outputs("c3", expect=third.sha256, outputs=[], execution_count=8, clear=True)
    assert (await seen(notebook))[2].outputs == ()


async def case_outputs_of_another_source_are_refused(notebook: OpenNotebook) -> None:
    before = await seen(notebook)
    wrong = await error_of(notebook.put_outputs("c3", expect=source_sha256("other"), outputs=[PRINTED]))
    assert isinstance(wrong, CellConflict)
    assert "code" in (await error_of(notebook.put_outputs("b2", expect=None, outputs=[PRINTED]))).message
    assert "gone" in (await error_of(notebook.put_outputs("gone", expect=None, outputs=[PRINTED]))).message
    assert await seen(notebook) == before


async def case_large_outputs_come_through(notebook: OpenNotebook) -> None:
    large = {"output_type": "stream", "name": "stdout", "text": "ä" * 100_000 + "\n" + "x" * 700_000}
    await notebook.put_outputs("c3", expect=None, outputs=[large], execution_count=1, clear=True)
    assert (await seen(notebook))[2].outputs == (large,)


Case = Callable[[OpenNotebook], Awaitable[None]]
CASES: dict[str, Case] = {
    name.removeprefix("case_"): function
    for name, function in inspect.getmembers(sys.modules[__name__], inspect.iscoroutinefunction)
    if name.startswith("case_")
}
