"""Cells that are played from the recording beside their notebook, and cells that hold an answer of another session."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import nbformat
import pytest
from chat_panel import ChatPanel
from notebook_kernel import NotebookKernel, Page, model_of, running_kernel

from cellwright.agent.recording.recordings import prompt_key
from cellwright.testing import MessagesServer, say, turn, use

pytestmark = pytest.mark.kernel

Start = Callable[..., tuple[NotebookKernel, MessagesServer]]


@pytest.fixture
def kernel_in(tmp_path: Path, messages_server: Callable[..., MessagesServer]) -> Iterator[Start]:
    """Starts a kernel of its own for `tmp_path/n.ipynb`, with Cellwright loaded and the model that plays `script`."""
    with ExitStack() as running:

        def start(script: list[Any], *, key: bool = True, **environ: str) -> tuple[NotebookKernel, MessagesServer]:
            server = messages_server(script)
            names = model_of(server) if key else {"ANTHROPIC_BASE_URL": server.url}
            # without signatures of other tests no notebook counts as foreign
            data = str(tmp_path / "jupyter")
            place = {"JPY_SESSION_NAME": str(tmp_path / "n.ipynb"), "JUPYTER_DATA_DIR": data, **environ}
            kernel = running.enter_context(running_kernel(tmp_path, {**names, **place}))
            assert kernel.run("%load_ext cellwright").status == "ok"
            return kernel, server

        yield start


def saved(cell: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Data and metadata of the output that a cell ends with."""
    (content,) = cell.of_type("update_display_data")
    return content["data"], content["metadata"]


WORK = "%%claude --mode acceptEdits\nCount the bees"


@pytest.fixture
def recorded(kernel_in: Start, tmp_path: Path) -> dict[str, Any]:
    """A recording beside the notebook, made in a kernel that has ended; gives the provenance that its cell got."""
    (tmp_path / "bees.csv").write_text("bee\nann\nbea\n")
    script = [
        use("Read", file_path="bees.csv"),
        turn(say("I count. "), use("Python", code="bees = 2\nbees")),
        use("Write", file_path="bees.txt", content="2 bees\n"),
        say("There are **2** bees."),
        say("Really."),
    ]
    kernel, server = kernel_in(script)
    kernel.run("%config Claude.record = 'auto'\n%config Claude.allow = ['Python']")
    cell = kernel.run(WORK)
    assert cell.status == "ok", cell.reply
    kernel.run("%%claude\nReally?", cell_id="cell-2")
    assert server.remaining_turns == 0
    assert len((tmp_path / "n.cellwright.jsonl").read_text().splitlines()) == 3
    (tmp_path / "bees.txt").unlink()
    return dict(saved(cell)[1]["cellwright"])


def test_run_all_in_a_new_kernel_sends_nothing_and_changes_nothing_the_second_time(recorded, kernel_in, tmp_path):
    kernel, server = kernel_in([], key=False)
    kernel.run("%config Claude.replay = 'auto'")
    cells = [kernel.run(WORK), kernel.run("%%claude\nReally?", cell_id="cell-2")]
    assert [cell.status for cell in cells] == ["ok", "ok"]
    assert server.all_requests == []
    assert (tmp_path / "bees.txt").read_text() == "2 bees\n"
    assert kernel.value("bees") == "2"
    data, metadata = saved(cells[0])
    assert "There are **2** bees." in data["text/markdown"]
    assert "for this answer" not in data["text/markdown"]
    # what can be undone is another kernel's turn
    assert metadata["cellwright"] | {"run": ""} == {n: said for n, said in recorded.items() if n != "undo"} | {
        "run": ""
    }
    before = {path: path.read_bytes() for path in tmp_path.glob("*.*")}

    again = kernel.run(WORK)

    assert saved(again) == (data, metadata)
    assert {path: path.read_bytes() for path in tmp_path.glob("*.*")} == before


