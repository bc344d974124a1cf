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
    """IPython with the extension loaded, at its prompt."""
    for name, value in {**model_of(model), "PYTHONPATH": python_path(SOURCES), "TERM": "dumb"}.items():
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
    assert model.requests[-1].last_user_text == "are you\nstill there?"


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
    ipython.expect_exact("KeyboardInterrupt")
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
    ipython.expect_exact("KeyboardInterrupt")
    ipython.expect_exact("In [3]: ")


def test_the_background_is_refused_where_it_could_not_be_seen(ipython: Any, model: MessagesServer):
    ipython.sendline("%claude --background are you there?")
    ipython.expect_exact("--background needs a notebook")
    ipython.expect_exact("In [3]: ")
    ipython.sendline("%claude /tasks")
    ipython.expect_exact("Claude is not at work.")
