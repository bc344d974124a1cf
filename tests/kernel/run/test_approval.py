"""Claude asks in the cell that is running: through the widget, by `input()`, or not at all. Never a hang."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from notebook_kernel import NotebookKernel, Page
from notebook_page import NotebookPage

from cellwright.kernel.output.saved_ops import TRANSCRIPT
from cellwright.testing import MessagesServer, say, turn, use

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]


def python(code: str) -> Any:
    return turn(use("Python", code=code))


def results(model: MessagesServer) -> list[dict[str, Any]]:
    """What the model was told about its last calls."""
    return [block for block in model.requests[-1].body["messages"][-1]["content"] if block["type"] == "tool_result"]


def test_allow_in_the_widget_while_the_cell_runs(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(python("allowed = 1"), say("Done."))
    cell = kernel.begin("%%claude --new\ngo")
    ask = page.wait_for_op("ask", cell)
    assert (ask["name"], ask["detail"], ask["detail_kind"]) == ("Python", "allowed = 1", "code")
    assert ask["input"] == {"code": "allowed = 1"}
    page.answer(ask["question"], "allow")
    kernel.finish(cell)
    assert cell.status == "ok"
    assert page.acks == [ask["question"]]
    answered = page.wait_for_op("answered")
    assert (answered["behavior"], answered["by"], answered["scope"]) == ("allow", "widget", "once")
    assert kernel.value("allowed") == "1"
    # the output of what ran meanwhile is this cell's
    assert all(message["parent_header"]["msg_id"] == cell.id for message in cell.messages)


def test_deny_with_a_reason_that_the_model_reads(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(python("denied = 1"), say("I see."))
    cell = kernel.begin("%%claude --new\ngo")
    ask = page.wait_for_op("ask", cell)
    page.answer(ask["question"], "deny", reason="keep the old name")
    kernel.finish(cell)
    assert cell.status == "ok"
    (result,) = results(model)
    assert result["is_error"]
    assert "old name" in result["content"]
    assert kernel.value("'denied' in dir()") == "False"
    assert "✗" in cell.outputs[0]["text/plain"]


def test_what_the_user_edited_is_what_runs(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(python("value = 1"), say("Done."))
    cell = kernel.begin("%%claude --new\ngo")
    ask = page.wait_for_op("ask", cell)
    page.answer(ask["question"], "allow", input={"code": "value = 2"})
    kernel.finish(cell)
    assert kernel.value("value") == "2"
    assert page.wait_for_op("answered")["edited"]


def test_allow_for_the_session_is_not_asked_again(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(python("one = 1"), python("two = 2"), say("Done."), python("three = 3"), say("Done."))
    cell = kernel.begin("%%claude --new\ngo")
    ask = page.wait_for_op("ask", cell)
    assert next(choice for choice in ask["choices"] if choice["key"] == "2")["rules"] == ["Python"]
    page.answer(ask["question"], "allow", scope="session")
    kernel.finish(cell)
    assert [op["op"] for op in page.ops].count("ask") == 1
    kernel.run("%%claude\nagain")
    assert kernel.value("one, two, three") == "(1, 2, 3)"


def test_the_first_answer_wins(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(python("raced = 1"), say("Done."))
    cell = kernel.begin("%%claude --new\ngo")
    ask = page.wait_for_op("ask", cell)
    page.answer(ask["question"], "deny", reason="first")
    page.answer(ask["question"], "allow")
    page.answer("of-another-cell", "allow")
    page.send({"type": "nonsense"})
    kernel.finish(cell)
    assert kernel.value("'raced' in dir()") == "False"
    assert page.wait_for_op("answered")["reason"] == "first"


def test_a_page_that_is_reloaded_gets_everything_and_can_answer(
    kernel: NotebookKernel, page: Page, model: MessagesServer
):
    model.add(turn(say("Let me see. "), use("Python", code="reloaded = 1")), say("Done."))
    cell = kernel.begin("%%claude --new\ngo")
    ask = page.wait_for_op("ask", cell)
    held = list(page.ops)
    page.ops.clear()
    page.send({"type": "ready", "have": 0, "protocol": 1})
    kernel.wait_for(lambda _: len(page.ops) >= len(held), cell)
    assert page.ops == held
    page.answer(ask["question"], "allow")
    kernel.finish(cell)
    assert kernel.value("reloaded") == "1"


def test_input_asks_where_no_widget_answers(kernel: NotebookKernel, model: MessagesServer):
    silent = Page(kernel, says_ready=False)
    model.add(python("typed = 1"), say("Done."))
    cell = kernel.begin("%%claude --new\ngo", allow_stdin=True)
    prompts = kernel.answer_input(cell, "perhaps", "y")
    kernel.finish(cell)
    silent.close()
    assert len(prompts) == 2
    assert "typed = 1" in cell.stdout
    assert kernel.value("typed") == "1"
    assert cell.outputs[0]["text/markdown"].startswith("- ✓")


def test_nothing_typed_is_a_no(kernel: NotebookKernel, model: MessagesServer):
    silent = Page(kernel, says_ready=False)
    model.add(python("typed_nothing = 1"), say("I see."))
    cell = kernel.begin("%%claude --new\ngo", allow_stdin=True)
    (prompt,) = kernel.answer_input(cell, "")
    kernel.finish(cell)
    silent.close()
    assert "empty: no" in prompt
    assert "the question was not answered" in results(model)[0]["content"]
    assert "NameError" in kernel.run("typed_nothing").error


def test_input_takes_a_reason_with_a_no(kernel: NotebookKernel, model: MessagesServer):
    silent = Page(kernel, says_ready=False)
    model.add(python("typed_no = 1"), say("I see."))
    cell = kernel.begin("%%claude --new\ngo", allow_stdin=True)
    kernel.answer_input(cell, "4 not on a Friday")
    kernel.finish(cell)
    silent.close()
    assert "not on a Friday" in results(model)[0]["content"]


def test_always_allow_keeps_the_rule_for_the_project(
    kernel: NotebookKernel, page: Page, model: MessagesServer, project: Path
):
    model.add(
        turn(use("Bash", command="touch kept.txt")),
        say("Done."),
        turn(use("Bash", command="touch kept.txt")),
        say("Done."),
    )
    cell = kernel.begin("%%claude --new\ngo")
    ask = page.wait_for_op("ask", cell)
    assert (ask["detail"], ask["detail_kind"]) == ("touch kept.txt", "command")
    always = next(choice for choice in ask["choices"] if choice["scope"] == "always")
    page.answer(ask["question"], "allow", scope="always")
    kernel.finish(cell)
    assert always["rules"][0] in (project / ".claude" / "settings.local.json").read_text()
    assert (project / "kept.txt").exists()
    # another session of the same kernel is not asked either
    assert kernel.run("%%claude --new\nagain").status == "ok"
    assert not any(op["op"] == "ask" for op in page.ops)


def test_a_question_at_input_ends_with_its_page(kernel: NotebookKernel, model: MessagesServer, project: Path):
    if not kernel.has_subshells:
        pytest.skip("the page's leave-taking waits for the cell")
    silent, page = Page(kernel, says_ready=False), NotebookPage(kernel, project / "a.ipynb")
    page.open()
    model.add(python("closed = 1"), say("Nobody answered."))
    cell = kernel.begin("%%claude --new\ngo", allow_stdin=True)
    kernel.input_prompt(cell)
    page.close()
    kernel.finish(cell)
    silent.close()
    assert cell.status == "ok"
    assert kernel.value("'closed' in dir()") == "False"


def test_with_nobody_there_the_policy_decides_at_once(kernel: NotebookKernel, model: MessagesServer):
    model.add(python("headless = 1"), say("Not allowed."))
    cell = kernel.run("%%claude --new\ngo", cell_id=None)
    assert cell.status == "ok"
    assert cell.seconds < 60
    assert "Python" in results(model)[0]["content"]
    assert cell.of_type("comm_open") == []
    (output,) = cell.outputs
    assert set(output) == {TRANSCRIPT, "text/markdown", "text/plain"}
    assert "denied" in output["text/plain"]


def test_a_program_that_reads_lines_is_not_asked(kernel: NotebookKernel, model: MessagesServer):
    model.add(python("lines = 1"), say("Not allowed."))
    cell = kernel.run("%%claude --new --format json-lines\ngo", allow_stdin=True)
    assert '"behavior": "deny"' in cell.stdout or '"deny"' in cell.stdout


def test_a_console_that_shows_text_alone_gets_the_answer(kernel: NotebookKernel, model: MessagesServer):
    model.add(python("console = 1"), say("**Done.**"))
    cell = kernel.begin("%%claude --new\ngo", allow_stdin=True, cell_id=None)
    kernel.answer_input(cell, "y")
    kernel.finish(cell)
    assert "**Done.**" in cell.stdout
    assert "**Done.**" in cell.outputs[0]["text/markdown"]
