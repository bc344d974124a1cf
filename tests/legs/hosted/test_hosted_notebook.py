"""Cells in a hosted notebook, whose Jupyter is years old: tools, questions by `input()`, and what is saved."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Any

import pytest
from notebook_kernel import NotebookKernel

from cellwright.testing import Gate, MessagesServer, hold, say, turn, use

pytestmark = pytest.mark.hosted

PINS = Path(__file__).with_name("colab.txt")


def results(model: MessagesServer) -> list[dict[str, Any]]:
    """The results of calls in the newest request."""
    content = model.requests[-1].body["messages"][-1]["content"]
    return [block for block in content if block["type"] == "tool_result"]


def test_the_versions_are_those_that_are_pinned() -> None:
    pins = [line.partition("==") for line in PINS.read_text().splitlines() if line[0] != "#"]
    assert {name: importlib.metadata.version(name) for name, _, _ in pins} == {name: pin for name, _, pin in pins}
    assert importlib.util.find_spec("comm") is None


def test_a_cell_reads_runs_code_and_saves_its_answer(
    kernel: NotebookKernel, model: MessagesServer, tmp_path: Path
) -> None:
    (tmp_path / "levels.csv").write_text("hour,level\n1,2.5\n")
    kernel.run("base = 40")
    model.add(
        turn(use("Read", file_path=str(tmp_path / "levels.csv")), use("Grep", pattern="2\\.5", path=str(tmp_path))),
        turn(use("Python", code="answer = base + 2\nprint('computed')\nanswer")),
        turn(use("Python", code="1 / 0")),
        say("The answer is **42**."),
    )
    cell = kernel.begin("%%claude\nWhat is the answer?", allow_stdin=True, cell_id=None)
    prompts = kernel.answer_input(cell, "1", "y")
    kernel.finish(cell)
    assert cell.status == "ok", cell.error
    assert len(prompts) == 2
    assert kernel.value("answer") == "42"
    told = [
        block["content"]
        for message in model.requests[-1].body["messages"]
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_result"
    ]
    assert "1,2.5" in told[0]
    assert "levels.csv" in told[1]
    assert told[2] == "computed\n42"
    assert "line 1, in <module>" in told[3]
    assert "ZeroDivisionError" in told[3]
    (saved,) = cell.outputs
    assert set(saved) == {"text/markdown", "text/plain", "application/vnd.cellwright.transcript+json"}
    assert "The answer is **42**." in saved["text/markdown"]
    assert "The answer is **42**." in saved["text/plain"]


def test_the_answer_is_shown_while_it_comes(kernel: NotebookKernel, model: MessagesServer) -> None:
    gate = Gate()
    model.add(turn(say("The first half, "), hold(gate), say("and the second."), delta_chars=100))
    cell = kernel.begin("%%claude\nTell me.", allow_stdin=True)
    kernel.wait_for(lambda _: cell.outputs and "The first half," in cell.outputs[0]["text/markdown"], cell)
    assert "and the second" not in cell.outputs[0]["text/markdown"]
    gate.open()
    kernel.finish(cell)
    assert "The first half, and the second." in cell.outputs[0]["text/markdown"]
    assert "working" not in cell.outputs[0]["text/markdown"]


def test_what_is_off_is_said_in_one_sentence_and_once(kernel: NotebookKernel, model: MessagesServer) -> None:
    model.add(say("One."), say("Two."))
    first, second = kernel.run("%%claude\ngo", allow_stdin=True), kernel.run("%%claude\ngo on", allow_stdin=True)
    assert first.stdout.count("ipywidgets 7.7.1 is too old for the live transcript") == 1
    assert "too old" not in second.stdout
    assert first.of_type("comm_open") == []
    assert "Two." in second.outputs[0]["text/markdown"]


def test_an_empty_reply_is_a_denial(kernel: NotebookKernel, model: MessagesServer, tmp_path: Path) -> None:
    model.add(turn(use("Write", file_path=str(tmp_path / "new.txt"), content="x")), say("It stays unwritten."))
    cell = kernel.begin("%%claude\nWrite it.", allow_stdin=True)
    prompts = kernel.answer_input(cell, "")
    kernel.finish(cell)
    assert len(prompts) == 1
    assert results(model)[0]["is_error"]
    assert not (tmp_path / "new.txt").exists()
    assert "denied" in cell.outputs[0]["text/plain"]


def test_a_failed_cell_is_told_and_the_background_is_refused(kernel: NotebookKernel, model: MessagesServer) -> None:
    kernel.run("def half(n):\n    return n / 0")
    kernel.run("half(3)")
    model.add(say("Do not divide by zero."))
    cell = kernel.run("%claude explain this error", allow_stdin=True)
    assert cell.status == "ok", cell.error
    assert "ZeroDivisionError" in str(model.requests[-1].body)
    assert "Cell In[" in str(model.requests[-1].body)
    refused = kernel.run("%%claude --background\ngo", allow_stdin=True)
    assert refused.status == "error"
    assert "--background needs a notebook that shows widgets" in refused.stdout + refused.error + str(refused.messages)


def test_it_can_be_unloaded(kernel: NotebookKernel) -> None:
    assert kernel.run("%unload_ext cellwright").status == "ok"
    assert kernel.run("%load_ext cellwright").status == "ok"
