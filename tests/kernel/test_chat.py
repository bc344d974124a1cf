"""A panel and the cells of one kernel have one conversation: the same runs, questions and queue in both places."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chat_panel import ChatPanel
from notebook_kernel import NotebookKernel

from cellwright.testing import MessagesServer, say, turn

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(180)]


@pytest.fixture
def panel(kernel: NotebookKernel) -> Iterator[ChatPanel]:
    panel = ChatPanel(kernel).connect()
    yield panel
    panel.close()


def test_a_prompt_of_the_panel_is_answered_there(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
) -> None:
    model.add(turn(say("Four.")))
    run = panel.prompt("What is 2 + 2?")
    assert panel.wait_for_end(run)["error"] is None
    assert panel.text(run) == "Four."
    told = panel.runs[run]
    assert (told["prompt"], told["place"], told["kind"], told["state"]) == (
        "What is 2 + 2?",
        "sidebar",
        "prompt",
        "done",
    )
    assert told["session"] == panel.state["session"]["id"]


def test_the_panel_shows_what_a_cell_asks(kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel) -> None:
    model.add(turn(say("From a cell.")))
    assert kernel.run("%%claude\nHello").status == "ok"
    run = panel.newest("[1]") if False else next(reversed(panel.runs))
    panel.wait_for_end(run)
    assert panel.text(run) == "From a cell."
