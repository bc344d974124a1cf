"""A notebook as the model sees it: cells with their ids, sources and outputs, a part of it at a time.

Outputs that only a page draws (charts, widgets, styled tables) are shown by the pictures that the user's page makes of
them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field, structs

from cellwright.model.images import UnusableImage, image_from_bytes
from cellwright.text import lazy_pattern
from cellwright.tools.notebook.notebook_source import BROKEN, NotebookSource, joined
from cellwright.tools.notebook.open_notebook import Cell, DrawnOutput, KernelRemarks, OpenNotebook, OutputPlace

IMAGES = 20
IMAGE_CHARS = 4_000_000
"""The images that one page shows, and the base64 they may be together: a request may have 32 MB in all."""

OUTLINE_CHARS = 100
"""The number of characters of a cell's first line that an outline shows."""

IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
TEXT_TYPES = ("text/plain", "text/markdown", "text/latex")
TERMINAL_CODES = lazy_pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")

NO_REMARKS = KernelRemarks()

Block = dict[str, Any]
Outputs = Literal["none", "short", "usual", "full"]

OUTPUT_CHARS: Mapping[Outputs, int] = {"none": 0, "short": 500, "usual": 3_000, "full": 30_000}
"""The number of characters shown of one output; two thirds from its beginning, the rest from its end."""

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


class NotebookPage(Struct):
    """Some cells as content blocks. `complete` says that nothing of the cells in `shown` was left out.

    `known` are the sources that are shown in full, by cell, `sources` their digests; `left` the positions that did not fit.
    """

    max_chars: int
    outputs: Outputs
    complete: bool = True
    chars: int = 0
    images: int = 0
    image_chars: int = 0
    shown: list[int] = field(default_factory=list)
    left: Sequence[int] = ()
    sources: set[str] = field(default_factory=set)
    known: dict[str, str] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return self.chars > self.max_chars

    def add_text(self, text: str) -> None:
        """Text that follows text goes into the same block."""
        self.chars += len(text)
        if self.blocks and self.blocks[-1]["type"] == "text":
            self.blocks[-1]["text"] += text
        else:
            self.blocks.append({"type": "text", "text": text})

    def add_image(self, data: str, kind: str) -> None:
        """An image, or why it is not shown."""
        try:
            if self.outputs == "short":
                raise UnusableImage('outputs="full" shows it')
            if self.images >= IMAGES or self.image_chars >= IMAGE_CHARS:
                raise UnusableImage(f"only {self.images} images are shown at a time")
            image = image_from_bytes(base64.b64decode(data))
        except (UnusableImage, binascii.Error) as error:
            self.complete = False
            self.add_text(f"[{kind} not shown: {error}]\n")
            return
        self.images += 1
        self.image_chars += image.size
        self.blocks.append(image.block)

    def bounded(self, text: str, limit: int) -> str:
        """`text` without its middle when it is longer than `limit`."""
        if len(text) <= limit:
            return text
        self.complete = False
        head, tail = limit * 2 // 3, limit // 3
        return f"{text[:head]}\n[… {len(text) - head - tail:,} characters left out …]\n{text[-tail:]}"


def notebook_page(
    source: NotebookSource,
    positions: Sequence[int],
    outputs: Outputs,
    max_chars: int,
    remarks: KernelRemarks = NO_REMARKS,
) -> NotebookPage:
    """The cells at `positions` (from 0), as many of them as `max_chars` hold, at least one."""
    page = NotebookPage(max_chars, outputs)
    for index, position in enumerate(positions):
        cell = source.head(position)
        text = joined(cell[source.source_key(cell["cell_type"])])
        if index and page.chars + len(text) > max_chars:
            page.left = positions[index:]
            break
        _add_cell(page, source, position, cell, text, remarks)
        page.shown.append(position)
        if page.full:
            page.left = positions[index + 1 :]
            break
    return page


