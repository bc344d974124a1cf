"""`--background`: the cell ends at once, the run goes on beside the user's cells, and everything of it stays its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from notebook_kernel import Cell, Message, NotebookKernel, Page, model_of, running_kernel

from cellwright.testing import Gate, MessagesServer, hold, say, turn, use

pytestmark = pytest.mark.kernel

BACKGROUND = "%%claude --new --background --mode bypassPermissions\n"


def python(code: str) -> Any:
    return turn(use("Python", code=code))


def results(model: MessagesServer) -> list[dict[str, Any]]:
    return [block for block in model.requests[-1].body["messages"][-1]["content"] if block["type"] == "tool_result"]


def kept(kernel: NotebookKernel, cell: Cell) -> dict[str, str]:
    """What the cell holds when its run is over, as the notebook keeps it."""

    def replaced(message: Message) -> bool:
        return message["msg_type"] == "update_display_data" and message["parent_header"]["msg_id"] == cell.id

    if not any(replaced(message) for message in kernel.published):
        kernel.wait_for(replaced)
    cell.messages = [message for message in kernel.published if message["parent_header"].get("msg_id") == cell.id]
    return cell.outputs[0]


@pytest.fixture(autouse=True)
def nothing_goes_on(loaded: NotebookKernel) -> Iterator[None]:
    """No test leaves a run behind for the next."""
    yield
    loaded.run("%claude /tasks stop all", cell_id=None)


def test_the_cell_ends_and_the_answer_comes_into_it_later(kernel: NotebookKernel, page: Page, model: MessagesServer):
    gate = Gate()
    model.add(turn(say("First "), hold(gate), say("and last.")))
    cell = kernel.run(BACKGROUND + "go")
    assert cell.status == "ok"
    kernel.wait_for(lambda _: page.text() == "First ")
    other = kernel.run("print('mine')\n1 + 1")
    assert other.stdout == "mine\n"
    kernel.begin("import threading; release = threading.Event(); release.wait(30)")
    gate.open()
    assert "First and last." in kept(kernel, cell)["text/markdown"]
    page.wait_for_op("end", cell)


def test_the_output_is_replaced_in_the_right_cell_while_another_one_runs(
    kernel: NotebookKernel, page: Page, model: MessagesServer
):
    gate = Gate()
    model.add(turn(say("Here "), hold(gate), say("it is.")))
    cell = kernel.run(BACKGROUND + "go")
    kernel.run("import threading; release = threading.Event()")
    long = kernel.begin("print('begun'); release.wait(60); print('over')")
    kernel.wait_for(lambda message: message["content"].get("text") == "begun\n", long)
    gate.open()
    saved = kept(kernel, cell)
    assert saved["text/markdown"].startswith("Here it is.")
    assert "application/vnd.jupyter.widget-view+json" not in saved
    kernel.interrupt()
    kernel.finish(long)
    assert long.outputs == []
    assert long.stdout == "begun\n"
