"""`python -m benchmarks.code_index FOLDER…`: the index of a folder's code, beside bare `rg`.

Builds an index of each folder in a temporary place, changes nothing in it, and prints lines a second, memory, size, the
time of a pass that finds nothing new and of one over 1 % of the files, and how long answers take. A reference is timed as
the tool does it, up to its result; the floor is `rg -w` over the whole folder. `--stalls` also measures the longest time
in which this process's main thread got no turn while tools answered.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from cellwright.agent.tool import ToolContext
from cellwright.codebase.indexer import IndexRequest
from cellwright.codebase.reader import reading, status_of
from cellwright.codebase.store import index_path
from cellwright.tools.code.navigation.find_definitions import find_definitions_tool
from cellwright.tools.code.navigation.find_references import find_references_tool
from cellwright.tools.code.navigation.project_code import LISTING, ProjectCode
from cellwright.tools.search.ripgrep import search_program

NAMES = 200
FLOORS = 20
CONTEXT = ToolContext("toolu_bench", lambda **_: None)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.code_index", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--stalls", action="store_true", help="measure stalls of the main thread, too")
    options = parser.parse_args()
    for folder in options.folders:
        with tempfile.TemporaryDirectory() as home:
            os.environ["CELLWRIGHT_HOME"] = home
            measure(folder.resolve(), stalls=options.stalls)
    return 0


def measure(root: Path, *, stalls: bool) -> None:
    """Print the figures of one folder."""
    seconds, processor, memory = run_indexer(root)
    database = index_path(root)
    status = status_of(database)
    code = code_lines(database)
    print(f"\n{root}: {status.files:,} files, {status.lines:,} lines ({code:,} parsed), {status.symbols:,} definitions")
    print(
        f"  build {seconds:.1f} s ({processor:.1f} s of the processor): {status.lines / processor:,.0f} lines/s of it"
    )
    print(f"  memory {memory:.0f} MB, size {status.bytes / 2**20:.1f} MB")
    seconds, processor, _ = run_indexer(root)
    print(f"  nothing new: {seconds:.2f} s ({processor:.2f} s)")
    forget_one_in_a_hundred(database)
    seconds, processor, _ = run_indexer(root)
    print(f"  1 % new: {seconds:.2f} s ({processor:.2f} s)")
    names = some_names(database)
    with reading(database) as reader:
        print_times("definitions", [timed(lambda name=name: reader.definitions(name)) for name in names])
        print_times("words", [timed(lambda name=name: reader.lexical(name.replace("_", " "))) for name in names])
    print_times("references", asyncio.run(references(root, names)))
    floor = [timed(lambda name=name: run_rg(root, name)) for name in names[:FLOORS]]
    print_times("floor: rg -w", floor)
    if stalls:
        print(f"  longest stall of the main thread: {longest_stall(root, names):.1f} ms")


def run_indexer(root: Path) -> tuple[float, float, float]:
    """One pass: seconds, those of the processor, and the most memory in MB."""
    request = IndexRequest(root=str(root), database=str(index_path(root)), listing=(*search_program(), *LISTING))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    command = [sys.executable, "-P", "-m", "cellwright.codebase"]
    subprocess.run(command, input=msgspec.json.encode(request), check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # the largest child so far, which is this one or a smaller one of its kind
    return time.perf_counter() - start, processor, after.ru_maxrss / 1024


def code_lines(database: Path) -> int:
    with sqlite3.connect(database) as connection:
        return int(connection.execute("SELECT coalesce(sum(lines), 0) FROM file WHERE parser != ''").fetchone()[0])


def forget_one_in_a_hundred(database: Path) -> None:
    """Have the index hold an older version of every hundredth file."""
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE file SET mtime = 0, hash = x'00' WHERE id % 100 = 0")


def some_names(database: Path) -> list[str]:
    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT DISTINCT name FROM symbol WHERE kind != 'heading' AND name NOT LIKE '% %'")
        names = sorted(name for (name,) in rows if len(name) > 2 and name.replace("_", "a").isalnum())
    return random.Random(0).sample(names, min(NAMES, len(names)))


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def print_times(what: str, times: list[float]) -> None:
    ordered = sorted(times)
    p95 = ordered[int(len(ordered) * 0.95) - 1]
    print(f"  {what}: p50 {statistics.median(ordered):.2f} ms, p95 {p95:.2f} ms, at most {ordered[-1]:.1f} ms")


class Indexed(ProjectCode):
    """A project whose index is up to date: what is timed is the answer, not the wait for changes."""

    async def refresh(self, wait_seconds: float = 0.0, *, rebuild: bool = False) -> None:
        """Do nothing."""


async def references(root: Path, names: list[str]) -> list[float]:
    tool = find_references_tool(Indexed(root, (), os.environ))
    times = []
    for name in names:
        start = time.perf_counter()
        await tool.call({"name": name}, CONTEXT)
        times.append((time.perf_counter() - start) * 1e3)
    return times


def run_rg(root: Path, name: str) -> None:
    command = [*search_program(), "--hidden", "--glob=!.git", "-n", "-w", "-F", "--", name, "."]
    subprocess.run(command, cwd=root, stdout=subprocess.DEVNULL, check=False)


def longest_stall(root: Path, names: list[str]) -> float:
    """The longest time, in ms, between two turns of this thread while tools answer on another, less that while idle."""
    done = threading.Event()

    async def ask() -> None:
        code = ProjectCode(root, (), os.environ)
        for name in names[:40]:
            await find_definitions_tool(code).call({"name": name}, CONTEXT)
            await find_references_tool(code).call({"name": name}, CONTEXT)

    def work() -> None:
        asyncio.run(ask())
        done.set()

    end = time.perf_counter() + 3
    idle = _longest_gap(lambda: time.perf_counter() > end)
    thread = threading.Thread(target=work)
    thread.start()
    longest = _longest_gap(done.is_set)
    thread.join()
    return max(longest - idle, 0.0)


def _longest_gap(until: Callable[[], bool]) -> float:
    longest, last = 0.0, time.perf_counter()
    while not until():
        time.sleep(0.001)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest * 1e3


if __name__ == "__main__":
    sys.exit(main())
