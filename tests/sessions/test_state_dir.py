"""Sessions in a home without file locks, and in one that cannot be written."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cellwright.sessions.session import Session
from cellwright.sessions.transcripts.transcript_lock import has_locks
from processes import without_locks
from processes.user_process import as_user

SCRIPT = Path(without_locks.__file__)
HOLDER = (
    "import sys; from pathlib import Path; from cellwright.sessions.transcripts.transcript_lock import acquire, is_held"
)

needs_filters = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in without_locks.FLOCK,
    reason="system calls are filtered on Linux",
)


def started(code: str, *arguments: object) -> subprocess.Popen[str]:
    """A program that finds no locks; it has said "ready"."""
    command = [sys.executable, str(SCRIPT), sys.executable, "-c", code, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def said(process: subprocess.Popen[str], line: str = "") -> str:
    out, _ = process.communicate(line + "\n", timeout=60)
    return out.strip()


@needs_filters
def test_a_lease_is_one_processes_where_nothing_can_be_locked(tmp_path: Path) -> None:
    path = tmp_path / "a.lease"
    hold = f"{HOLDER}\nheld = acquire(Path(sys.argv[1]), 0)\nprint('ready', flush=True)\nsys.stdin.readline()\n"
    tries = (
        f"{HOLDER}\nprint('ready', flush=True)\nsys.stdin.readline()\npath = Path(sys.argv[1])\n"
        "print(is_held(path), acquire(path, 0.1) is not None, is_held(path))"
    )
    holder = started(hold, path)
    assert said(started(tries, path)) == "True False True"
    holder.kill()  # it leaves its file
    holder.wait()
    assert (tmp_path / "a.lease.held").exists()
    assert said(started(tries, path)) == "False True False"  # taken over; given back with the object
    assert said(started(hold, path)) == ""
    assert not (tmp_path / "a.lease.held").exists()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.lease"]


COUNT = f"""{HOLDER}
import os
path, count = Path(sys.argv[1]), Path(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(20):
    lease = acquire(path, 60)
    count.write_text(str(int(count.read_text()) + 1))
    lease.release()
"""


@needs_filters
def test_eight_processes_take_turns_where_nothing_can_be_locked(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    processes = [started(COUNT, tmp_path / "a.lease", tmp_path / "count") for _ in range(8)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        assert process.wait(60) == 0
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()
    assert (tmp_path / "count").read_text() == str(8 * 20)


@needs_filters
def test_the_doctor_tries_a_lock(tmp_path: Path) -> None:
    assert has_locks(tmp_path)
    looks = "import sys; from pathlib import Path\nfrom cellwright.doctor.environment_checks import state\n"
    code = (
        f"{looks}print('ready', flush=True)\nsys.stdin.readline()\n"
        "found = state(Path(sys.argv[1]))\nprint(found.status, found.found)"
    )
    tmp_path.chmod(0o700)
    assert said(started(code, tmp_path)).endswith("its file system has no file locks")
    assert list(tmp_path.iterdir()) == []


def test_a_session_in_a_folder_that_cannot_be_written_is_kept_in_memory(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for folder in (parent for parent in tmp_path.parents if parent.stat().st_mode & 0o005 != 0o005):
        folder.chmod(folder.stat().st_mode | 0o005)
    folder = tmp_path / "sessions"
    folder.mkdir(mode=0o555)

    def work() -> list[Any]:
        session = Session.create(tmp_path, folder)
        session.begin(model="claude-opus-5-5", system=[], tools=[])
        session.append({"role": "user", "content": "Hello."})
        return [session.path, len(session.messages), session.notices]

    path, messages, notices = as_user(work)
    assert (path, messages, len(notices)) == (None, 1, 1)
    assert "is kept in memory only" in notices[0]
    assert str(folder) in notices[0]
