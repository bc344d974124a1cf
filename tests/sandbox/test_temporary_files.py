"""Temporary files go with their process, however it ends: by itself, killed at work, or before it has a watchdog."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import cellwright
from cellwright.testing import MessagesServer, say, turn, use
from eventual import eventually

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing is locked so on Windows")

MAKE = """
import os, signal, sys, threading
from cellwright.this_process.files import new_folder, process_folder
folder = new_folder("some")
(folder / "hidden").mkdir(mode=0)
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join()
print(process_folder(), flush=True)
"""
WAIT, DIE = "sys.stdin.read()", "os.kill(os.getpid(), signal.SIGKILL)"


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
        (left / "kept.txt").write_text("kept", "utf-8")
        foreign = tmp_path / "cellwright-run-of-nobody"
        foreign.mkdir()
        make_old(in_use)
        make_old(left)
        ended("")
        assert sorted(tmp_path.iterdir()) == sorted([in_use, young, foreign])
        running.stdin.close()
    assert not in_use.exists()


FORK = """
import os, sys
from cellwright.this_process.files import new_folder
mine = new_folder("some")
if (child := os.fork()) == 0:
    theirs = new_folder("some")
    sys.exit(0 if theirs.parent != mine.parent else 3)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), mine.exists())
"""


def test_a_forked_process_has_a_folder_of_its_own_and_leaves_its_parents_alone(tmp_path: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", FORK], env=environ, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "0 True\n"
    assert list(tmp_path.iterdir()) == []


SCENES = {
    "nothing": [],
    "a command": [use("Bash", command="echo hi")],
    "a long result": [use("Bash", command="seq 1 100000")],
    "a search": [use("Grep", pattern="x", glob="*.py"), use("Glob", pattern="**/*.py")],
}


@pytest.mark.parametrize("scene", SCENES)
def test_an_ordinary_run_leaves_nothing(scene: str, tmp_path: Path, messages_server: type[MessagesServer]) -> None:
    server = messages_server([*(turn(call) for call in SCENES[scene]), turn(say("Done."))])
    assert run(server, tmp_path).wait() == 0
    eventually(lambda: left_in(tmp_path) == [])


@pytest.mark.parametrize("at", ["sandbox-", "canaries-", "output"])
def test_a_killed_run_leaves_nothing(at: str, tmp_path: Path, messages_server: type[MessagesServer]) -> None:
    server = messages_server([turn(use("Bash", command="seq 1 100000; sleep 60")), turn(say("Done."))])
    process = run(server, tmp_path)
    try:
        while not list((tmp_path / "tmp").glob(f"*/{at}*")):
            assert process.poll() is None, "it ended before it made that folder"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    eventually(lambda: left_in(tmp_path) == [])


def run(server: MessagesServer, tmp_path: Path) -> subprocess.Popen[bytes]:
    for name in ("tmp", "project"):
        (tmp_path / name).mkdir()
    environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key, "TMPDIR": str(tmp_path / "tmp")}
    return subprocess.Popen(
        [sys.executable, "-m", "cellwright.terminal.main", "-p", "go"],
        cwd=tmp_path / "project",
        env={**os.environ, **environ},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def left_in(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "tmp").iterdir())


ELSEWHERE = {"this_process/files.py", "doctor/environment_checks.py", "terminal/demo/demo.py"}
"""The maker itself; a trial of whether a folder can be written; a folder that its user wants kept."""
MAKERS = {"TemporaryDirectory", "NamedTemporaryFile", "TemporaryFile", "SpooledTemporaryFile", "mkdtemp", "mkstemp"}


def test_temporary_files_have_one_maker() -> None:
    root = Path(cellwright.__file__).parent
    found = []
    for path in sorted(root.rglob("*.py")):
        source = path.read_text("utf-8")
        if not any(maker in source for maker in MAKERS):
            continue  # to parse a thousand modules takes seconds
        for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            # what lies beside the file that it becomes is no temporary file of the process
            if name in MAKERS and "dir" not in {each.arg for each in call.keywords}:
                found.append(path.relative_to(root).as_posix())
    assert set(found) <= ELSEWHERE