def source_digest(source: str) -> str:
    """Hash a cell's source, to stand for it among those that the model has seen."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def outline(
    source: NotebookSource, positions: Sequence[int], max_chars: int, remarks: KernelRemarks = NO_REMARKS
) -> tuple[str, Sequence[int]]:
    """One line for each cell, and the positions that did not fit: number, id, type, first line, size of the outputs."""
    lines, chars = [], 0
    for index, position in enumerate(positions):
        cell = source.head(position)
        text = joined(cell[source.source_key(cell["cell_type"])]).strip()
        first = text.partition("\n")[0]
        more = " …" if len(text) > OUTLINE_CHARS or "\n" in text else ""
        span = source.cells[position].outputs
        outputs = f"  [{span[1] - span[0]:,} bytes of outputs]" if source.cells[position].each and span else ""
        name = source.name(position, cell)
        remark = f"  [{remarks.of_cells[name]}]" if name in remarks.of_cells else ""
        lines.append(f"{position + 1:5d}  {name}  {cell['cell_type']}  {first[:OUTLINE_CHARS]}{more}{outputs}{remark}")
        chars += len(lines[-1]) + 1
        if chars > max_chars:
            return "\n".join(lines), positions[index + 1 :]
    return "\n".join(lines), ()


def _add_cell(
    page: NotebookPage,
    source: NotebookSource,
    position: int,
    cell: Mapping[str, Any],
    text: str,
    remarks: KernelRemarks,
) -> None:
    name = source.name(position, cell)
    count, level = cell.get(source.count_key), cell.get("level")
    attributes = f' level="{level}"' if isinstance(level, int) else ""
    attributes += f' execution_count="{count}"' if isinstance(count, int) else ""
    attributes += f' state="{remarks.of_cells[name]}"' if name in remarks.of_cells else ""
    page.add_text(f'<cell id="{name}" number="{position + 1}" type="{cell["cell_type"]}"{attributes}>\n')
    page.add_text(page.bounded(text, page.max_chars) + "\n</cell>\n")
    if (cell["cell_type"] == BROKEN or not text) and (missing := source.missing(position)):
        page.add_text(f"[Cell {name} is broken: it has no {missing}. NotebookEdit can replace or delete it.]\n")
    if len(text) <= page.max_chars:
        page.sources.add(source_digest(text))
        page.known[name] = text
    attachments = cell.get("attachments")
    if isinstance(attachments, dict) and attachments:
        page.add_text(f"[attachments of cell {name}: {', '.join(map(str, attachments))}]\n")
    _add_outputs(page, source, position)


def _add_outputs(page: NotebookPage, source: NotebookSource, position: int) -> None:
    count = len(source.cells[position].each)
    if page.outputs == "none":
        if count:
            page.complete = False
            page.add_text(f"[{count} output{'s' if count > 1 else ''} not shown]\n")
        return
    for index, output in enumerate(source.outputs(position)):
        if page.full:
            page.complete = False
            page.add_text(f"[{count - index} more outputs of this cell are not shown: the result is full]\n")
            return
        if isinstance(output, int):
            page.complete = False
            page.add_text(f"[an output of {output:,} bytes is not shown; look into it with Python (json)]\n")
        else:
            _add_output(page, output)


def _add_output(page: NotebookPage, output: Mapping[str, Any]) -> None:
    kind = str(output.get("output_type"))
    limit = OUTPUT_CHARS[page.outputs]
    name = f' name="{output.get("name")}"' if kind == "stream" else ""
    page.add_text(f'<output type="{kind}"{name}>\n')
    if kind == "stream":
        page.add_text(_ended(page.bounded(plain(joined(output.get("text"))), limit)))
    elif kind == "error":
        traceback = plain("\n".join(map(str, output.get("traceback") or [])))
        page.add_text(_ended(page.bounded(traceback or f"{output.get('ename')}: {output.get('evalue')}", limit)))
    else:
        data = output.get("data")
        _add_data(page, data if isinstance(data, dict) else {}, limit)
    page.add_text("</output>\n")


def _add_data(page: NotebookPage, data: Mapping[str, Any], limit: int) -> None:
    """The richest form that the model can read; the others are named."""
    image = next((kind for kind in IMAGE_TYPES if kind in data), None)
    text = next((kind for kind in TEXT_TYPES if joined(data.get(kind)).strip()), None)
    if image is not None:
        page.add_image(joined(data[image]), image)
    if text is not None:
        page.add_text(_ended(page.bounded(plain(joined(data[text])), limit)))
    others = []
    for kind, value in data.items():
        if kind not in (image, text):
            others.append(f"{kind} ({len(joined(value)):,} characters)" if joined(value) else kind)
    if others:
        page.add_text(f"[also there: {', '.join(others)}]\n")


def plain(text: str) -> str:
    """`text` without the codes that colour it in a terminal."""
    return TERMINAL_CODES.sub("", text)


def _ended(text: str) -> str:
    return text if text.endswith("\n") or not text else f"{text}\n"


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