def test_what_a_cell_records_in_a_file_is_played_from_it_where_the_process_says_so(kernel_in, tmp_path):
    # code that prints nothing, with nothing as its value, is no drift
    script = [turn(use("Python", code="bees = 2")), turn(use("Python", code="print()\nNone")), say("Two.")]
    source = "%%claude --record mine.jsonl\nCount the bees"
    kernel, server = kernel_in(script)
    kernel.run("%config Claude.allow = ['Python']")
    assert kernel.run(source).status == "ok"
    assert server.remaining_turns == 0
    kept = (tmp_path / "mine.jsonl").read_bytes()
    for way in ("strict", "auto"):
        again, server = kernel_in([], key=False, CELLWRIGHT_REPLAY=way)
        played = again.run(source)
        assert played.status == "ok", played.error
        assert "Two." in saved(played)[0]["text/markdown"]
        assert again.value("bees") == "2"
        assert server.all_requests == []
    assert (tmp_path / "mine.jsonl").read_bytes() == kept, "what is played is not recorded anew"
    missing = again.run("%%claude --record mine.jsonl\nCount the wasps", cell_id="cell-2")
    assert missing.reply["evalue"].startswith("API_KEY_MISSING: ")
    strict, server = kernel_in([say("Live.")], CELLWRIGHT_REPLAY="strict")
    refused = strict.run("%%claude --record other.jsonl\nCount the bees")
    assert refused.reply["evalue"].startswith("FILE_NOT_FOUND: ")
    assert server.all_requests == []


def test_an_answer_says_where_it_came_from_and_nothing_private(recorded, tmp_path):
    assert recorded["prompt_sha256"] == prompt_key("Count the bees", tmp_path)
    assert (recorded["turn"], recorded["model"], recorded["recording"]) == (1, "claude-opus-5-5", "n.cellwright.jsonl")
    assert set(recorded) == {
        "version",
        "session",
        "turn",
        "model",
        "prompt_sha256",
        "recording",
        "undo",
        "run",
        "output",
    }
    assert str(tmp_path) not in json.dumps(recorded)


def test_auto_says_what_it_does_not_find_and_strict_fails(recorded, kernel_in, tmp_path):
    kernel, server = kernel_in([say("Wasps now.")], key=False)
    kernel.run("%config Claude.replay = 'auto'")
    failed = kernel.run("%%claude\nCount the wasps", cell_id="cell-3")
    assert failed.reply["ename"] == "CellError"
    assert failed.reply["evalue"].startswith("API_KEY_MISSING: ")
    assert "n.cellwright.jsonl" in failed.reply["evalue"]
    kernel.run(f"import os; os.environ['ANTHROPIC_API_KEY'] = {server.api_key!r}")
    live = kernel.run("%%claude\nCount the wasps", cell_id="cell-3")
    assert live.status == "ok"
    assert "It runs live" in saved(live)[0]["text/plain"]
    failed = kernel.run("%%claude --replay strict\nCount the hornets", cell_id="cell-4")
    assert failed.reply["evalue"].startswith("INVALID_PARAMETERS:")
    assert len(server.requests) == 1


def test_drift_is_told_and_fails_where_replay_is_strict(recorded, kernel_in, tmp_path):
    kernel, server = kernel_in([], key=False)
    (tmp_path / "bees.csv").write_text("bee\nann\nbea\ncat\n")
    (tmp_path / "bees.txt").write_text("mine\n")
    cell = kernel.run(f"%%claude --replay auto --mode acceptEdits\n{WORK.partition(chr(10))[2]}")
    assert cell.status == "ok"
    plain = saved(cell)[0]["text/plain"]
    assert "Files are not" in plain
    assert "bees.csv was" in plain
    assert "bees.txt is" in plain
    assert (tmp_path / "bees.txt").read_text() == "mine\n"
    strict = kernel.run(f"%%claude --replay strict --mode acceptEdits\n{WORK.partition(chr(10))[2]}")
    assert strict.reply["evalue"].startswith("EXECUTION_ERROR:")
    assert server.all_requests == []


