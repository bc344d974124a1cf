"""A process that is killed in a call that changes several files: what the next one finds, says and can take back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from cellwright.testing import use

KILLED = """
import os, signal, sys
from pathlib import Path
from cellwright.features.conversation import Conversation
from cellwright.conversation.core import Host
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run_options import RunOptions
real = os.replace
def killing(source, target, **named):
    if str(target) == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)
    real(source, target, **named)
os.replace = killing
conversation = Conversation(Host(cwd=Path.cwd(), interface="a test", environ=dict(os.environ)))
options = RunOptions(mode="bypassPermissions")
task = conversation.start(RunRequest(prompt="Go.", options=options), RunSurface(lambda event: None))
conversation.jobs.work_until_done(task)
"""
PATCH = "".join(f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-old\n+new\n" for name in ("a.txt", "b.txt", "c.txt"))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_the_call_gets_its_true_result_and_can_be_taken_back(work):
    calls = (use("Write", file_path="new.txt", content="new\n"), use("ApplyPatch", patch=PATCH))
    there = work([calls], [])
    for name in ("a.txt", "b.txt", "c.txt"):
        there.put(name, "old\n")
    child = subprocess.run(
        [sys.executable, "-c", KILLED, "b.txt"],
        cwd=there.cwd,
        env={**os.environ, **there.environ},
        check=False,
    )
    assert child.returncode == -signal.SIGKILL
    assert [there.read(name) for name in ("a.txt", "b.txt", "c.txt")] == ["new\n", "old\n", "old\n"]
    there.again()
    assert [there.read(name) for name in ("a.txt", "b.txt", "c.txt")] == ["new\n"] * 3
    results = there.conversation.sessions.current.messages[-1]["content"]
    written, patched = results
    assert "is_error" not in written
    assert "(1 line, 4 bytes)." in written["content"]  # it had ended: what it gave is kept
    assert "is_error" not in patched
    assert "made as a whole" in patched["content"]
    assert sorted(path.name for path in there.cwd.iterdir()) == ["a.txt", "b.txt", "c.txt", "new.txt"]
    page = there.type("/undo")
    assert "as they are" not in page
    assert [there.read(name) for name in ("a.txt", "b.txt", "c.txt", "new.txt")] == ["old\n"] * 3 + [None]
