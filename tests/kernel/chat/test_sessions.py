"""The sessions of a kernel, by slash commands in cells and by the panel: one conversation, whichever place moves it on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chat_panel import ChatPanel
from notebook_kernel import NotebookKernel, model_of, running_kernel

from cellwright.testing import MessagesServer, say, turn, use

pytestmark = pytest.mark.kernel


PROMPTS = {"where is the gauge?", "since when?"}


def test_cells_and_panel_move_the_same_conversation_on(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
) -> None:
    model.add(*[turn(say(answer)) for answer in ("The gauge stands in Brest.", "Since 1846.", "Bees dance.")])
    for prompt in ("where is the gauge?", "since when?"):
        assert kernel.run(f"%%claude\n{prompt}").status == "ok"
    tides = panel.state["session"]["id"]
    panel.wait(lambda: panel.state["session"]["title"] == "where is the gauge?")
    assert panel.ask("session_new", {})["result"] is None
    panel.wait(lambda: panel.state["session"]["id"] != tides and panel.state["session"]["title"] == "")
    panel.wait_for_end(panel.prompt("what of bees?"))

    listed = panel.ask("sessions", {"query": "gauge brest", "limit": 10, "offset": 0})["result"]["sessions"]
    assert [(each["id"], each["title"], each["turns"]) for each in listed] == [(tides, "where is the gauge?", 2)]
    assert listed[0]["snippet"] == "The ⟪gauge⟫ stands in ⟪Brest⟫."

    kernel.run_ok("%claude /resume gauge brest")
    panel.wait(lambda: panel.state["session"]["id"] == tides)
    panel.wait(lambda: {run["prompt"] for run in panel.runs.values() if run["session"] == tides} >= PROMPTS)
    kernel.run_ok("%claude /rename Tides of Brest")
    panel.wait(lambda: panel.state["session"]["title"] == "Tides of Brest")

    assert panel.ask("session_fork", {"id": tides, "turn": 1})["result"] is None
    panel.wait(lambda: panel.state["session"]["title"] == "Tides of Brest (fork at turn 1)")
    panel.wait(lambda: panel.state["session"]["turns"] == 1)
    model.add(turn(say("On from there.")))
    assert kernel.run("%%claude\nand then?").status == "ok"
    sent = model.requests[-1].body["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]

    refused = panel.ask("session_delete", {"id": panel.state["session"]["id"]})
    assert refused["error"]["code"] == "EXECUTION_ERROR"
    assert panel.ask("session_delete", {"id": tides})["result"] is None
    missing = panel.ask("session_resume", {"id": tides})
    assert missing["error"]["code"] == "SESSION_NOT_FOUND"


@pytest.fixture
def panel(panel: ChatPanel) -> ChatPanel:
    """A panel in a session of its own."""
    assert "result" in panel.ask("session_new", {})
    panel.wait(lambda: not panel.runs)
    return panel


def converse(panel: ChatPanel, model: MessagesServer, *words: str) -> list[str]:
    """One prompt with its answer for each of the words; gives the runs."""
    runs = []
    for word in words:
        model.add(turn(say(f"About {word}.")))
        runs.append(panel.prompt(word))
        panel.wait_for_end(runs[-1])
    return runs


def shown(panel: ChatPanel) -> list[tuple[str, str, str]]:
    return [(run["kind"], run["prompt"], panel.text(run["id"])) for run in panel.runs.values()]


def are_shown(panel: ChatPanel, *expected: tuple[str, str, str]) -> None:
    panel.wait(lambda: shown(panel) == list(expected))


def test_a_prompt_asked_again_in_a_branch_has_the_attachments_and_options_of_the_first(
    panel: ChatPanel, model: MessagesServer
) -> None:
    model.add(say("One."), say("Other."))
    log = {"kind": "text", "name": "a.log", "text": "disk full"}
    asked = {"text": "Why?", "context": "none", "attachments": [log], "options": {"effort": "low"}}
    first = panel.ask("prompt", asked)["result"]["run"]
    panel.wait_for_end(first)
    session = panel.runs[first]["session"]
    assert "result" in panel.ask("session_fork", {"id": session, "turn": 0})
    panel.wait_for_end(panel.ask("prompt", {"text": "Why?", "context": "auto", "like": first})["result"]["run"])
    one, other = (request.body for request in model.requests[-2:])
    assert "disk full" in str(other["messages"])
    assert (one["messages"], one["output_config"]) == (other["messages"], other["output_config"])


def test_a_session_that_is_left_goes_and_comes_back_with_its_history(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    runs = converse(panel, model, "one", "two")
    first = panel.runs[runs[0]]["session"]
    assert [panel.runs[run]["turn"] for run in runs] == [1, 2]
    panel.ask("session_new", {})
    panel.wait(lambda: not panel.runs)
    assert set(runs) <= set(panel.gone)
    panel.wait(lambda: panel.state["session"]["id"] != first and panel.state["session"]["turns"] == 0)
    converse(panel, model, "three")
    panel.ask("session_resume", {"id": first})
    are_shown(panel, ("past", "one", "About one."), ("past", "two", "About two."))
    assert list(panel.runs) == [f"past-{first}-1", f"past-{first}-2"]
    four = converse(panel, model, "four")[0]
    assert panel.runs[four]["turn"] == 3
    assert [kind for kind, _, _ in shown(panel)] == ["past", "past", "prompt"]
    late = ChatPanel(kernel).connect()
    assert (late.runs, late.ops) == (panel.runs, panel.ops)
    late.close()


def test_a_cell_that_resumes_shows_the_turns_before_its_own(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    session = panel.runs[converse(panel, model, "one")[0]]["session"]
    panel.ask("session_new", {})
    panel.wait(lambda: not panel.runs)
    model.add(turn(say("About two.")))
    kernel.run(f"%%claude --resume {session}\ntwo")
    are_shown(panel, ("past", "one", "About one."), ("prompt", "two", "About two."))


def test_turns_that_are_taken_back_go_and_those_that_are_brought_back_come(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    runs = converse(panel, model, "one", "two", "three")
    rewind = panel.prompt("/rewind 2")
    panel.answer(panel.wait_for_op(rewind, "ask")["question"], "allow")
    panel.wait_for_end(rewind)
    assert panel.runs[rewind]["state"] == "done"
    panel.wait(lambda: set(runs[1:]) <= set(panel.gone))
    assert runs[0] in panel.runs
    panel.wait(lambda: panel.state["session"]["turns"] == 1)
    again = converse(panel, model, "other")[0]
    assert panel.runs[again]["turn"] == 2


def test_a_resumed_turn_shows_calls_with_their_results(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel, project: Path
):
    (project / "notes.md").write_text("a line\n", "utf-8")
    calls = turn(say("I look."), use("Read", file_path="notes.md"), use("Read", file_path="missing.md"))
    model.add(calls, turn(say("Read it.")))
    run = panel.prompt("Read @notes.md", attachments=[{"kind": "text", "name": "more", "text": "attached words"}])
    panel.wait_for_end(run)
    session = panel.runs[run]["session"]
    titles = [op["title"] for op in panel.ops[run] if op["op"] == "tool"]
    panel.ask("session_new", {})
    panel.ask("session_resume", {"id": session})
    past = f"past-{session}-1"
    end = panel.wait_for_op(past, "end")
    assert panel.runs[past]["prompt"] == "Read @notes.md"
    ops = panel.ops[past]
    assert [op["op"] for op in ops] == [
        "run",
        "told",
        "text",
        "tool",
        "tool",
        "turn",
        "decided",
        "tool_end",
        "decided",
        "tool_end",
        "text",
        "turn",
        "end",
    ]
    assert [op["title"] for op in ops if op["op"] == "tool"] == titles
    good, bad = (op for op in ops if op["op"] == "tool_end")
    assert (good["status"], bad["status"], bad["error"]["code"]) == ("success", "error", "FILE_NOT_FOUND")
    assert "a line" in good["result"]
    assert end["cost_usd"] == pytest.approx(sum(op["cost_usd"] for op in ops if op["op"] == "turn"))


def test_a_run_in_a_session_of_its_own_is_shown_with_the_conversation_that_asked_for_it(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
):
    first = converse(panel, model, "one")[0]
    model.add(turn(say("Aside.")))
    kernel.run("import cellwright\n_ = cellwright.ask('aside', session=None)")
    panel.wait(lambda: len(panel.runs) == 2)
    aside = next(run for run in panel.runs if run != first)
    panel.wait_for_end(aside)
    assert panel.runs[aside]["turn"] is None
    assert panel.runs[aside]["session"] != panel.runs[first]["session"]
    late = ChatPanel(kernel).connect()
    assert list(late.runs) == [first, aside]
    late.close()
    second = converse(panel, model, "two")[0]
    assert panel.runs[second]["turn"] == 2


def test_a_key_in_the_place_of_a_prompt_is_refused_and_not_kept(tmp_path: Path):
    pasted = "sk-ant-" + "api03-pasted-0123456789"
    home = tmp_path / "home"
    places = {"HOME": str(home), "CELLWRIGHT_HOME": str(home / "cellwright"), "IPYTHONDIR": str(home / "ipython")}
    no_key = {"ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": ""}
    with running_kernel(tmp_path, {**places, **no_key}) as kernel:
        kernel.run("%load_ext cellwright")
        panel = ChatPanel(kernel).connect()
        params = {"text": f"my key: {pasted}", "attachments": [], "context": "none", "cell": None, "options": {}}
        reply = panel.ask("prompt", params)
        assert "Enter it in the key field" in reply["error"]["message"]
        told = kernel.run(f"%%claude\n{pasted}")
        assert "Enter it in the key field" in str(vars(told))
        assert panel.runs == {}
        kept = [path for path in (home / "cellwright").rglob("*") if path.is_file()]
        assert not [path for path in kept if pasted.encode() in path.read_bytes()]


def test_a_kernel_without_a_key_says_so_in_the_run(tmp_path: Path):
    home = tmp_path / "home"
    places = {"HOME": str(home), "CELLWRIGHT_HOME": str(home / "cellwright"), "IPYTHONDIR": str(home / "ipython")}
    no_key = {"ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": ""}
    with running_kernel(tmp_path, {**places, **no_key}) as kernel:
        kernel.run("%load_ext cellwright")
        panel = ChatPanel(kernel).connect()
        run = panel.prompt("Hello")
        assert panel.wait_for_end(run)["error"]["code"] == "API_KEY_MISSING"
        assert panel.runs[run]["state"] == "failed"
        panel.wait(lambda: panel.state["current"] is None)


def test_why_there_can_be_no_conversation_is_said_to_the_panel_that_connects(tmp_path: Path):
    home, base = tmp_path / "home", tmp_path / "base"
    places = {"HOME": str(home), "CELLWRIGHT_HOME": str(home / "cellwright"), "IPYTHONDIR": str(home / "ipython")}
    with running_kernel(tmp_path, {**places, "CELLWRIGHT_BASE_PATH": str(base)}) as kernel:
        kernel.run("%load_ext cellwright")
        panel = ChatPanel(kernel)
        panel.open()
        panel.wait(lambda: panel.closed)
        assert (panel.got[0]["type"], panel.got[0]["code"]) == ("failed", "CONFIG_INVALID")
        assert "CELLWRIGHT_BASE_PATH" in panel.got[0]["message"]
        base.mkdir()
        panel.connect()
        assert panel.state["cwd"] == str(base)


def test_what_a_folder_brings_along_is_asked_in_the_panel(model: MessagesServer, tmp_path: Path):
    home, project = tmp_path / "home", tmp_path / "project"
    (project / ".claude").mkdir(parents=True)
    settings = {"permissions": {"allow": ["Python"]}}
    (project / ".claude" / "settings.json").write_text(json.dumps(settings), "utf-8")
    places = {"HOME": str(home), "CELLWRIGHT_HOME": str(home / "cellwright"), "IPYTHONDIR": str(home / "ipython")}
    model.add(turn(use("Python", code="trusted = 1")), turn(say("Done.")))
    with running_kernel(project, {**model_of(model), **places}) as kernel:
        kernel.run("%load_ext cellwright")
        panel = ChatPanel(kernel).connect()
        run = panel.prompt("Go")
        ask = panel.wait_for_op(run, "ask")
        assert ask["kind"] == "trust"
        panel.answer(ask["question"], "allow")
        panel.wait_for_end(run)
        assert kernel.value("trusted") == "1"
    assert model.remaining_turns == 0


def test_a_restarted_kernel_goes_on_with_its_history(model: MessagesServer, tmp_path: Path):
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    places = {"HOME": str(home), "CELLWRIGHT_HOME": str(home / "cellwright"), "IPYTHONDIR": str(home / "ipython")}
    panel: ChatPanel | None = None
    session = ""
    for life in range(2):
        with running_kernel(project, {**model_of(model), **places}) as kernel:
            kernel.run("%load_ext cellwright")
            before = panel
            panel = ChatPanel(kernel)
            if before is None:
                panel.connect()
                session = panel.runs[converse(panel, model, "before")[0]]["session"]
            else:  # the same page, with what it holds of a kernel that is gone
                panel.log, panel.runs, panel.ops = before.log, dict(before.runs), dict(before.ops)
                panel.connect()
                assert panel.log != before.log
                assert panel.runs == {}
                panel.ask("session_resume", {"id": session})
                are_shown(panel, ("past", "before", "About before."))
                converse(panel, model, "after")
                sent = [message["role"] for message in model.requests[-1].body["messages"]]
                assert sent == ["user", "assistant", "user"], life
    assert model.remaining_turns == 0
