"""The places of a notebook's cells and outputs in its file, found in one pass and in bounded memory.

A notebook of 100 MB is mostly outputs. Only what is wanted of it is ever parsed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import BinaryIO

from msgspec import Struct, field

from cellwright.errors import ErrorCode, ToolError
from cellwright.text import lazy_pattern

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
