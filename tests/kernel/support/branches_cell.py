"""Runs in a kernel: its branches, from a cell that waits for them as a `%%claude` cell does, or without one."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from IPython.core.getipython import get_ipython

from cellwright.agent.calls.approval import Confinement
from cellwright.agent.thread import AgentThread
from cellwright.kernel.branches.branch import BranchResult, Patience
from cellwright.kernel.branches.kernel_branches import CELL_RUNS, THREADS_COMPUTE, KernelBranches
from cellwright.kernel.branches.resets import RESETS
from cellwright.kernel.branches.snapshot import NoBranch

shell = get_ipython()
thread = AgentThread()
live: list[dict[str, Any]] = []
way = os.environ.get("BRANCH_TEST_WAY", "fork")
by_value = way == "template"
NO_FORK = "This kernel is not copied."


def snapshot_pids() -> list[int]:
    """The processes that branches are forked from: the snapshot, or the templates."""
    parents = branches._templates.values() if way == "template" else [branches._snapshot]
    return [parent.pid for parent in parents if parent is not None]


def made(without: str = "", **more: Any) -> KernelBranches:
    """Branches of this kernel, with one reset left out."""
    assert not without or any(reset.name == without for reset in RESETS)
    resets = [reset for reset in RESETS if reset.name != without]
    return KernelBranches(shell, resets=resets, cannot_fork=lambda: NO_FORK if way == "template" else None, **more)


branches = made()
reading = Confinement(read=(str(Path.cwd()),))


async def renewed(by: str = "", **seconds: float) -> KernelBranches:
    """Other branches in the place of these, with another patience, or made another way."""
    global branches, way
    way = by or way
    await wait(branches.close())
    branches = made(patience=Patience(**seconds))
    assert await taken() == "taken"
    return branches


async def wait(work: Coroutine[Any, Any, Any]) -> Any:
    """Let the agent's thread do `work` while the loop of this cell goes on."""
    return await asyncio.wrap_future(thread.submit(work).future)


async def taken(of: KernelBranches | None = None) -> str:
    try:
        await wait((of or branches).snapshot(or_by_value=way != "fork"))
    except NoBranch as error:
        return error.reason
    return "taken"


async def ran(
    code: str,
    owner: str = "main",
    seconds: float = 30,
    of: KernelBranches | None = None,
    interrupt: float | None = None,
    confinement: Confinement | None = None,
) -> BranchResult:
    async def run() -> BranchResult:
        branch = await (of or branches).branch(owner, confinement)
        if interrupt is not None:
            asyncio.get_running_loop().call_later(interrupt, branch.interrupt)
        live.clear()
        return await branch.run(code, timeout=seconds, on_output=live.append)

    return await wait(run())


def text_of(result: BranchResult) -> str:
    """What a reader sees of it."""
    return "".join(map(_text, result.outputs)) + result.text


def _text(output: dict[str, Any]) -> str:
    match output["output_type"]:
        case "stream":
            return str(output["text"])
        case "error":
            return f"{output['ename']}: {output['evalue']}\n"
        case _:
            return f"{output['data'].get('text/plain', sorted(output['data']))}\n"


async def said(code: str, **more: Any) -> str:
    return text_of(await ran(code, **more))


def variable(_shell: object, name: str, _descriptors: list[int]) -> str | None:
    """For the snapshot: one of its environment."""
    return os.environ.get(name)


async def asked(function: str, arguments: object, of: KernelBranches | None = None) -> Any:
    return await wait((of or branches).ask_snapshot(f"branches_cell:{function}", arguments))


class Noise:
    """Three threads that log to a file, print, write and compile, a little of each, until told to stop."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counts = {"log": 0, "print": 0, "write": 0}
        self._stop = threading.Event()
        self._logger = logging.getLogger("noise")
        self._logger.setLevel(logging.INFO)
        self._logger.propagate = False
        self._handler = logging.FileHandler(folder / "log.txt", mode="w")
        self._logger.addHandler(self._handler)
        self._file = (folder / "written.txt").open("w")
        self._threads = [threading.Thread(target=self._make, args=(name,), daemon=True) for name in self.counts]
        for each in self._threads:
            each.start()

    def _make(self, name: str) -> None:
        while not self._stop.wait(0.002):
            number = self.counts[name] = self.counts[name] + 1
            if name == "log":
                self._logger.info("line %d", number)
            elif name == "print":
                print(f"noise {number}")
            else:
                self._file.write(f"line {number}\n")
                compile(f"x = {number}", "<noise>", "exec")

    def stop(self) -> dict[str, list[str]]:
        """End it; gives the lines that the files should have and have."""
        self._stop.set()
        for each in self._threads:
            each.join()
        self._file.close()
        self._handler.close()
        self._logger.removeHandler(self._handler)
        wrong = {}
        for name, file in (("log", "log.txt"), ("write", "written.txt")):
            lines = (self.folder / file).read_text("utf-8").splitlines()
            if lines != [f"line {number}" for number in range(1, self.counts[name] + 1)]:
                wrong[name] = lines
        return wrong


class Soak:
    """Snapshots and branches without a pause, on the agent's thread, until told to stop. What they gave is counted."""

    def __init__(self, forks: int, seconds: float) -> None:
        self.sound = self.busy = 0
        self.wrong: list[str] = []
        self.slowest = 0.0
        self._branches = made()
        self._forks, self._seconds = forks, seconds
        self.task = thread.submit(self._run())

    @property
    def restarted(self) -> int:
        """Copies that hung before they were ready, and were made again."""
        return self._branches.restarted

    async def _run(self) -> None:
        began = time.monotonic()
        while self.sound < self._forks and time.monotonic() - began < self._seconds:
            try:
                await self._branches.snapshot()
            except NoBranch as error:
                self.busy += 1
                if error.reason not in (CELL_RUNS, THREADS_COMPUTE):
                    self.wrong.append(error.reason)
                continue
            parked = self._branches._snapshot.parked_seconds if self._branches._snapshot else 0.0
            self.slowest = max(self.slowest, parked)
            branch = await self._branches.branch("soak", None)
            result = await branch.run(SOAK_CODE, timeout=60)
            if text_of(result) == SOAK_TEXT:
                self.sound += 1
            else:
                self.wrong.append(f"{result.status}: {text_of(result)}")
        await self._branches.close()


SOAK_CODE = """
import logging, os
logging.getLogger('noise').warning('FROM A BRANCH')
print('FROM A BRANCH')
os.write(1, b'FROM A BRANCH\\n')
kept_list.append('FROM A BRANCH'); kept_array[:] = -1
assert abs((matrix @ matrix).sum() - matrix_sum) < 1e-6 * matrix_sum
get_ipython().kernel.session.send(None, 'stream', {'text': 'FROM A BRANCH'})
len(kept_list)
"""
SOAK_TEXT = "FROM A BRANCH\nFROM A BRANCH\n2\n"
