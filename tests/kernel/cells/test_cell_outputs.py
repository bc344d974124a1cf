"""The outputs of cells that are run for Claude, and the comparison of two runs' outputs."""

from __future__ import annotations

import asyncio
import base64
import io
import threading
from collections.abc import Callable
from typing import Any

import nbformat.v4
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cellwright.kernel.cells import cell_outputs
from cellwright.kernel.cells.cell_outputs import SHOWN_CHARS, CellOutputs, difference
from cellwright.kernel.execute.captured_output import Display
from row_tables import for_each_row


@pytest.fixture
def loop() -> Any:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def new(loop: asyncio.AbstractEventLoop, *older: CellOutputs) -> CellOutputs:
    return CellOutputs(loop, lambda: None, older)


def show(outputs: CellOutputs, text: str, display_id: str = "", *, update: bool = False) -> None:
    outputs.display({"text/plain": text}, {}, display_id, update=update)


class Notebook:
    """A cell of a notebook, as `put_outputs` changes it."""

    def __init__(self) -> None:
        self.outputs: list[dict[str, Any]] = []
        self.puts = 0

    def take(self, outputs: CellOutputs) -> None:
        news = outputs.unsent_changes()
        if not news:
            return
        self.puts += 1
        if news.clear:
            self.outputs = []
        for output in news.outputs:
            last = self.outputs[-1] if self.outputs else {}
            if output["output_type"] == "stream" and last.get("name") == output["name"]:
                last["text"] += output["text"]
            else:
                self.outputs.append(dict(output))

    def texts(self) -> list[Any]:
        return [output.get("text", output.get("data")) for output in self.outputs]


def test_all_kinds_in_order_as_nbformat_has_them(loop: asyncio.AbstractEventLoop) -> None:
    outputs = new(loop)
    outputs.write("one\n")
    outputs.write("two\n")
    outputs.write("three\n", "stderr")
    show(outputs, "four")
    outputs.result({"text/plain": "5", "image/png": b"\x89PNG"}, {"image/png": {"width": 3}}, 7)
    outputs.error("ValueError", "six", ["\x1b[31mred"], "short")
    assert outputs.outputs() == (
        {"output_type": "stream", "name": "stdout", "text": "one\ntwo\n"},
        {"output_type": "stream", "name": "stderr", "text": "three\n"},
        {"output_type": "display_data", "data": {"text/plain": "four"}, "metadata": {}},
        {
            "output_type": "execute_result",
            "data": {"text/plain": "5", "image/png": base64.b64encode(b"\x89PNG").decode()},
            "metadata": {"image/png": {"width": 3}},
            "execution_count": 7,
        },
        {"output_type": "error", "ename": "ValueError", "evalue": "six", "traceback": ["\x1b[31mred"]},
    )
    cell = nbformat.v4.new_code_cell("x", outputs=list(outputs.outputs()))
    nbformat.validate(nbformat.v4.new_notebook(cells=[cell]))
    pieces = list(outputs.pieces({}))
    assert [piece for piece in pieces if isinstance(piece, str)] == ["one\ntwo\n", "three\n", "short\n"]
    assert [piece.text for piece in pieces if isinstance(piece, Display)] == ["four", "5"]


def test_the_notebook_gets_only_what_is_new(loop: asyncio.AbstractEventLoop) -> None:
    outputs, notebook = new(loop), Notebook()
    notebook.outputs = [{"output_type": "stream", "name": "stdout", "text": "of the run before"}]
    notebook.take(outputs)
    assert notebook.outputs == []
    outputs.write("a")
    notebook.take(outputs)
    outputs.write("b")
    show(outputs, "c")
    news = outputs.unsent_changes()
    assert not news.clear
    assert [output.get("text") for output in news.outputs] == ["b", None]
    assert not outputs.unsent_changes()


def test_what_did_not_arrive_is_sent_again(loop: asyncio.AbstractEventLoop) -> None:
    outputs, notebook = new(loop), Notebook()
    outputs.write("a")
    assert outputs.unsent_changes()
    outputs.send_again()
    outputs.write("b")
    notebook.take(outputs)
    assert notebook.texts() == ["ab"]


def test_a_display_is_updated_in_its_place_also_from_a_later_cell(loop: asyncio.AbstractEventLoop) -> None:
    first = new(loop)
    second = new(loop, first)
    show(first, "old", "id")
    first.unsent_changes()
    assert second.knows("id")
    assert not second.knows("another")
    show(second, "new", "id", update=True)
    assert [output["data"]["text/plain"] for output in first.outputs()] == ["new"]
    assert first.unsent_changes().clear
    assert second.outputs() == ()


