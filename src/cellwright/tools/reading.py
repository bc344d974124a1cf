"""What Read gives back: numbered lines, an image, the cells of a notebook, or why not and what to use instead."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from cellwright.agent.tool import Content, ToolError
from cellwright.errors import ErrorCode
from cellwright.tools.file_state import FileState, Seen
from cellwright.tools.images import MAX_BYTES, UnusableImage, image_block, media_type
from cellwright.tools.notebook_json import NotANotebook, notebook_content
from cellwright.tools.notebook_pages import notebook_page
from cellwright.tools.paths import real_path
from cellwright.tools.schemas import counted
from cellwright.tools.text_files import LATIN_1, NotText, decode, numbered, open_regular, read_bytes
from cellwright.tools.text_pages import TextPage, read_page

PAGE_CHARS = 96_000
"""About 25,000 tokens."""

NOTEBOOK_BYTES = 100 * 2**20

BINARY_HINTS = (
    (b"%PDF-", "a PDF. Take its text out with Bash (pdftotext) or Python"),
    (b"PAR1", "a Parquet file. Load it with Python (pandas.read_parquet)"),
    (b"\x89HDF", "an HDF5 file. Open it with Python (h5py, pandas.read_hdf)"),
    (b"\x93NUMPY", "a NumPy array. Load it with Python (numpy.load)"),
    (b"SQLite format 3", "an SQLite database. Query it with Python (sqlite3)"),
    (b"PK\x03\x04", "a ZIP archive (perhaps an Office document). List it with Bash (unzip -l)"),
    (b"\x1f\x8b", "gzip data. Unpack it with Bash (gzip -dc FILE | head)"),
)


def read_file(
    path: Path, shown: str, first: int, limit: int | None, state: FileState, stopped: Callable[[], bool]
) -> Content:
    """What the model sees of a file, from line (of a notebook: cell) `first` on; `state` remembers what it saw."""
    real = real_path(path)
    with open_regular(real, shown) as file:
        status = os.fstat(file.fileno())
        head = file.read(16) or b""
        file.seek(0)
        if media_type(head) is not None:
            return _image(real, shown, state)
        if real.suffix.lower() == ".ipynb":
            try:
                return _notebook(real, shown, first, limit, state)
            except NotANotebook as error:
                broken = [f"[Shown as text, because as a notebook {error}.]"]
        else:
            broken = []
        try:
            page = read_page(file, status.st_size, first, limit, PAGE_CHARS, stopped)
        except NotText:
            raise _binary(head, shown) from None
    seen = Seen(status.st_mtime_ns, status.st_size, page.sha256)
    last = first - 1 if page.cut else page.last
    state.read(real, seen, first, last, to_the_end=not page.cut and page.total == page.last)
    return "\n".join([*broken, _page_text(page, shown, limit)])


def _page_text(page: TextPage, shown: str, limit: int | None) -> str:
    if page.total == 0:
        return f"[{shown} is empty.]"
    if not page.lines:
        return f"[offset={page.first} is past the end: {shown} has {counted(page.total or 0, 'line')}.]"
    notes = []
    if page.encoding == LATIN_1:
        notes.append("[The file is not UTF-8: shown as Latin-1. Edits keep its encoding.]")
    if page.cut:
        notes.append(
            f"[PARTIAL: line {page.first} is longer than one result may be; {PAGE_CHARS:,} characters of it are shown. "
            "Look into it with Grep (-o) or Bash (cut -c).]"
        )
    elif page.total != page.last:
        of = f" of {page.total}" if page.total is not None else ""
        asked = limit is not None and len(page.lines) == limit
        why = "" if asked else " One result holds no more."
        notes.append(f"[PARTIAL: lines {page.first}-{page.last}{of}.{why} Go on with offset={page.last + 1}.]")
    return "\n".join([numbered(page.lines, page.first), *notes])


def _image(real: Path, shown: str, state: FileState) -> Content:
    too_large = "Scale it down with Python (Pillow) and read the copy."
    data, status = read_bytes(real, shown, MAX_BYTES, too_large)
    try:
        block, words = image_block(data)
    except UnusableImage as error:
        raise ToolError(f"{shown} cannot be shown: {error}. {too_large}", code=ErrorCode.FILE_ACCESS_ERROR) from error
    state.read(real, _seen(data, status), 1, 1, to_the_end=True)
    return [{"type": "text", "text": f"[{shown}: {words}]"}, block]


def _notebook(real: Path, shown: str, first: int, limit: int | None, state: FileState) -> Content:
    data, status = read_bytes(real, shown, NOTEBOOK_BYTES, "Read parts of it with Python (json).")
    try:
        text, _ = decode(data)
        content = notebook_content(text)
    except NotText:
        raise _binary(data, shown) from None
    page = notebook_page(content["cells"], first, limit, PAGE_CHARS)
    last = page.last if page.complete else first - 1
    state.read(real, _seen(data, status), first, last, to_the_end=page.complete and page.last == page.total)
    if not page.total:
        return f"[{shown} is a notebook without cells.]"
    if page.last < first:
        return f"[offset={first} is past the end: {shown} has {counted(page.total, 'cell')}.]"
    if page.last < page.total:
        page.add_text(
            f"[PARTIAL: cells {first}-{page.last} of {page.total}. Go on with offset={page.last + 1} (a cell number).]"
        )
    return page.blocks


def _seen(data: bytes, status: os.stat_result) -> Seen:
    return Seen(status.st_mtime_ns, status.st_size, hashlib.sha256(data).hexdigest())


def _binary(head: bytes, shown: str) -> ToolError:
    hints = (hint for signature, hint in BINARY_HINTS if head.startswith(signature))
    what = next(hints, "binary data. Look into it with Bash (file, xxd | head) or Python")
    return ToolError(f"{shown} is {what}; Read shows text, images and notebooks.", code=ErrorCode.FILE_ACCESS_ERROR)
