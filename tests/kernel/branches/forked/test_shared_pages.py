"""Pages tell what was written since a fork: in a process of its own, beside a copy that only waits."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cellwright.kernel.branches.kernel_branches import unsupported

pytestmark = pytest.mark.skipif(sys.platform != "linux" or unsupported() is not None, reason="no kernel is forked here")

BEGUN = """
import mmap, os, signal
from cellwright.kernel.branches.forked.shared_pages import forks, has_other_copies, is_shared
SIZE = 4 << 20
def filled(byte=b"x"):
    made = mmap.mmap(-1, SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    made[:] = byte * SIZE
    return made
def copy():
    pid = os.fork()
    if pid == 0:
        signal.pause()
    return pid
"""


def said(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", BEGUN + code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_one_byte_written_since_the_fork_is_seen() -> None:
    code = """
kept, written = filled(), filled()
print(is_shared(memoryview(kept)))
pid = copy()
print(is_shared(memoryview(kept)), is_shared(memoryview(written)))
written[SIZE - 1] = 7
print(is_shared(memoryview(kept)), is_shared(memoryview(written)), is_shared(memoryview(written)[:4096]))
os.kill(pid, 9)
"""
    assert said(code) == ["False", "True", "True", "True", "False", "True"]


def test_memory_that_was_given_back_is_not_taken_for_what_it_held() -> None:
    """It is zeros again, in pages that the system shares among all."""
    code = """
given_back, zeros = filled(), filled(b"\\0")
pid = copy()
given_back.madvise(mmap.MADV_DONTNEED)
assert not any(given_back[::4096])
print(is_shared(memoryview(given_back)), is_shared(memoryview(zeros)))
os.kill(pid, 9)
"""
    assert said(code) == ["False", "False"]


def test_another_fork_hides_what_was_written_and_is_counted() -> None:
    code = """
written = filled()
first = copy()
before = forks()
written[0] = 7
second = copy()
print(is_shared(memoryview(written)), forks() - before, has_other_copies([first]), has_other_copies([first, second]))
os.kill(first, 9), os.kill(second, 9)
"""
    assert said(code) == ["True", "1", "True", "False"]
