"""A notebook file opened for reading: one cell, one output at a time, whatever its size.

A notebook of 100 MB is mostly outputs: the places of cells and outputs are found in one pass and in bounded memory, and
only what is wanted is ever parsed. A live notebook is read so, too, from the bytes that its file would have.

Formats: nbformat 4 (https://nbformat.readthedocs.io/en/latest/format_description.html) and 3, whose cells stand in
worksheets and call some things by other names.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from msgspec import Struct, field

from cellwright.agent.tool import Content
from cellwright.errors import ErrorCode, ToolError
from cellwright.text import lazy_pattern
from cellwright.tools.files.encodings import decode
from cellwright.tools.notebook.open_notebook import Cell, OpenNotebook

BLOCK_BYTES = 1 << 20

MAX_CELLS = 100_000
"""Each takes some memory even when it is not looked at."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# what stands between strings and brackets: numbers, true, false, null, commas, colons. Not what a merge conflict writes
GAP = lazy_pattern(rb"[\s,:\w.+\-]*+")
# a string is a key when a colon follows; without what follows it, it may not have been read to its end
TOKEN = lazy_pattern(rb'[\s,:\w.+\-]*+(?:([\[\]{}])|("[^"\\]*+(?:\\.[^"\\]*+)*+")\s*+(?:(:)|(?=[,\]}])))', re.DOTALL)
INSIDE_STRING = lazy_pattern(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
WHITE_SPACE = b" \t\r\n"

OTHER, ROOT, SHEETS, SHEET, CELLS, CELL, OUTPUTS, OUTPUT = range(8)
# the place of a value, by the place of what it is in, its key there, and how it opens
PLACES = {
    (ROOT, "cells", b"["): CELLS,
    (ROOT, "worksheets", b"["): SHEETS,
    (SHEETS, None, b"{"): SHEET,
    (SHEET, "cells", b"["): CELLS,
    (CELLS, None, b"{"): CELL,
    (CELL, "outputs", b"["): OUTPUTS,
    (OUTPUTS, None, b"{"): OUTPUT,
}
WITH_KEYS = (ROOT, SHEET, CELL)
ONLY_OBJECTS = (CELLS, SHEETS, OUTPUTS)
OPENED_BY = {b"]": b"[", b"}": b"{"}

Span = tuple[int, int]

CHECKED_BYTES = 4 << 20
"""Up to this size all of the JSON is checked, not only what is shown."""

PARSED_BYTES = 8 << 20
"""A larger cell (without its outputs) or output is not parsed: it would take several times as much memory."""

BROKEN = "broken"
"""The type of a cell that does not say what it is."""

INTEGER = lazy_pattern(rb"\s*(-?\d{1,9})(?![\d.eE])")

V3_DATA = {
    "text": "text/plain",
    "html": "text/html",
    "svg": "image/svg+xml",
    "png": "image/png",
    "jpeg": "image/jpeg",
    "latex": "text/latex",
    "json": "application/json",
    "javascript": "application/javascript",
    "pdf": "application/pdf",
}


class NotANotebook(Exception):
    """The file is no notebook that is understood here; the message says why."""


class CellSpan(Struct):
    """The span of a cell, of the list of its outputs (None: it has none), and of each of them."""

    start: int
    stop: int = 0
    outputs: Span | None = None
    each: list[Span] = field(default_factory=list)


class CellList(Struct):
    """A list of cells: a notebook has one, in nbformat 3 one in each worksheet."""

    start: int
    stop: int = 0
    cells: list[CellSpan] = field(default_factory=list)


class NotebookSpans(Struct):
    """The findings of one pass over a notebook. `members` is where the values of the notebook's own keys begin."""

    size: int
    sha256: str
    members: dict[str, int]
    lists: list[CellList]
    """`cells` of the notebook itself."""
    sheets: list[CellList]
    """`cells` of its worksheets."""


def notebook_spans(file: BinaryIO, stopped: Callable[[], bool]) -> NotebookSpans:
    """Read `file` to its end. Raises `NotANotebook`; ends early with a `ToolError` when `stopped()`."""
    return _Scan(file, stopped).run()


class _Scan(Struct):
    """One pass: a window of the file, the places that are open, and what was found."""

    file: BinaryIO
    stopped: Callable[[], bool]
    window: bytes = b""
    base: int = 0
    at: int = 0
    ended: bool = False
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)
    open: list[tuple[int, bytes]] = field(default_factory=list)
    key: str | None = None
    members: dict[str, int] = field(default_factory=dict)
    lists: list[CellList] = field(default_factory=list)
    sheets: list[CellList] = field(default_factory=list)
    current: CellList = field(default_factory=lambda: CellList(0))
    count: int = 0

    def run(self) -> NotebookSpans:
        self._read_on()
        if self.window.startswith(BYTE_ORDER_MARK):
            self.at = len(BYTE_ORDER_MARK)
        if self.window[self.at :].lstrip(WHITE_SPACE)[:1] != b"{":
            raise NotANotebook("its JSON is broken: it does not begin with {")
        done = False
        while not done:
            token = TOKEN.match(self.window, self.at)
            if token is None:
                self._no_token()
            elif (bracket := token[1]) is None:
                self._string(token)
            else:
                place = self.base + token.end() - 1
                self._no_scalars(self.window[token.start() : token.end() - 1], place)
                self.at = token.end()
                if bracket in OPENED_BY:
                    done = self._close(bracket, place)
                else:
                    self._open(bracket, place)
        self._end()
        return NotebookSpans(
            self.base + len(self.window), self.digest.hexdigest(), self.members, self.lists, self.sheets
        )

    def _read_on(self) -> None:
        if self.stopped():
            raise ToolError("Stopped before the notebook was read.", code=ErrorCode.INTERRUPTED)
        block = self.file.read(BLOCK_BYTES) or b""
        self.digest.update(block)
        self.ended = not block
        self.window = self.window[self.at :] + block
        self.base += self.at
        self.at = 0

    def _broken(self, place: int, what: str) -> NotANotebook:
        return NotANotebook(f"its JSON is broken: {what} (byte {place:,})")

    def _no_token(self) -> None:
        """The window ends within a token, or there is something that is no JSON."""
        gap = GAP.match(self.window, self.at)
        assert gap is not None  # it matches nothing, too
        if gap.end() < len(self.window) and self.window[gap.end()] != ord('"'):
            raise self._broken(self.base + gap.end(), f"unexpected {chr(self.window[gap.end()])!r}")
        if self.ended:
            raise self._broken(self.base + len(self.window), "it ends too early")
        if gap.end() == len(self.window):
            self._no_scalars(gap[0], self.base + self.at)
            # a key's colon may come yet: white space stays, with what it follows
            self.at = gap.end()
            self._read_on()
        elif len(self.window) - gap.end() < BLOCK_BYTES:
            self._read_on()
        else:
            self._long_string(gap.end() + 1)

    def _long_string(self, start: int) -> None:
        """Go past a string that no window holds: a picture, most likely. It is never a key that matters here."""
        self._no_scalars(b'"', self.base + start - 1)
        self.key = None
        self.at = start
        while True:
            inside = INSIDE_STRING.match(self.window, self.at)
            assert inside is not None  # it matches nothing, too
            self.at = inside.end()
            if self.window[self.at : self.at + 1] == b'"':
                self.at += 1
                return
            if self.ended:
                raise self._broken(self.base + len(self.window), "a string has no end")
            self._read_on()

    def _string(self, token: re.Match[bytes]) -> None:
        place = self.open[-1][0] if self.open else OTHER
        if place in ONLY_OBJECTS:
            raise NotANotebook("its list of cells or outputs holds something else")
        if token[3] is not None and place in WITH_KEYS:
            try:
                self.key = str(json.loads(token[2]))
            except ValueError as error:
                raise self._broken(self.base + token.start(2), f"a key cannot be read: {error}") from error
            if place == ROOT:
                self.members[self.key] = self.base + token.end()
        self.at = token.end()

    def _no_scalars(self, gap: bytes, place: int) -> None:
        if self.open and self.open[-1][0] in ONLY_OBJECTS and gap.strip(WHITE_SPACE + b","):
            raise NotANotebook(f"its list of cells or outputs holds something else (byte {place:,})")

    def _open(self, bracket: bytes, start: int) -> None:
        above = self.open[-1][0] if self.open else None
        place = ROOT if above is None else PLACES.get((above, self.key, bracket), OTHER)
        if above in ONLY_OBJECTS and place == OTHER:
            raise NotANotebook(f"its list of cells or outputs holds a list (byte {start:,})")
        self.key = None
        self.open.append((place, bracket))
        if place == CELLS:
            self.current = CellList(start)
            if above == SHEET:
                self.sheets.append(self.current)
            else:
                # the last of two equal keys counts
                self.lists = [self.current]
        elif place == CELL:
            self.count += 1
            if self.count > MAX_CELLS:
                raise NotANotebook(f"it has more than {MAX_CELLS:,} cells")
            self.current.cells.append(CellSpan(start))
        elif place == OUTPUTS:
            cell = self.current.cells[-1]
            cell.outputs, cell.each = (start, 0), []
        elif place == OUTPUT:
            self.current.cells[-1].each.append((start, 0))

    def _close(self, bracket: bytes, last: int) -> bool:
        """Take note of where a value ends; whether it was the whole notebook."""
        place, opened = self.open.pop() if self.open else (OTHER, b"")
        if opened != OPENED_BY[bracket]:
            raise self._broken(last, f"unexpected {bracket.decode()!r}")
        stop = last + 1
        self.key = None
        if place == CELLS:
            self.current.stop = stop
        elif place == CELL:
            self.current.cells[-1].stop = stop
        elif place == OUTPUTS:
            cell = self.current.cells[-1]
            assert cell.outputs is not None  # it was opened
            cell.outputs = (cell.outputs[0], stop)
        elif place == OUTPUT:
            each = self.current.cells[-1].each
            each[-1] = (each[-1][0], stop)
        return not self.open

    def _end(self) -> None:
        while not self.ended:
            if self.window[self.at :].strip(WHITE_SPACE):
                break
            self.at = len(self.window)
            self._read_on()
        if rest := self.window[self.at :].lstrip(WHITE_SPACE):
            raise self._broken(self.base + len(self.window) - len(rest), "something follows its end")


