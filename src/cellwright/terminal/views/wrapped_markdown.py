"""Markdown as lines of plain text no wider than a terminal that cannot be drawn on.

Prose comes out as it is written, near the end of a line word by word. A table comes out when it has ended: in columns if
these fit, else as one block for each row. Code stays as it is.
"""

from __future__ import annotations

import unicodedata

from cellwright.text import lazy_pattern

_FENCE = lazy_pattern(r" {0,3}(`{3,}|~{3,})")
_RULE = lazy_pattern(r"\s*([-*_=])(?:\s*\1){2,}\s*")
_MARKER = lazy_pattern(r"\s*(?:(?:[-+*]|\d{1,9}[.)]|>|#{1,6})\s+(?:\[[ xX]\]\s+)?)*")
_PROSE = lazy_pattern(r"(?:[^\s|`~\-*_=+#>\d\[]|\[[^\sxX]|\[[ xX][^\]]|`[^`]|\*{1,2}[^\s*]|\d+[^\s\d.)])")
_CELL_END = lazy_pattern(r"(?<!\\)\|")
REST_OF_A_WORD = 20
"""Columns: what is still missing of a word is seldom longer."""

_DELIMITER = lazy_pattern(r"\s*:?-+:?\s*")


class WrappedMarkdown:
    """Wraps Markdown to `columns`: `add` takes text as it comes and returns text to print; `rest` returns what is left."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._pending = ""
        self._fence = ""
        self._table: list[str] = []
        self._flows = False
        self._column = 0
        self._indent = ""

    def add(self, text: str) -> str:
        self._pending += text
        out = ""
        while (end := self._pending.find("\n")) >= 0:
            line, self._pending = self._pending[:end], self._pending[end + 1 :]
            out += self._line(line)
        return out + self._begun()

    def rest(self) -> str:
        """Return the end of the text, without a line's end that was not written."""
        line, self._pending = self._pending, ""
        out = self._line(line).removesuffix("\n") if line or self._flows else self._end_table()
        self._fence = ""
        return out

    def _line(self, line: str) -> str:
        if self._flows:
            self._flows = False
            return self._words(line) + "\n"
        fence = _FENCE.match(line)
        if self._fence or fence:
            if not self._fence and fence:
                self._fence = fence[1]
            elif fence and fence[1].startswith(self._fence) and not line[fence.end() :].strip():
                self._fence = ""
            return self._end_table() + line + "\n"
        if line.lstrip().startswith("|"):
            self._table.append(line)
            return ""
        before = self._end_table()
        if _RULE.fullmatch(line):
            return f"{before}{line.strip()[: self._columns]}\n"
        return before + self._start(line) + "\n"

    def _begun(self) -> str:
        """Return the whole words of a line that is still being written, once it is known to be prose."""
        if self._fence or not self._pending:
            return ""
        before = ""
        if not self._flows:
            marker = _MARKER.match(self._pending)
            if not _PROSE.match(self._pending, marker.end() if marker else 0):
                return ""
            before = self._end_table()
        end = len(self._pending.rstrip())
        # what comes next may belong to the last word: it waits unless it would still fit then
        cut = max(self._pending.rfind(" ", 0, end), self._pending.rfind("\t", 0, end))
        if (self._column if self._flows else 0) + _width(self._pending[:end]) + REST_OF_A_WORD <= self._columns:
            cut = end
        marker = _MARKER.match(self._pending)
        if cut <= 0 or (not self._flows and marker and cut < marker.end()):
            return before
        words, self._pending = self._pending[:cut], self._pending[cut:]
        out = self._words(words) if self._flows else self._start(words)
        self._flows = True
        return before + out

    def _start(self, line: str) -> str:
        marker = _MARKER.match(line)
        head = marker[0] if marker else ""
        # the lines of a quotation stay marked; in a narrow terminal deep lists leave room for words
        indent = "".join(character if character == ">" else " " for character in head)
        self._indent = indent if len(indent) <= self._columns // 2 else "  "
        self._column = len(head)
        return head + self._words(line[len(head) :])

    def _words(self, text: str) -> str:
        out = []
        at = 0
        while at < len(text):
            start = at + len(text[at:]) - len(text[at:].lstrip())
            end = next((index for index in range(start, len(text)) if text[index].isspace()), len(text))
            space, word = text[at:start], text[start:end]
            width = _width(word)
            if word and space and self._column + len(space) + width > self._columns:
                out.append("\n" + self._indent + word)
                self._column = len(self._indent) + width
            elif word:
                out.append(space + word)
                self._column += len(space) + width
            at = end
        return "".join(out)

    def _end_table(self) -> str:
        lines, self._table = self._table, []
        rows = [_cells(line) for line in lines]
        if len(rows) < 2 or not all(map(_DELIMITER.fullmatch, rows[1])):
            return "".join(self._start(line) + "\n" for line in lines)
        head, delimiters, *body = rows
        body = [[*row, *[""] * len(head)][: len(head)] for row in body]
        widths = [max(map(_width, column)) for column in zip(head, *body, strict=True)]
        if sum(widths) + 2 * (len(widths) - 1) > self._columns:
            return "\n".join(self._row_block(head, row) for row in body)
        is_right = [cell.strip().endswith(":") and not cell.strip().startswith(":") for cell in delimiters]
        is_right += [False] * len(head)
        lines = [
            "  ".join(_padded(*each) for each in zip(row, widths, is_right, strict=False)).rstrip()
            for row in [head, ["-" * width for width in widths], *body]
        ]
        return "".join(f"{line}\n" for line in lines)

    def _row_block(self, head: list[str], row: list[str]) -> str:
        out = ""
        for name, cell in zip(head, row, strict=True):
            if not cell:
                continue
            self._indent, self._column = "  ", 0
            out += self._words(f"{name}: {cell}" if name else cell) + "\n"
        return out


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _CELL_END.split(inner)]


def _padded(cell: str, width: int, is_right: bool) -> str:
    space = " " * (width - _width(cell))
    return space + cell if is_right else cell + space


def rows_of(text: str, columns: int) -> int:
    """The most rows that a line takes in `columns`: a word that does not fit begins the next row."""
    width = _width(text)
    return 1 if width <= columns else -(-width // max(1, columns * 2 // 3))


def _width(text: str) -> int:
    """The columns that a terminal needs for `text`."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )
