"""`%%claude` where nobody sits: rules, folders and the end of a run, for one cell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from notebook_kernel import NotebookKernel

from cellwright.testing import MessagesServer, say, use

pytestmark = pytest.mark.kernel

TOUCH = use("Bash", command="touch made-by-a-rule")


def result(model: MessagesServer) -> str:
    return json.dumps(model.requests[-1].body["messages"][-1])


def test_a_rule_holds_for_its_cell(kernel: NotebookKernel, model: MessagesServer, project: Path):
    model.add(TOUCH, say("Done."), TOUCH, say("Again."))
    kernel.run_ok("%%claude --allow 'Bash(touch *)' --on-denied error\ngo")
    made = project / "made-by-a-rule"
    assert made.exists()
    made.unlink()
    kernel.run_ok("%%claude --on-denied skip\ngo")
    assert "can be asked" in result(model)
    assert not made.exists()


def test_a_denied_call_fails_the_cell(kernel: NotebookKernel, model: MessagesServer, project: Path):
    model.add(TOUCH)
    cell = kernel.run("%%claude --on-denied error\ngo")
    assert cell.reply["ename"] == "CellError"
    assert cell.reply["evalue"].startswith("PERMISSION_DENIED: ")


def test_a_denied_rule_goes_before_an_allowed_one(kernel: NotebookKernel, model: MessagesServer, project: Path):
    model.add(TOUCH, say("Done."))
    kernel.run_ok("%%claude --allow Bash --deny 'Bash(touch *)'\ngo")
    assert "not allowed" in result(model)
    assert not (project / "made-by-a-rule").exists()


def test_a_folder_is_worked_in_for_one_cell(kernel: NotebookKernel, model: MessagesServer, tmp_path: Path):
    (tmp_path / "note.txt").write_text("over here", "utf-8")
    read = use("Read", file_path=str(tmp_path / "note.txt"))
    model.add(read, say("Done."), read, say("Again."))
    kernel.run_ok(f"%%claude --add-dir '{tmp_path}' --on-denied error\ngo")
    assert "over here" in result(model)
    kernel.run_ok("%%claude --on-denied skip\ngo")
    assert "can be asked" in result(model)
    cell = kernel.run("%%claude --add-dir no/such/folder\ngo")
    assert "INVALID_PARAMETERS" in json.dumps(cell.reply["traceback"])


def test_python_says_it_in_the_same_words(kernel: NotebookKernel, model: MessagesServer, project: Path):
    model.add(TOUCH)
    cell = kernel.run("import cellwright; cellwright.ask('go', on_denied='error')")
    assert "PERMISSION_DENIED" in json.dumps(cell.reply["traceback"])
    model.add(TOUCH, say("Done."))
    kernel.run_ok("cellwright.ask('go', on_denied='error', allow=['Bash(touch *)']).text")
    (project / "made-by-a-rule").unlink()
    cell = kernel.run("cellwright.ask('go', on_denied='never')")
    assert "INVALID_PARAMETERS" in json.dumps(cell.reply["traceback"])
