"""Planning in a cell: `--mode plan` to the end, and Claude's own questions where there is only `input()`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from notebook_kernel import NotebookKernel, Page

from cellwright.testing import MessagesServer, say, turn, use

pytestmark = pytest.mark.kernel

PLAN = "1. Set `planned`."
STORE = {
    "question": "Where to keep it?",
    "header": "Storage",
    "options": [{"label": "Parquet", "description": "small"}, {"label": "CSV", "description": "opens anywhere"}],
}


def python(code: str) -> Any:
    return turn(use("Python", code=code))


def results(model: MessagesServer) -> list[dict[str, Any]]:
    """What the model was told about its calls, all of the session."""
    return [
        block
        for message in model.requests[-1].body["messages"]
        if message["role"] == "user" and not isinstance(message["content"], str)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]


def test_nothing_runs_in_plan_mode_until_the_plan_is_approved(
    kernel: NotebookKernel, page: Page, model: MessagesServer, tmp_path: Path
):
    file = tmp_path / "made.txt"
    write = turn(use("Write", file_path=str(file), content="made"))
    plan = turn(use("ExitPlanMode", plan=PLAN))
    model.add(python("early = 1"), write, turn(use("Bash", command="touch early")), plan, plan, python("planned = 1"))
    model.add(say("Done."))
    cell = kernel.begin("%%claude --new --mode plan\ngo")
    first = page.wait_for_op("ask", cell)
    assert (first["kind"], first["detail"]) == ("plan", PLAN)
    assert page.ops[0]["mode"] == "plan"
    denials = [op for op in page.ops if op["op"] == "decided" and op["behavior"] == "deny"]
    assert len(denials) == 3
    page.answer(first["question"], "deny", reason="be precise")
    kernel.wait_for(lambda _: page.wait_for_op("ask", cell)["question"] != first["question"], cell)
    page.answer(page.wait_for_op("ask", cell)["question"], "allow", input={"decision": "approve"})
    kernel.wait_for(lambda _: page.wait_for_op("ask", cell)["kind"] == "permission", cell)
    assert page.wait_for_op("mode", cell)["mode"] == "default"
    page.answer(page.wait_for_op("ask", cell)["question"], "allow")
    kernel.finish(cell)
    assert kernel.value("planned") == "1"
    assert kernel.value('"early" in globals()') == "False"
    assert not file.exists()
    assert [bool(result.get("is_error")) for result in results(model)] == [True, True, True, True, False, False]
    prompt = [block["text"] for block in model.requests[0].body["messages"][0]["content"]]
    assert prompt[-1].startswith("Plan mode:")
    assert "as approved" in cell.outputs[0]["text/markdown"]


def test_the_mode_that_the_plan_led_to_holds_for_the_next_cell(
    kernel: NotebookKernel, page: Page, model: MessagesServer
):
    model.add(turn(use("ExitPlanMode", plan=PLAN)), say("Approved."), say("Going on."), say("Planning again."))
    cell = kernel.begin("%%claude --new --mode plan\ngo")
    page.answer(page.wait_for_op("ask", cell)["question"], "allow", input={"decision": "accept_edits"})
    kernel.finish(cell)
    kernel.run("%%claude\ngo on")
    assert page.wait_for_op("run")["mode"] == "acceptEdits"
    kernel.run("%%claude --mode plan\nplan again")
    assert page.wait_for_op("run")["mode"] == "plan"


def test_a_question_is_answered_at_input(kernel: NotebookKernel, model: MessagesServer):
    model.add(turn(use("AskUserQuestion", questions=[STORE])), say("Thanks."))
    cell = kernel.begin("%%claude --new\ngo", allow_stdin=True, cell_id=None)
    kernel.answer_input(cell, "2")
    kernel.finish(cell)
    assert cell.status == "ok"
    assert results(model)[-1]["content"].endswith("→ CSV")
    assert "2  CSV" in cell.stdout


def test_with_nobody_there_a_question_tells_claude_to_choose(kernel: NotebookKernel, model: MessagesServer):
    model.add(turn(use("AskUserQuestion", questions=[STORE])), say("I take CSV."))
    cell = kernel.run("%%claude --new\ngo", cell_id=None)
    assert cell.seconds < 60
    assert "Choose a sensible option" in results(model)[-1]["content"]
