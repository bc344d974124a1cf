"""Rows of the sandbox: a command that is confined, and the same one free. It may cost 5 ms by Landlock, 15 by bubblewrap."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from benchmarks.rows.row import Row
from cellwright.agent.calls.approval import Confinement
from cellwright.sandbox.mechanisms import Sandbox, find_sandbox
from cellwright.tools.process.child_processes import ChildProcesses, Command
from cellwright.tools.process.runner import RunningProgram, child_environment

COMMANDS = 60

_waiting: dict[str, Mapping[str, float]] = {}
"""What was measured of us together with the floor: in turns, so that a busy moment hits both."""


def confining_by(
    name: str, only: Callable[[Sandbox], Sandbox], *, staged: bool = False
) -> Callable[[str], Mapping[str, float]]:
    """Milliseconds from the start of `true` to its known end, confined by the means that `only` leaves.

    `staged`: what it changes is looked at before it is done; it changes nothing.
    """

    def measure(subject: str) -> Mapping[str, float]:
        if subject != "floor":
            return _waiting.pop(name)
        found = find_sandbox() or Sandbox()
        if only(found) == Sandbox() or (staged and not found.stages):
            return _not_here(name)
        with tempfile.TemporaryDirectory() as folder:
            children = ChildProcesses(find_sandbox=lambda: only(found))
            both = asyncio.run(_both(Path(folder).resolve(), children, staged=staged))
            children.stop()
        floor, ours = (statistics.median(times) * 1000 for times in zip(*both, strict=True))
        _waiting[name] = {name: ours}
        return {name: floor}

    return measure


def _not_here(name: str) -> Mapping[str, float]:
    _waiting[name] = {}
    return {}


async def _both(folder: Path, children: ChildProcesses, *, staged: bool) -> list[tuple[float, float]]:
    plain, confined = None, Confinement(read=(str(folder),))
    if staged:
        # in a folder of its own: what is changed is kept in that of temporary files until then
        (folder / "project").mkdir()
        confined = Confinement(write=(str(folder / "project"),), protects=lambda _: False)
    times = [(await _run(folder, children, plain), await _run(folder, children, confined)) for _ in range(COMMANDS + 5)]
    return times[5:]


async def _run(folder: Path, children: ChildProcesses, confinement: Confinement | None) -> float:
    command = Command(arguments=["true"], cwd=folder, environ=child_environment(os.environ), confinement=confinement)
    begun = time.perf_counter()
    await RunningProgram(command, output=lambda _: True, children=children).wait()
    return time.perf_counter() - begun


SANDBOX_ROWS = [
    Row(
        "s Landlock",
        "start → known end of `true`, confined by Landlock; the floor is free",
        "ms",
        confining_by("s Landlock", lambda found: Sandbox(landlock=found.landlock)),
        subjects=("floor", "cellwright"),
        max_value=7,
    ),
    Row(
        "s bubblewrap",
        "start → known end of `true`, confined by bubblewrap; the floor is free",
        "ms",
        confining_by("s bubblewrap", lambda found: Sandbox(bubblewrap=found.bubblewrap)),
        subjects=("floor", "cellwright"),
        max_value=17,
    ),
    Row(
        "s staged",
        "the same, its changes looked at before they are made; the floor is free",
        "ms",
        confining_by("s staged", lambda found: replace(found, landlock=0), staged=True),
        subjects=("floor", "cellwright"),
        max_value=17,
    ),
]
