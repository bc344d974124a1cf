"""The folder of a process's commands, when the process is killed before it has removed it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MAKE = """
import os, signal, sys, threading
from cellwright.sandbox.private_folder import PrivateFolder
made = PrivateFolder()
made.unreadable(folder=True)
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join()
print(made.path, flush=True)
"""
WAIT, DIE = "sys.stdin.read(); made.close()", "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no sandbox on Windows")
def test_who_comes_next_removes_what_killed_processes_left(tmp_path: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}

    def ended(end: str) -> Path:
        done = subprocess.run([sys.executable, "-c", MAKE + end], env=environ, stdout=subprocess.PIPE, check=False)
        return Path(os.fsdecode(done.stdout.strip()))

    def make_old(folder: Path) -> None:
        os.utime(folder / "lock", (0, 0))

    with subprocess.Popen(
        [sys.executable, "-c", MAKE + WAIT], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        in_use = Path(os.fsdecode(running.stdout.readline().strip()))
        left, young = ended(DIE), ended(DIE)
        (left / "tmp" / "kept.txt").write_text("kept", "utf-8")
        foreign = tmp_path / "cellwright-sandbox-of-nobody"
        foreign.mkdir()
        make_old(in_use)
        make_old(left)
        ended("made.close()")
        assert sorted(tmp_path.iterdir()) == sorted([in_use, young, foreign])
        running.stdin.close()
    assert not in_use.exists()
