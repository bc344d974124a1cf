"""`%%claude` in IPython in a terminal: text as it comes, questions by `input()`, Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
from notebook_kernel import SOURCES, model_of, python_path

from cellwright.testing import Gate, MessagesServer, hold, say, turn, use

pytestmark = pytest.mark.kernel


@pytest.fixture
def ipython(model: MessagesServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """IPython with the extension loaded, at its prompt, in a terminal that shows text as it comes."""
    yield from started(model, tmp_path, monkeypatch, "dumb")


@pytest.fixture
def drawing_ipython(model: MessagesServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The same in a terminal that can be drawn on."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    yield from started(model, tmp_path, monkeypatch, "xterm-256color")


def started(model: MessagesServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, term: str) -> Iterator[Any]:
    for name, value in {**model_of(model), "PYTHONPATH": python_path(SOURCES), "TERM": term}.items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor"]
    child = pexpect.spawn(command[0], command[1:], cwd=str(tmp_path), encoding="utf-8", timeout=60)
    child.expect_exact("In [1]: ")
    child.sendline("%load_ext cellwright")
    child.expect_exact("In [2]: ")
    yield child
    child.kill(signal.SIGKILL)
    child.wait()
    child.close()
    assert [request.error for request in model.rejected] == []


def test_a_line_and_a_cell(ipython: Any, model: MessagesServer):
    model.add(say("I am here."), say("Still here."))
    ipython.sendline("%claude are you there?")
    ipython.expect_exact("I am here.")
    ipython.expect_exact("In [3]: ")
    for line in ("%%claude", "are you", "still there?", "", ""):
        ipython.sendline(line)
    ipython.expect_exact("Still here.")
    ipython.expect_exact("In [4]: ")
    assert model.requests[-1].last_user_text.split("\n") == ["are you", "still there?"]


def test_a_question_is_answered_at_the_prompt(ipython: Any, model: MessagesServer):
    model.add(turn(use("Python", code="typed = 6 * 7")), say("Done."))
    ipython.sendline("%claude compute")
    ipython.expect_exact("typed = 6 * 7")
    ipython.expect_exact("[1/2/4] ")
    ipython.sendline("perhaps")
    ipython.expect_exact("[1/2/4] ")
    ipython.sendline("y")
    ipython.expect_exact("Done.")
    ipython.expect_exact("In [3]: ")
    ipython.sendline("typed")
    ipython.expect_exact("Out[3]: 42")


def test_ctrl_c_ends_the_run_and_the_next_one_goes_on(ipython: Any, model: MessagesServer):
    gate = Gate()
    model.add(turn(say("I will now"), hold(gate), say("never say")), say("Still here."))
    ipython.sendline("%claude go")
    ipython.expect_exact("I will now")
    ipython.sendintr()
    ipython.expect_exact("Stopped. The conversation continues in the next cell.")
    ipython.expect_exact("In [3]: ")
    gate.open()
    ipython.sendline("%claude and now?")
    ipython.expect_exact("Still here.")


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(99)"])
def test_ctrl_c_ends_python(ipython: Any, model: MessagesServer, tmp_path: Path, code: str):
    # what code prints is not shown before it ends
    model.add(turn(use("Python", code=f"with open('begun', 'w') as pipe: pipe.write('begun')\n{code}")))
    ipython.sendline("%claude go")
    ipython.expect_exact("[1/2/4] ")
    os.mkfifo(tmp_path / "begun")
    ipython.sendline("1")
    assert (tmp_path / "begun").read_text() == "begun"
    ipython.sendintr()
    ipython.expect_exact("Stopped. The conversation continues")
    ipython.expect_exact("In [3]: ")


def test_the_background_is_refused_where_it_could_not_be_seen(ipython: Any, model: MessagesServer):
    ipython.sendline("%claude --background are you there?")
    ipython.expect_exact("--background needs a notebook")
    ipython.expect_exact("In [3]: ")
    ipython.sendline("%claude /tasks")
    ipython.expect_exact("Claude is not working.")


BOLD = "\x1b[1m"
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


def test_markdown_is_drawn_where_the_terminal_can(drawing_ipython: Any, model: MessagesServer):
    model.add(say("# Bees\n\nThey are **busy** and\n\n- small\n- many\n\nand \x1b[31mred\x1b[0m."))
    drawing_ipython.sendline("%claude tell me")
    drawing_ipython.expect_exact("In [3]: ")
    screen = drawing_ipython.before
    assert f"{BOLD}busy" in screen
    assert screen.count("•") >= 2
    assert "**busy**" not in screen
    assert "\x1b[31mred" not in screen
    assert screen.rindex(SHOW_CURSOR) > screen.rindex(HIDE_CURSOR)


def test_text_is_drawn_while_it_is_written_and_ctrl_c_leaves_the_screen_as_it_was(
    drawing_ipython: Any, model: MessagesServer
):
    gate = Gate()
    model.add(turn(say("I **will** now"), hold(gate), say("never say")), say("Still here."))
    drawing_ipython.sendline("%claude go")
    drawing_ipython.expect_exact(f"{BOLD}will")
    drawing_ipython.sendintr()
    drawing_ipython.expect_exact(SHOW_CURSOR)
    drawing_ipython.expect_exact("Stopped. The conversation continues")
    drawing_ipython.expect_exact("In [3]: ")
    gate.open()
    drawing_ipython.sendline("%claude and now?")
    drawing_ipython.expect_exact("Still here.")


def test_a_question_has_the_screen_for_itself(drawing_ipython: Any, model: MessagesServer):
    model.add(turn(say("I *compute*."), use("Python", code="typed = 6 * 7")), say("**Done.**"))
    drawing_ipython.sendline("%claude compute")
    drawing_ipython.expect_exact(f"{BOLD}Claude asks")
    drawing_ipython.expect(r"typed = \S*6\S* \* ")
    before = drawing_ipython.before
    assert HIDE_CURSOR not in before[before.rfind(SHOW_CURSOR) + 1 :]
    drawing_ipython.expect_exact("[1/2/4] ")
    drawing_ipython.sendline("y")
    drawing_ipython.expect_exact(f"{BOLD}Done.")
    drawing_ipython.expect_exact("In [3]: ")
    drawing_ipython.sendline("typed")
    drawing_ipython.expect_exact("42")


def test_a_preview_is_refused_before_anything_is_sent(ipython: Any, model: MessagesServer):
    before = len(model.requests)
    for line in ("%%claude --branch", "change it", "", ""):
        ipython.sendline(line)
    ipython.expect_exact("A preview needs the kernel of a notebook on Linux. Nothing was sent.")
    ipython.expect_exact("In [3]: ")
    ipython.sendline("%claude /preview accept all")
    ipython.expect_exact(
        "No preview waits. `%%claude --branch` and a prompt make one, in a notebook's kernel on Linux."
    )
    ipython.expect_exact("In [4]: ")
    assert len(model.requests) == before
