"""HTML as plain Markdown without the extra `web`: all that a page says, in its order, menus and footers included.

trafilatura tells an article from its surroundings, and needs 30 MB. This reads headings, paragraphs, lists, links, code
and tables, and leaves out what is never read: scripts, styles, forms' inputs.
"""

from __future__ import annotations

import operator
import re
import urllib.parse
from collections.abc import Iterator
from html.parser import HTMLParser

from cellwright.text import lazy_pattern

_SILENT = frozenset(("script", "style", "noscript", "template", "svg", "math", "select", "button", "iframe"))
_BLOCKS = frozenset(
    re.findall(
        r"\w+",
        "address article aside blockquote dd details div dl dt fieldset figcaption figure footer form header hr main nav ol "
        "p section summary table tbody thead ul",
    )
)
_HEADINGS = {f"h{level}": f"\n\n{'#' * level} " for level in range(1, 7)}
_OPENINGS = {**_HEADINGS, "li": "\n- ", "br": "\n"}
_MARKS = {"b": "**", "strong": "**", "i": "*", "em": "*"}
_CHARSET = lazy_pattern(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_EMPTY_LINK = lazy_pattern(r"\[\s{0,9}\](?:\(\S{0,2000}\))?")

HEAD_BYTES = 4_096

MAX_CHARS = 1_000_000
"""More of a page is not read."""

CHUNK_CHARS = 16_384
"""A tag that has not ended within these when the page has is not read: Python's parser would look at it again and again."""


MAX_FILLED_CELLS = 20_000
"""The most empty cells of one page that stand for parts of others: it says how many it wants in a few letters."""


MAX_COLUMNS = 1_000
"""A cell further to the right reaches into no row below, as one that is wider is in no browser."""


class _Table:
    """The columns of a table that is being read: a cell may fill several, and reach down into the rows below.

    `room` gives an item for each empty cell that may still be written.
    """

    def __init__(self, room: Iterator[int]) -> None:
        self._room = room
        self._column = 0
        self._reaching: dict[int, int] = {}
        self._wide = 0

    def cell(self, attributes: dict[str, str]) -> str:
        """The text between a cell and the one before it, with the empty cells that stand there."""
        text = self._rest_of_cell()
        while self._reaching.get(self._column):
            text += self._fill()
        columns, rows = (_span(attributes.get(name, "")) for name in ("colspan", "rowspan"))
        text += self._next()
        self._wide = columns - 1
        if rows > 1 and self._column <= MAX_COLUMNS and operator.length_hint(self._room):
            self._reaching |= dict.fromkeys(range(self._column - 1, self._column + self._wide), rows - 1)
        return text

    def end_row(self) -> str:
        """The rest of a row; "" where none has begun."""
        if not self._column:
            return ""
        text = self._rest_of_cell()
        last = max(self._reaching, default=-1)
        while self._reaching and self._column <= last:
            text += self._fill()
        self._column = 0
        return f"{text} |"

    def _rest_of_cell(self) -> str:
        text = "".join(self._next() for _ in zip(range(self._wide), self._room, strict=False))
        self._wide = 0
        return text

    def _fill(self) -> str:
        """An empty cell, below one that reaches down if there is one; "" where there is no room for more."""
        if next(self._room, None) is None:
            self._reaching.clear()
            return ""
        if (rows := self._reaching.pop(self._column, 0)) > 1:
            self._reaching[self._column] = rows - 1
        return self._next()

    def _next(self) -> str:
        self._column += 1
        return "| " if self._column == 1 else " | "


def _span(text: str) -> int:
    return int(text) if re.fullmatch("[1-9][0-9]{0,2}", text.strip()) else 1


class HtmlText(HTMLParser):
    """Reads a page: `markdown` is its text, `about` what its head says of it (title, author, date)."""

    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.about: dict[str, str] = {}
        self._url = url
        self._parts: list[str] = []
        self._silent: list[str] = []
        self._links: list[str] = []
        self._room = iter(range(MAX_FILLED_CELLS))
        self._tables = [_Table(self._room)]
        self._in_title = False
        self._preformatted = 0

    @property
    def markdown(self) -> str:
        """The text so far, with an empty line between blocks."""
        lines = (line.rstrip() for line in "".join(self._parts).split("\n"))
        text = _EMPTY_LINK.sub("", "\n".join(lines))
        return re.sub(r"\n{3,}", "\n\n", text).strip()

    def read(self, source: str) -> None:
        """Take in a page, in a time that grows with its length alone, whatever it is."""
        for start in range(0, min(len(source), MAX_CHARS), CHUNK_CHARS):
            self.feed(source[start : start + CHUNK_CHARS])
        if len(self.rawdata) <= CHUNK_CHARS:
            self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "title":
            self._in_title = not self.about.get("title")
        elif tag == "meta":
            self._meta(attributes)
        elif tag in _SILENT:
            self._silent.append(tag)
        elif not self._silent:
            self._begin(tag, attributes)

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in _OPENINGS:
            self._parts.append(_OPENINGS[tag])
        elif tag == "pre":
            self._preformatted += 1
            self._parts.append("\n\n```\n")
        elif tag in ("td", "th"):
            self._parts.append(self._tables[-1].cell(attributes))
        elif tag == "a":
            self._links.append(attributes.get("href", ""))
            self._parts.append("[")
        elif tag == "tr":
            self._parts.append(f"{self._tables[-1].end_row()}\n")
        elif tag in _BLOCKS:
            if tag == "table":
                self._tables.append(_Table(self._room))
            self._parts.append("\n\n")
        elif not self._preformatted:
            self._parts.append("`" if tag == "code" else _MARKS.get(tag, ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif tag in self._silent:
            # what is left open within it ends with it
            del self._silent[self._silent.index(tag) :]
        elif not self._silent:
            self._end(tag)

    def _end(self, tag: str) -> None:
        if tag == "a" and self._links:
            target = urllib.parse.urljoin(self._url, self._links.pop())
            self._parts.append(f"]({target})" if target.startswith(("http://", "https://")) else "]")
        elif tag == "pre" and self._preformatted:
            self._preformatted -= 1
            self._parts.append("\n```\n\n")
        elif tag == "tr":
            self._parts.append(self._tables[-1].end_row())
        elif tag in _BLOCKS or tag in _HEADINGS:
            if tag == "table" and len(self._tables) > 1:
                self._parts.append(self._tables.pop().end_row())
            self._parts.append("\n\n")
        elif not self._preformatted:
            self._parts.append("`" if tag == "code" else _MARKS.get(tag, ""))

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.about["title"] = " ".join(f"{self.about.get('title', '')}{data}".split())
        elif not self._silent:
            self._parts.append(data if self._preformatted else re.sub(r"\s+", " ", data))

    def _meta(self, attributes: dict[str, str]) -> None:
        named = attributes.get("name") or attributes.get("property") or ""
        known = {"author": "author", "article:published_time": "date", "date": "date", "og:title": "title"}
        if (name := known.get(named.lower())) and attributes.get("content"):
            self.about.setdefault(name, " ".join(attributes["content"].split()))


def declared_charset(body: bytes) -> str:
    """The encoding that the page's head declares; "utf-8" where it says none."""
    found = _CHARSET.search(body[:HEAD_BYTES])
    return found[1].decode("ascii", "replace") if found else "utf-8"
