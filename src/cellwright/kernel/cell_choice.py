"""Which cells of the notebook NotebookRun is to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode
from cellwright.kernel.namespace.hidden_state import stale_cells
from cellwright.tools.notebook.open_notebook import Cell

if TYPE_CHECKING:
    from cellwright.kernel.namespace.cell_log import CellLog

WHICH = ("below", "above", "all", "stale")


def chosen_cells(
    cells: Sequence[Cell], tool_input: Mapping[str, Any], running: str | None, log: CellLog, shown: str
) -> list[Cell]:
    """The code cells that the input names, in the order in which they are to run.

    `running` is the cell that asked Claude, None where it is not known; `shown` is the notebook's name. Raises ToolError.
    """
    if ("cell_ids" in tool_input) == ("which" in tool_input):
        raise _bad(f"Give either cell_ids or which ({', '.join(WHICH)}).")
    if "cell_ids" in tool_input:
        chosen = _by_id(cells, tool_input["cell_ids"], shown)
        if running in tool_input["cell_ids"]:
            raise _bad(f"Cell {running} is the one that is running now: it asked you.")
    else:
        chosen = _by_place(cells, tool_input["which"], running, log, shown)
    chosen = [cell for cell in chosen if cell.cell_type == "code" and cell.source.strip()]
    if not chosen:
        raise _bad(f"There is nothing to run: {_what(tool_input)} of {shown} hold no code.")
    return chosen


def _by_id(cells: Sequence[Cell], wanted: Sequence[str], shown: str) -> list[Cell]:
    by_id = {cell.id: cell for cell in cells}
    missing = [cell_id for cell_id in wanted if cell_id not in by_id]
    if missing:
        known = ", ".join(list(by_id)[:40]) + (" …" if len(by_id) > 40 else "")
        raise _bad(
            f"There is no cell {', '.join(missing)} in {shown}; nothing was run. The cells are: {known or 'none'}."
        )
    return [by_id[cell_id] for cell_id in dict.fromkeys(wanted)]


def _by_place(cells: Sequence[Cell], which: str, running: str | None, log: CellLog, shown: str) -> list[Cell]:
    others = [cell for cell in cells if cell.id != running]
    if which == "all":
        return others
    if which == "stale":
        stale = set(stale_cells(others, log))
        if not stale:
            raise _bad(f"No cell of {shown} is stale: each that ran is what was run. Nothing was run.")
        return [cell for cell in others if cell.id in stale]
    here = next((cell.position for cell in cells if cell.id == running), None)
    if here is None:
        raise _bad(f"Which cell of {shown} asked you is not known here, so nothing is {which} it. Give cell_ids.")
    return [cell for cell in others if (cell.position > here if which == "below" else cell.position < here)]


def _what(tool_input: Mapping[str, Any]) -> str:
    return "these cells" if "cell_ids" in tool_input else f'the cells of which="{tool_input["which"]}"'


def _bad(message: str) -> ToolError:
    return ToolError(message, code=ErrorCode.INVALID_PARAMETERS)
