"""`--background`: the cell ends at once, the run goes on beside the user's cells, and everything of it stays its own."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ipykernel
import pytest
from notebook_kernel import Cell, Message, NotebookKernel, Page, kept, model_of, running_kernel

from cellwright.testing import Gate, MessagesServer, fault, hold, say, turn, use

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.kernel_version,
    pytest.mark.skipif((7, 0) <= ipykernel.version_info[:2] < (7, 4), reason="the cell waits on this ipykernel"),
]

BACKGROUND = "%%claude --new --background --mode bypassPermissions\n"
ASKING = "%%claude --new --background\n"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def python(code: str) -> Any:
    return turn(use("Python", code=code))


def results(model: MessagesServer) -> list[dict[str, Any]]:
    """What the model was told about its last calls."""
    return [block for block in model.requests[-1].body["messages"][-1]["content"] if block["type"] == "tool_result"]


def said(model: MessagesServer, request: int = -1) -> list[str]:
    """The user's words in the last message of a request."""
    content = model.requests[request].body["messages"][-1]["content"]
    return [block["text"] for block in content if block["type"] == "text"]


def until(kernel: NotebookKernel, found: Callable[[], Any], cell: Cell | None = None) -> None:
    """Wait for something that may have come already."""
    if not found():
        kernel.wait_for(lambda _: found(), cell)


def printed(text: str) -> Callable[[Message], bool]:
    return lambda message: message["msg_type"] == "stream" and text in message["content"]["text"]


def until_file(name: str, wait: str = "time.sleep(0.01)") -> str:
    """Code of a cell that is busy until there is a file of this name in the project."""
    code = """
        import asyncio, pathlib, time
        print('begun', flush=True)
        while not pathlib.Path('FILE').exists(): WAIT
        pathlib.Path('FILE').unlink()
    """
    return textwrap.dedent(code).replace("FILE", name).replace("WAIT", wait)


def states(page: Page, cell: Cell) -> list[tuple[str, str]]:
    return [(op["id"], op["state"]) for op in page.transcripts[page.opened_by[cell.id]] if op["op"] == "steer"]


@pytest.fixture
def streaming(kernel: NotebookKernel, page: Page, model: MessagesServer) -> Iterator[tuple[Cell, Gate]]:
    """A background run in the middle of its first message; the gate lets it go on."""
    gate = Gate()
    model.add(turn(say("First "), hold(gate), say("and last.")))
    cell = kernel.run(BACKGROUND + "tell me")
    until(kernel, lambda: page.text() == "First ")
    yield cell, gate
    gate.open()


def test_the_cell_ends_at_once_and_the_answer_comes_into_it(
    kernel: NotebookKernel, streaming: tuple[Cell, Gate], page: Page
):
    cell, gate = streaming
    assert cell.status == "ok"
    other = kernel.run("print('mine')\n1 + 1")
    assert other.stdout == "mine\n"
    gate.open()
    saved = kept(kernel, cell)
    assert saved["text/markdown"].startswith("First and last.")
    assert WIDGET_VIEW not in saved
    assert page.wait_for_op("end", cell)["error"] is None


def test_the_output_is_replaced_in_the_right_cell_while_another_one_runs(
    kernel: NotebookKernel, streaming: tuple[Cell, Gate]
):
    cell, gate = streaming
    # print writes a line's end apart: the interrupt may come before it
    long = kernel.begin("import time\nprint('begun\\n', end='')\nwhile True: time.sleep(0.01)")
    kernel.wait_for(printed("begun"), long)
    gate.open()
    assert kept(kernel, cell)["text/markdown"].startswith("First and last.")
    kernel.interrupt()
    kernel.finish(long)
    assert long.outputs == []
    assert long.stdout == "begun\n"


def test_interrupting_another_cell_does_not_end_the_run(kernel: NotebookKernel, streaming: tuple[Cell, Gate]):
    cell, gate = streaming
    long = kernel.begin("import time\nprint('begun')\nwhile True: time.sleep(0.01)")
    kernel.wait_for(printed("begun"), long)
    kernel.interrupt()
    kernel.finish(long)
    assert long.reply["ename"] == "KeyboardInterrupt"
    kernel.interrupt()  # an idle kernel
    gate.open()
    assert kept(kernel, cell)["text/markdown"].startswith("First and last.")


