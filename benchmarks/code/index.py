"""The index of a folder's code: its speed, beside programs that do a part of it in the same run.

Builds an index in a temporary place and changes nothing in the folder. A reference is timed as the tool does it, up to
its result. The stall of the main thread is the longest time that the processor spent on this process between two turns of
it, while tools answer on another thread: on a busy machine the clock would count the turns of other programs, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import psutil
from msgspec import Struct

from benchmarks.code.tables import Table
from cellwright.agent.tool import ToolContext
from cellwright.codebase.index_reader import reading, status_of
from cellwright.codebase.store import IndexRequest, index_path
from cellwright.tools.code.navigation.find_names import find_definitions_tool, find_references_tool
from cellwright.tools.code.navigation.project_code import LISTING, ProjectCode
from cellwright.tools.search.ripgrep import search_program

NAMES = 200
FLOORS = 20
STALLED = 40
RG = ("--hidden", "--glob=!.git", "-n", "-w", "-F")
GIT_GREP = ("git", "grep", "--no-index", "--exclude-standard", "-n", "-w", "-F")
CONTEXT = ToolContext("toolu_bench", lambda **_: None)


class Build(Struct, frozen=True):
    """One pass of the indexer: until all definitions are in, and until all texts are; memory in MB, a helper's included."""

    symbols_seconds: float
    symbols_processor: float
    seconds: float
    processor: float
    memory: float


def speed(root: Path, sample: int = NAMES) -> Table:
    """Measure a folder; `sample` names are asked for."""
    build = watched_indexer(root)
    database = index_path(root)
    status = status_of(database)
    lines, parsed = status.lines, code_lines(database)
    rows = [
        (
            f"all definitions of {root.name}: {lines:,} lines in {status.files:,} files, {parsed:,} of them parsed",
            _s(build.symbols_seconds),
            "≤ 60 s for 5 M",
        ),
        ("… time of the processor", _s(build.symbols_processor), ""),
        *_ctags(root, database),
        ("all texts after that", _s(build.seconds - build.symbols_seconds), ""),
        ("memory at most", f"{build.memory:.0f} MB", "≤ 200 MB"),
        (f"size of the index, {status.symbols:,} definitions", f"{status.bytes / 2**20:.0f} MB", ""),
    ]
    seconds, _ = run_indexer(root)
    rows.append(("a look that finds nothing new", _s(seconds), ""))
    forget_one_in_a_hundred(database)
    seconds, _ = run_indexer(root)
    rows.append(("1 % of the files new", _s(seconds), "≤ 2 s"))
    names = some_names(database, sample)
    with reading(database) as reader:
        rows.append(
            ("a definition", _ms([timed(lambda name=name: reader.definitions(name)) for name in names]), "≤ 5 ms")
        )
        by_words = [timed(lambda name=name: reader.lexical(name.replace("_", " "))) for name in names]
        rows.append(("a search by words", _ms(by_words), ""))
    ours = asyncio.run(references(root, names))
    some = names[:FLOORS]
    rg = [timed(lambda name=name: run_floor(root, [*search_program(), *RG], name)) for name in some]
    git = [timed(lambda name=name: run_floor(root, GIT_GREP, name)) for name in some]
    share = statistics.median(ours[: len(some)]) / statistics.median(rg)
    rows += [
        ("the references to a name", _ms(ours), "≤ 100 ms"),
        (f"floor: {' '.join(('rg', *RG))}", _ms(rg), f"references ≤ 0.3 of it: {share:.2f}"),
        (f"floor: {' '.join(GIT_GREP)}", _ms(git), ""),
        ("the longest stall of the main thread", f"{longest_stall(root, names[:STALLED]):.0f} ms", "≤ 20 ms"),
    ]
    return Table("speed", ("what", "measured", "target"), rows)


def _s(seconds: float) -> str:
    return f"{seconds:.1f} s"


def _ms(times: Sequence[float]) -> str:
    ordered = sorted(times)
    return f"{statistics.median(ordered):.1f} ms, 95 %: {ordered[max(int(len(ordered) * 0.95) - 1, 0)]:.1f} ms"