def test_ci_asks_for_strict_and_a_foreign_recording_needs_a_word(recorded, kernel_in, tmp_path, monkeypatch):
    other = str(tmp_path / "other-home")
    kernel, _ = kernel_in([], key=False, CELLWRIGHT_HOME=other, CELLWRIGHT_REPLAY="strict")
    kernel.run("%config Claude.replay = 'auto'")
    refused = kernel.run("%%claude\nReally?", cell_id="cell-2")  # no page answers
    assert refused.reply["evalue"].startswith("PERMISSION_DENIED: ")
    assert "cellwright trust-recording" in refused.reply["evalue"]
    page = Page(kernel)
    cell = kernel.begin("%%claude\nReally?", cell_id="cell-2")
    ask = page.wait_for_op("ask", cell)
    assert (ask["kind"], ask["choices"][0]["label"]) == ("trust", "Play it")
    page.answer(ask["question"], "allow")
    assert kernel.finish(cell).status == "ok"
    assert "Really." in saved(cell)[0]["text/markdown"]
    missing = kernel.run("%%claude\nCount the wasps", cell_id="cell-3")
    assert missing.reply["evalue"].startswith("INVALID_PARAMETERS: ")


def holding(tmp_path: Path, *prompts: str) -> None:
    """A notebook, signed by nobody, whose cells hold answers of an earlier session."""
    cells = []
    for number, prompt in enumerate(prompts, 1):
        cell = nbformat.v4.new_code_cell(f"%%claude\n{prompt}", id=f"cell-{number}")
        said = {"session": "earlier", "prompt_sha256": prompt_key(prompt, tmp_path)}
        data = {"text/markdown": f"Answer to {prompt}", "text/plain": "The answer"}
        cell.outputs = [nbformat.v4.new_output("display_data", data, metadata={"cellwright": said})]
        cells.append(cell)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "n.ipynb")


def test_an_answer_of_another_session_is_kept_or_paid_for_as_the_user_says(kernel_in, tmp_path):
    holding(tmp_path, "one", "two")
    kernel, server = kernel_in([say("New one."), say("New two."), say("Three.")])
    page = Page(kernel)
    cell = kernel.begin("%%claude\none", cell_id="cell-1")
    ask = page.wait_for_op("ask", cell)
    assert [(choice["key"], choice["label"].split()[0]) for choice in ask["choices"]] == [("1", "Run"), ("4", "Keep")]
    page.answer(ask["question"], "deny")
    assert kernel.finish(cell).status == "ok"
    assert saved(cell)[0]["text/markdown"] == "Answer to one"
    assert saved(cell)[1]["cellwright"]["session"] == "earlier"
    # the front end clears the outputs of what it runs, and may save that before the kernel gets to it
    nbformat.write(nbformat.v4.new_notebook(), tmp_path / "n.ipynb")
    other = kernel.run("%%claude\ntwo", cell_id="cell-2")
    assert [output["text/markdown"] for output in other.outputs] == ["Answer to two"]
    assert server.requests == []

    # who runs the same cell again means it
    cell = kernel.begin("%%claude\none", cell_id="cell-1")
    page.answer(page.wait_for_op("ask", cell)["question"], "allow")
    kernel.finish(cell)
    assert "New one." in saved(cell)[0]["text/markdown"]
    assert "New two." in saved(kernel.run("%%claude\ntwo", cell_id="cell-2"))[0]["text/markdown"]
    assert kernel.run("%%claude\nthree", cell_id="cell-1").status == "ok"
    assert len(server.requests) == 3