def test_its_own_stop_ends_it_and_no_other_cell(
    kernel: NotebookKernel, streaming: tuple[Cell, Gate], page: Page, project: Path
):
    if not kernel.has_subshells:
        pytest.skip("clicks wait for the cell on this ipykernel")
    cell, _ = streaming
    other = kernel.begin(until_file("stop-seen"))
    kernel.wait_for(printed("begun"), other)
    page.send({"type": "stop"}, page.opened_by[cell.id])
    saved = kept(kernel, cell)
    assert "First" in saved["text/markdown"]
    assert "**Stopped.**" in saved["text/markdown"]
    (project / "stop-seen").touch()
    kernel.finish(other)
    assert other.status == "ok"


def test_code_runs_on_the_idle_kernel_and_its_output_is_its_own(
    kernel: NotebookKernel, page: Page, model: MessagesServer
):
    code = "import threading\nmain = threading.current_thread() is threading.main_thread()\nprint('by claude')\n21 * 2"
    model.add(python(code), say("Done."))
    cell = kernel.run(BACKGROUND + "go")
    assert "Done." in kept(kernel, cell)["text/markdown"]
    assert "by claude" in json.dumps(results(model))
    assert "42" in json.dumps(results(model))
    assert kernel.value("main") == "True"
    assert not any(printed("by claude")(message) for message in kernel.published)


