"""Hooks in a cell: what they say is seen there, a prompt they keep back fails it, Stop ends one that hangs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from notebook_kernel import NotebookKernel, Page

from cellwright.testing import MessagesServer, say, use
from eventual import eventually
from processes.marked_processes import wait_until_gone

pytestmark = pytest.mark.kernel

Write = Callable[..., None]


@pytest.fixture
def users_hooks(kernel: NotebookKernel) -> Write:
    """`users_hooks(Stop="command", …)`: the hooks in the user's settings from now on."""
    home = Path(kernel.value("__import__('os').environ['HOME']").strip("'\""))

    def write(**events: str) -> None:
        (home / ".claude").mkdir(exist_ok=True)
        hooks = {event: [{"hooks": [{"type": "command", "command": text}]}] for event, text in events.items()}
        (home / ".claude" / "settings.json").write_text(json.dumps({"hooks": hooks}), "utf-8")

    return write


def test_what_hooks_say_is_seen_in_the_cell(
    kernel: NotebookKernel, page: Page, model: MessagesServer, users_hooks: Write
):
    users_hooks(PreToolUse="echo 'not in this notebook' >&2; exit 2", Stop="echo broken >&2; exit 1")
    model.add(use("Bash", command="rm data.csv"), say("I may not."))
    cell = kernel.run("%%claude --new\ntidy up")
    assert cell.status == "ok"
    assert page.wait_for_op("decided")["by"] == "hook"
    assert "in this notebook" in page.wait_for_op("tool_end")["result"]
    assert "exited with 1: broken" in page.wait_for_op("notice")["text"]


def test_a_prompt_that_a_hook_keeps_back_fails_the_cell(
    kernel: NotebookKernel, model: MessagesServer, users_hooks: Write
):
    users_hooks(UserPromptSubmit="grep -q password && { echo 'no passwords' >&2; exit 2; }; true")
    asked = len(model.requests)
    cell = kernel.run("%%claude --new\nmy password is x")
    assert cell.status == "error"
    assert "PERMISSION_DENIED" in str(cell.outputs)
    assert "no passwords" in str(cell.outputs)
    assert len(model.requests) == asked
    model.add(say("Hello."))
    assert kernel.run("%%claude\nhello").status == "ok"


def test_stop_ends_a_hook_that_hangs(kernel: NotebookKernel, project: Path, model: MessagesServer, users_hooks: Write):
    ready = project / "ready"
    seconds = 90_000_000 + os.getpid()  # found again among all processes
    hang = f"trap '' TERM; sleep {seconds} & echo x > {ready}; wait; sleep {seconds}"
    users_hooks(Stop=f"test -e {ready} && exit 0; {hang}")
    model.add(say("Done."))
    cell = kernel.begin("%%claude --new\ngo")
    eventually(ready.exists)
    kernel.interrupt()
    kernel.finish(cell)
    assert cell.reply["ename"] == "KeyboardInterrupt"
    wait_until_gone(f"sleep\0{seconds}")
    model.add(say("Still here."))
    assert kernel.run("%%claude\nand now?").status == "ok"
