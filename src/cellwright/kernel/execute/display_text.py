"""What a display says in words, for a model: the best text of a mimebundle."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

MOST_TEXT = 12_000
"""Characters of JSON."""

MOST_OF_CHART = 2_000
MOST_SVG = 400_000
MOST_SCRIPT = 10_000_000

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

_SAYS_NOTHING = re.compile(r"<[\w.<>]+(?: object)?(?: at 0x[0-9a-fA-F]+)?>\s*")


def bundle_texts(data: Mapping[str, Any]) -> dict[str, str]:
    """The texts of a mimebundle that `text_of` chooses from; of a chart only what it is one of."""
    found = {
        mime: str(data[mime]) for mime in ("text/plain", "text/markdown", "text/latex", "text/html") if mime in data
    }
    if "application/json" in data:
        found["application/json"] = json.dumps(data["application/json"], ensure_ascii=False, default=str)[:MOST_TEXT]
    if "image/svg+xml" in data:
        found["image/svg+xml"] = str(data["image/svg+xml"])[:MOST_SVG]
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
    script = str(data.get("text/html", ""))[:MOST_SCRIPT]
    return next((name for call, name in CHART_SCRIPTS.items() if call in script), "") if "<script" in script else ""


def text_of(texts: Mapping[str, str]) -> str:
    """The text that says most: what was written for people, else what the object says of itself."""
    plain = texts.get("text/plain", "")
    if "chart" in texts:
        says = "" if _SAYS_NOTHING.fullmatch(plain) else f"{plain[:MOST_OF_CHART]}\n"
        return (
            f"{says}[a chart of {texts['chart']}, drawn in the browser: you cannot see it unless it is saved as a PNG]"
        )
    if "widget" in texts:
        return f"{plain}\n[a widget, as it was when it was displayed]" if plain else ""
    if written := texts.get("text/markdown") or texts.get("text/latex"):
        return written
    if plain and not _SAYS_NOTHING.fullmatch(plain):
        return plain
    from cellwright.kernel.html_text import html_text  # its parser is not needed where displays say something

    if "text/html" in texts:
        return html_text(texts["text/html"]) or plain
    if "application/json" in texts:
        return texts["application/json"]
    if "image/svg+xml" in texts:
        words = html_text(texts["image/svg+xml"])
        return f"[a drawing (SVG), which you cannot see{f'; its texts: {words}' if words else ''}]"
    return plain