def test_code_with_a_top_level_await_runs_on_the_idle_kernel(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(python("import asyncio\nawait asyncio.sleep(0)\nawaited = 'yes'"), say("Done."))
    kept(kernel, kernel.run(BACKGROUND + "go"))
    assert kernel.value("awaited") == "'yes'"


@pytest.mark.parametrize("wait", ["time.sleep(0.01)", "await asyncio.sleep(0.01)"])
def test_code_waits_until_the_users_cell_has_ended_and_its_card_says_so(
    kernel: NotebookKernel, page: Page, model: MessagesServer, project: Path, wait: str
):
    gate = Gate()
    model.add(turn(hold(gate), use("Python", code="order.append('claude')")), say("Done."))
    kernel.run("order = []")
    cell = kernel.run(BACKGROUND + "go")
    users = kernel.begin(until_file("go-on", wait) + "\norder.append('user')")
    kernel.wait_for(printed("begun"), users)
    gate.open()
    assert "for your cell" in page.wait_for_op("output", cell)["text"]
    (project / "go-on").touch()
    kernel.finish(users)
    assert "Done." in kept(kernel, cell)["text/markdown"]
    assert kernel.value("order") == "['user', 'claude']"
    assert "for your cell" not in json.dumps(results(model))


def test_a_cell_that_is_sent_while_claudes_code_runs_waits_for_it(
    kernel: NotebookKernel, page: Page, model: MessagesServer, project: Path
):
    model.add(
        python(until_file("code-may-end", "await asyncio.sleep(0.01)") + "\norder.append('claude')"), say("Done.")
    )
    kernel.run("order = []")
    cell = kernel.run(BACKGROUND + "go")
    page.wait_for_op("output", cell)
    users = kernel.begin("order.append('user')")
    (project / "code-may-end").touch()
    kernel.finish(users)
    kept(kernel, cell)
    assert kernel.value("order") == "['claude', 'user']"


def test_an_interrupt_gives_the_kernel_back_and_the_run_goes_on(
    kernel: NotebookKernel, page: Page, model: MessagesServer
):
    model.add(python("print('begun')\nwhile True: pass"), say("Then not."))
    cell = kernel.run(BACKGROUND + "go")
    page.wait_for_op("output", cell)
    kernel.interrupt()
    assert "Then not." in kept(kernel, cell)["text/markdown"]
    (result,) = results(model)
    assert result["is_error"]
    assert "interrupted this code" in result["content"]
    assert kernel.run("1").status == "ok"


def test_stop_ends_code_that_runs_on_the_idle_kernel(kernel: NotebookKernel, page: Page, model: MessagesServer):
    if not kernel.has_subshells:
        pytest.skip("clicks wait for the code on this ipykernel; its interrupt does not")
    model.add(python("print('begun')\nwhile True: pass"))
    cell = kernel.run(BACKGROUND + "go")
    page.wait_for_op("output", cell)
    page.send({"type": "stop"}, page.opened_by[cell.id])
    assert "**Stopped.**" in kept(kernel, cell)["text/markdown"]
    assert kernel.run("1").status == "ok"


@pytest.mark.parametrize("busy", [False, True])
def test_a_question_is_answered_while_the_kernel_is_idle_or_busy(
    kernel: NotebookKernel, page: Page, model: MessagesServer, project: Path, busy: bool
):
    if busy and not kernel.has_subshells:
        pytest.skip("clicks wait for the cell on this ipykernel")
    gate, file = Gate(), f"asked-{busy}"
    model.add(turn(hold(gate), use("Bash", command=f"touch {file}.txt")), say("Made."))
    cell = kernel.run(ASKING + "go")
    users = kernel.begin(until_file(f"answered-{busy}")) if busy else None
    gate.open()
    ask = page.wait_for_op("ask", cell)
    page.answer(ask["question"], "allow")
    assert "Made." in kept(kernel, cell)["text/markdown"]
    assert (project / f"{file}.txt").exists()
    if users is not None:
        (project / f"answered-{busy}").touch()
        kernel.finish(users)


def test_a_second_prompt_waits_for_its_turn_and_says_so(
    kernel: NotebookKernel, streaming: tuple[Cell, Gate], page: Page, model: MessagesServer
):
    first, gate = streaming
    model.add(say("The second."))
    second = kernel.begin("%%claude\nand then?")
    notice = page.wait_for_op("notice", second)
    assert "tell me" in notice["text"]
    gate.open()
    kernel.finish(second)
    assert second.outputs[0]["text/markdown"].startswith("The second.")
    assert kept(kernel, first)["text/markdown"].startswith("First and last.")
    roles = [message["role"] for message in model.requests[-1].body["messages"]]
    assert roles == ["user", "assistant", "user"]


def test_a_prompt_that_is_interrupted_while_it_waits_is_never_sent(
    kernel: NotebookKernel, streaming: tuple[Cell, Gate], page: Page, model: MessagesServer
):
    first, gate = streaming
    requests = len(model.requests)
    second = kernel.begin("%%claude\nand then?")
    page.wait_for_op("notice", second)
    kernel.interrupt()
    kernel.finish(second)
    assert second.reply["ename"] == "KeyboardInterrupt"
    assert "Nothing was sent" in second.outputs[0]["text/markdown"]
    gate.open()
    assert kept(kernel, first)["text/markdown"].startswith("First and last.")
    assert len(model.requests) == requests


def test_code_of_the_run_is_run_by_the_cell_that_waits_for_its_turn(
    kernel: NotebookKernel, page: Page, model: MessagesServer
):
    gate = Gate()
    model.add(turn(hold(gate), use("Python", code="meanwhile = 'run'")), say("Done."), say("The second."))
    first = kernel.run(BACKGROUND + "go")
    second = kernel.begin("%%claude\nand then?")
    page.wait_for_op("notice", second)
    gate.open()
    kernel.finish(second)
    assert "Done." in kept(kernel, first)["text/markdown"]
    assert kernel.value("meanwhile") == "'run'"


def test_a_new_session_begins_when_its_turn_has_come(
    kernel: NotebookKernel, streaming: tuple[Cell, Gate], page: Page, model: MessagesServer
):
    first, gate = streaming
    model.add(say("Fresh."))
    second = kernel.begin("%%claude --new\nsomething else")
    page.wait_for_op("notice", second)
    gate.open()
    kernel.finish(second)
    assert kept(kernel, first)["text/markdown"].startswith("First and last.")
    assert len(model.requests[-1].body["messages"]) == 1


def test_ask_in_another_thread_waits_for_its_turn(
    kernel: NotebookKernel, streaming: tuple[Cell, Gate], page: Page, model: MessagesServer
):
    first, gate = streaming
    model.add(say("From a thread."))
    kernel.run(
        "import cellwright, threading\nanswers = []\n"
        "asking = threading.Thread(target=lambda: answers.append(cellwright.ask('by thread').text))\nasking.start()"
    )
    gate.open()
    assert kept(kernel, first)["text/markdown"].startswith("First and last.")
    kernel.run("asking.join(60)")
    assert kernel.value("answers") == "['From a thread.']"


def test_words_from_the_widget_reach_claude_with_the_next_step(
    kernel: NotebookKernel, page: Page, model: MessagesServer
):
    gate = Gate()
    model.add(turn(say("Looking. "), hold(gate), use("LS")), say("Done."))
    cell = kernel.run(BACKGROUND + "go")
    until(kernel, lambda: page.text() == "Looking. ")
    comm = page.opened_by[cell.id]
    page.send({"type": "steer", "id": "w1", "text": "Use tabs.", "how": "steer"}, comm)
    page.send({"type": "steer", "id": "w2", "text": "Never mind this.", "how": "steer"}, comm)
    until(kernel, lambda: states(page, cell)[-1:] == [("w2", "waiting")])
    page.send({"type": "withdraw", "id": "w2"}, comm)
    until(kernel, lambda: states(page, cell)[-1:] == [("w2", "withdrawn")])
    kernel.run("%claude /steer And be quick.")
    gate.open()
    saved = kept(kernel, cell)
    assert said(model) == ["Use tabs.", "And be quick."]
    assert "> **You:** Use tabs." in saved["text/markdown"]
    assert "Never mind" not in saved["text/markdown"]
    assert states(page, cell)[-2:][0] == ("w1", "delivered")


def test_words_that_were_not_delivered_stay_in_the_cell(
    kernel: NotebookKernel, streaming: tuple[Cell, Gate], page: Page
):
    cell, _ = streaming
    comm = page.opened_by[cell.id]
    page.send({"type": "steer", "id": "w", "text": "Use tabs.", "how": "steer"}, comm)
    until(kernel, lambda: states(page, cell) == [("w", "waiting")])
    page.send({"type": "stop"}, comm)
    saved = kept(kernel, cell)
    assert "Not delivered" in saved["text/markdown"]
    assert "Use tabs." in saved["text/markdown"]
    assert "Use tabs." in saved["text/plain"]


def test_words_for_a_cell_that_waits_for_its_run_in_the_foreground(
    kernel: NotebookKernel, page: Page, model: MessagesServer
):
    if not kernel.has_subshells:
        pytest.skip("clicks are pumped there, and tested with questions")
    gate = Gate()
    model.add(turn(say("Almost "), hold(gate), say("done.")), say("With tests."))
    cell = kernel.begin("%%claude --new\ngo")
    until(kernel, lambda: page.transcripts and page.text() == "Almost ", cell)
    page.send({"type": "steer", "id": "w", "text": "And tests.", "how": "queue"})
    until(kernel, lambda: states(page, cell) == [("w", "waiting")], cell)
    gate.open()
    kernel.finish(cell)
    assert "With tests." in cell.outputs[0]["text/markdown"]
    assert said(model) == ["And tests."]


def test_tasks_lists_runs_and_stops_one(
    kernel: NotebookKernel, streaming: tuple[Cell, Gate], page: Page, model: MessagesServer
):
    cell, _ = streaming
    listed = kernel.run("%claude /tasks").outputs[0]["text/plain"]
    assert "tell me" in listed
    assert "at work" in listed
    assert "in the background" in listed
    run_id = next(word for word in listed.split() if word.startswith("run-"))
    wrong = kernel.run("%claude /tasks stop run-0")
    assert run_id in wrong.reply["evalue"]
    kernel.run(f"%claude /tasks stop {run_id}")
    assert "**Stopped.**" in kept(kernel, cell)["text/markdown"]
    listed = kernel.run("%claude /tasks").outputs[0]["text/plain"]
    assert "is not working" in listed
    assert "interrupted" in listed


def test_tasks_stops_a_shell_command(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(turn(use("Bash", command="sleep 600", run_in_background=True)), say("It runs."))
    kept(kernel, kernel.run(BACKGROUND + "go"))
    listed = kernel.run("%claude /tasks").outputs[0]["text/plain"]
    task_id = next(word for word in listed.split() if word.startswith("bash-"))
    assert "sleep 600" in listed
    kernel.run(f"%claude /tasks stop {task_id}")
    assert "(by the user)" in kernel.run("%claude /tasks").outputs[0]["text/plain"]


def test_a_failure_is_shown_in_the_cell_and_kept_for_tasks(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(turn(fault("status", status=401, error_type="authentication_error", message="no such key")))
    cell = kernel.run(BACKGROUND + "go")
    assert cell.status == "ok"
    assert "rejected your key" in kept(kernel, cell)["text/markdown"]
    assert "API_KEY_INVALID" in kernel.run("%claude /tasks").outputs[0]["text/plain"]


def test_out_has_the_result_when_it_is_there(kernel: NotebookKernel, page: Page, model: MessagesServer):
    gate = Gate()
    model.add(turn(hold(gate), say("Forty-two.")))
    cell = kernel.run("%%claude --new --background --out answer\ngo")
    assert kernel.value("'answer' in dir()") == "False"
    gate.open()
    kept(kernel, cell)
    assert kernel.value("answer.text") == "'Forty-two.'"


def test_a_page_that_came_later_gets_the_answer(kernel: NotebookKernel, streaming: tuple[Cell, Gate], page: Page):
    cell, gate = streaming
    later = Page(kernel, says_ready=False, client="a-later-page")
    later.open(page.opened_by[cell.id])
    until(kernel, lambda: later.saved and later.text() == "First ")
    gate.open()
    kept(kernel, cell)
    until(kernel, lambda: len(later.saved) > 1)
    later.close()
    assert later.saved[-1]["outputs"][0]["data"]["text/markdown"].startswith("First and last.")


def test_unloading_ends_it_and_leaves_what_there_is(kernel: NotebookKernel, streaming: tuple[Cell, Gate]):
    cell, _ = streaming
    assert kernel.run("%unload_ext cellwright").status == "ok"
    saved = kept(kernel, cell)
    assert "First" in saved["text/markdown"]
    assert "**Stopped.**" in saved["text/markdown"]
    assert kernel.run("%load_ext cellwright").status == "ok"


def test_ask_in_a_cell_waits_for_its_turn_and_runs_the_codes_of_the_other(
    kernel: NotebookKernel, page: Page, model: MessagesServer
):
    gate = Gate()
    model.add(turn(hold(gate), use("Python", code="by_ask = 'run'")), say("Done."), say("Asked."))
    first = kernel.run(BACKGROUND + "go")
    second = kernel.begin("import cellwright\nprint(cellwright.ask('and then?').text)")
    page.wait_for_op("notice", second)
    gate.open()
    kernel.finish(second)
    assert "Asked." in second.stdout
    assert "Done." in kept(kernel, first)["text/markdown"]
    assert kernel.value("by_ask") == "'run'"


def test_the_end_of_the_kernel_ends_the_run_in_good_order(model: MessagesServer, tmp_path: Path):
    home = tmp_path / "home"
    places = {"HOME": str(home), "CELLWRIGHT_HOME": str(home / "state"), "IPYTHONDIR": str(home / "ipython")}
    model.add(turn(use("Bash", command="sleep 600")))
    asked_before = len(model.requests)
    with running_kernel(tmp_path, {**model_of(model), **places}) as kernel:
        page = Page(kernel)
        kernel.run("%load_ext cellwright")
        cell = kernel.run(BACKGROUND + "go")
        page.wait_for_op("tool", cell)
        kernel.manager.shutdown_kernel(now=False)
        assert not kernel.manager.is_alive()
        assert "**Stopped.**" in kept(kernel, cell)["text/markdown"]
    assert len(model.requests) == asked_before + 1
    (transcript,) = (home / "state").glob("sessions/*/*.jsonl")
    results, end = map(json.loads, transcript.read_text().splitlines()[-2:])
    assert "tool_result" in json.dumps(results)
    assert "interrupted" in json.dumps(results)
    assert end["ended"]["stop_reason"] == "interrupted"
