"""A key entered in a cell: in the first prompt that lacks one, and with `%claude login`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from notebook_kernel import Cell, NotebookKernel, running_kernel

from cellwright.testing import MessagesServer, say

pytestmark = pytest.mark.kernel


@pytest.fixture
def keyless(model: MessagesServer, tmp_path: Path) -> Iterator[NotebookKernel]:
    environ = {"ANTHROPIC_BASE_URL": model.url, "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
    with running_kernel(tmp_path, environ) as kernel:
        kernel.run("%load_ext cellwright")
        yield kernel


def answer(kernel: NotebookKernel, text: str) -> str:
    """Type `text` into the field that the cell opens; gives the field's label."""
    content = kernel.client.get_stdin_msg(timeout=60)["content"]
    assert content["password"], "what is typed is not shown"
    kernel.client.input(text)
    return str(content["prompt"])


def published(kernel: NotebookKernel, cell: Cell) -> str:
    return json.dumps([message["content"] for message in cell.messages], default=str)


def test_the_first_prompt_without_a_key_asks_for_one_and_goes_on(keyless: NotebookKernel, model: MessagesServer):
    model.add(say("Hello, with your key."))
    cell = keyless.begin("%%claude\nhi", allow_stdin=True)
    assert "API key" in answer(keyless, "sk-ant-wrong-key")
    answer(keyless, model.api_key)
    keyless.finish(cell)
    assert cell.status == "ok", cell.error
    shown = str(cell.outputs)
    assert "Hello, with your key." in shown
    assert "takes the key. It is kept in" in shown
    assert "Try the demo" not in shown, "the card is gone when it is answered"
    assert "Try the demo" in published(keyless, cell)
    for secret in (model.api_key, "sk-ant-wrong-key"):
        assert secret not in published(keyless, cell)
    keyless.run("get_ipython().history_manager.writeout_cache()")
    assert keyless.value("any('sk-ant' in text for text in In)") == "False"
    model.add(say("Again."))
    assert keyless.run("%%claude\nonce more", allow_stdin=True).status == "ok", "nobody is asked twice"


def test_who_types_nothing_reads_the_ways(keyless: NotebookKernel, model: MessagesServer):
    cell = keyless.begin("%%claude\nhi", allow_stdin=True)
    answer(keyless, "")
    keyless.finish(cell)
    assert cell.reply["evalue"].startswith("API_KEY_MISSING: Claude needs a key")
    login = keyless.begin("%claude login", allow_stdin=True)
    answer(keyless, model.api_key)
    keyless.finish(login)
    assert "takes the key" in login.stdout
    assert keyless.run("%claude login").reply["evalue"].startswith("INVALID_PARAMETERS: A key cannot be typed here.")
