"""The snapshot's own process: what must be done before a branch is forked from it."""

from __future__ import annotations

import subprocess
import sys

import pytest

FAILS_ONCE = """
import os, socket
from cellwright.kernel.branches.resets import Reset
from cellwright.kernel.branches.forked import _Serving

tried = []

def overwrite(_forked):
    tried.append(1)
    if len(tried) == 1:
        raise MemoryError

serving = _Serving(None, (Reset("secrets", overwrite, before_ready=False),), socket.socketpair()[0])
for _ in range(3):
    try:
        serving.prepare_branches()
    except MemoryError:
        print("refused")
print(len(tried))
serving.keeper.close()
os.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel is forked on Linux")
def test_what_could_not_be_overwritten_is_tried_again_before_a_branch() -> None:
    run = subprocess.run([sys.executable, "-c", FAILS_ONCE], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == "refused\n2\n"
