"""Where `--background` cannot be: the cell waits for the answer and says so, or the prompt is refused."""

import ipykernel
import pytest
from notebook_kernel import NotebookKernel, Page

from cellwright.testing import MessagesServer, say

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]


def test_where_nobody_watches_the_cell_waits(kernel: NotebookKernel, model: MessagesServer):
    model.add(say("All of it."))
    cell = kernel.run("%%claude --new --background\ngo", cell_id=None)
    assert cell.outputs[0]["text/markdown"].startswith("All of it.")
    assert "waits for" in cell.stdout


@pytest.mark.parametrize(("options", "cell_id"), [("--background", None), ("--background --format json", "cell-1")])
def test_where_nothing_could_be_seen_of_it_it_is_refused(kernel: NotebookKernel, options: str, cell_id: str | None):
    cell = kernel.run(f"%%claude {options}\ngo", cell_id=cell_id, allow_stdin=True)
    assert cell.status == "error"
    assert "shows widgets" in cell.error


@pytest.mark.skipif(not (7, 0) <= ipykernel.version_info[:2] < (7, 4), reason="another ipykernel")
def test_where_the_kernel_may_lose_output_the_cell_waits(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(say("All of it."))
    cell = kernel.run("%%claude --new --background\ngo")
    assert page.text() == "All of it."
    assert cell.outputs[0]["text/markdown"].startswith("All of it.")
    assert "waits for" in cell.stdout
