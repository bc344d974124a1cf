"""Messages of our comms run no hook of the user on another thread, so that figures come out as they do without us."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ipykernel
import pytest
from chat_panel import ChatPanel
from notebook_kernel import Cell, NotebookKernel, Page

from cellwright.kernel.pages.open_documents import TARGET as DOCUMENTS
from cellwright.testing import Gate, MessagesServer, hold, say, turn, use

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]

needs_subshells = pytest.mark.skipif(ipykernel.version_info[0] < 7, reason="messages wait for a cell that blocks")

RECORD = """
    import collections, threading
    threads = collections.Counter()
    def recorder(event):
        return lambda *_: threads.update([(event, threading.current_thread().name)])
    for event in ('pre_execute', 'post_execute', 'pre_run_cell', 'post_run_cell'):
        get_ipython().events.register(event, recorder(event))
"""

FIGURES = 50

DRAW = """
    %matplotlib BACKEND
    import io, threading
    import matplotlib.pyplot as plt
    def saved():
        figure, axes = plt.subplots(figsize=(3, 2))
        axes.plot([1, 3, 2])
        axes.set_title('equal')
        data = io.BytesIO()
        figure.savefig(data, metadata={'Software': None})
        plt.close(figure)
        return data.getvalue()
    saved()  # the fonts are found once
    undisturbed, = {saved() for _ in range(3)}
"""


@pytest.fixture(scope="module", autouse=True)
def recorded(loaded: NotebookKernel) -> None:
    assert loaded.run(textwrap.dedent(RECORD)).status == "ok"


@pytest.fixture
def panel(kernel: NotebookKernel) -> Iterator[ChatPanel]:
    panel = ChatPanel(kernel).connect()
    yield panel
    panel.close()


def other_threads(kernel: NotebookKernel) -> str:
    return kernel.value("sorted({thread for _, thread in threads} - {'MainThread'})")


def during(kernel: NotebookKernel, cell: Cell, act: Callable[[], Any]) -> None:
    """Do `act` again and again while `cell` runs."""
    while not any(cell.is_ended_by(message) for message in kernel.published):
        act()
    kernel.finish(cell)


def good(kernel: NotebookKernel) -> int:
    """The number of figures that are like the first one, which nothing disturbed."""
    return int(kernel.value("sum(picture == undisturbed for picture in pictures)"))


@needs_subshells
def test_messages_of_our_comms_run_no_hook_on_another_thread(
    kernel: NotebookKernel, panel: ChatPanel, model: MessagesServer
):
    page = Page(kernel)
    model.add(say("Hello."))
    kernel.run("%%claude\nhello")
    page.wait_for_op("end")
    page.send({"type": "hello"})
    for text in ("", "x"):
        panel.ask("complete", {"kind": "mention", "text": text, "notebook": ""})
    documents = kernel.value(
        f"next(id for id, comm in __import__('comm').get_comm_manager().comms.items() if comm.target_name == {DOCUMENTS!r})"
    )
    kernel.post("comm_msg", {"comm_id": documents.strip("'"), "data": {"type": "unsaved"}}, page.subshell)
    panel.ask("ping", {})
    page.close()
    assert other_threads(kernel) == "[]"


@pytest.fixture(params=["inline", "widget"])
def backend(request: pytest.FixtureRequest, kernel: NotebookKernel) -> str:
    """The backend that figures are drawn with; `undisturbed` is what each is to be like."""
    cell = kernel.run(textwrap.dedent(DRAW).replace("BACKEND", request.param))
    assert cell.status == "ok", cell.error
    return str(request.param)


@pytest.mark.usefixtures("backend")
def test_figures_are_the_same_whatever_the_panel_does(kernel: NotebookKernel, panel: ChatPanel, model: MessagesServer):
    again = f"pictures = [saved() for _ in range({FIGURES})]"

    def ask_something() -> None:
        panel.ask("complete", {"kind": "mention", "text": "d", "notebook": ""})

    during(kernel, kernel.begin(again), ask_something)
    assert good(kernel) == FIGURES
    gate = Gate()
    model.add(turn(say("It streams "), hold(gate)))
    run = panel.prompt("Hello")
    panel.wait(lambda: panel.text(run))
    during(kernel, kernel.begin(again), ask_something)
    gate.open()
    panel.wait_for_end(run)
    assert good(kernel) == FIGURES


@needs_subshells
@pytest.mark.usefixtures("backend")
def test_figures_are_the_same_while_code_of_claude_waits_for_the_cell(
    kernel: NotebookKernel, panel: ChatPanel, model: MessagesServer, project: Path
):
    model.add(turn(use("Python", code="plt.plot([3, 1])")), say("Drawn."))
    cell = kernel.begin(
        "import pathlib\nprint('begun')\npictures = []\n"
        "while not pathlib.Path('asked').exists(): pictures.append(saved())\n"
        f"pictures += [saved() for _ in range({FIGURES})]"
    )
    kernel.wait_for(lambda message: "begun" in str(message["content"]), cell)
    run = panel.prompt("Draw it", options={"mode": "bypassPermissions"})
    panel.wait_for_op(run, "tool")
    asked = project / "asked"
    asked.touch()
    kernel.finish(cell)
    asked.unlink()
    panel.wait_for_end(run)
    assert good(kernel) == int(kernel.value("len(pictures)"))
