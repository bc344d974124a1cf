"""Locks and replaced files of several processes, with the functions of either system."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cellwright.config.settings.edit import locked
from cellwright.sessions.transcripts.transcript_lock import acquire, is_held, read_holder
from cellwright.this_process.files import (
    LOCKED_BYTE,
    ByteLocks,
    FileLocks,
    replace_file,
    runs,
    runs_on_windows,
    system_locks,
)
from processes.windows import files

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stand-in for Windows is made of Linux's locks")

SYSTEMS = pytest.mark.parametrize("locks", [system_locks, files.locks], ids=["posix", "windows"])

HOLD = """
import os, sys
from processes.windows.files import locks
from cellwright.this_process.files import system_locks
here = system_locks() if sys.argv[2] == "posix" else locks()
print(here.try_lock(os.open(sys.argv[1], os.O_RDWR)), flush=True)
sys.stdin.read()
"""


@SYSTEMS
def test_a_lock_belongs_to_the_open_file(tmp_path: Path, locks) -> None:
    path, system = tmp_path / "x.lock", locks()
    path.write_bytes(b"content")
    first, second = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    os.lseek(first, 3, os.SEEK_SET)
    assert system.try_lock(first)
    assert os.lseek(first, 0, os.SEEK_CUR) == 3
    assert not system.try_lock(second)
    assert path.read_bytes() == b"content", "others can read what is locked"
    system.close(first)
    assert system.try_lock(second)
    system.close(second)
    assert path.stat().st_size == len(b"content")


@SYSTEMS
def test_a_killed_process_leaves_no_lock(tmp_path: Path, locks) -> None:
    path, system = tmp_path / "x.lock", locks()
    path.touch()
    command = [sys.executable, "-c", HOLD, str(path), "posix" if locks is system_locks else "windows"]
    shared = {**os.environ, "PYTHONPATH": str(Path(files.__file__).parents[2])}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=shared) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"True\n"
        mine = os.open(path, os.O_RDWR)
        assert not system.try_lock(mine)
        other.kill()
        other.wait()
    assert system.try_lock(mine)
    system.close(mine)


def test_other_errors_of_windows_are_no_lock_of_somebody_else(tmp_path: Path) -> None:
    def locking(_fd: int, _mode: int, _count: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    fd = os.open(tmp_path / "x", os.O_RDWR | os.O_CREAT)
    locks = ByteLocks(locking, files.LK_NBLCK, files.LK_UNLCK)
    with pytest.raises(OSError, match="Invalid argument"):
        locks.try_lock(fd)
    locks.close(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_the_locked_byte_is_no_byte_of_the_content(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def locking(fd: int, _mode: int, count: int) -> None:
        seen.append((os.lseek(fd, 0, os.SEEK_CUR), count))

    fd = os.open(tmp_path / "x", os.O_RDWR | os.O_CREAT)
    assert ByteLocks(locking, files.LK_NBLCK, files.LK_UNLCK).try_lock(fd)
    os.close(fd)
    assert seen == [(LOCKED_BYTE, 1)]


@SYSTEMS
def test_a_lease_is_held_once_and_tells_its_holder(tmp_path: Path, locks) -> None:
    path, system = tmp_path / "x.lease", locks()
    lease = acquire(path, 0, system)
    assert lease is not None
    lease.write_holder(1)
    assert is_held(path, system)
    assert acquire(path, 0, system) is None
    holder = read_holder(path)
    assert holder is not None
    assert (holder.epoch, holder.pid) == (1, os.getpid())
    lease.release()
    assert not is_held(path, system)
    following = acquire(path, 0, system)
    assert following is not None
    following.write_holder(1)
    assert following.epoch == 2
    following.release()


@pytest.mark.parametrize("opens_folders", [True, False], ids=["posix", "windows"])
def test_one_writer_changes_the_settings_of_a_folder(tmp_path: Path, monkeypatch, opens_folders: bool) -> None:
    monkeypatch.setenv("CELLWRIGHT_HOME", str(tmp_path / "home"))
    folder = tmp_path / "project"
    folder.mkdir()
    system: FileLocks = system_locks() if opens_folders else files.locks()
    entered, order = threading.Event(), []

    def wait_for_it() -> None:
        entered.set()
        with locked(folder, system, opens_folders=opens_folders):
            order.append("second")

    other = threading.Thread(target=wait_for_it)
    with locked(folder, system, opens_folders=opens_folders):
        other.start()
        assert entered.wait(60)
        order.append("first")
    other.join(60)
    assert order == ["first", "second"]
    assert list(folder.iterdir()) == [], "nothing of ours is put into a user's folder"


def test_what_somebody_has_open_is_replaced_when_it_is_closed(tmp_path: Path) -> None:
    new, path = tmp_path / "new", tmp_path / "settings.json"
    new.write_text("new", "utf-8")
    path.write_text("old", "utf-8")
    open_for = [3]

    def as_on_windows(source: Path | str, target: Path | str) -> None:
        if open_for[0]:
            open_for[0] -= 1
            raise PermissionError(errno.EACCES, "Access is denied", str(source), 5, str(target))
        Path(source).replace(target)

    replace_file(new, path, replace=as_on_windows, wait_seconds=60)
    assert (path.read_text("utf-8"), new.exists()) == ("new", False)
    new.write_text("newer", "utf-8")
    open_for[0] = 1
    with pytest.raises(PermissionError):
        replace_file(new, path, replace=as_on_windows, wait_seconds=0)
    assert path.read_text("utf-8") == "new"


def test_an_ended_process_does_not_run() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert runs(os.getpid())
    assert not runs(ended.pid)


class Kernel32:
    """The answers of Windows about some processes, and the handles that are open."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.error = 0

    def OpenProcess(self, access: int, inherit: bool, pid: int) -> int | None:
        assert (access, inherit) == (0x100000, False)
        if pid in (RUNS, ENDED_AND_HELD):
            self.open.add(pid)
            return pid
        self.error = 5 if pid == OF_ANOTHER_USER else 87
        return None

    def WaitForSingleObject(self, handle: int, milliseconds: int) -> int:
        assert handle in self.open
        assert milliseconds == 0
        return 0x102 if handle == RUNS else 0

    def CloseHandle(self, handle: int) -> None:
        self.open.remove(handle)


RUNS, ENDED_AND_HELD, GONE, OF_ANOTHER_USER = 4, 8, 12, 16


def test_a_process_of_windows_runs_until_a_wait_for_it_ends() -> None:
    system = Kernel32()
    found = [
        runs_on_windows(pid, system, lambda: system.error) for pid in (RUNS, ENDED_AND_HELD, GONE, OF_ANOTHER_USER)
    ]
    assert found == [True, False, False, True]
    assert system.open == set()