class NotebookSource(Struct, frozen=True):
    """An open notebook. `lists` are its lists of cells: one, or in nbformat 3 one for each worksheet."""

    file: BinaryIO
    size: int
    sha256: str
    major: int
    minor: int
    lists: tuple[CellList, ...]
    cells: tuple[CellSpan, ...]
    members: Mapping[str, int]

    @property
    def count_key(self) -> str:
        return "prompt_number" if self.major == 3 else "execution_count"

    def source_key(self, kind: str) -> str:
        """Return the key under which a cell of this type has its source."""
        return "input" if self.major == 3 and kind == "code" else "source"

    def bytes_between(self, start: int, stop: int) -> bytes:
        """A part of the file. Raises `NotANotebook` if it is not there any more."""
        self.file.seek(start)
        data = self.file.read(stop - start) or b""
        # a raw read may give less than was asked for
        while len(data) < stop - start:
            more = self.file.read(stop - start - len(data))
            if not more:
                raise NotANotebook("it was changed while it was read")
            data += more
        return data

    def head_text(self, position: int) -> tuple[bytes, Span | None]:
        """A cell's JSON with its outputs left out, and where in it `[]` stands for them."""
        cell = self.cells[position]
        start, stop = cell.outputs or (cell.stop, cell.stop)
        if cell.stop - cell.start - (stop - start) > PARSED_BYTES:
            raise ToolError(
                f"Cell {position + 1} has more than {PARSED_BYTES >> 20} MB of source, metadata and attachments. "
                "Work on this notebook with Python (json).",
                code=ErrorCode.FILE_ACCESS_ERROR,
            )
        before = self.bytes_between(cell.start, start)
        if cell.outputs is None:
            return before, None
        at = len(before)
        return before + b"[]" + self.bytes_between(stop, cell.stop), (at, at + 2)

    def head(self, position: int) -> dict[str, Any]:
        """A cell as a dict, its outputs left out; one that is broken has the type `broken`, or an empty source."""
        value = parsed(self.head_text(position)[0])
        if not isinstance(value.get("cell_type"), str):
            value["cell_type"] = BROKEN
        value.setdefault(self.source_key(value["cell_type"]), "")
        return value

    def missing(self, position: int) -> str:
        """Say in words what a cell lacks to be one; "" if nothing."""
        value = parsed(self.head_text(position)[0])
        kind = value.get("cell_type")
        has_type = isinstance(kind, str)
        lacks = [] if has_type else ["cell_type"]
        lacks += [] if self.source_key(str(kind)) in value else ["source"]
        return " and no ".join(lacks)

    def name(self, position: int, head: Mapping[str, Any]) -> str:
        """Return the name of a cell for the model: its id, or `cell-N` (N from 0)."""
        return str(head.get("id") or f"cell-{position}")

    def outputs(self, position: int) -> Iterator[dict[str, Any] | int]:
        """A cell's outputs in the form of nbformat 4; of one that is too large only how many bytes it has."""
        for start, stop in self.cells[position].each:
            if stop - start > PARSED_BYTES:
                yield stop - start
            else:
                value = parsed(self.bytes_between(start, stop))
                yield output_of_v3(value) if self.major == 3 else value