def _ctags(root: Path, database: Path) -> list[tuple[str, str, str]]:
    """The floor for definitions, where ctags is installed: what it takes for the files that we parse."""
    if shutil.which("ctags") is None:
        return []
    with sqlite3.connect(database) as connection:
        paths = [path for (path,) in connection.execute("SELECT path FROM file WHERE parser NOT IN ('', 'notebook')")]
    start = time.perf_counter()
    command = ["ctags", "-L", "-", "--sort=no", "-f", "-"]
    subprocess.run(command, cwd=root, input="\n".join(paths).encode(), capture_output=True, check=False)
    return [("floor: ctags, definitions alone", _s(time.perf_counter() - start), "")]


def watched_indexer(root: Path) -> Build:
    """One pass from nothing, looked at while it runs."""
    with started_indexer(root) as process:
        program = psutil.Process(process.pid)
        start = time.perf_counter()
        symbols_seconds = symbols_processor = memory = processor = 0.0
        while process.poll() is None:
            time.sleep(0.05)
            with contextlib.suppress(psutil.Error):
                every = [program, *program.children()]
                memory = max(memory, sum(each.memory_info().rss for each in every) / 2**20)
                times = [each.cpu_times() for each in every]
                ended = times[0].children_user + times[0].children_system
                processor = max(processor, ended + sum(each.user + each.system for each in times))
            if not symbols_seconds and _has_all_symbols(index_path(root)):
                symbols_seconds, symbols_processor = time.perf_counter() - start, processor
        seconds = time.perf_counter() - start
        return Build(symbols_seconds or seconds, symbols_processor or processor, seconds, processor, memory)


def _has_all_symbols(database: Path) -> bool:
    with contextlib.suppress(sqlite3.Error), reading(database) as reader:
        return reader.is_complete()
    return False


@contextlib.contextmanager
def started_indexer(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The indexer at work; it must end well."""
    request = IndexRequest(root=str(root), database=str(index_path(root)), listing=(*search_program(), *LISTING))
    command = [sys.executable, "-P", "-m", "cellwright.codebase.indexer"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(request) + b"\n")
        process.stdin.close()
        yield process
    if process.returncode:
        raise SystemExit(f"the indexer ended with {process.returncode}")


def run_indexer(root: Path) -> tuple[float, float]:
    """One pass: seconds, and those of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    with started_indexer(root):
        pass
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def code_lines(database: Path) -> int:
    with sqlite3.connect(database) as connection:
        return int(connection.execute("SELECT coalesce(sum(lines), 0) FROM file WHERE parser != ''").fetchone()[0])


def forget_one_in_a_hundred(database: Path) -> None:
    """Have the index hold an older version of every hundredth file."""
    with sqlite3.connect(database) as connection:
        connection.execute(
            "UPDATE file SET mtime = 0, hash = x'00' WHERE rowid IN (SELECT id FROM (SELECT id, row_number() "
            "OVER (ORDER BY id) AS n FROM file) WHERE n % 100 = 0)"
        )


def some_names(database: Path, sample: int) -> list[str]:
    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT DISTINCT name FROM symbol WHERE kind != 'heading' AND name NOT LIKE '% %'")
        names = sorted(name for (name,) in rows if len(name) > 2 and name.replace("_", "a").isalnum())
    return random.Random(0).sample(names, min(sample, len(names)))


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


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


def run_floor(root: Path, command: Sequence[str], name: str) -> None:
    subprocess.run([*command, "--", name, "."], cwd=root, stdout=subprocess.DEVNULL, check=False)


def longest_stall(root: Path, names: list[str]) -> float:
    """The longest time of the processor, in ms, between two turns of this thread while tools answer on another."""
    done = threading.Event()

    async def ask() -> None:
        code = ProjectCode(root, (), os.environ)
        for name in names:
            await find_definitions_tool(code).call({"name": name}, CONTEXT)
            await find_references_tool(code).call({"name": name}, CONTEXT)

    def work() -> None:
        try:
            asyncio.run(ask())
        finally:
            done.set()

    thread = threading.Thread(target=work)
    thread.start()
    longest, last = 0.0, time.process_time()
    while not done.is_set():
        time.sleep(0.001)
        now = time.process_time()
        longest, last = max(longest, now - last), now
    thread.join()
    return longest * 1e3
