"""Displays and cell outputs in words, for a model: the best text of a mimebundle, and the words of HTML.

Outputs are bounded; pictures are named.
"""

from __future__ import annotations

import html.parser
import json
from collections.abc import Mapping
from typing import Any

from cellwright.text import lazy_pattern
from cellwright.tools.notebook.notebook_page import plain
from cellwright.tools.notebook.open_notebook import Output

MAX_TEXT = 12_000
"""Characters of JSON."""

MAX_OF_CHART = 2_000
MAX_SVG = 400_000
MAX_SCRIPT = 10_000_000

CHARTS = {
    "application/vnd.vegalite": "Vega-Lite",
    "application/vnd.vega": "Vega",
    "application/vnd.plotly": "Plotly",
    "application/vnd.bokehjs": "Bokeh",
    "application/vnd.holoviews": "HoloViews",
}
"""Displays that are drawn in the browser, by how their mime types start."""

WIDGET = "application/vnd.jupyter.widget-view+json"

CHART_SCRIPTS = {"vegaEmbed": "Vega-Lite", "Plotly.newPlot": "Plotly", "root.Bokeh": "Bokeh", "echarts.init": "ECharts"}
"""The same, of libraries that display a script in HTML."""

_SAYS_NOTHING = lazy_pattern(r"<[\w.<>]+(?: object)?(?: at 0x[0-9a-fA-F]+)?>\s*")


def bundle_texts(data: Mapping[str, Any]) -> dict[str, str]:
    """The texts of a mimebundle that `text_of` chooses from; of a chart only what it is one of."""
    found = {
        mime: str(data[mime]) for mime in ("text/plain", "text/markdown", "text/latex", "text/html") if mime in data
    }
    if "application/json" in data:
        found["application/json"] = json.dumps(data["application/json"], ensure_ascii=False, default=str)[:MAX_TEXT]
    if "image/svg+xml" in data:
        found["image/svg+xml"] = str(data["image/svg+xml"])[:MAX_SVG]
    if chart := _chart(data):
        found["chart"] = chart
    if WIDGET in data:
        found["widget"] = WIDGET
    return found


def _chart(data: Mapping[str, Any]) -> str:
    """The library that draws this display, or ""."""
    for start, name in CHARTS.items():
        if any(mime.startswith(start) for mime in data):
            return name
    script = str(data.get("text/html", ""))[:MAX_SCRIPT]
    return next((name for call, name in CHART_SCRIPTS.items() if call in script), "") if "<script" in script else ""


def text_of(texts: Mapping[str, str]) -> str:
    """The text that says most: what was written for people, else what the object says of itself."""
    plain = texts.get("text/plain", "")
    if "chart" in texts:
        says = "" if _SAYS_NOTHING.fullmatch(plain) else f"{plain[:MAX_OF_CHART]}\n"
        return f"{says}[a chart of {texts['chart']}, drawn in the browser]"
    if "widget" in texts:
        return f"{plain}\n[a widget, as it was when it was displayed]" if plain else ""
    if written := texts.get("text/markdown") or texts.get("text/latex"):
        return written
    if plain and not _SAYS_NOTHING.fullmatch(plain):
        return plain

    if "text/html" in texts:
        return html_text(texts["text/html"]) or plain
    if "application/json" in texts:
        return texts["application/json"]
    if "image/svg+xml" in texts:
        words = html_text(texts["image/svg+xml"])
        return f"[a drawing (SVG){f'; its texts: {words}' if words else ''}]"
    return plain


MAX_HTML = 400_000

_SPACES = lazy_pattern(r"[ \t]+")
_BLANK_LINES = lazy_pattern(r"\n\s*\n+")


def html_text(source: str) -> str:
    """The words of HTML, a line for each row of a table and each block, without scripts and styles."""
    reader = _Words()
    reader.feed(source[:MAX_HTML])
    text = _SPACES.sub(" ", "".join(reader.words))
    text = _BLANK_LINES.sub("\n", "\n".join(line.strip(" |") for line in text.split("\n"))).strip()
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}\n[… more of the HTML is left out]"


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


OUTPUT_CHARS = 800
TEXT_TYPES = ("text/plain", "text/markdown", "text/latex")


def output_text(output: Output) -> str:
    """One output of nbformat 4, its texts joined, as text; two thirds from its beginning, the rest from its end."""
    kind = output.get("output_type")
    if kind == "stream":
        return _bounded(str(output.get("text", "")))
    if kind == "error":
        return _bounded(f"{output.get('ename', 'Error')}: {output.get('evalue', '')}")
    data = output.get("data")
    if not isinstance(data, Mapping):
        return ""
    text = next((str(data[mime]) for mime in TEXT_TYPES if mime in data), "")
    picture = next((mime for mime in data if str(mime).startswith("image/")), None)
    return "\n".join(part for part in (_bounded(text), f"[{picture}]" if picture else "") if part)


def _bounded(text: str) -> str:
    text = plain(text).strip("\n")
    if len(text) <= OUTPUT_CHARS:
        return text
    head, tail = OUTPUT_CHARS * 2 // 3, OUTPUT_CHARS // 3
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters left out …]\n{text[-tail:]}"
