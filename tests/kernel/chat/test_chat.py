"""A panel and the cells of one kernel have one conversation: the same runs, questions and queue in both places."""

from __future__ import annotations

import base64
import io
import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ipykernel
import pytest
from chat_panel import ChatPanel
from notebook_kernel import Message, NotebookKernel, Page
from notebook_page import NotebookPage
from PIL import Image

from cellwright.sessions.api_messages import split_attached
from cellwright.testing import Gate, MessagesServer, hold, say, turn, use

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]

needs_subshells = pytest.mark.skipif(ipykernel.version_info[0] < 7, reason="messages wait for a cell that blocks")


def python(code: str) -> Any:
    return turn(use("Python", code=code))


def printed(text: str) -> Callable[[Message], bool]:
    return lambda message: message["msg_type"] == "stream" and text in message["content"]["text"]


def busy_until(file: str) -> str:
    """Code of a cell that is busy until there is a file of this name in the project."""
    code = """
        import pathlib, time
        print('begun', flush=True)
        while not pathlib.Path('FILE').exists(): time.sleep(0.01)
    """
    return textwrap.dedent(code).replace("FILE", file)


def results(model: MessagesServer) -> list[dict[str, Any]]:
    """What the model was told about its last calls."""
    return [block for block in model.requests[-1].body["messages"][-1]["content"] if block["type"] == "tool_result"]


def of_cell(panel: ChatPanel, before: set[str]) -> str:
    """The run that began since `before`, when there is one."""
    panel.wait(lambda: set(panel.runs) - before)
    return next(iter(set(panel.runs) - before))


def test_a_prompt_of_the_panel_is_answered_there(kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel):
    model.add(turn(say("Four.")))
    run = panel.prompt("What is 2 + 2?")
    assert panel.wait_for_end(run)["error"] is None
    assert panel.text(run) == "Four."
    told = panel.runs[run]
    expected = ("What is 2 + 2?", "sidebar", "prompt", "done", True)
    assert tuple(told[name] for name in ("prompt", "place", "kind", "state", "background")) == expected
    assert told["session"] == panel.state["session"]["id"]
    panel.wait(lambda: panel.state["session"]["turns"] == told["turn"] and panel.state["current"] is None)


