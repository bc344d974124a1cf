"""A panel asks what fills the context, and for the log."""

from __future__ import annotations

import pytest
from chat_panel import ChatPanel
from notebook_kernel import NotebookKernel

from cellwright.testing import MessagesServer, say, turn

pytestmark = pytest.mark.kernel

SECRET = "sk-ant-api03-" + "s3cret" * 8


def test_what_fills_the_context_is_told_without_a_request(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
) -> None:
    panel.ask("session_new", {})
    assert panel.ask("context", {})["result"]["parts"] == []
    model.add(turn(say("The moon pulls.")))
    panel.wait_for_end(panel.prompt("Why does the water rise? " * 40))
    requests = len(model.requests)
    used = panel.ask("context", {})["result"]
    parts = {part["name"]: part["tokens"] for part in used["parts"]}
    assert {"system", "tools", "told", "words", "answers"} <= set(parts)
    assert sum(parts.values()) == used["tokens"]
    # the state is told a little later than the run
    panel.wait(lambda: panel.state["session"]["context_tokens"] == used["tokens"])
    assert used["window"] == panel.state["session"]["context_window"] == 1_000_000
    assert parts["words"] > parts["answers"]
    assert len(model.requests) == requests


def test_the_log_tells_how_runs_went_and_no_secrets(
    kernel: NotebookKernel, model: MessagesServer, panel: ChatPanel
) -> None:
    model.add(turn(say("Fine.")))
    kernel.run(f"import logging; logging.getLogger('cellwright.test').warning('a key: {SECRET}')")
    run = panel.prompt("Is this secret?")
    panel.wait_for_end(run)
    lines = panel.ask("log", {"limit": 50})["result"]["lines"]
    assert any("a key: [secret removed: " in line for line in lines)
    assert any(": begins, session " in line for line in lines)
    assert any("ends (end_turn)" in line for line in lines)
    assert not any(SECRET in line or "Is this secret" in line for line in lines)
    assert len(panel.ask("log", {"limit": 1})["result"]["lines"]) == 1
    assert panel.ask("log", {"limit": "all"})["error"]["code"] == "invalid"
