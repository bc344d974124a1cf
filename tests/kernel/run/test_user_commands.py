"""`!command` in a cell: the user's own command, shown in the cell, told to Claude with the next prompt."""

from __future__ import annotations

import json
import os

import pytest
from notebook_kernel import NotebookKernel

from cellwright.testing import MessagesServer, say

pytestmark = [pytest.mark.kernel]


def test_a_cell_runs_the_users_command_and_claude_knows_of_it(kernel: NotebookKernel, model: MessagesServer):
    cell = kernel.run("%%claude\n!echo mine; exit 4")
    assert cell.status == "ok", cell.error
    [output] = cell.outputs
    assert "mine" in output["text/plain"]
    assert "exit 4 · exit code" in output["text/plain"]
    before = len(model.all_requests)
    model.add(say("I see."))
    kernel.run("%%claude\nWhat did I run?")
    assert len(model.all_requests) == before + 1, "the command itself asked nobody"
    sent = json.dumps(model.requests[-1].body["messages"][-1])
    assert ">echo mine; exit 4</" in sent
    assert "<bash-stdout>mine" in sent
    model.add(say("Again."))
    kernel.run("%claude and now?")
    assert "echo mine" not in json.dumps(model.requests[-1].body["messages"][-1])


def test_an_interrupt_ends_the_command(kernel: NotebookKernel, model: MessagesServer, tmp_path):
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    cell = kernel.begin(f"%%claude\n!echo > {begun}; sleep 600")
    begun.read_text()
    kernel.interrupt()
    kernel.finish(cell)
    assert cell.reply["ename"] == "KeyboardInterrupt"
    model.add(say("Stopped."))
    kernel.run("%%claude\nand?")
    assert "by the user" in json.dumps(model.requests[-1].body["messages"][-1])
