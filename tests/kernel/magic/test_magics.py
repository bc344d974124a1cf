"""`%%claude` in a real kernel: what streams, what is saved, what the options do, how a cell fails."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from notebook_kernel import WIDGET_VIEW, NotebookKernel, Page

from cache_marks import without_cache_marks
from cellwright.kernel.output.saved_markdown import WORKING
from cellwright.kernel.output.saved_ops import TRANSCRIPT
from cellwright.testing import Gate, MessagesServer, fault, hold, say, think, turn, use

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]


def test_text_streams_while_the_model_still_speaks(kernel: NotebookKernel, page: Page, model: MessagesServer):
    gate = Gate()
    model.add(turn(say("First. "), hold(gate), say("Second."), delta_chars=100))
    cell = kernel.begin("%%claude\nTell me.")
    kernel.wait_for(lambda _: page.transcripts and page.text() == "First. ", cell)
    (output,) = cell.outputs
    assert output["text/markdown"] == WORKING
    assert output[WIDGET_VIEW]["model_id"] == page.newest
    gate.open()
    assert kernel.finish(cell).status == "ok"
    assert page.text() == "First. Second."
    assert [op["op"] for op in page.ops if op["op"] != "text"] == ["run", "told", "turn", "end"]


def test_what_is_saved_is_markdown_without_a_widget(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(turn(think("hm"), say("**42.** ![x](https://evil.example/x.png)")))
    cell = kernel.run("%%claude\nWhat is it?")
    (output,) = cell.outputs
    assert set(output) == {TRANSCRIPT, "text/markdown", "text/plain"}
    assert output["text/markdown"].startswith("**42.** [x](https://")
    assert "*Opus 5.5" in output["text/markdown"]
    assert output["text/plain"].startswith("**42.** ![x]")
    closed = [message["comm_id"] for message in cell.of_type("comm_close")]
    assert page.newest in closed
    assert len(closed) == 1


def test_the_renderer_is_sent_once_per_kernel(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(say("one"), say("two"))
    kernel.run("%%claude\none")
    kernel.run("%%claude\ntwo")
    # an earlier test may have sent it
    assert len(page.code) <= 1
    assert all(b"export" in gzip.decompress(code) for code in page.code)
    code_models = {state["code_model"] for state in page.opened if "code_model" in state}
    assert len(code_models) == 1
    assert all(len(state["_esm"]) < 4_000 for state in page.opened if "code_model" in state)


def test_cells_go_on_with_one_conversation_and_new_begins_another(
    kernel: NotebookKernel, page: Page, model: MessagesServer
):
    model.add(say("A."), say("B."), say("C."), say("D."))
    kernel.run("%%claude --new\nfirst")
    kernel.run("%claude what was that?")
    first, second = (without_cache_marks(request.body["messages"]) for request in model.requests[-2:])
    assert second[: len(first)] == first
    assert second[-1]["content"][-1]["text"] == "what was that?"
    session = page.wait_for_op("run")["session"]
    kernel.run("%%claude --new\nanew")
    assert len(model.requests[-1].body["messages"]) == 1
    kernel.run(f"%%claude --resume {session}\nback again")
    assert len(model.requests[-1].body["messages"]) == 5
    assert page.wait_for_op("run")["session"] == session


def test_the_model_reads_the_cell_as_it_was_written(kernel: NotebookKernel, model: MessagesServer):
    prompt = "Use `$name` and {braces}:\n>>> 1 + 1\n2\n'''quoted''' \\n !ls %magic ?"
    model.add(say("ok"))
    kernel.run(f"%%claude\n{prompt}")
    assert model.requests[-1].body["messages"][-1]["content"][-1]["text"] == prompt


def test_options_reach_the_request(kernel: NotebookKernel, model: MessagesServer):
    model.add(say("ok"))
    kernel.run_ok("%%claude --new --model claude-sonnet-5-5 --effort low --no-tools hello")
    body = model.requests[-1].body
    assert body["model"] == "claude-sonnet-5-5"
    assert body["output_config"] == {"effort": "low"}
    assert "tools" not in body


def test_config_sets_the_defaults(kernel: NotebookKernel, model: MessagesServer):
    model.add(say("ok"))
    kernel.run_ok("%config Claude.model = 'claude-haiku-5-5'\n%config Claude.quiet = True")
    try:
        cell = kernel.run("%%claude --new\nhello")
    finally:
        kernel.run("%config Claude.model = None\n%config Claude.quiet = False")
    assert model.requests[-1].body["model"] == "claude-haiku-5-5"
    assert cell.outputs[0]["text/markdown"] == "ok"
    assert "not one of" not in kernel.run("%config Claude").stdout


def test_out_puts_the_result_into_a_variable(kernel: NotebookKernel, model: MessagesServer):
    model.add(say("forty-two"))
    kernel.run_ok("%%claude --out answer\nWhat is it?")
    assert kernel.value("answer.text") == "'forty-two'"
    kinds = kernel.value("[type(e).__name__ for e in answer.events if type(e).__name__ != 'TextDelta']")
    assert kinds.strip("[]").replace("'", "").split(", ") == ["UserPrompt", "ContextAttached", "TurnEnd", "RunEnd"]


@pytest.mark.parametrize(
    ("line", "says"), [("--modle x", "--modle"), ("--mode yolo", "yolo"), ("--max-turns 0", "whole number")]
)
def test_a_wrong_option_fails_the_cell_and_sends_nothing(
    kernel: NotebookKernel, model: MessagesServer, line: str, says: str
):
    before = len(model.all_requests)
    cell = kernel.run(f"%%claude {line}\nhello")
    assert cell.status == "error"
    assert cell.reply["ename"] == "CellError"
    assert cell.reply["evalue"].startswith("INVALID_PARAMETERS: ")
    assert says in cell.reply["evalue"]
    (error,) = cell.of_type("error")
    assert len(error["traceback"]) == 1
    assert len(model.all_requests) == before


def test_an_empty_cell_shows_the_help(kernel: NotebookKernel, model: MessagesServer):
    before = len(model.all_requests)
    for code in ("%%claude", "%claude", "%%claude --new\n  \n"):
        assert "--max-turns N" in kernel.run(code).stdout
    payload = kernel.run("%claude?").reply["payload"]
    assert "--max-turns N" in payload[0]["data"]["text/plain"]
    assert len(model.all_requests) == before


@pytest.mark.parametrize(
    ("parts", "line", "code", "told"),
    [
        ([turn(say("I would"), stop_reason="refusal")], "", "REFUSED", "**Refused:** "),
        ([turn(use("Read", file_path="x.txt"))], "--max-turns 1", "MAX_TURNS_REACHED", "**Stopped:** "),
        ([fault("status", status=401, error_type="authentication_error")], "", "API_KEY_INVALID", "**Failed:** "),
    ],
)
def test_a_run_that_does_not_end_by_itself_fails_the_cell(
    kernel: NotebookKernel, page: Page, model: MessagesServer, parts: list[object], line: str, code: str, told: str
):
    model.add(*parts)
    cell = kernel.run(f"%%claude --new {line}\ngo", stop_on_error=True)
    assert cell.status == "error"
    assert cell.reply["ename"] == "CellError"
    assert cell.reply["evalue"].startswith(f"{code}: ")
    assert cell.of_type("error") == [], "it stands once"
    assert told in cell.outputs[0]["text/markdown"]
    assert page.wait_for_op("end")["error"]["code"] == code
    model.add(say("still here"))
    assert kernel.run("%%claude\nand now?").status == "ok"


def test_what_tools_do_is_shown_live_and_kept_in_one_line_each(
    kernel: NotebookKernel, page: Page, model: MessagesServer, project: Path
):
    (project / "a.py").write_text("x = 1\n")
    model.add(
        turn(use("Read", file_path=str(project / "a.py"))),
        turn(use("Edit", file_path=str(project / "a.py"), old_string="x = 1", new_string="x = 2")),
        say("Done."),
    )
    cell = kernel.run("%%claude --mode acceptEdits\nfix it")
    assert (project / "a.py").read_text() == "x = 2\n"
    ends = [op for op in page.ops if op["op"] == "tool_end"]
    assert [op["status"] for op in ends] == ["success", "success"]
    assert "+x = 2" in ends[1]["diff"]
    markdown = cell.outputs[0]["text/markdown"]
    assert markdown.count("\n- ✓ ") + markdown.startswith("- ✓ ") == 2
    assert "<summary>Changes: Edit" in markdown
    assert "+x = 2" in markdown
    assert "Done." in markdown


def test_python_runs_in_the_namespace_and_its_figures_stay_in_the_cell(
    kernel: NotebookKernel, page: Page, model: MessagesServer
):
    code = (
        "import base64\nfrom IPython.display import Image, display\n"
        "display(Image(base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAA"
        "AElFTkSuQmCC')))\nprint('drawn')\nanswer = 6 * 7"
    )
    model.add(turn(use("Python", code=code)), say("Look."))
    kernel.run("%config Claude.mode = None")
    cell = kernel.begin("%%claude\ndraw")
    ask = page.wait_for_op("ask", cell)
    page.answer(ask["question"], "allow")
    kernel.finish(cell)
    assert kernel.value("answer") == "42"
    assert page.wait_for_op("output")["text"] == "drawn\n"
    code_ran, image, answer = cell.outputs
    assert code_ran["text/markdown"].endswith(f"```python\n{code}\n```\n\n```text\ndrawn\n```")
    assert set(image) == {"image/png", "text/plain"}
    assert answer["text/markdown"].startswith("Look.\n\n*Opus 5.5*")
    assert cell.stdout == ""


def test_what_is_printed_for_programs_is_json(kernel: NotebookKernel, model: MessagesServer):
    model.add(say("one"), say("two"))
    lines = [json.loads(line) for line in kernel.run("%%claude --format json-lines\nhi").stdout.splitlines()]
    assert lines[-1]["type"] == "session_complete"
    assert lines[-1]["data"]["final_response"] == "one"
    whole = json.loads(kernel.run("%%claude --format json\nhi").stdout)
    assert whole["final_response"] == "two"


def test_a_retry_is_shown_and_what_streamed_before_is_void(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(turn(say("void"), fault("cut", after=4)), say("whole"))
    cell = kernel.run("%%claude\nhi")
    assert cell.status == "ok"
    kinds = [op["op"] for op in page.ops]
    assert kinds.index("drop") < kinds.index("retry")
    assert cell.outputs[0]["text/markdown"].startswith("whole\n")


def test_output_lands_in_its_own_cell(kernel: NotebookKernel, page: Page, model: MessagesServer):
    """Two cells are queued; what the first one's agent sends belongs to the first."""
    gate = Gate()
    model.add(turn(say("first"), hold(gate)), say("second"))
    one = kernel.begin("%%claude\none", cell_id="cell-one")
    two = kernel.begin("%%claude\ntwo", cell_id="cell-two")
    kernel.wait_for(lambda _: page.transcripts and page.text() == "first", one)
    gate.open()
    kernel.finish(one)
    kernel.finish(two)
    assert one.outputs[0]["text/markdown"].startswith("first\n")
    assert two.outputs[0]["text/markdown"].startswith("second\n")
    parents = {
        message["parent_header"]["msg_id"]
        for message in kernel.published
        if message["msg_type"] == "comm_msg" and message["content"]["comm_id"] == next(reversed(page.transcripts))
    }
    assert parents == {two.id}


