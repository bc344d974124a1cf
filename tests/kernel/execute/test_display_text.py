"""What a display says to a model in words."""

from __future__ import annotations

from typing import Any

import pytest

from cellwright.kernel.execute.captured_output import display_of
from cellwright.kernel.execute.display_text import MAX_OF_CHART, MAX_TEXT, html_text
from eventual import paces
from row_tables import for_each_row

NOTHING = "<some.Thing object at 0x7fa659b39d90>"


@for_each_row(
    ("bundle", "text"),
    [
        ({"text/plain": "plain", "text/html": "<b>html</b>"}, "plain"),
        ({"text/plain": NOTHING, "text/html": "<b>html</b> &amp; more"}, "html & more"),
        ({"text/plain": "<IPython.core.display.HTML object>", "text/html": "<p>a</p><p>b</p>"}, "a\nb"),
        ({"text/html": "<i>only</i>"}, "only"),
        ({"text/plain": NOTHING, "text/html": "<script>1</script>"}, NOTHING),
        ({"text/plain": NOTHING, "text/markdown": "*m*", "text/html": "<i>h</i>"}, "*m*"),
        ({"text/plain": "<IPython.core.display.JSON object>", "application/json": {"a": [1]}}, '{"a": [1]}'),
        (
            {"text/plain": NOTHING, "image/svg+xml": "<svg><title>T</title><text>hi</text></svg>"},
            "[a drawing (SVG); its texts: T\nhi]",
        ),
        (
            {"text/plain": "  0%|   | 0/50", "application/vnd.jupyter.widget-view+json": {"model_id": "1"}},
            "  0%|   | 0/50\n[a widget, as it was when it was displayed]",
        ),
        ({"text/plain": NOTHING}, NOTHING),
        ({}, ""),
    ],
)
def test_the_text_that_says_most(bundle: dict[str, Any], text: str) -> None:
    assert display_of(bundle).text == text


@pytest.mark.parametrize(
    "bundle",
    [
        {"text/plain": "Figure(" + "x" * 100_000, "application/vnd.plotly.v1+json": {"data": []}},
        {"text/plain": "alt.Chart(...)", "text/html": "<div></div><script>vegaEmbed(1)</script>"},
        {"text/plain": NOTHING, "application/vnd.vegalite.v5+json": {}, "text/html": "<b>x</b>"},
    ],
)
def test_of_a_chart_that_the_browser_draws_it_is_said_what_it_is(bundle: dict[str, Any]) -> None:
    text = display_of(bundle).text
    assert "drawn in the browser" in text
    assert NOTHING not in text
    assert len(text) < MAX_OF_CHART + 200


def test_a_chart_with_a_picture_is_a_picture() -> None:
    display = display_of({"text/plain": "x", "application/vnd.plotly.v1+json": {}, "image/png": b"png"})
    assert display.image_type == "image/png"


def test_tables_keep_their_rows() -> None:
    source = """<style>b {color: red}</style><table><thead><tr><th></th><th>price</th><th>city</th></tr></thead>
    <tbody><tr><th>0</th><td>1.5</td><td>New <b>York</b></td></tr>
    <tr><th>1</th><td></td><td>Bonn</td></tr></tbody></table>"""
    assert html_text(source).split("\n") == ["price | city", "0 | 1.5 | New York", "1 | | Bonn"]


@for_each_row("piece", ["<div>", "<b>x</b>", "&amp;", "<!--", "<script>", "<td>", "< ", "<a b=", "</p>", "x\n \n"])
def test_large_html_is_bounded_in_length_and_time(piece: str) -> None:
    text = piece * (5_000_000 // len(piece))

    def read() -> None:
        assert len(html_text(text)) < MAX_TEXT + 100

    assert paces(read, 800, tries=3) < 800
