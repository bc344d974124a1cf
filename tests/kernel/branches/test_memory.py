"""Pages tell what was written since a fork: in a process of its own, beside a copy that only waits."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cellwright.kernel.branches.kernel_branches import unsupported

pytestmark = pytest.mark.skipif(sys.platform != "linux" or unsupported() is not None, reason="no kernel is forked here")

BEGUN = """
import mmap, os, signal, time
from cellwright.kernel.branches.memory import PAGE, PagesSince, forks
SIZE = 4 << 20
def filled(byte=b"x"):
    made = mmap.mmap(-1, SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    made[:] = byte * SIZE
    return made
copies = []
def copy():
    pid = os.fork()
    if pid == 0:
        signal.pause()
    copies.append(pid)
    return pid
def since_copy():
    return PagesSince(copy(), forks())
"""
ENDED = """
for each in copies:
    os.kill(each, 9)
"""


def said(code: str) -> list[str]:
    command = [sys.executable, "-c", BEGUN + code + ENDED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_one_byte_written_since_the_fork_is_seen() -> None:
    code = """
kept, written = filled(), filled()
pages = since_copy()
print(pages.written(memoryview(kept)), pages.written(memoryview(written)))
written[SIZE - 1] = 7
written[3 * PAGE] = 7
print(pages.written(memoryview(kept)), pages.written(memoryview(written)))
print(pages.written(memoryview(written)[PAGE:3 * PAGE]), pages.written(memoryview(written)[2 * PAGE + 8:3 * PAGE + 1]))
"""
    assert said(code) == ["() ()", "() ((3, 4), (1023, 1024))", "() ((1, 2),)"]


def test_memory_that_was_given_back_is_not_taken_for_what_it_held() -> None:
    """It is zeros again, in pages that the system shares among all."""
    code = """
given_back, zeros = filled(), filled(b"\\0")
pages = since_copy()
given_back.madvise(mmap.MADV_DONTNEED, PAGE, 2 * PAGE)
assert not any(given_back[PAGE:3 * PAGE])
print(pages.written(memoryview(given_back)), pages.written(memoryview(given_back)[8:2 * PAGE + 8]))
print(pages.written(memoryview(zeros)))
"""
    assert said(code) == ["((1, 3),) ((1, 3),)", "((0, 1024),)"]


def test_a_copy_that_nobody_announced_makes_pages_tell_nothing() -> None:
    code = """
older, began = copy(), time.monotonic()
while time.monotonic() - began < 2 / os.sysconf("SC_CLK_TCK"):  # the clock of the system has to go on
    pass
pages = since_copy()
print(pages.tell())
os.register_at_fork(before=lambda: print("a fork", flush=True))
pages_told = PagesSince(copies[-1], forks() + 1)  # as if Python had not heard of the next one
copy()
print(pages.tell(), pages_told.tell())
"""
    assert said(code) == ["True", "a fork", "False False"]


def test_what_was_written_before_an_announced_fork_is_remembered() -> None:
    code = """
kept, early, late = filled(), filled(), filled()
pages = since_copy()
early[5 * PAGE] = 7
pages.before_fork()
second = copy()
pages.after_fork(second, forks())
late[SIZE - 1] = 7
new = filled()
print(pages.tell(), pages.written(memoryview(kept)), pages.written(memoryview(early)))
print(pages.written(memoryview(late)), pages.written(memoryview(new)))
os.kill(second, 9)
os.waitpid(second, 0)
copies.remove(second)
print(pages.tell(), pages.written(memoryview(kept)), pages.written(memoryview(early)))
copy()
pages.before_fork()
print(pages.tell())
"""
    assert said(code) == [
        "True () ((5, 6),)",
        "((1023, 1024),) ((0, 1024),)",
        "True () ((5, 6),)",
        "False",
    ]
