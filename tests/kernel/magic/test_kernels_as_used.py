"""Kernels as their users have changed them: a log of their own, a program that runs the notebook, a reload at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from notebook_kernel import NotebookKernel, model_of, running_kernel

from cellwright.testing import MessagesServer, say, turn, use

pytestmark = pytest.mark.kernel

LOG = """
import logging
class Failing(logging.Handler):
    def emit(self, record):
        seen.add(record.name)
        raise RuntimeError(f"the user's handler fails for {record.name}")
seen = set()
logging.getLogger().addHandler(Failing())
logging.getLogger().setLevel(1)
"""


@pytest.fixture
def bare(model: MessagesServer, tmp_path: Path, own_place: Path) -> Iterator[NotebookKernel]:
    """A kernel without the extension."""
    with running_kernel(tmp_path, model_of(model)) as kernel:
        yield kernel
    assert [request.error for request in model.rejected] == []


def test_a_log_handler_that_raises_fails_no_cell(bare: NotebookKernel, model: MessagesServer):
    assert bare.run(LOG).status == "ok"
    model.add(turn(use("Python", code="print(6 * 7)")), say("# Done\n\n- all of it"), say("Done."), say("Done."))
    assert bare.run("%load_ext cellwright").status == "ok"
    for source in (
        "%%claude --mode bypassPermissions\ngo",
        "import cellwright; cellwright.ask('go')",
        "%claude --new go",
    ):
        cell = bare.run(source)
        assert (cell.status, cell.of_type("error")) == ("ok", []), (source, cell.error)
    assert "42" in str(model.requests[1].body["messages"][-1])
    # they still hear of it
    assert "asyncio" in bare.value("sorted(seen)")


def test_no_comm_is_opened_for_a_program_that_runs_a_notebook_and_pages_find_it(bare: NotebookKernel):
    cell = bare.run("%load_ext cellwright", cell_id=None)
    assert cell.of_type("comm_open") == []
    known = "[comm.target_name for comm in get_ipython().kernel.comm_manager.comms.values()]"
    assert bare.value(known).split(", ") == ["['cellwright.present'", "'cellwright.documents']"]
    # a page's cell is told: the page connects when it hears of it
    cell = bare.run("%reload_ext cellwright")
    assert [opened["target_name"] for opened in cell.of_type("comm_open")] == ["cellwright.documents"]


def test_a_reload_at_once_keeps_the_magics(bare: NotebookKernel, model: MessagesServer):
    model.add(say("Done."), say("Done."))
    cell = bare.run("%load_ext cellwright\n%reload_ext cellwright\n%reload_ext cellwright\n%claude are you there?")
    assert (cell.status, cell.of_type("error")) == ("ok", []), cell.error
    bare.run_ok("%unload_ext cellwright\n%reload_ext cellwright")
    bare.run_ok("%%claude\nare you there?")
