"""A key entered in a cell: in the first prompt that lacks one, and with `%claude login`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from notebook_kernel import SOURCES, Cell, Message, NotebookKernel, python_path, running_kernel
from notebook_page import NotebookPage

from cellwright.kernel.extension import PAGE_LOADS
from cellwright.testing import MessagesServer, say

pytestmark = pytest.mark.kernel


def keyless_environ(model: MessagesServer) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": model.url, "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}


@pytest.fixture
def keyless(model: MessagesServer, tmp_path: Path) -> Iterator[NotebookKernel]:
    with running_kernel(tmp_path, keyless_environ(model)) as kernel:
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
    model.add(say("Your key."))
    cell = keyless.begin("%%claude\nhi", allow_stdin=True)
    assert "API key" in answer(keyless, "sk-ant-wrong-key")
    answer(keyless, model.api_key)
    keyless.finish(cell)
    assert cell.status == "ok", cell.error
    shown = str(cell.outputs)
    assert "Your key." in shown
    assert "Key saved in" in shown
    assert "Try the demo" not in shown, "the card is gone when it is answered"
    assert "Try the demo" in published(keyless, cell)
    for secret in (model.api_key, "sk-ant-wrong-key"):
        assert secret not in published(keyless, cell)
    keyless.run("get_ipython().history_manager.writeout_cache()")
    value = keyless.value("any('sk-ant' in text for text in In)")
    assert value == "False"
    model.add(say("Again."))
    assert keyless.run("%%claude\nonce more", allow_stdin=True).status == "ok", "nobody is asked twice"


def test_who_types_nothing_reads_the_ways(keyless: NotebookKernel, model: MessagesServer):
    cell = keyless.begin("%%claude\nhi", allow_stdin=True)
    answer(keyless, "")
    keyless.finish(cell)
    assert cell.reply["evalue"].startswith("API_KEY_MISSING:")
    login = keyless.begin("%claude login", allow_stdin=True)
    answer(keyless, model.api_key)
    keyless.finish(login)
    assert "Key saved in" in login.stdout
    assert keyless.run("%claude login").reply["evalue"].startswith("INVALID_PARAMETERS:")


def key_field(kernel: NotebookKernel) -> None:
    """Wait until the cell's field for a key is there."""
    assert kernel.client.get_stdin_msg(timeout=60)["content"]["password"]


def test_an_interrupt_ends_the_wait_for_a_key(keyless: NotebookKernel, model: MessagesServer):
    for code in ("%%claude\nhi", "%claude login"):
        cell = keyless.begin(code, allow_stdin=True)
        key_field(keyless)
        keyless.interrupt()
        keyless.finish(cell)
        assert cell.reply["ename"] == "KeyboardInterrupt", cell.reply
        assert keyless.value("6 * 7") == "42"


def test_a_key_from_elsewhere_runs_the_prompt_that_waits_for_it(keyless: NotebookKernel, model: MessagesServer):
    model.add(say("Panel's key."))
    cell = keyless.begin("%%claude\nhi", allow_stdin=True)
    key_field(keyless)
    enter_elsewhere(model)
    keyless.finish(cell)
    assert cell.status == "ok", cell.error
    assert "Panel's key." in str(cell.outputs)


def enter_elsewhere(model: MessagesServer) -> None:
    """Enter a key as the panel's server does, in another process."""
    entered = subprocess.run(
        [sys.executable, "-m", "cellwright.terminal.main", "auth", "login"],
        input=model.api_key,
        text=True,
        capture_output=True,
        env={**os.environ, **keyless_environ(model), "PYTHONPATH": python_path(SOURCES)},
        check=False,
    )
    assert entered.returncode == 0, entered.stderr


