"""How output is kept for the model: bounded, readable, pictures scaled."""

from __future__ import annotations

import asyncio
import base64
import io
from typing import Any

import pytest
from PIL import Image

from cellwright.kernel.execute.captured_output import (
    MAX_IMAGES,
    MAX_OF_CHART,
    MAX_TEXT,
    BoundedPieces,
    CapturedOutput,
    Display,
    content_of,
    display_of,
    html_text,
)
from cellwright.kernel.execute.output_limits import HEAD_CHARS, TAIL_CHARS
from cellwright.model.images import DISPLAY_LIMITS, MAX_SIDE, image_block
from eventual import paces
from row_tables import for_each_row

NOTHING = "<some.Thing object at 0x7fa659b39d90>"


def kept(*pieces: str | Display) -> object:
    bounded = BoundedPieces()
    for piece in pieces:
        bounded.add(piece)
    return content_of(bounded.pieces())


def picture(width: int, height: int, kind: str = "PNG", mode: str = "RGB") -> bytes:
    out = io.BytesIO()
    Image.new(mode, (width, height)).save(out, kind)
    return out.getvalue()


def shown(width: int, height: int) -> Display:
    return display_of({"image/png": picture(width, height), "text/plain": "<Figure>"})


@for_each_row(
    ("pieces", "content"),
    [
        (("a", "b\n", "c"), "ab\nc"),
        (("\x1b[31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07\n",), "red link"),
        (("10%\r", "20%\r", "100%\n", "done"), "100%\ndone"),
        (("\r10%", "\r20%"), "20%"),
        (("a\r\nb\r\n",), "a\nb"),
        (("x", Display({"text/plain": "<IPython.core.display.HTML object>", "text/html": "<b>h</b>"})), "xh"),
        (("x\n", Display({"text/plain": "plain", "text/markdown": "*marked*"}), "y"), "x\n*marked*\ny"),
        ((Display({}),), ""),
        ((), ""),
    ],
)
def test_text(pieces: tuple[str | Display, ...], content: str) -> None:
    assert kept(*pieces) == content


@pytest.mark.parametrize("size", [7, 5_000, 300_000])
def test_only_the_middle_is_left_out_and_counted(size: int) -> None:
    text = "".join(f"{number:09}\n" for number in range(30_000))
    content = kept(*(text[start : start + size] for start in range(0, len(text), size)))
    assert isinstance(content, str)
    head, _, tail = content.partition("\n[… ")
    count, _, tail = tail.partition(" characters left out …]\n")
    assert head == text[:HEAD_CHARS].rstrip("\n") or head == text[:HEAD_CHARS]
    assert tail == text[-TAIL_CHARS:].rstrip("\n")
    assert int(count.replace(",", "")) == len(text) - HEAD_CHARS - TAIL_CHARS


def test_pictures_are_never_left_out_for_their_texts() -> None:
    content = kept("x" * 150_000, shown(10, 10), "y" * 150_000)
    assert isinstance(content, list)
    assert [block["type"] for block in content].count("image") == 1


def test_too_many_pictures_are_counted() -> None:
    content = kept(*(shown(10, height) for height in range(1, MAX_IMAGES + 3)))
    assert isinstance(content, list)
    assert [block["type"] for block in content] == ["image"] * MAX_IMAGES + ["text"]
    assert content[-1]["text"] == f"[2 more pictures left out: one call gives back at most {MAX_IMAGES}]"


@pytest.mark.parametrize("size", [(4000, 3000), (1, 9000), (8000, 100), (1400, 1400)])
def test_a_large_picture_is_scaled_down_in_proportion(size: tuple[int, int]) -> None:
    block = image_block(base64.b64encode(picture(*size)).decode())
    assert isinstance(block, dict)
    width, height = Image.open(io.BytesIO(base64.b64decode(block["source"]["data"]))).size
    assert width * height <= DISPLAY_LIMITS.max_pixels * 1.001  # to the nearest pixel of each side
    assert max(width, height) <= MAX_SIDE
    assert width / height == pytest.approx(size[0] / size[1], rel=0.1) or min(width, height) == 1


def test_a_small_picture_is_sent_as_it_is() -> None:
    for kind, raw in (("image/png", picture(300, 200)), ("image/jpeg", picture(300, 200, "JPEG"))):
        data = base64.b64encode(raw).decode()
        assert image_block(data) == {
            "type": "image",
            "source": {"type": "base64", "media_type": kind, "data": data},
        }


def test_every_kind_of_pixel_can_be_scaled() -> None:
    for mode in ("1", "L", "P", "RGBA", "I;16"):
        assert isinstance(image_block(base64.b64encode(picture(2000, 2000, mode=mode)).decode()), dict)
    assert isinstance(image_block(base64.b64encode(picture(2000, 2000, "JPEG", "CMYK")).decode()), dict)


def test_a_broken_picture_is_said_in_words() -> None:
    whole = picture(300, 200, "JPEG")
    broken = [b"no picture", b"", whole[: len(whole) // 2], picture(1, 1)[:16] + bytes(60)]
    for raw in broken:
        assert "cannot be shown" in str(image_block(base64.b64encode(raw).decode()))


def test_a_picture_without_its_end_is_written_anew() -> None:
    block = image_block(base64.b64encode(picture(30, 20)[:-12]).decode())
    assert isinstance(block, dict)
    assert base64.b64decode(block["source"]["data"]) == picture(30, 20)


def test_pictures_are_what_their_bytes_say_and_nothing_else_of_the_output_is_lost() -> None:
    as_png = display_of({"image/png": picture(30, 20, "GIF")})
    content = kept(
        "before\n", as_png, display_of({"image/png": "not valid base64"}), display_of({"image/png": 5}), "after"
    )
    assert isinstance(content, list)
    assert [block.get("text") for block in content][:1] == ["before"]
    assert content[1]["source"]["media_type"] == "image/gif"
    assert content[2]["text"].count("cannot be shown") == 2
    assert content[2]["text"].endswith("after")


def test_pieces_keep_their_order_while_the_views_take_theirs() -> None:
    async def scene() -> object:
        shown = asyncio.Event()
        output = CapturedOutput(asyncio.get_running_loop(), lambda **_: shown.set())
        for number in range(200_000):
            output.put(f"\r{number}")
        output.put("\ndone\n")
        content, _ = await asyncio.gather(output.content(), asyncio.wait_for(shown.wait(), 60))
        return content

    assert asyncio.run(scene()) == "199999\ndone"


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
