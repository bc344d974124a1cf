"""Claude where a cell cannot be awaited, is asked from Python, or is asked by its own code; dry runs and recordings."""

from __future__ import annotations

from pathlib import Path

import pytest
from notebook_kernel import NotebookKernel, Page

from cellwright.testing import MessagesServer, fault, say, turn, use

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]


def allow_python(kernel: NotebookKernel, page: Page, code: str, **options: object) -> object:
    """Run a cell whose one question is answered with yes."""
    cell = kernel.begin(code, **options)  # type: ignore[arg-type]
    page.answer(page.wait_for_op("ask", cell)["question"], "allow")
    return kernel.finish(cell)


def test_a_line_in_a_loop_blocks_and_works(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(say("one"), say("two"))
    cell = kernel.run("for number in (1, 2):\n    %claude what is $number?\n")
    assert cell.status == "ok"
    assert [output["text/markdown"].split("\n")[0] for output in cell.outputs] == ["one", "two"]
    # the magic leaves the text as it is: what it names is attached
    told = model.requests[-1].last_user_text
    assert "what is $number?" in told
    assert "number: int = 2" in told


def test_a_blocking_cell_is_answered_in_the_widget(kernel: NotebookKernel, page: Page, model: MessagesServer):
    if not kernel.has_subshells:
        pytest.skip("without subshells nothing from the page arrives while a cell blocks")
    model.add(turn(use("Python", code="blocking = 1")), say("Done."))
    cell = allow_python(kernel, page, "%autoawait off\nget_ipython().run_cell_magic('claude', '--new', 'go')")
    kernel.run("%autoawait on")
    assert cell.status == "ok"
    assert kernel.value("blocking") == "1"


def test_a_blocking_cell_asks_by_input_where_no_widget_answers(kernel: NotebookKernel, model: MessagesServer):
    silent = Page(kernel, says_ready=False)
    model.add(turn(use("Python", code="typed = 1")), say("Done."))
    cell = kernel.begin("if True:\n    %claude --new go\n", allow_stdin=True)
    kernel.answer_input(cell, "y")
    kernel.finish(cell)
    silent.close()
    assert cell.status == "ok"
    assert kernel.value("typed") == "1"


def test_a_blocking_cell_is_interrupted(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(turn(say("I will now"), fault("stall")))
    cell = kernel.begin("if True:\n    %claude --new go\n")
    kernel.wait_for(lambda _: page.transcripts and page.text() == "I will now", cell)
    kernel.interrupt()
    kernel.finish(cell)
    assert cell.reply["ename"] == "KeyboardInterrupt"
    assert "**Stopped.**" in cell.outputs[0]["text/markdown"]


def test_ask_shares_the_notebooks_conversation_and_shows_itself(
    kernel: NotebookKernel, page: Page, model: MessagesServer
):
    if not kernel.has_subshells:
        pytest.skip("without subshells nothing from the page arrives while a cell blocks")
    model.add(say("first"), turn(use("Python", code="asked_for = 1")), say("second"))
    kernel.run("%%claude --new\nhello")
    cell = allow_python(kernel, page, "import cellwright\nresult = cellwright.ask('and now?')")
    assert cell.status == "ok"
    value = kernel.value("result.text, asked_for")
    assert value == "('second', 1)"
    assert len(model.requests[-1].body["messages"]) == 5
    assert "second" in cell.outputs[0]["text/markdown"]


def test_ask_fails_with_its_own_error(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(turn(say("I would"), stop_reason="refusal"))
    cell = kernel.run("import cellwright\ncellwright.ask('go', session=None)")
    assert cell.reply["ename"] == "RunError"
    assert "REFUSED" in cell.reply["evalue"]


@pytest.mark.parametrize(
    "code",
    [
        "%%claude\nwho are you?",
        "%claude who are you?",
        "if True:\n    %claude who are you?\n",
        "import cellwright\ncellwright.ask('who are you?')",
        "import cellwright\ncellwright.ask('who are you?', session=None)",
        "import cellwright, threading\ndef work():\n    try:\n        cellwright.ask('who are you?')\n"
        "    except Exception as error:\n        print(error)\nt = threading.Thread(target=work)\nt.start()\nt.join()",
        "import cellwright\nasync for event in cellwright.stream('who are you?'):\n    print(event)",
        "%unload_ext cellwright",
    ],
    ids=["cell", "line", "plain-line", "ask", "ask-apart", "thread", "stream", "unload"],
)
def test_code_that_claude_runs_cannot_ask_claude(kernel: NotebookKernel, page: Page, model: MessagesServer, code: str):
    model.add(turn(use("Python", code=code)), say("I see."))
    cell = allow_python(kernel, page, "%%claude --new\ngo", allow_stdin=True)
    assert cell.status == "ok"
    (result,) = [
        block for block in model.requests[-1].body["messages"][-1]["content"] if block["type"] == "tool_result"
    ]
    told = result["content"] if isinstance(result["content"], str) else result["content"][0]["text"]
    assert "runs cannot" in told or "still working" in told
    assert len(cell.outputs) == 1


def test_a_dry_run_shows_the_request_and_sends_nothing(kernel: NotebookKernel, model: MessagesServer):
    model.add(say("first"))
    kernel.run("%%claude --new\nhello")
    before = len(model.all_requests)
    cell = kernel.run("%%claude --dry-run\nand what would you say now?")
    assert cell.status == "ok"
    assert "you say now?" in cell.stdout
    assert "hello" in cell.stdout
    assert " tokens " in cell.stdout
    assert "Python" in cell.stdout
    assert len(model.all_requests) == before
    kernel.run("%%claude --dry-run --no-tools --format json --out tried\nand in JSON?")
    value = kernel.value("tried['tools'], tried['messages'][-1]['content'][-1]['text']")
    assert value == "([], 'and in JSON?')"
    cell = kernel.run("%%claude --dry-run --budget 0.00001\nand for nothing?")
    assert cell.reply["evalue"].startswith("BUDGET_EXCEEDED: ")
    model.add(say("second"))
    kernel.run("%%claude\nreally")
    assert "would you say" not in str(model.requests[-1].body)


def test_a_recording_is_played_without_a_request(
    kernel: NotebookKernel, page: Page, model: MessagesServer, project: Path
):
    model.add(turn(use("Python", code="recorded = 6 * 7\nprint(recorded)")), say("It is **42**."))
    cell = allow_python(kernel, page, "%%claude --new --record turns.jsonl\nWhat is it?")
    assert cell.status == "ok"
    assert (project / "turns.jsonl").exists()
    kernel.run("del recorded")
    before = len(model.all_requests)
    for _ in range(1):
        cell = kernel.run("%%claude --new --replay turns.jsonl --out played\nWhat is it?")
        assert cell.status == "ok"
    assert len(model.all_requests) == before
    assert "It is **42**." in cell.outputs[0]["text/markdown"]
    assert kernel.value("recorded, played.text") == "(42, 'It is **42**.')"
    cell = kernel.run("%%claude --new --replay turns.jsonl\nWhat is that?")
    assert cell.reply["evalue"].startswith("INVALID_PARAMETERS: ")
    assert "-What is it?" in cell.reply["evalue"]


def test_code_that_swallows_interrupts_is_ended_by_a_restart(kernel: NotebookKernel, page: Page, model: MessagesServer):
    """The last test of this module: the kernel ends."""
    if not kernel.has_subshells:
        pytest.skip("without subshells nothing from the page arrives while code holds the main thread")
    stubborn = (
        "import threading\nforever = threading.Event()\n"
        "while True:\n    try:\n        print('begun')\n        forever.wait()\n"
        "    except KeyboardInterrupt:\n        pass\n"
    )
    model.add(turn(use("Python", code=stubborn)))
    cell = kernel.begin("%%claude --new\ngo")
    page.answer(page.wait_for_op("ask", cell)["question"], "allow")
    page.wait_for_op("output", cell)
    page.send({"type": "restart"})  # nothing is stuck yet: it is not offered
    page.answer("of-no-cell", "allow")
    kernel.wait_for(lambda _: "of-no-cell" in page.acks, cell)  # what was sent before has been looked at
    kernel.interrupt()
    stuck = page.wait_for_op("stuck", cell)
    assert stuck["id"] == page.wait_for_op("tool")["id"]
    assert kernel.manager.is_alive()
    page.send({"type": "restart"})
    assert kernel.manager.provisioner.process.wait(60) != 0