def test_a_page_that_draws_the_field_gets_a_card_and_no_input(
    keyless: NotebookKernel, model: MessagesServer, tmp_path: Path
):
    if not keyless.has_subshells:
        pytest.skip("the page cannot be heard while the cell waits")
    page = NotebookPage(keyless, tmp_path / "a.ipynb")
    page.draws_key_card = True
    page.open()

    def asked(message: Message) -> bool:
        return "API_KEY_ASKED" in json.dumps(message["content"], default=str)

    later = keyless.begin("%%claude\nhi", allow_stdin=True)
    keyless.wait_for(asked)
    page.say({"type": "request", "id": "p1", "method": "key_later", "params": {}})
    keyless.finish(later)
    assert later.reply["evalue"].startswith("API_KEY_MISSING: ")
    model.add(say("Card's key."))
    cell = keyless.begin("%%claude\nhi", allow_stdin=True)
    keyless.wait_for(asked)
    enter_elsewhere(model)
    keyless.finish(cell)
    assert cell.status == "ok", cell.error
    assert "Card's key." in str(cell.outputs)
    assert "Key found." in published(keyless, cell)
    assert "Key found." not in str(cell.outputs), "it goes when the answer begins"
    assert not any(message["msg_type"] == "input_request" for message in cell.messages)


def let_pages_connect_within(kernel: NotebookKernel, seconds: float) -> None:
    kernel.run_ok(f"import cellwright.kernel.pages.pages as pages; pages.PING_SECONDS = {seconds}")


def load_as_a_page(kernel: NotebookKernel) -> None:
    """Load the extension as a page does before each cell that asks Claude."""
    kernel.client.execute(PAGE_LOADS, silent=True, store_history=False, allow_stdin=False, stop_on_error=False)


def test_a_first_prompt_waits_for_the_page_that_is_about_to_connect(keyless: NotebookKernel, tmp_path: Path):
    if not keyless.has_subshells:
        pytest.skip("the page cannot be heard while the cell waits")
    let_pages_connect_within(keyless, 1_000)
    page = NotebookPage(keyless, tmp_path / "a.ipynb")
    page.draws_key_card = True
    load_as_a_page(keyless)
    cell = keyless.begin("%%claude\nhi", allow_stdin=True)
    page.open()
    keyless.wait_for(lambda message: "API_KEY_ASKED" in json.dumps(message["content"], default=str))
    page.say({"type": "request", "id": "p1", "method": "key_later", "params": {}})
    keyless.finish(cell)
    assert not any(message["msg_type"] == "input_request" for message in cell.messages)


def test_a_page_that_does_not_connect_is_not_waited_for_long(keyless: NotebookKernel):
    let_pages_connect_within(keyless, 0.1)
    load_as_a_page(keyless)
    cell = keyless.begin("%%claude\nhi", allow_stdin=True)
    answer(keyless, "")
    keyless.finish(cell)
    assert cell.reply["evalue"].startswith("API_KEY_MISSING:")


def test_a_front_end_without_a_page_waits_for_none(keyless: NotebookKernel):
    # longer than the test may take
    let_pages_connect_within(keyless, 1_000)
    cell = keyless.begin("%%claude\nhi", allow_stdin=True)
    answer(keyless, "")
    keyless.finish(cell)
    assert cell.reply["evalue"].startswith("API_KEY_MISSING:")


def test_an_interrupt_ends_the_wait_for_a_page(keyless: NotebookKernel):
    if not keyless.has_subshells:
        pytest.skip("no page is waited for")
    let_pages_connect_within(keyless, 1_000)
    load_as_a_page(keyless)
    keyless.run_ok("from cellwright.kernel.magic import sign_in")
    keyless.run_ok("sign_in.lacks_key = lambda *_: print('asked') or True")
    load_as_a_page(keyless)
    cell = keyless.begin("%%claude\nhi", allow_stdin=True)
    keyless.wait_for(lambda message: "asked" in str(message["content"].get("text")))
    keyless.interrupt()
    keyless.finish(cell)
    assert cell.reply["ename"] == "KeyboardInterrupt", cell.reply


def test_the_wait_for_a_key_ends_with_its_page(keyless: NotebookKernel, tmp_path: Path):
    if not keyless.has_subshells:
        pytest.skip("the page's leave-taking waits for the cell")
    page = NotebookPage(keyless, tmp_path / "a.ipynb")
    page.open()
    cell = keyless.begin("%%claude\nhi", allow_stdin=True)
    key_field(keyless)
    page.close()
    keyless.finish(cell)
    assert cell.reply["evalue"].startswith("API_KEY_MISSING: ")
    assert keyless.value("6 * 7") == "42"