@pytest.mark.parametrize(("wait", "between"), [(False, []), (True, ["old\n"])])
def test_clear_output_at_once_or_with_what_comes_next(
    loop: asyncio.AbstractEventLoop, wait: bool, between: list[str]
) -> None:
    outputs, notebook = new(loop), Notebook()
    outputs.write("old\n")
    notebook.take(outputs)
    outputs.clear(wait=wait)
    notebook.take(outputs)
    assert notebook.texts() == between
    outputs.write("new\n")
    notebook.take(outputs)
    assert notebook.texts() == ["new\n"]


def test_a_progress_bar_is_its_last_state(loop: asyncio.AbstractEventLoop) -> None:
    outputs, notebook = new(loop), Notebook()
    outputs.write("start\n")
    for percent in range(100):
        outputs.write(f"\r{percent}%")
        if percent % 10 == 0:
            notebook.take(outputs)
    outputs.write("\ndone\r\n")
    notebook.take(outputs)
    assert notebook.texts() == ["start\n99%\ndone\n"]


def test_a_stream_without_end_keeps_beginning_and_end(loop: asyncio.AbstractEventLoop) -> None:
    outputs = new(loop)
    for number in range(400):
        outputs.write(f"{number:9}\n" * 1000)
    [output] = outputs.outputs()
    assert output["text"].startswith("        0\n")
    assert output["text"].endswith("      399\n")
    kept = len(output["text"])
    assert kept < cell_outputs.HEAD_CHARS + 3 * cell_outputs.TAIL_CHARS
    gap = int(output["text"].partition("[… ")[2].partition(" ")[0].replace(",", ""))
    note = f"\n[… {gap:,} characters left out …]\n"
    assert kept - len(note) + gap == 4_000_000


def test_outputs_without_number_are_counted(loop: asyncio.AbstractEventLoop) -> None:
    outputs = new(loop)
    for number in range(cell_outputs.MAX_OUTPUTS + 3):
        show(outputs, str(number))
    kept = outputs.outputs()
    assert len(kept) == cell_outputs.MAX_OUTPUTS + 1
    assert "[3 more outputs" in kept[-1]["data"]["text/plain"]
    outputs.clear(wait=False)
    show(outputs, "again")
    assert [output["data"]["text/plain"] for output in outputs.outputs()] == ["again"]


def test_what_is_too_large_is_not_kept_but_what_follows_is(loop: asyncio.AbstractEventLoop) -> None:
    outputs = new(loop)
    show(outputs, "x" * (cell_outputs.MAX_BYTES + 1))
    outputs.write("small\n")
    assert [(output.get("text") or output["data"]["text/plain"])[:7] for output in outputs.outputs()] == [
        "[1 more",
        "small\n",
    ]


def test_a_bundle_is_copied(loop: asyncio.AbstractEventLoop) -> None:
    outputs, bundle = new(loop), {"application/json": {"a": [1]}}
    outputs.display(bundle, {}, "", update=False)
    bundle["application/json"]["a"].append(2)
    assert outputs.outputs()[0]["data"] == {"application/json": {"a": [1]}}


def test_the_agent_hears_of_what_another_thread_puts_in() -> None:
    async def main() -> None:
        changed = asyncio.Event()
        outputs = CellOutputs(asyncio.get_running_loop(), changed.set)
        threading.Thread(target=outputs.write, args=("from afar",)).start()
        await asyncio.wait_for(changed.wait(), 60)
        assert [output["text"] for output in outputs.outputs()] == ["from afar"]

    asyncio.run(main())


STEP: st.SearchStrategy[Callable[[CellOutputs], None]] = st.one_of(
    st.tuples(st.sampled_from(["a", "b\n", "\rc", "d\r\n", "e\r"]), st.sampled_from(["stdout", "stderr"])).map(
        lambda given: lambda outputs: outputs.write(*given)
    ),
    st.sampled_from(["", "one", "two"]).map(lambda name: lambda outputs: show(outputs, f"new {name}", name)),
    st.tuples(st.sampled_from(["one", "two"]), st.integers()).map(
        lambda given: lambda outputs: show(outputs, str(given[1]), given[0], update=True)
    ),
    st.booleans().map(lambda wait: lambda outputs: outputs.clear(wait=wait)),
)


@given(st.lists(st.tuples(STEP, st.booleans())))
def test_piece_by_piece_it_comes_to_the_same(steps: list[tuple[Callable[[CellOutputs], None], bool]]) -> None:
    loop = asyncio.new_event_loop()
    try:
        often, once, notebook = new(loop), new(loop), Notebook()
        for step, take in steps:
            step(often)
            step(once)
            if take:
                notebook.take(often)
        notebook.take(often)
        assert notebook.outputs == list(once.outputs())
    finally:
        loop.close()


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
