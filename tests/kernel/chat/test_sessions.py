"""The sessions of a kernel, by slash commands in cells and by the panel: one conversation, whichever place moves it on."""

from __future__ import annotations

import pytest
from chat_panel import ChatPanel
from notebook_kernel import NotebookKernel

from cellwright.testing import MessagesServer, say, turn

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

    assert kernel.run("%claude /resume gauge brest").status == "ok"
    panel.wait(lambda: panel.state["session"]["id"] == tides)
    panel.wait(lambda: {run["prompt"] for run in panel.runs.values() if run["session"] == tides} >= PROMPTS)
    assert kernel.run("%claude /rename Tides of Brest").status == "ok"
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
