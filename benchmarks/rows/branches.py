"""Rows of branches of the kernel: a snapshot, a branch of it and a call, in a kernel that holds 2 GB, beside a bare fork."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.rows.front_end import FrontEnd
from benchmarks.rows.loop import nothing
from benchmarks.rows.row import Row

ARRAYS = "import numpy as np; held = [np.ones(2_500_000) for _ in range(100)]"
OBJECTS = "held += [[{'n': n} for n in range(2_000_000)]]"

FORKED = """
import json, os, time
def forked():
    began = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    took = time.perf_counter() - began
    os.waitpid(pid, 0)
    return took * 1000
print(json.dumps([forked() for _ in range(10)]))
"""
"""In a process of its own that holds as much and has one thread: what the system takes for it at least."""

READY = """
import asyncio, json, time
from cellwright.agent.thread import AgentThread
from cellwright.kernel.branches.kernel_branches import KernelBranches
branches, thread = KernelBranches(get_ipython()), AgentThread()
async def wait(work):
    began = time.perf_counter()
    result = await asyncio.wrap_future(thread.submit(work).future)
    return result, (time.perf_counter() - began) * 1000
CODE = 'total = sum(float(each[:1000].sum()) for each in held[:100])'
async def call(branch):
    return await branch.run(CODE, timeout=60)
"""

MEASURED = """
figures = []
for _ in range(5):
    _, taken = await wait(branches.snapshot())
    parked = branches._snapshot.parked_seconds * 1000
    branch, begun = await wait(branches.branch('a', None))  # the first waits until secrets are overwritten, too
    other, made = await wait(branches.branch('b', None))
    await wait(call(branch))
    _, called = await wait(call(branch))
    began = time.perf_counter(); exec(CODE); plain = (time.perf_counter() - began) * 1000
    figures.append([taken, parked, made, called - plain])
print(json.dumps(figures))
"""

TAKEN = """
import numpy as np, pandas as pd
made = 'import numpy as np, pandas as pd\\ntop = pd.DataFrame({n: np.full(12_500_000, 0.5) for n in range(10)})'
figures = []
for number in range(2):
    await wait(branches.snapshot())
    async def keep():
        branch = await branches.branch('a', None)
        await branch.run(made, timeout=60)
        began = time.perf_counter()
        await branches.take("a", "top", "kept")
        return (time.perf_counter() - began) * 1000
    figures.append((await wait(keep()))[0])
    assert kept.shape == (12_500_000, 10) and kept[9].sum() == 6_250_000
    del kept
await wait(branches.close())
print(json.dumps(min(figures)))
"""
"""A frame of 1 GB that a branch has made."""

LOOKED = """
import contextlib, numpy as np, pandas as pd, types
from cellwright.kernel.branches.undo import UndoneInKernel
names = {f"frame{n}": pd.DataFrame({c: np.full(650_000, n + 0.5) for c in "abcdefghij"}) for n in range(20)}
names |= {f"array{n}": np.full(1_250_000, n + 0.5) for n in range(100)}
names |= {f"list{n}": list(range(1000)) for n in range(80)} | {f"dict{n}": {k: k for k in range(500)} for n in range(80)}
names |= {f"number{n}": n for n in range(37)}
globals().update(names)
names = list(names)
async def on_main(work):
    from concurrent.futures import Future
    done = Future()
    get_ipython().kernel.io_loop.asyncio_loop.call_soon_threadsafe(lambda: done.set_result(work()))
    return await asyncio.wrap_future(done)
jobs = types.SimpleNamespace(call=on_main, owned_by=lambda _: contextlib.nullcontext())
undone = UndoneInKernel(globals(), types.SimpleNamespace(order=0, runs=lambda _: ()), KernelBranches(get_ipython()), jobs)
CODE = 'frame1, frame2, frame3, array1, array2, list1, list2, dict1, dict2'
figures = []
for source in (CODE, ", ".join(names)):
    for _ in range(3):
        await wait(undone.begin())
        await wait(undone.before_code(source))
        await wait(undone.ready())  # long before Claude's answer to what the code gives
        array2[-1000:] += 1
        list2.append(1)
        plan, took = await wait(undone.plan(force=False))
        assert {change.name for change in plan.changes} == {"array2", "list2"}, plan
        assert plan.read < 1 << 20, f"{plan.read:,} bytes were read: pages did not tell"
        figures.append(took)
await wait(undone.close())
for name in names:
    del globals()[name]
print(json.dumps([min(figures[:3]), min(figures[3:])]))
"""
"""317 names of 2 GB, of which Claude's code names nine, or all."""

NAMES = ("snapshot", "parked", "branch", "call")


def branches(subject: str) -> Mapping[str, float]:
    """Medians of five: arrays of 2 GB, then with two million dicts beside them."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as home, FrontEnd({"CELLWRIGHT_HOME": home, "HOME": home}) as kernel:
        kernel.run("import os" if subject == "floor" else READY)
        for suffix, more in (("", ARRAYS), (" objects", OBJECTS)):
            kernel.run(more)
            if subject == "floor":
                figures |= {
                    f"u {name}{suffix}": statistics.median(kernel.value(FORKED)) for name in ("snapshot", "branch")
                }
            else:
                found = kernel.value(MEASURED)
                medians = [statistics.median(column) for column in zip(*found, strict=True)]
                figures |= {f"u {name}{suffix}": value for name, value in zip(NAMES, medians, strict=True)}
        if subject != "floor":
            kernel.run("del held")
            figures["u undo"], figures["u undo all"] = kernel.value(LOOKED)
            figures["u taken"] = kernel.value(TAKEN)
    return figures


PLAIN, OURS = ("floor", "cellwright"), ("cellwright",)

BRANCH_ROWS = (
    [
        Row(
            "u snapshot",
            "a copy of a kernel with 2 GB of arrays → ready (floor: os.fork)",
            "ms",
            branches,
            PLAIN,
            max_value=50,
        ),
        Row("u parked", "… for which its main thread stands still", "ms", nothing, OURS, max_value=50),
        Row("u branch", "a branch of that → ready (floor: os.fork)", "ms", nothing, PLAIN, max_value=30),
        Row("u call", "a call of one cell beyond the cell's own time", "ms", nothing, OURS, max_value=30),
        Row("u snapshot objects", "the copy with two million dicts besides", "ms", nothing, PLAIN, max_value=250),
        Row("u branch objects", "a branch of that", "ms", nothing, PLAIN, max_value=100),
        Row("u undo", "undo looks at 9 of 317 names of 2 GB", "ms", nothing, OURS, max_value=30),
        Row("u undo all", "… at all of them", "ms", nothing, OURS, max_value=200),
        Row("u taken", "/branches keep of a frame of 1 GB → in the kernel", "ms", nothing, OURS, max_value=1500),
    ]
    if hasattr(os, "fork") and Path("/proc/self/task").is_dir()
    else []
)
