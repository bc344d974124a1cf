"""Every run has one end, wherever it is shown, also when what looks on and all of its hooks fail."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from chat_panel import ChatPanel
from notebook_kernel import NotebookKernel, Page

from cellwright.testing import MessagesServer, say, turn, use

pytestmark = pytest.mark.kernel

RAISING = """
    import logging
    from cellwright.telemetry.log_file import RUNS

    class Raising(logging.Handler):
        raised = 0

        def emit(self, record):
            Raising.raised += 1
            raise RuntimeError('a handler that the user has added')

    raising = Raising()
    logging.getLogger(RUNS).addHandler(raising)
"""


@pytest.fixture
def faults(kernel: NotebookKernel) -> Iterator[None]:
    """The log of runs raises at each event that it tells of, and each hook is killed."""
    home = Path(kernel.value("__import__('os').environ['HOME']").strip("'\""))
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    killed = [{"hooks": [{"type": "command", "command": "kill -9 $$"}]}]
    hooks = dict.fromkeys(("UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"), killed)
    settings.write_text(json.dumps({"hooks": hooks}), "utf-8")
    assert kernel.run(textwrap.dedent(RAISING)).status == "ok"
    yield
    settings.unlink()
    assert kernel.run("logging.getLogger(RUNS).removeHandler(raising)").status == "ok"
    assert int(kernel.value("Raising.raised")) >= 4, "the prompt, two answers and a call"


def play(model: MessagesServer) -> None:
    model.add(turn(say("I look. "), use("LS", path=".")), say("There it is."))


@pytest.mark.usefixtures("faults")
def test_in_the_widget(kernel: NotebookKernel, page: Page, model: MessagesServer):
    play(model)
    cell = kernel.run("%%claude --new\ngo")
    assert page.wait_for_op("end")["stop_reason"] == "end_turn"
    assert [op["op"] for op in page.ops].count("end") == 1
    assert cell.status == "ok", cell.error
    assert "There it is." in cell.outputs[0]["text/markdown"]


@pytest.mark.usefixtures("faults")
def test_as_json_and_as_json_lines(kernel: NotebookKernel, model: MessagesServer):
    play(model)
    whole = json.loads(kernel.run("%%claude --new --format json\ngo").stdout)
    assert whole["final_response"] == "There it is."
    play(model)
    lines = [json.loads(line) for line in kernel.run("%%claude --new --format json-lines\ngo").stdout.splitlines()]
    assert [line["type"] for line in lines].count("session_complete") == 1
    assert lines[-1]["type"] == "session_complete"
    assert lines[-1]["data"]["final_response"] == "There it is."


@pytest.mark.usefixtures("faults")
def test_in_the_panel(kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel):
    play(model)
    run = panel.prompt("go")
    assert panel.wait_for_end(run)["error"] is None
    assert [op["op"] for op in panel.ops[run]].count("end") == 1
    assert panel.runs[run]["state"] == "done"
    assert panel.text(run).endswith("There it is.")


def test_in_the_panel_when_a_hook_in_python_raises(kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel):
    code = """
        import cellwright

        async def leaves(*_):
            raise SystemExit(3)

        cellwright.ask('go', hooks={'Stop': [cellwright.HookMatcher(None, [leaves])]})
    """
    before = set(panel.runs)
    model.add(say("Done."))
    assert kernel.run(textwrap.dedent(code)).status == "ok"
    panel.wait(lambda: set(panel.runs) - before)
    (run,) = set(panel.runs) - before
    assert panel.wait_for_end(run)["error"] is None
    assert [op["op"] for op in panel.ops[run]].count("end") == 1
    assert panel.text(run) == "Done."
