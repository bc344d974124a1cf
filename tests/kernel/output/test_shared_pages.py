"""A notebook that several pages edit together: one writes what came of a run, and another where that has gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from notebook_kernel import Cell, NotebookKernel, Page
from notebook_page import NotebookPage

from cellwright.testing import Gate, MessagesServer, hold, say, turn

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]

Opened = tuple[Page, NotebookPage]


@pytest.fixture
def opened(kernel: NotebookKernel, project: Path) -> Iterator[Callable[[str], Opened]]:
    """`opened(client)`: a page of that client, which shares the notebook with the others and is connected to the kernel."""
    with ExitStack() as pages:

        def open_page(client: str = "") -> Opened:
            page = Page(kernel, says_ready=not client, client=client)
            pages.callback(page.close)
            shown = NotebookPage(kernel, project / "notebook.ipynb", ("the-cell", "code", ""))
            shown.client, shown.shared = page.client, True
            shown.open()
            return page, shown

        yield open_page
    kernel.run("")


def begun(kernel: NotebookKernel, first: Page, others: list[Opened], model: MessagesServer) -> tuple[Cell, Gate]:
    """A run that goes on, shown in all pages."""
    gate = Gate()
    model.add(turn(say("Here "), hold(gate), say("it is.")))
    cell = kernel.begin("%%claude --new\ngo", cell_id="the-cell")
    kernel.wait_for(lambda _: first.transcripts and first.text() == "Here ", cell)
    for page, _ in others:
        page.open(first.newest)
        kernel.wait_for(lambda _, page=page: page.saved and page.text() == "Here ", cell)
    return cell, gate


def wait(kernel: NotebookKernel, found: Callable[[], object]) -> None:
    """Wait until it is so; it may be so already, by what came while something else was waited for."""
    if not found():
        kernel.wait_for(lambda _: found())


def ended(page: Page) -> bool:
    return "it is." in page.saved[-1]["outputs"][0]["data"]["text/markdown"]


def test_while_the_page_that_asked_is_there_no_other_is_to_write(
    kernel: NotebookKernel, model: MessagesServer, opened: Callable[..., Opened]
):
    (first, shown), later = opened(), opened("another")
    cell, gate = begun(kernel, first, [later], model)
    gate.open()
    kernel.finish(cell)
    wait(kernel, lambda: "ping" in shown.asked and ended(later[0]))
    assert {message["writer"] for message in later[0].saved} == {""}
    later[0].send({"type": "kept", "writer": ""})
    wait(kernel, lambda: later[0].closed)
    shown.close()
    later[1].close()


def test_where_it_has_gone_one_other_writes_and_the_next_where_that_goes_too(
    kernel: NotebookKernel, model: MessagesServer, opened: Callable[..., Opened]
):
    (first, shown), second, third = opened(), opened("second"), opened("third")
    cell, gate = begun(kernel, first, [second, third], model)
    shown.close()
    gate.open()
    kernel.finish(cell)
    wait(kernel, lambda: ended(third[0]) and third[0].saved[-1]["writer"] == "second")
    # it was told, and cannot: the notebook has another cell now, or it hangs
    wait(kernel, lambda: third[0].saved[-1]["writer"] == "third")
    third[0].send({"type": "kept", "writer": "third"})
    second[0].send({"type": "kept", "writer": "third"})
    wait(kernel, lambda: third[0].closed)
    for _, page in (second, third):
        page.close()