def open_notebook(file: BinaryIO, size: int, stopped: Callable[[], bool]) -> NotebookSource:
    """Find the cells of the notebook in `file`. Raises `NotANotebook`, `NotText`."""
    on_disk = None
    if size <= CHECKED_BYTES:
        file, on_disk = _checked(file)
    spans = notebook_spans(file, stopped) if size <= CHECKED_BYTES else _KNOWN.spans(file, stopped)
    major, minor = _integer(file, spans, "nbformat"), _integer(file, spans, "nbformat_minor")
    if major is None:
        raise NotANotebook("it does not say its nbformat")
    lists = _lists(spans, major)
    cells = tuple(cell for each in lists for cell in each.cells)
    return NotebookSource(file, spans.size, on_disk or spans.sha256, major, minor or 0, lists, cells, spans.members)


class _KnownSpans:
    """The spans of the last large notebooks, by their content: preview, call and the next edit need them several times."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: OrderedDict[str, NotebookSpans] = OrderedDict()

    def spans(self, file: BinaryIO, stopped: Callable[[], bool]) -> NotebookSpans:
        """Return the spans of what is in `file`, whose position does not matter."""
        digest = hashlib.sha256()
        file.seek(0)
        while block := file.read(BLOCK_BYTES):
            if stopped():
                raise ToolError("Stopped before the notebook was read.", code=ErrorCode.INTERRUPTED)
            digest.update(block)
        key = digest.hexdigest()
        with self._lock:
            if (known := self._spans.pop(key, None)) is not None:
                self._spans[key] = known
                return known
        file.seek(0)
        found = notebook_spans(file, stopped)
        # the spans of larger notebooks are not kept: they take some memory themselves
        if sum(len(each.cells) for each in (*found.lists, *found.sheets)) <= 20_000:
            with self._lock:
                self._spans[found.sha256] = found
                while len(self._spans) > 4:
                    self._spans.popitem(last=False)
        return found


_KNOWN = _KnownSpans()


def _checked(file: BinaryIO) -> tuple[BinaryIO, str | None]:
    """The whole file in memory, its JSON known to be sound, in UTF-8; the hash of what is on disk if that differs."""
    file.seek(0)
    data = b"".join(iter(lambda: file.read(CHECKED_BYTES) or b"", b""))
    text, encoding = decode(data)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotANotebook(f"its JSON is broken: {error}") from error
    if not isinstance(content, dict):
        raise NotANotebook("it has no list of cells")
    if encoding.name == "utf-8":
        return io.BytesIO(data), None
    return io.BytesIO(text.encode("utf-8", "surrogatepass")), hashlib.sha256(data).hexdigest()


def _integer(file: BinaryIO, spans: NotebookSpans, key: str) -> int | None:
    if key not in spans.members:
        return None
    file.seek(spans.members[key])
    found = INTEGER.match(file.read(64) or b"")
    return int(found[1]) if found else None


def _lists(spans: NotebookSpans, major: int) -> tuple[CellList, ...]:
    if major not in (3, 4):
        hint = " (to bring it up to date: jupyter nbconvert --to notebook --nbformat 4)" if major < 3 else ""
        raise NotANotebook(f"its nbformat is {major}; 3 and 4 are supported{hint}")
    lists = spans.lists if major == 4 else spans.sheets
    if not lists:
        raise NotANotebook("it has no list of cells")
    return tuple(lists)


def parsed(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`, a part of a notebook."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NotANotebook(f"its JSON is broken: {error}") from error
    assert isinstance(value, dict)  # it begins with {
    return value


def output_of_v3(output: Mapping[str, Any]) -> dict[str, Any]:
    """An output of nbformat 3 as nbformat 4 has it."""
    kind = output.get("output_type")
    if kind == "stream":
        return {"output_type": "stream", "name": output.get("stream", "stdout"), "text": output.get("text", "")}
    if kind == "pyerr":
        return {**output, "output_type": "error"}
    data = {V3_DATA.get(key, key): value for key, value in output.items() if key in V3_DATA or "/" in key}
    name = "execute_result" if kind == "pyout" else "display_data"
    return {"output_type": name, "data": data, "execution_count": output.get("prompt_number")}


def joined(text: Any) -> str:
    """A multi-line string of nbformat: a string, or a list of them."""
    if isinstance(text, list):
        return "".join(part for part in text if isinstance(part, str))
    return text if isinstance(text, str) else ""


def added_outputs(there: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """All outputs, those of one stream that follow one another as one."""
    outputs: list[dict[str, Any]] = []
    for output in (*there, *new):
        last = outputs[-1] if outputs else {}
        same = output.get("output_type") == "stream" == last.get("output_type") and output.get("name") == last.get(
            "name"
        )
        if same:
            outputs[-1] = {**last, "text": joined(last.get("text")) + joined(output.get("text"))}
        else:
            outputs.append(dict(output))
    return outputs


def joined_output(output: Mapping[str, Any]) -> dict[str, Any]:
    """An output with each of its texts as one string, as front ends have it."""
    return _with_texts(output, joined)


def written_outputs(outputs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Outputs with their texts as lists of lines, as nbformat writes them."""
    return [_with_texts(output, lambda text: joined(text).splitlines(keepends=True)) for output in outputs]


