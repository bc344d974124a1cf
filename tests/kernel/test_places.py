"""Sessions that outlive their kernel, a checkout without the widget, a shell beside the main one."""

from __future__ import annotations

import os
from pathlib import Path

import ipykernel
import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from notebook_kernel import SOURCES, NotebookKernel, Page, kept, model_of, python_path, running_kernel

from cellwright.kernel.output.saved_ops import TRANSCRIPT
from cellwright.testing import Gate, MessagesServer, hold, say, turn, use

pytestmark = pytest.mark.kernel


def test_the_kernel_is_of_the_version_that_is_tested(kernel: NotebookKernel):
    assert kernel.value("__import__('ipykernel').__version__") == repr(ipykernel.__version__)


def test_a_session_goes_on_in_a_new_kernel(model: MessagesServer, tmp_path: Path):
    model.add(say("Before."), say("After."))
    with running_kernel(tmp_path, model_of(model)) as kernel:
        kernel.run("%load_ext cellwright")
        page = Page(kernel)
        kernel.run("%%claude\nremember this")
        session = page.wait_for_op("run")["session"]
    with running_kernel(tmp_path, model_of(model)) as kernel:
        kernel.run("%load_ext cellwright")
        assert kernel.run(f"%%claude --resume {session}\nwhat was it?").status == "ok"
        messages = model.requests[-1].body["messages"]
        assert [message["role"] for message in messages] == ["user", "assistant", "user"]
        assert "remember this" in messages[0]["content"][-1]["text"]
        missing = kernel.run("%%claude --resume nonsense\nwhat was it?")
        assert missing.reply["evalue"].startswith("SESSION_NOT_FOUND: ")
        assert session in missing.reply["evalue"]


def test_a_cell_on_a_subshell_works_and_stops(kernel: NotebookKernel, page: Page, model: MessagesServer):
    if not kernel.has_subshells:
        pytest.skip("this kernel has no subshells")
    subshell = kernel.control("create_subshell_request")["subshell_id"]
    model.add(turn(use("Python", code="aside = 1")), say("On the side."))
    cell = kernel.begin("%%claude --new\nhi", subshell=subshell)
    page.answer(page.wait_for_op("ask", cell)["question"], "allow")
    kernel.finish(cell)
    assert cell.status == "ok"
    assert "On the side." in cell.outputs[0]["text/markdown"]
    assert kernel.value("aside") == "1"
    gate = Gate()
    model.add(turn(say("I will now"), hold(gate), say("never say")))
    cell = kernel.begin("%%claude --new\ngo", subshell=subshell)
    page.wait_for_op("text", cell)
    page.send({"type": "stop"})
    kernel.finish(cell)
    assert cell.reply["ename"] == "KeyboardInterrupt"
    gate.open()


def test_two_at_once_in_one_kernel_go_one_after_the_other(kernel: NotebookKernel, page: Page, model: MessagesServer):
    if not kernel.has_subshells:
        pytest.skip("this kernel has no subshells")
    subshell = kernel.control("create_subshell_request")["subshell_id"]
    model.add(turn(use("Python", code="main = 1")), say("Done."), say("And you."))
    cell = kernel.begin("%%claude --new\ngo")
    ask = page.wait_for_op("ask", cell)
    second = kernel.begin("%%claude\nme too", subshell=subshell)
    assert "waits for its turn" in page.wait_for_op("notice", second)["text"]
    answer = {"type": "answer", "question": ask["question"], "behavior": "allow", "scope": "once", "reason": ""}
    page.send(answer, page.opened_by[cell.id])
    assert kernel.finish(cell).status == "ok"
    kernel.finish(second)
    # of a subshell the end may be told before the last output
    assert kept(kernel, second)["text/markdown"].startswith("And you.")


def test_a_notebook_runs_headless_and_fails_where_claude_does(model: MessagesServer, tmp_path: Path):
    model.add(turn(use("Python", code="headless = 1")), say("**Fine.**"), turn(say("no"), stop_reason="refusal"))
    sources = ("%load_ext cellwright", "%%claude\ngo", "%%claude\nand on", "print('never')")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    client = NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}})
    with pytest.raises(CellExecutionError, match="REFUSED"):
        client.execute(env={**os.environ, **model_of(model), "PYTHONPATH": python_path(SOURCES)})
    nbformat.validate(notebook)
    (answer,) = notebook.cells[1].outputs
    assert answer.output_type == "display_data"
    assert set(answer.data) == {TRANSCRIPT, "text/markdown", "text/plain"}
    assert "**Fine.**" in answer.data["text/markdown"]
    assert "denied" in answer.data["text/markdown"]
    refused, error = notebook.cells[2].outputs
    assert "**Refused:**" in refused.data["text/markdown"]
    assert error.output_type == "error"
    assert len(error.traceback) == 1
    assert notebook.cells[3].outputs == []
