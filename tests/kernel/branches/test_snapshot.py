"""Forks without a pause while the kernel works: it never freezes, and nothing in it is changed."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import pytest
from notebook_kernel import NotebookKernel

from cellwright.kernel.branches.snapshot import Forker

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]

PREPARED = """
import numpy as np
from pathlib import Path
matrix = np.random.default_rng(0).random((400, 400)); matrix_sum = float((matrix @ matrix).sum())
kept_list, kept_array = ["kept"], np.arange(100_000)
noise = Noise(Path.cwd())
"""
CELLS_BETWEEN_INTERRUPTS = 12


def test_a_fork_that_nobody_waits_for_any_more_leaves_the_thread_at_work() -> None:
    """A result that had no place ended the thread, with all that it had forked; and whoever forked next waited for good."""
    forker, begun, goes_on = Forker(), threading.Event(), threading.Event()

    def fork() -> int:
        begun.set()
        goes_on.wait()
        return 1

    forked = forker.submit(fork)
    begun.wait()
    assert not forked.cancel()
    not_begun = forker.submit(lambda: 2)
    assert not_begun.cancel()
    goes_on.set()
    assert forked.result(30) == 1
    assert forker.submit(lambda: 3).result(30) == 3
    forker.close()


HANDLER_THAT_WAITS = """
import os, threading
from cellwright.kernel.branches import kernel_branches, snapshot
goes_on = threading.Event()
os.register_at_fork(before=goes_on.wait)
limit = snapshot.FORK_SECONDS
snapshot.FORK_SECONDS = kernel_branches.FORK_SECONDS = 3
"""


def test_a_fork_that_does_not_end_keeps_the_kernel_no_longer_than_its_time(branching: NotebookKernel) -> None:
    assert branching.run(HANDLER_THAT_WAITS).status == "ok"
    assert branching.run("first, second = await taken(), await taken()").status == "ok"
    assert branching.value("first == second == kernel_branches.DOES_NOT_FORK") == "True"
    assert branching.run("goes_on.set(); snapshot.FORK_SECONDS = kernel_branches.FORK_SECONDS = limit").status == "ok"
    assert branching.run("branches = await renewed()\nshown = await said('print(6 * 7)')").status == "ok"
    assert branching.value("shown") == "'42\\n'"


def soak(kernel: NotebookKernel, folder: Path, forks: int, seconds: float) -> str:
    """Cells with BLAS one after another, and an interrupt now and then, while branches are made; gives the counts."""
    pytest.importorskip("numpy")
    assert kernel.run(PREPARED).status == "ok"
    assert kernel.run(f"soak = Soak({forks}, {seconds})").status == "ok"
    cells = interrupts = 0
    slowest = 0.0
    while kernel.value("soak.task.done") == "False":
        cell = kernel.run("assert abs((matrix @ matrix).sum() - matrix_sum) < 1e-6 * matrix_sum")
        assert cell.status == "ok", cell.error
        cells, slowest = cells + 1, max(slowest, cell.seconds)
        if cells % CELLS_BETWEEN_INTERRUPTS == 0:
            sleeping = kernel.begin("print('asleep', flush=True)\nimport time; time.sleep(60)")
            kernel.wait_for(lambda message: "asleep" in str(message["content"].get("text")), sleeping)
            kernel.interrupt()
            assert kernel.finish(sleeping).reply["ename"] == "KeyboardInterrupt"
            interrupts += 1
    for code, expected in {
        "soak.task.future.exception()": "None",
        "soak.wrong[:3]": "[]",
        "noise.stop()": "{}",
        "kept_list, int(kept_array.sum())": "(['kept'], 4999950000)",
        "get_ipython().history_manager.db.execute('pragma integrity_check').fetchone()": "('ok',)",
    }.items():
        assert kernel.value(code) == expected, code
    published = [str(message["content"]) for message in kernel.published if message["msg_type"] != "execute_input"]
    assert not any("FROM A BRANCH" in content for content in published)
    counts = kernel.value("soak.sound, soak.busy, soak.restarted, round(soak.slowest, 3)")
    kernel.run("")  # so that the history has all before
    history = sqlite3.connect(folder / "ipython" / "profile_default" / "history.sqlite")
    assert history.execute("select count(*) from history where source like '%FROM A BRANCH%'").fetchone() == (0,)
    history.close()
    return f"sound, busy, restarted, slowest park: {counts}; {cells} cells, slowest {slowest:.2f} s; {interrupts} interrupts"


def test_thirty_forks_under_noise(branching: NotebookKernel, branching_home: Path) -> None:
    print(soak(branching, branching_home, forks=30, seconds=60))
    assert int(branching.value("soak.sound")) >= 1


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_thousand_forks_under_noise(branching: NotebookKernel, branching_home: Path) -> None:
    """`make leg LEG=soak` plays it with each ipykernel that it lays before the environment's own."""
    forks = int(os.environ.get("CELLWRIGHT_SOAK_FORKS", "1000"))
    version = branching.value("__import__('ipykernel').__version__")
    print(version, soak(branching, branching_home, forks=forks, seconds=3000))
    assert int(branching.value("soak.sound")) == forks
    assert os.environ.get("CELLWRIGHT_EXPECT_IPYKERNEL", "") in version


@pytest.mark.thorough
def test_forks_without_end_under_noise(branching: NotebookKernel, branching_home: Path) -> None:
    seconds = float(os.environ.get("CELLWRIGHT_SOAK_SECONDS", "80"))
    print(soak(branching, branching_home, forks=10_000, seconds=seconds))
    assert int(branching.value("soak.sound")) >= 10