def _with_texts(output: Mapping[str, Any], change: Any) -> dict[str, Any]:
    value = dict(output)
    if value.get("output_type") == "stream":
        value["text"] = change(value.get("text"))
    elif isinstance(data := value.get("data"), Mapping):
        value["data"] = {kind: part if _is_json(kind, part) else change(part) for kind, part in data.items()}
    return value


def _is_json(kind: str, part: object) -> bool:
    if kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json")):
        return True
    return not isinstance(part, str) and not (isinstance(part, list) and all(isinstance(line, str) for line in part))


def live_source(cells: Sequence[Cell]) -> NotebookSource:
    """The cells, to be shown as those of a file are."""
    data = notebook_bytes(cells, outputs=True)
    return open_notebook(io.BytesIO(data), len(data), lambda: False)


def live_note(notebook: OpenNotebook) -> str:
    """Tell the model what it has to know of a notebook that is not read from a file here."""
    if not notebook.live:
        return f"[This is what {notebook.where} holds. Nobody has it open.]"
    return f"[Open in {notebook.where}: this is what the user sees there, unsaved changes included.]"


def with_note(content: Content, note: str) -> Content:
    """`content` and, behind it, `note`."""
    return f"{content}\n{note}" if isinstance(content, str) else [*content, {"type": "text", "text": note}]


def notebook_bytes(cells: Sequence[Cell], *, outputs: bool) -> bytes:
    """The cells as a notebook file would hold them."""
    content = {
        "cells": [_cell_json(cell, outputs=outputs) for cell in cells],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _cell_json(cell: Cell, *, outputs: bool) -> dict[str, Any]:
    value = {"id": cell.id, "cell_type": cell.cell_type, "metadata": dict(cell.metadata), "source": cell.source}
    if cell.cell_type == "code":
        shown = [dict(output) for output in cell.outputs] if outputs else []
        return {**value, "execution_count": cell.execution_count, "outputs": shown}
    return {**value, "attachments": dict(cell.attachments)} if cell.attachments else value