def test_what_was_cleared_before_the_kernel_looked_is_in_the_checkpoint(kernel_in, tmp_path):
    holding(tmp_path, "one")
    (tmp_path / ".ipynb_checkpoints").mkdir()
    (tmp_path / "n.ipynb").rename(tmp_path / ".ipynb_checkpoints" / "n-checkpoint.ipynb")
    nbformat.write(nbformat.v4.new_notebook(), tmp_path / "n.ipynb")
    kernel, server = kernel_in([])
    page = Page(kernel)
    cell = kernel.begin("%%claude\none", cell_id="cell-1")
    page.answer(page.wait_for_op("ask", cell)["question"], "deny")
    kernel.finish(cell)
    assert saved(cell)[0]["text/markdown"] == "Answer to one"
    assert server.requests == []


def test_an_edited_prompt_and_an_explicit_word_ask_nothing(kernel_in, tmp_path):
    holding(tmp_path, "one", "two")
    kernel, server = kernel_in([say("New."), say("Newer.")])
    assert kernel.run("%%claude\none more", cell_id="cell-1").status == "ok"
    kernel.run_ok("%%claude --replay off\ntwo", cell_id="cell-2")
    assert len(server.requests) == 2


def test_a_recording_is_offered_in_place_of_a_new_answer(recorded, kernel_in, tmp_path):
    holding(tmp_path, "Really?", "Why?")
    kernel, server = kernel_in([say("Because.")])
    page = Page(kernel)
    cell = kernel.begin("%%claude\nReally?", cell_id="cell-1")
    ask = page.wait_for_op("ask", cell)
    assert [(choice["key"], choice["label"].split()[0], choice["input"]) for choice in ask["choices"]] == [
        ("1", "Play", None),
        ("2", "Run", {"choice": ask["choices"][1]["label"]}),
        ("4", "Keep", None),
    ]
    page.answer(ask["question"], "allow")
    kernel.finish(cell)
    assert "Really." in saved(cell)[0]["text/markdown"]
    assert server.requests == []
    # of this one there is no recording: it asks
    cell = kernel.begin("%%claude\nWhy?", cell_id="cell-2")
    page.answer(page.wait_for_op("ask", cell)["question"], "allow")
    kernel.finish(cell)
    assert len(server.requests) == 1


def test_what_is_said_of_a_recording_stands_in_its_cell_in_its_place(recorded, kernel_in, tmp_path):
    (tmp_path / "bees.csv").write_text("bee\nann\nbea\ncia\n")
    kernel, _ = kernel_in([], key=False)
    kernel.run("%config Claude.replay = 'auto'\n%config Claude.allow = ['Python']")
    page, panel = Page(kernel), ChatPanel(kernel).connect()
    cell = kernel.run(WORK)
    assert cell.status == "ok", cell.reply
    page.wait_for_op("end", cell)
    run = panel.newest("[3]")
    panel.wait_for_end(run)
    said = [op for op in page.ops if op["op"] == "notice"]
    assert "Played from" in said[0]["text"]
    assert said[1]["level"] == "warning"
    kinds = [op["op"] for op in page.ops]
    assert kinds[:2] == ["run", "notice"]
    assert kinds[-2:] == ["notice", "end"]
    # the panel shows the run, and not what is said of the recording
    texts = [[op for op in ops if op["op"] != "notice"] for ops in (page.ops, panel.ops[run])]
    assert texts[0] == texts[1]
    assert "notice" not in [op["op"] for op in panel.ops[run]]


def test_where_nobody_can_be_asked_nothing_is_paid_for_twice(kernel_in, tmp_path):
    holding(tmp_path, "one")
    kernel, server = kernel_in([say("New."), say("Newer.")])
    kernel.run(f"PAPERMILL_INPUT_PATH = {str(tmp_path / 'n.ipynb')!r}", cell_id=None)
    refused = kernel.run("%%claude\none", cell_id=None)
    assert refused.reply["evalue"].startswith("PERMISSION_DENIED: ")
    assert "CELLWRIGHT_REPLAY=off" in refused.reply["evalue"]
    assert server.requests == []
    kernel.run("import os; os.environ['CELLWRIGHT_REPLAY'] = 'off'", cell_id=None)
    assert kernel.run("%%claude\none", cell_id=None).status == "ok"
    assert len(server.requests) == 1