def test_displays_of_code_are_outputs_that_it_can_update_and_clear(
    kernel: NotebookKernel, page: Page, model: MessagesServer
):
    code = """\
from IPython.display import HTML, clear_output, display
shown = display(HTML("<b>one</b>"), display_id="mine")
shown.update(HTML("<b>two</b>"))
display({"application/vnd.plotly.v1+json": {"data": [1]}, "text/plain": "a chart"}, raw=True)
"""
    again = """\
for step in range(3):
    clear_output(wait=True)
    display(HTML(f"<i>{step}</i>"))
"""
    model.add(turn(use("Python", code=code)), turn(use("Python", code=again)), say("Shown."))
    cell = kernel.run("%%claude --new --mode bypassPermissions\nshow it")
    kinds = ["code" if TRANSCRIPT in each else each.get("text/html") or "chart" for each in cell.outputs]
    assert kinds == ["code", "<b>two</b>", "chart", "code", "<i>2</i>", "code"]
    assert cell.outputs[2]["application/vnd.plotly.v1+json"] == {"data": [1]}
    assert [each[TRANSCRIPT]["last"] for each in cell.outputs if TRANSCRIPT in each] == [False, False, True]
    assert "HTML" not in cell.outputs[-1]["text/markdown"]
    # what the user's code has a name for it can go on with
    later = kernel.run("shown.update(HTML('<b>three</b>'))")
    (update,) = later.of_type("update_display_data")
    assert update["transient"]["display_id"] == "mine"


@pytest.mark.parametrize("after", [1, 5, 9], ids="after {} events".format)
def test_after_an_error_in_an_answer_the_next_cell_is_answered(
    kernel: NotebookKernel, page: Page, model: MessagesServer, after: int
):
    """A sample; every error at every event is played in `tests/agent`."""
    for error_type in ("invalid_request_error", "authentication_error", "something_new"):
        broken = turn(
            say("Half of it."),
            use("Glob", pattern="*.nothing"),
            fault("error_event", error_type=error_type, after=after),
        )
        model.add(broken, say("fine"), broken, say("fine"))
        assert kernel.run("%%claude --new\nfirst").status == "error"
        for prompt in ("second", "third", "fourth"):
            assert kernel.run(f"%%claude\n{prompt}").status == ("error" if prompt == "third" else "ok")
        said = json.dumps(model.requests[-1].body["messages"])
        assert all(prompt in said for prompt in ("first", "second", "third", "fourth"))
