"""What the panel's composer asks a real kernel: completions and prompts with attachments, also while a cell runs."""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from typing import Any

import ipykernel
import pytest
from chat_panel import ChatPanel
from notebook_kernel import Message, NotebookKernel
from PIL import Image

from cellwright.testing import MessagesServer, say, turn

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]

needs_subshells = pytest.mark.skipif(ipykernel.version_info[0] < 7, reason="messages wait for a cell that blocks")

BUSY = """
import pathlib, time
print('begun', flush=True)
while not pathlib.Path('go').exists(): time.sleep(0.01)
"""


def completed(panel: ChatPanel, kind: str, text: str) -> list[dict[str, Any]]:
    reply = panel.ask("complete", {"kind": kind, "text": text, "notebook": ""})
    return list(reply["result"]["items"])


def has_begun(message: Message) -> bool:
    return message["msg_type"] == "stream" and "begun" in message["content"]["text"]


def words(model: MessagesServer) -> list[dict[str, Any]]:
    """The content of the newest prompt."""
    return list(model.requests[-1].body["messages"][-1]["content"])


def noise(side: int) -> bytes:
    """A picture that does not compress."""
    out = io.BytesIO()
    Image.frombytes("RGB", (side, side), os.urandom(side * side * 3)).save(out, "PNG")
    return out.getvalue()


@needs_subshells
def test_all_of_it_can_be_completed_while_a_cell_runs(kernel: NotebookKernel, panel: ChatPanel, project: Path):
    (project / "rules.md").write_text("No discounts.\n")
    kernel.run("basket = {'pears': 3}")
    cell = kernel.begin(BUSY)
    kernel.wait_for(has_begun, cell)
    try:
        assert [item["insert"] for item in completed(panel, "variable", "bask")] == ["$basket"]
        assert completed(panel, "variable", "bask")[0]["about"] == "dict of 1"
        assert [item["insert"] for item in completed(panel, "mention", "rules")] == ["@rules.md"]
        assert "/status" in [item["insert"] for item in completed(panel, "command", "")]
    finally:
        (project / "go").touch()
    kernel.finish(cell)
    (project / "go").unlink()


@needs_subshells
def test_a_prompt_while_a_cell_runs_goes_without_the_namespace(
    kernel: NotebookKernel, panel: ChatPanel, model: MessagesServer, project: Path
):
    (project / "rules.md").write_text("No discounts.\n")
    kernel.run("basket = {'pears': 3}")
    cell = kernel.begin(BUSY)
    kernel.wait_for(has_begun, cell)
    model.add(turn(say("ok")))
    try:
        run = panel.prompt("apply @rules.md to $basket")
        panel.wait_for_end(run)
    finally:
        (project / "go").touch()
    kernel.finish(cell)
    (project / "go").unlink()
    texts = [block["text"] for block in words(model)]
    assert any("No discounts." in text for text in texts)
    assert not any("pears" in text for text in texts)
    assert any("$basket: not attached, the kernel is busy" in op.get("text", "") for op in panel.ops[run])


def test_a_prompt_tells_what_it_mentions_and_what_the_notebook_has(
    kernel: NotebookKernel, panel: ChatPanel, model: MessagesServer
):
    kernel.run("basket = {'pears': 3}\nfreshly_made = 12")
    model.add(turn(say("ok")))
    run = panel.prompt("how many in $basket?", context="auto")
    panel.wait_for_end(run)
    texts = [block["text"] for block in words(model)]
    assert any(text.startswith('<attached mention="$basket"') and "pears" in text for text in texts)
    assert any("freshly_made: int = 12" in text for text in texts)
    (told,) = [op for op in panel.ops[run] if op["op"] == "told"]
    assert ("variable", "$basket") in [(part["kind"], part["title"]) for part in told["parts"]]


def test_a_picture_of_five_megabytes_arrives(kernel: NotebookKernel, panel: ChatPanel, model: MessagesServer):
    content = noise(1_300)
    assert len(content) > 5_000_000
    data = base64.b64encode(content).decode()
    model.add(turn(say("Noise.")))
    picture = {"kind": "image", "media_type": "image/png", "name": "noise.png", "data": data}
    panel.wait_for_end(panel.prompt("What is it?", attachments=[picture]))
    (image,) = [block for block in words(model) if block["type"] == "image"]
    sent = Image.open(io.BytesIO(base64.b64decode(image["source"]["data"])))
    assert sent.size == (1_300, 1_300)


def test_what_cannot_be_attached_is_refused_and_nothing_is_sent(
    kernel: NotebookKernel, panel: ChatPanel, model: MessagesServer
):
    before = len(model.requests)
    picture = {"kind": "image", "media_type": "image/png", "name": "a.png", "data": base64.b64encode(b"GIF").decode()}
    params = {"text": "Look", "attachments": [picture], "context": "none", "cell": None, "options": {}}
    error = panel.ask("prompt", params)["error"]
    assert error["code"] == "INVALID_PARAMETERS"
    assert "a.png is no picture that is known" in error["message"]
    assert len(model.requests) == before
    assert panel.state["current"] is None
