"""Displays of a branch made passive: nothing that Claude's code displays there runs in the user's page.

Pictures stay, text stays, and of HTML the tables and plain marks: rebuilt from a short list, so that what is not on it is
not there. Everything else (scripts, widgets, charts, links, styles, SVG) is left out; Claude still reads its text.
"""

from __future__ import annotations

import html
import html.parser
from collections.abc import Mapping
from typing import Any

from cellwright.text import lazy_pattern

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
MAX_HTML = 400_000

_BASE64 = lazy_pattern(r"[A-Za-z0-9+/=\s]+")
_NUMBER = lazy_pattern(r"[0-9]{1,4}")
_KEPT = frozenset(
    {
        "table",
        "thead",
        "tbody",
        "tfoot",
        "tr",
        "th",
        "td",
        "caption",
        "b",
        "i",
        "em",
        "strong",
        "u",
        "s",
        "small",
        "sub",
    }
    | {"sup", "p", "div", "span", "pre", "code", "ul", "ol", "li", "dl", "dt", "dd", "h1", "h2", "h3", "h4", "h5", "h6"}
)
_EMPTY = frozenset({"br", "hr"})
_DROPPED = frozenset(
    {"script", "style", "iframe", "object", "svg", "math", "template", "noscript", "textarea", "title", "select"}
    | {"button", "form", "head", "audio", "video", "canvas"}
)
"""Elements that are left out with all that is in them."""


def passive_bundle(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mimebundle without anything that could run, load or link.

    >>> sorted(passive_bundle({"text/html": "<b onclick=x()>1</b>", "text/plain": "1", "application/javascript": "x()"}))
    ['text/html', 'text/plain']
    """
    kept: dict[str, Any] = {}
    for kind in PICTURES:
        picture = data.get(kind)
        if isinstance(picture, str) and _BASE64.fullmatch(picture):
            kept[kind] = picture
    if isinstance(text := data.get("text/plain"), str):
        kept["text/plain"] = text
    page = data.get("text/html")
    if isinstance(page, str) and len(page) <= MAX_HTML and (shown := passive_html(page)):
        kept["text/html"] = shown
    return kept


def passive_html(page: str) -> str:
    """Return the tables and plain marks of a page; "" if nothing is left to be seen.

    >>> passive_html('<table onload=x()><tr><td colspan=2>a &lt; b<script>x()</script><a href="//e">c</a>')
    '<table><tr><td colspan="2">a &lt; bc</td></tr></table>'
    """
    rebuilt = _Rebuilt()
    rebuilt.feed(page)
    rebuilt.close()
    return rebuilt.whole() if rebuilt.has_text else ""


class _Rebuilt(html.parser.HTMLParser):
    """The page written anew, each element closed."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.has_text = False
        self._parts: list[str] = []
        self._open: list[str] = []
        self._dropped = 0

    def whole(self) -> str:
        return "".join((*self._parts, *(f"</{tag}>" for tag in reversed(self._open))))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _DROPPED:
            self._dropped += 1
        elif not self._dropped and tag in _EMPTY:
            self._parts.append(f"<{tag}>")
        elif not self._dropped and tag in _KEPT:
            spans = [
                f' {name}="{value}"'
                for name, value in attrs
                if name in ("colspan", "rowspan") and value and _NUMBER.fullmatch(value)
            ]
            self._parts.append(f"<{tag}{''.join(spans)}>")
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in _DROPPED:
            self._dropped = max(0, self._dropped - 1)
        elif not self._dropped and tag in self._open:
            while self._open[-1] != tag:
                self._parts.append(f"</{self._open.pop()}>")
            self._parts.append(f"</{self._open.pop()}>")

    def handle_data(self, data: str) -> None:
        if not self._dropped:
            self.has_text = self.has_text or not data.isspace()
            self._parts.append(html.escape(data))
