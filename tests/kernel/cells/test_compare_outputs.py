"""When two runs of a cell count as the same, and what is said when they do not."""

from __future__ import annotations

import base64
import io
from typing import Any

from PIL import Image

from cellwright.kernel.cells.compare_outputs import SHOWN_CHARS, difference
from row_tables import for_each_row


def printed(text: str, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def result(**data: Any) -> dict[str, Any]:
    bundle = {kind.replace("_", "/", 1).replace("__", "+"): value for kind, value in data.items()}
    return {"output_type": "execute_result", "data": bundle, "metadata": {}, "execution_count": 1}


def display(**data: Any) -> dict[str, Any]:
    return {**result(**data), "output_type": "display_data"}


def error(name: str, value: str, traceback: str = "") -> dict[str, Any]:
    return {"output_type": "error", "ename": name, "evalue": value, "traceback": [traceback]}


def picture(color: str, *, size: tuple[int, int] = (10, 10), level: int = 6, dot: bool = False) -> str:
    image = Image.new("RGB", size, color)
    if dot:
        image.putpixel((0, 0), (1, 2, 3))
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=level)
    return base64.b64encode(out.getvalue()).decode()


@for_each_row(
    ("was", "now"),
    [
        ("<Line2D at 0x7f3a5c0d1e90>", "<Line2D at 0x7fffac0d1e00>"),
        ("Wall time: 12.3 ms", "Wall time: 1.02 s"),
        ("CPU times: user 1 ms, sys: 2 ms, total: 3 ms\nWall time: 4 ms", "CPU times: total: 9 s\nWall time: 1 s"),
        (
            "12.3 ns ± 0.1 ns per loop (mean ± std. dev. of 7 runs, 100,000,000 loops each)",
            "1.23 µs ± 4.1 ns per loop (mean ± std. dev. of 7 runs, 1,000,000 loops each)",
        ),
        ("Training took 12.3 s.", "Training took 45 s."),
        ("Elapsed time: 0.12", "Elapsed time: 1.5"),
        ("100%|██████████| 10/10 [00:01<00:00,  9.9it/s]", "100%|██████████| 10/10 [00:00<00:00, 99.9it/s]"),
        ("File /tmp/ipykernel_123/456.py:3", "File /tmp/ipykernel_99/1.py:3"),
        ("Cell In[3], line 1", "Cell In[17], line 1"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("10%\r50%\rdone\n", "done\n"),
        ("same   \n", "same\n\n"),
        ("widget 123e4567-e89b-42d3-a456-426614174000", "widget 00000000-e89b-42d3-a456-426614174000"),
    ],
)
def test_what_is_different_each_time_does_not_count(was: str, now: str) -> None:
    assert difference([printed(was)], [printed(now)]) is None
    assert difference([result(text_plain=was)], [result(text_plain=now)]) is None


@for_each_row(
    ("was", "now"),
    [
        ("42", "43"),
        ("0.1234", "0.1235"),
        ("It took 3 tries", "It took 4 tries"),
        ("mean latency 12.3 ms", "mean latency 13.3 ms"),
        ("2026-11-22 05:24:43", "2026-11-23 05:24:43"),
        ("a\nb", "b\na"),
        ("id=12", "id=13"),
    ],
)
def test_what_may_be_data_counts(was: str, now: str) -> None:
    found = difference([printed(was)], [printed(now)])
    assert found is not None
    assert (found.was, found.now) == (was, now)
    assert "stdout differs" in found.what


def test_how_a_stream_came_in_pieces_does_not_count() -> None:
    was = [printed("a"), printed("x", "stderr"), printed("b")]
    assert difference(was, [printed("ab"), printed("x", "stderr")]) is None
    assert difference(was, [printed("x", "stderr"), printed("ab")]) is None
    assert difference(was, [printed("ab", "stderr"), printed("x")]) is not None


def test_the_order_of_displays_counts() -> None:
    one, two = display(text_plain="1"), display(text_plain="2")
    assert difference([one, two], [one, two]) is None
    assert difference([one, two], [two, one]) is not None


def test_missing_and_new_outputs_are_said() -> None:
    missing = difference([printed("a\n"), result(text_plain="1")], [printed("a\n")])
    assert missing is not None
    assert (missing.was, missing.now) == ("1", "")
    assert "missing" in missing.what
    new = difference([], [printed("hello\n")])
    assert new is not None
    assert (new.was, new.now) == ("", "hello")
    assert "is new" in new.what


def test_an_error_is_its_name_and_message() -> None:
    assert difference([error("E", "x", "one way")], [error("E", "x", "another")]) is None
    found = difference([result(text_plain="1")], [error("NameError", "no x")])
    assert found is not None
    assert "became an error" in found.what
    assert found.now.partition(": ")[::2] == ("NameError", "no x")


def test_pictures_are_compared_by_their_pixels() -> None:
    was = display(image_png=picture("red", level=0), text_plain="<Figure>")
    assert difference([was], [display(image_png=picture("red", level=9), text_plain="<Figure>")]) is None
    one_dot = difference([was], [display(image_png=picture("red", dot=True), text_plain="<Figure>")])
    assert one_dot is not None
    assert "1.00%" in one_dot.what
    larger = difference([was], [display(image_png=picture("red", size=(20, 10)))])
    assert larger is not None
    assert "10×10 became 20×10" in larger.what


def test_a_picture_that_cannot_be_decoded_is_compared_by_its_bytes() -> None:
    broken = display(image_png=base64.b64encode(b"no picture").decode())
    assert difference([broken], [broken]) is None
    found = difference([broken], [display(image_png=picture("red"))])
    assert found is not None
    assert "its bytes" in found.what


def test_the_plain_text_speaks_for_the_others() -> None:
    was = result(text_plain="   a\n0  1", text_html='<table id="x1">')
    assert difference([was], [result(text_plain="   a\n0  1", text_html='<table id="x2">')]) is None
    assert difference([display(text_html="<b>1</b>")], [display(text_html="<b>2</b>")]) is not None


def test_random_ids_in_html_and_svg_do_not_count() -> None:
    table = '<style>#T_{0}_row0</style><table id="T_{0}">'
    assert difference([display(text_html=table.format("ab12c"))], [display(text_html=table.format("00ffe"))]) is None
    kind = "image_svg__xml"
    drawn = '<dc:date>{0}</dc:date><path id="p{0}" d="M 0 1"/><use href="#p{0}"/>'
    was, now = (display(**{kind: drawn.format(number)}) for number in (1, 2))
    assert difference([was], [now]) is None
    assert difference([was], [display(**{kind: drawn.format(1).replace("M 0 1", "M 0 2")})]) is not None


def test_texts_in_lists_of_lines_are_the_same_texts() -> None:
    listed = {"output_type": "stream", "name": "stdout", "text": ["a\n", "b\n"]}
    assert difference([listed], [printed("a\nb\n")]) is None


def test_both_sides_are_bounded() -> None:
    found = difference([printed("a" * 100_000)], [printed("b" * 100_000)])
    assert found is not None
    assert len(found.was) < SHOWN_CHARS + 100
    assert "characters left out" in found.now


def test_long_lines_take_little_time() -> None:
    for line in ("a" * 100_000, "1" * 100_000, "1," * 50_000, "1% " * 30_000, " " * 100_000, "\r" * 100_000):
        assert difference([printed(line + "x")], [printed(line + "y")]) is not None
