"""The outputs of a cell that is run: as nbformat has them, in order, and told to the notebook piece by piece."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable
from typing import Any

import nbformat.v4
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.kernel.cells import cell_outputs
from cellwright.kernel.cells.cell_outputs import CellOutputs
from cellwright.kernel.execute.captured_output import Display


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
