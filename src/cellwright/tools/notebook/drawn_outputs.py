"""Outputs that only a page draws (charts, widgets, styled tables), and the pictures that the user's page makes of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from cellwright.text import lazy_pattern
from cellwright.tools.notebook.notebook_page import IMAGE_TYPES
from cellwright.tools.notebook.notebook_source import joined
from cellwright.tools.notebook.open_notebook import Cell, DrawnOutput, OpenNotebook, OutputPlace

MAX_OUTPUTS = 24
"""The outputs that are asked for at a time: a page gives back eight pictures, and some of them show nothing."""

WHAT_TO_DO = "Print the numbers behind it, or have the code save it as a PNG and Read that."

AS_ABOVE = "for the same reason"

DRAWN_NOTE = "[the picture shows it as the user's page draws it]"

OUR_ANSWER = "application/vnd.cellwright.transcript+json"

_KINDS = (
    "application/vnd.vegalite",
    "application/vnd.vega",
    "application/vnd.plotly",
    "application/vnd.bokehjs_exec",
    "application/vnd.holoviews",
    "application/vnd.jupyter.widget-view",
    "image/svg+xml",
)
_DRAWN_HTML = lazy_pattern(r"(?i)<(?:script|canvas|svg|img|iframe)\b|<style(?!\s+scoped)|\sstyle\s*=")
_PLAIN_TABLE = 'class="dataframe"'
MAX_HTML = 10_000_000


def is_drawn(data: Mapping[str, Any]) -> bool:
    """Return whether a mimebundle says less as text than its page shows, and has no picture that a model can read."""
    if OUR_ANSWER in data or any(kind in data for kind in IMAGE_TYPES):
        return False
    if any(str(mime).startswith(_KINDS) for mime in data):
        return True
    html = joined(data.get("text/html"))[:MAX_HTML]
    # a plain table of pandas brings a scoped style along, and is its text
    return _DRAWN_HTML.search(html) is not None and not ("<style scoped>" in html and _PLAIN_TABLE in html)


def display_key(data: Mapping[str, Any]) -> str:
    """Hash a mimebundle, so that a page finds the output that shows it."""
    text = json.dumps(dict(data), sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def missing_note(reason: str) -> str:
    """Explain to the model why it has no picture of an output; "" if nothing is drawn there."""
    if reason == AS_ABOVE:
        return f"[no picture, {AS_ABOVE}]"
    return f"[you cannot see how a page draws this: {reason}. {WHAT_TO_DO}]" if reason else ""


class CellPicture(Struct, frozen=True):
    """An output of a cell and its picture."""

    place: OutputPlace
    drawn: DrawnOutput


async def pictures_of(notebook: OpenNotebook, cells: Sequence[Cell]) -> list[CellPicture]:
    """Ask the page that shows `notebook` for pictures of the outputs of `cells` that only a page draws."""
    places = [
        OutputPlace(cell.id, index, tuple(sorted(map(str, data))))
        for cell in cells
        for index, output in enumerate(cell.outputs)
        if isinstance(data := output.get("data"), Mapping) and is_drawn(data)
    ]
    if not places:
        return []
    asked, rest = places[:MAX_OUTPUTS], places[MAX_OUTPUTS:]
    drawn = [CellPicture(*pair) for pair in zip(asked, await notebook.pictures(asked), strict=True)]
    more = DrawnOutput(problem=f"one call asks for at most {MAX_OUTPUTS} such outputs; read fewer cells")
    return [*drawn, *(CellPicture(place, more) for place in rest)]


def with_pictures(cells: Sequence[Cell], pictures: Sequence[CellPicture]) -> list[Cell]:
    """The cells with the pictures among their outputs, or with the reasons why there are none."""
    by_place: dict[tuple[str, int], DrawnOutput] = {}
    said: set[str] = set()
    for each in pictures:
        drawn = each.drawn
        if drawn.problem in said:
            drawn = structs.replace(drawn, problem=AS_ABOVE)
        said |= {drawn.problem} - {""}
        by_place[each.place.cell_id, each.place.index] = drawn
    return [_with_pictures(cell, by_place) for cell in cells]


def _with_pictures(cell: Cell, by_place: Mapping[tuple[str, int], DrawnOutput]) -> Cell:
    if not any((cell.id, index) in by_place for index in range(len(cell.outputs))):
        return cell
    outputs = []
    for index, output in enumerate(cell.outputs):
        drawn = by_place.get((cell.id, index))
        outputs.append(output if drawn is None else {**output, "data": drawn_data(output["data"], drawn)})
    return structs.replace(cell, outputs=tuple(outputs))


def drawn_data(data: Mapping[str, Any], drawn: DrawnOutput) -> dict[str, Any]:
    """A mimebundle with its picture, or with the reason why there is none."""
    note = "\n".join(filter(None, (DRAWN_NOTE, drawn.note))) if drawn.data else missing_note(drawn.problem)
    text = "\n".join(filter(None, (joined(data.get("text/plain")), note)))
    picture = {drawn.media_type: drawn.data} if drawn.data else {}
    return {**data, **picture, **({"text/plain": text} if text else {})}
