"""The words of HTML, as a model reads them."""

from __future__ import annotations

import html.parser
import re

MOST_HTML = 400_000
MOST_TEXT = 12_000
"""Characters: of HTML that is read, and of text that comes of it."""

_SPACES = re.compile(r"[ \t]+")
_BLANK_LINES = re.compile(r"\n\s*\n+")


def html_text(source: str) -> str:
    """The words of HTML, a line for each row of a table and each block, without scripts and styles."""
    reader = _Words()
    reader.feed(source[:MOST_HTML])
    text = _SPACES.sub(" ", "".join(reader.words))
    text = _BLANK_LINES.sub("\n", "\n".join(line.strip(" |") for line in text.split("\n"))).strip()
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}\n[… more of the HTML is left out]"


class _Words(html.parser.HTMLParser):
    """Collects texts; cells of a table are set apart by bars."""

    SILENT = ("script", "style", "template", "head")
    INLINE = frozenset(
        (
            *("a", "abbr", "b", "bdi", "code", "em", "font", "i", "kbd", "mark", "q", "s", "samp", "small", "span"),
            *("strong", "sub", "sup", "tspan", "u", "var"),
        )
    )

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._silent: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._silent is not None:
            return
        if tag in self.SILENT:
            self._silent = tag
        elif tag in ("td", "th"):
            self.words.append(" | ")
        elif tag not in self.INLINE:
            self.words.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._silent:
            self._silent = None
        elif tag not in self.INLINE and tag not in ("td", "th"):
            self.words.append("\n")

    def handle_data(self, data: str) -> None:
        if self._silent is None:
            self.words.append(data.replace("\n", " "))
