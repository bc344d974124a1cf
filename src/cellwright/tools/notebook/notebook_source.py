"""A notebook file opened for reading: one cell, one output at a time, whatever its size.

Formats: nbformat 4 (https://nbformat.readthedocs.io/en/latest/format_description.html) and 3, whose cells stand in
worksheets and call some things by other names.
"""

from __future__ import annotations

import hashlib
import io
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from msgspec import Struct

from cellwright.errors import ErrorCode, ToolError
from cellwright.text import lazy_pattern
from cellwright.tools.files.formats.encodings import decode
from cellwright.tools.notebook.notebook_spans import (
    BLOCK_BYTES,
    CellList,
    CellSpan,
    NotANotebook,
    NotebookSpans,
    Span,
    notebook_spans,
)

CHECKED_BYTES = 4 << 20
"""Up to this size all of the JSON is checked, not only what is shown."""

PARSED_BYTES = 8 << 20
"""A larger cell (without its outputs) or output is not parsed: it would take several times as much memory."""

MAX_KNOWN_CELLS = 20_000
"""The spans of larger notebooks are not kept: they take some memory themselves."""

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
        if sum(len(each.cells) for each in (*found.lists, *found.sheets)) <= MAX_KNOWN_CELLS:
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