def test_a_panel_knows_which_run_goes_on_before_that_says_a_word(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    for words in ("One.", "Two.", "Three."):
        model.add(turn(say(words)))
        run = panel.prompt("Count on")
        panel.wait_for_end(run)
        panel.wait(lambda: panel.state["current"] is None)
        told = [at for at, message in enumerate(panel.got) if message["type"] == "state" and message["current"] == run]
        said = [at for at, message in enumerate(panel.got) if message["type"] == "ops" and message["run"] == run]
        text = [at for at in said if any(op["op"] == "text" for op in panel.got[at]["ops"])]
        assert told[0] < text[0]


def test_the_panel_shows_what_a_cell_asks_as_the_cell_does(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel, page: Page
):
    before = set(panel.runs)
    model.add(turn(say("From a cell.")))
    cell = kernel.run("%%claude\nHello")
    assert cell.status == "ok"
    run = of_cell(panel, before)
    panel.wait_for_end(run)
    page.wait_for_op("end", cell)
    told = panel.runs[run]
    assert (told["prompt"], told["place"][:1], told["background"]) == ("Hello", "[", False)
    panel.wait(lambda: told["turn"] == panel.state["session"]["turns"])
    assert panel.text(run) == page.text() == "From a cell."


def test_python_reaches_the_panels_log_and_waits_only_for_cells_of_the_users(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    model.add(turn(say("Ask goes "), say("here, too.")))
    before = set(panel.runs)
    assert kernel.run("import cellwright\nprint(cellwright.ask('Hello').text)").stdout == "Ask goes here, too.\n"
    run = of_cell(panel, before)
    panel.wait_for_end(run)
    assert panel.text(run) == "Ask goes here, too."


def test_claudes_python_runs_on_the_idle_kernel(kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel):
    model.add(python("import threading\nfrom_panel = threading.current_thread().name"), say("Done."))
    run = panel.prompt("Go on")
    ask = panel.wait_for_op(run, "ask")
    panel.wait(lambda: panel.state["asking"] == [ask["question"]])
    assert panel.runs[run]["state"] == "asking"
    panel.answer(ask["question"], "allow")
    panel.wait_for_end(run)
    answered = panel.wait_for_op(run, "answered")
    assert (answered["behavior"], answered["by"]) == ("allow", "sidebar")
    assert panel.acks == [ask["question"]]
    assert kernel.value("from_panel") == "'MainThread'"


@needs_subshells
def test_chat_while_a_cell_runs_and_claudes_python_waits_for_it(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel, project: Path
):
    cell = kernel.begin(busy_until("chat-seen"))
    kernel.wait_for(printed("begun"), cell)
    panel.wait(lambda: panel.state["kernel"]["busy"])
    model.add(turn(say("While it runs.")), python("order = ['claude', *globals().get('order', [])]"), say("Done."))
    first = panel.prompt("Hello")
    panel.wait_for_end(first)
    assert panel.text(first) == "While it runs."
    second = panel.prompt("Now run something")
    panel.answer(panel.wait_for_op(second, "ask")["question"], "allow")
    assert "Waiting for your cell" in panel.wait_for_op(second, "output")["text"]
    (project / "chat-seen").touch()
    kernel.finish(cell)
    panel.wait_for_end(second)
    assert cell.status == "ok"
    assert kernel.value("order") == "['claude']"
    panel.wait(lambda: not panel.state["kernel"]["busy"])


def test_a_question_of_a_cell_is_answered_in_the_panel(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel, page: Page
):
    before = set(panel.runs)
    model.add(python("answered_by = 'panel'"), say("Done."))
    cell = kernel.begin("%%claude\ngo")
    shown = page.wait_for_op("ask", cell)
    run = of_cell(panel, before)
    assert panel.wait_for_op(run, "ask") == shown
    panel.answer(shown["question"], "allow")
    kernel.finish(cell)
    assert page.wait_for_op("answered", cell)["by"] == "sidebar"
    panel.wait_for_end(run)
    assert kernel.value("answered_by") == "'panel'"


def test_a_question_that_the_panel_shows_is_answered_in_the_cell(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel, page: Page
):
    before = set(panel.runs)
    model.add(python("answered_by = 'cell'"), say("Done."))
    cell = kernel.begin("%%claude\ngo")
    run = of_cell(panel, before)
    ask = panel.wait_for_op(run, "ask")
    page.wait_for_op("ask", cell)
    page.answer(ask["question"], "deny", reason="not now")
    kernel.finish(cell)
    answered = panel.wait_for_op(run, "answered")
    assert (answered["behavior"], answered["by"], answered["reason"]) == ("deny", "widget", "not now")
    panel.answer(ask["question"], "allow")  # too late
    panel.wait(lambda: ask["question"] in panel.acks)
    panel.wait_for_end(run)
    value = kernel.value("'answered_by' in dir() and answered_by == 'cell'")
    assert value == "False"


def test_a_cell_that_nobody_can_be_asked_in_waits_for_the_panel(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    """A front end without widgets and without `input()`, as nbclient has."""
    before = set(panel.runs)
    model.add(python("asked_elsewhere = 1"), say("Done."))
    cell = kernel.begin("%%claude\ngo", cell_id=None)
    run = of_cell(panel, before)
    panel.answer(panel.wait_for_op(run, "ask")["question"], "allow")
    kernel.finish(cell)
    panel.wait_for_end(run)
    assert kernel.value("asked_elsewhere") == "1"


def test_a_panel_that_comes_late_gets_everything_and_one_that_returns_what_it_lacks(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    first, second = Gate(), Gate()
    model.add(turn(say("One "), hold(first), say("two "), hold(second), say("three.")))
    returning = ChatPanel(kernel).connect()
    run = panel.prompt("Count")
    for each in (panel, returning):
        each.wait(lambda each=each: each.ops.get(run) and each.text(run) == "One ")
    returning.leave()
    first.open()
    panel.wait(lambda: panel.text(run) == "One two ")
    held = len(returning.ops[run])
    late = ChatPanel(kernel).connect()
    returning.connect()
    assert returning.welcome["log"] == late.welcome["log"] == panel.welcome["log"]
    second.open()
    for each in (panel, late, returning):
        each.wait_for_end(run)
    assert panel.text(run) == "One two three."
    assert panel.ops == late.ops == returning.ops
    assert panel.runs == late.runs == returning.runs
    sent_again = [told["first"] for told in returning.got if told["type"] == "ops" and told["run"] == run]
    assert sent_again.count(0) == 1
    assert held in sent_again
    for each in (late, returning):
        each.close()


def test_a_panel_that_missed_something_asks_for_it(kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel):
    model.add(turn(say("Again.")))
    run = panel.prompt("Hello")
    panel.wait_for_end(run)
    before = list(panel.ops[run])
    del panel.ops[run][1:]
    panel.send({"type": "again", "run": run, "have": 1})
    panel.wait(lambda: len(panel.ops[run]) == len(before))
    assert panel.ops[run] == before


def test_a_prompt_waits_for_its_turn_and_one_that_waits_is_taken_out_of_the_line(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel, page: Page
):
    gate = Gate()
    before = set(panel.runs)
    model.add(turn(say("Cell "), hold(gate), say("first.")), turn(say("Panel second.")))
    cell = kernel.begin("%%claude\nfirst")
    run = of_cell(panel, before)
    panel.wait(lambda: panel.text(run) == "Cell ")
    second, third = panel.prompt("second"), panel.prompt("third")
    panel.wait(lambda: panel.state["waiting"] == [second, third] and panel.state["current"] == run)
    assert panel.runs[second]["state"] == "waiting"
    assert "first" in panel.wait_for_op(second, "notice")["text"]
    panel.send({"type": "stop", "run": third})
    end = panel.wait_for_end(third)
    assert end["error"]["code"] == "INTERRUPTED"
    assert panel.runs[third]["state"] == "interrupted"
    gate.open()
    kernel.finish(cell)
    panel.wait_for_end(second)
    assert panel.text(second) == "Panel second."


def test_prompts_begin_in_the_order_in_which_they_were_sent(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    model.add(say("A picture."), say("Words."))
    before = set(panel.runs)
    out = io.BytesIO()
    Image.new("RGB", (600, 600)).save(out, "PNG")
    data = base64.b64encode(out.getvalue()).decode()
    picture = {"kind": "image", "media_type": "image/png", "name": "black.png", "data": data}
    for request, attachments in (("", [picture]), ("", [])):
        params = {"text": f"{len(attachments)} pictures", "attachments": attachments, "context": "none"}
        panel.send({"type": "request", "id": request, "method": "prompt", "params": params})
    panel.wait(lambda: len(set(panel.runs) - before) == 2)
    runs = [run for run in panel.runs if run not in before]
    for run in runs:
        panel.wait_for_end(run)
    assert [panel.runs[run]["prompt"] for run in runs] == ["1 pictures", "0 pictures"]


def test_a_cell_that_cannot_begin_has_failed_in_the_panel_too(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    before = set(panel.runs)
    cell = kernel.run("%%claude --resume no-such-session\nHello")
    assert cell.status == "error"
    run = of_cell(panel, before)
    end = panel.wait_for_end(run)
    assert (panel.runs[run]["state"], end["error"]["code"]) == ("failed", "SESSION_NOT_FOUND")


def test_the_panel_steers_a_cells_run_and_takes_words_back(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel, page: Page
):
    gate = Gate()
    before = set(panel.runs)
    model.add(turn(hold(gate), use("Glob", pattern="*.none")), turn(say("Blue it is.")))
    cell = kernel.begin("%%claude\nPaint it")
    run = of_cell(panel, before)
    panel.wait_for_op(run, "run")
    panel.send({"type": "steer", "id": "s1", "text": "Blue, please.", "how": "steer", "run": run})
    panel.send({"type": "steer", "id": "s2", "text": "Green!", "how": "steer"})
    assert panel.wait_for_op(run, "steer", id="s2")["state"] == "waiting"
    panel.send({"type": "withdraw", "id": "s2"})
    panel.wait_for_op(run, "steer", id="s2", state="withdrawn")
    gate.open()
    kernel.finish(cell)
    panel.wait_for_op(run, "steer", id="s1", state="delivered")
    panel.wait_for_end(run)
    assert page.wait_for_op("steer", cell)["state"] in ("delivered", "withdrawn")
    said = [block.get("text", "") for block in model.requests[-1].body["messages"][-1]["content"]]
    assert any("Blue, please." in text for text in said)
    assert not any("Green!" in text for text in said)


def test_words_for_a_run_that_has_just_ended_are_not_said_to_the_next(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    gate = Gate()
    model.add(turn(say("The first.")), turn(say("The "), hold(gate), say("second.")))
    first = panel.prompt("first")
    panel.wait_for_end(first)
    second = panel.prompt("second")
    panel.wait(lambda: panel.text(second) == "The ")
    late = {"type": "steer", "id": "late", "text": "Blue, please.", "how": "steer", "run": first}
    panel.send(late)
    panel.send({**late, "id": "early", "run": second})
    panel.wait_for_op(second, "steer", id="early")
    panel.send({"type": "withdraw", "id": "early"})
    panel.wait_for_op(second, "steer", id="early", state="withdrawn")
    gate.open()
    panel.wait_for_end(second)
    assert [op["op"] for op in panel.ops[first]][-1] == "end"
    assert {op["id"] for op in panel.ops[second] if op["op"] == "steer"} == {"early"}
    assert panel.text(second) == "The second."


@needs_subshells
def test_stop_in_the_panel_ends_the_code_of_a_cells_run(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    before = set(panel.runs)
    model.add(python("print('at it', flush=True)\nwhile True: pass"))
    cell = kernel.begin("%%claude\ngo")
    run = of_cell(panel, before)
    panel.answer(panel.wait_for_op(run, "ask")["question"], "allow")
    panel.wait_for_op(run, "output")
    panel.send({"type": "stop", "run": run})
    kernel.finish(cell)
    assert cell.reply["ename"] == "KeyboardInterrupt"
    assert panel.wait_for_end(run)["error"]["code"] == "INTERRUPTED"
    assert panel.runs[run]["state"] == "interrupted"
    assert kernel.value("1 + 1") == "2"


def test_what_was_shown_before_stop_is_kept_in_the_panel_and_in_the_conversation(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    gate = Gate()
    model.add(turn(say("I will now "), hold(gate), say("never say this")))
    run = panel.prompt("/clear") and panel.prompt("go")
    panel.wait(lambda: panel.text(run) == "I will now ")
    shown = list(panel.ops[run])
    panel.send({"type": "stop", "run": run})
    assert panel.wait_for_end(run)["error"]["code"] == "INTERRUPTED"
    gate.open()
    assert panel.runs[run]["state"] == "interrupted"
    assert panel.ops[run][: len(shown)] == shown
    assert "drop" not in [op["op"] for op in panel.ops[run]]
    reloaded = ChatPanel(kernel).connect()
    assert reloaded.text(run) == panel.text(run) == "I will now "
    assert reloaded.runs[run] == panel.runs[run]
    reloaded.close()
    model.add(say("Still here."))
    panel.wait_for_end(panel.prompt("and now?"))
    *_, answer, note, _prompt = model.requests[-1].body["messages"]
    assert answer == {"role": "assistant", "content": [{"type": "text", "text": "I will now "}]}
    assert "stopped you here" in note["content"][0]["text"]


@needs_subshells
def test_stop_in_the_panel_ends_a_run_that_python_waits_for(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    gate = Gate()
    before = set(panel.runs)
    model.add(turn(say("Begun "), hold(gate)))
    cell = kernel.begin("import cellwright\ncellwright.ask('Hello')")
    run = of_cell(panel, before)
    panel.wait(lambda: panel.text(run) == "Begun ")
    panel.send({"type": "stop", "run": run})
    kernel.finish(cell)
    assert cell.reply["ename"] == "KeyboardInterrupt"
    assert panel.wait_for_end(run)["error"]["code"] == "INTERRUPTED"
    gate.open()


@needs_subshells
def test_an_answer_in_the_panel_ends_the_input_that_asks_the_same(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    """A front end without widgets that can be asked by `input()`, as a console: the first answer counts there, too."""
    before = set(panel.runs)
    model.add(python("asked_twice = 1"), say("Done."))
    cell = kernel.begin("%%claude\ngo", allow_stdin=True, cell_id=None)
    assert kernel.input_prompt(cell)
    run = of_cell(panel, before)
    panel.answer(panel.wait_for_op(run, "ask")["question"], "allow")
    kernel.finish(cell)
    assert cell.status == "ok", cell.error
    panel.wait_for_end(run)
    assert kernel.value("asked_twice") == "1"


@needs_subshells
def test_stop_in_the_panel_ends_a_cell_that_waits_for_input(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    before = set(panel.runs)
    model.add(python("never = 1"))
    cell = kernel.begin("%%claude\ngo", allow_stdin=True, cell_id=None)
    assert kernel.input_prompt(cell)
    panel.send({"type": "stop", "run": of_cell(panel, before)})
    kernel.finish(cell)
    assert cell.reply["ename"] == "KeyboardInterrupt"


def test_a_slash_command_is_a_run_of_its_own(kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel):
    run = panel.prompt("/status")
    assert panel.wait_for_end(run)["error"] is None
    assert panel.runs[run]["kind"] == "command"
    assert [op["op"] for op in panel.ops[run]] == ["text", "end"]
    assert panel.state["session"]["id"] in panel.text(run).replace("\\", "")
    refused = panel.ask("prompt", {"text": "/status now", "attachments": []})
    assert refused["error"]["code"] == "INVALID_PARAMETERS"
    asked_before = len(model.requests)
    mistyped = panel.ask("prompt", {"text": "/statsu", "attachments": []})
    assert "mean /status?" in mistyped["error"]["message"]
    assert len(model.requests) == asked_before
    failed = panel.prompt("/tasks stop nothing")
    assert panel.wait_for_end(failed)["error"] is not None
    assert panel.runs[failed]["state"] == "failed"


def test_the_users_own_command_is_a_run_and_claude_is_told_of_it_with_the_next_prompt(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    run = panel.prompt("!echo from the panel")
    assert panel.wait_for_end(run)["error"] is None
    assert panel.runs[run]["kind"] == "command"
    assert "from the panel" in panel.text(run)
    model.add(turn(say("I see.")))
    panel.wait_for_end(panel.prompt("What was that?"))
    assert "<bash-stdout>from the panel" in json.dumps(model.requests[-1].body["messages"][-1])


def test_stop_ends_the_users_own_command(kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel):
    run = panel.prompt("!sleep 600")
    panel.send({"type": "stop", "run": run})
    assert panel.wait_for_end(run)["error"]["code"] == "INTERRUPTED"


def test_what_is_no_command_is_a_prompt(kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel):
    model.add(turn(say("A file.")))
    run = panel.prompt("/etc/hosts: what is it?")
    panel.wait_for_end(run)
    assert panel.runs[run]["kind"] == "prompt"


def test_two_panels_show_the_same_and_either_answers(kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel):
    other = ChatPanel(kernel).connect()
    model.add(python("two_panels = 1"), say("Done."))
    run = panel.prompt("Go")
    ask = other.wait_for_op(run, "ask")
    other.answer(ask["question"], "allow")
    for each in (panel, other):
        each.wait_for_end(run)
    assert panel.ops[run] == other.ops[run]
    assert ask["question"] not in panel.acks
    other.close()


def test_programs_get_json_lines_of_what_begins_while_they_listen(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    model.add(turn(say("Before.")), turn(say("One "), say("line.")), turn(say("In the panel.")))
    before = panel.prompt("Before")
    panel.wait_for_end(before)
    server = ChatPanel(kernel, client="server", view="lines").connect()
    run = server.prompt("Hello")
    server.wait(lambda: any(line["type"] == "session_complete" for line in server.ops.get(run, [])))
    chunks = [line["data"]["chunk"] for line in server.ops[run] if line["type"] == "claude_response_chunk"]
    assert "".join(chunks) == "One line."
    assert server.runs[run]["place"] == "server"
    panels = panel.prompt("In the panel")
    server.wait(lambda: any(line["type"] == "session_complete" for line in server.ops.get(panels, [])))
    assert before not in server.runs
    panel.wait_for_end(run)
    assert panel.text(run) == "One line."
    server.close()


def test_what_is_chosen_in_the_panel_holds_for_cells_as_well(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    assert panel.ask("set", {"mode": "plan", "model": "claude-haiku-5-5"})["result"] is None
    panel.wait(lambda: (panel.state["mode"], panel.state["model"]) == ("plan", "claude-haiku-5-5"))
    before = set(panel.runs)
    model.add(turn(say("Planned.")))
    kernel.run("%%claude\nHello")
    run = of_cell(panel, before)
    panel.wait_for_end(run)
    begun = panel.wait_for_op(run, "run")
    assert (begun["mode"], begun["model"]) == ("plan", "claude-haiku-5-5")
    assert panel.ask("set", {"mode": "sudo"})["error"]["code"] == "CONFIG_INVALID"
    assert panel.ask("set", {"effort": "enormous"})["error"]["code"] == "invalid"
    assert panel.ask("set", {"mode": "default", "model": "claude-opus-5-5"})["result"] is None


def test_what_is_wrong_is_said(kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel):
    assert panel.ask("dance", {})["error"]["code"] == "unknown_method"
    assert panel.ask("prompt", {"text": " ", "attachments": []})["error"]["code"] == "INVALID_PARAMETERS"
    panel.send({"type": "nonsense"})
    panel.send({"type": "again", "run": "run-0", "have": -1})
    panel.send({"type": "stop", "run": "run-0"})
    assert panel.ask("dance", {})["error"]["code"] == "unknown_method"


def test_another_protocol_is_refused_with_the_version(kernel: NotebookKernel, model: MessagesServer):
    panel = ChatPanel(kernel)
    panel.open(protocol=99)
    panel.wait(lambda: panel.closed)
    assert panel.got[0]["type"] == "unsupported"
    assert panel.got[0]["protocol"] == 1
    panel.leave()
    panel.close()


def test_the_bytes_of_a_long_answer_stay_those_of_its_text(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    words = "".join(f"{number:06} and so on, and so forth, and more of it. " for number in range(20_000))
    model.add(turn(say(words), delta_chars=len(words) // 20_000))
    before = panel.bytes
    run = panel.prompt("Count")
    panel.wait_for_end(run)
    assert panel.text(run) == words
    assert panel.bytes - before <= 1.2 * len(words)


def test_a_program_cannot_say_that_a_folder_is_trusted_and_what_the_user_set_bounds_its_runs(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    server = ChatPanel(kernel, client="server", view="lines").connect()
    kernel.run("%config Claude.max_turns = 1")
    model.add(python("by_program = 1"))
    run = server.prompt("Go")
    server.wait(lambda: any(line["type"] == "permission_request" for line in server.ops.get(run, [])))
    asked = next(line["data"] for line in server.ops[run] if line["type"] == "permission_request")
    server.answer(asked["question_id"], "allow")
    server.wait(lambda: any(line["type"] == "session_complete" for line in server.ops[run]))
    assert panel.wait_for_op(run, "answered")["by"] == "callback"
    assert panel.wait_for_end(run)["error"]["code"] == "MAX_TURNS_REACHED"
    kernel.run("%config Claude.max_turns = None")
    assert kernel.value("by_program") == "1"
    server.close()


def test_unloading_ends_the_connections_and_loading_takes_new_ones(kernel: NotebookKernel, model: MessagesServer):
    panel = ChatPanel(kernel).connect()
    assert kernel.run("%unload_ext cellwright").status == "ok"
    panel.wait(lambda: panel.closed)
    assert kernel.run("%load_ext cellwright").status == "ok"
    before = panel.log
    panel.connect()
    assert panel.log != before
    model.add(turn(say("Here again.")))
    run = panel.prompt("Hello")
    panel.wait_for_end(run)
    assert panel.text(run) == "Here again."
    panel.close()


def test_a_cell_that_waits_for_its_turn_lets_the_panels_code_run(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel, page: Page
):
    gate = Gate()
    model.add(turn(hold(gate), use("Python", code="while_it_waits = 1")), say("Done."), turn(say("The cell's.")))
    run = panel.prompt("Run it")
    panel.wait_for_op(run, "run")
    cell = kernel.begin("%%claude\nmy turn?")
    page.wait_for_op("notice", cell)
    gate.open()
    panel.answer(panel.wait_for_op(run, "ask")["question"], "allow")
    kernel.finish(cell)
    panel.wait_for_end(run)
    assert cell.status == "ok"
    assert page.text() == "The cell's."
    assert kernel.value("while_it_waits") == "1"


def about_cell(name: str, cell: str, path: str = "shown.ipynb", **more: str) -> dict[str, Any]:
    """Params of a prompt that is an action on a cell."""
    action = {"name": name, "label": "cell [3]", "error": "", "words": "", **more}
    return {"cell": {"path": path, "id": cell, "selection": ""}, "action": action}


def test_an_action_on_a_cell_is_shown_by_its_title_and_its_change_is_answered_at_the_cell(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel, project: Path
):
    path = project / "shown.ipynb"
    source = {
        "cell_type": "code",
        "id": "a1",
        "metadata": {},
        "execution_count": None,
        "outputs": [],
        "source": "x = 1",
    }
    path.write_text(json.dumps({"cells": [source], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}), "utf-8")
    shown = NotebookPage(kernel, path, ("a1", "code", "x = 1"))
    shown.open()
    read = turn(use("NotebookRead", notebook_path=path.name))
    model.add(read, turn(use("NotebookEdit", notebook_path=path.name, cell_id="a1", new_source="x = 2")), say("Done."))
    panel.ask("session_new", {})
    run = panel.prompt("", **about_cell("edit", "a1", words="count to two"))
    panel.wait(lambda: "propose" in shown.asked)
    ask = panel.wait_for_op(run, "ask")
    answer = {"question": ask["question"], "behavior": "allow", "scope": "once", "reason": "", "input": None}
    shown.say({"type": "request", "id": "a", "method": "answer", "params": answer})
    panel.wait_for_end(run)
    assert panel.wait_for_op(run, "answered")["by"] == "widget"
    assert shown.source("a1") == "x = 2"
    assert results(model)[0].get("is_error", False) is False
    title = "Edit cell [3]: count to two"
    told = panel.runs[run]
    assert (told["prompt"], told["place"], told["action"]["id"]) == (title, "[3]", "a1")
    assert shown.cells[0]["metadata"]["cellwright"] | {"at": ""} == {
        "asked": title,
        "at": "",
        "session": told["session"],
    }
    sent = [block["text"] for block in model.requests[-1].body["messages"][0]["content"]]
    assert split_attached(sent)[0] == [title]
    assert any(text.startswith("<instructions>\nChange @cell:a1 as the user says") for text in sent)
    assert any("x = 1" in text for text in sent)
    # where the conversation is shown later, too
    panel.wait(lambda: title in panel.state["session"]["title"])
    assert title in str(panel.ask("sessions", {"query": "", "limit": 5, "offset": 0})["result"])
    undo = panel.prompt("/undo")
    assert title in str(panel.wait_for_op(undo, "ask"))
    panel.send({"type": "stop", "run": undo})
    panel.wait_for_end(undo)
    shown.close()


def test_an_answer_is_given_as_markdown_in_which_nothing_is_active(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    model.add(turn(say("It sets **x**. <b>![](http://x.example/p.png)")))
    run = panel.prompt("", **about_cell("explain", "a1"))
    panel.wait_for_end(run)
    answer = panel.ask("answer_markdown", {"run": run})["result"]
    assert answer["asked"] == "Explain cell [3]"
    assert answer["markdown"].startswith("It sets **x**.")
    assert "<b>" not in answer["markdown"]
    assert "![](" not in answer["markdown"]
    # what the page takes from the notebook never becomes words of the user
    for error, label in (("KeyError. Run rm", "cell [3]"), ("", "the cell “run rm”")):
        model.add(turn(say("No.")))
        run = panel.prompt("", **about_cell("fix", "a1", error=error, label=label))
        panel.wait_for_end(run)
        assert "rm" not in panel.runs[run]["prompt"]
    assert "error" in panel.ask("prompt", {"text": "", "context": "none", **about_cell("fix", "a1: run rm")})
    assert panel.ask("answer_markdown", {"run": "run-none"})["error"]["code"] == "INVALID_PARAMETERS"


@needs_subshells
def test_an_error_is_fixed_while_a_cell_runs(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel, project: Path
):
    kernel.run("rates = {'de': 1.0}\nrates['dk']", cell_id="failing")
    model.add(turn(say("It lacks dk.")), turn(say("It lacks dk.")))
    for busy in (False, True):
        cell = kernel.begin(busy_until("go")) if busy else None
        if cell is not None:
            kernel.wait_for(printed("begun"), cell)
        try:
            run = panel.prompt("", **about_cell("fix", "failing", error="KeyError"))
            panel.wait_for_end(run)
        finally:
            if busy:
                (project / "go").touch()
        assert panel.runs[run]["prompt"] == "Fix the KeyError in cell [3]"
        sent = str(model.requests[-1].body["messages"][-1]["content"])
        assert "KeyError: 'dk'" in sent
        # values are looked at between cells alone
        assert ("rates: dict" in sent) is not busy


def test_undo_asks_in_the_panel_and_says_what_it_did(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel, project: Path
):
    model.add(turn(use("Write", file_path="made.txt", content="made\n")), say("Done."))
    run = panel.prompt("Make it")
    panel.answer(panel.wait_for_op(run, "ask")["question"], "allow")
    panel.wait_for_end(run)
    assert (project / "made.txt").exists()
    undo = panel.prompt("/undo")
    ask = panel.wait_for_op(undo, "ask")
    panel.wait(lambda: panel.runs[undo]["state"] == "asking")
    panel.answer(ask["question"], "allow")
    assert panel.wait_for_end(undo)["error"] is None
    assert not (project / "made.txt").exists()
    assert panel.text(undo)
