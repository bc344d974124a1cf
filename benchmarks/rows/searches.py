"""Rows of the searches: Grep and Glob against bare rg on a large tree, and what a small call of a tool costs."""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.rows.loop import nothing
from benchmarks.rows.row import Row
from cellwright.agent.tool import Tool, ToolContext
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.read import read_tool
from cellwright.tools.search.file_tree import file_tree_tool
from cellwright.tools.search.glob import glob_tool
from cellwright.tools.search.grep import grep_tool
from cellwright.tools.search.ls import ls_tool
from cellwright.tools.search.ripgrep import search_program

TREE = Path(sysconfig.get_path("purelib"))
"""What is installed beside us: tens of thousands of files, the same for everybody who runs this."""

PAIRS = 9
CALLS = 200
CONTEXT = ToolContext("toolu_bench", lambda **_: None)
SAME_FILES = ["--no-config", "--hidden", "--glob=!.git"]

Search = tuple[str, dict[str, Any], list[str]]
SEARCHES: dict[str, Search] = {
    # the tool's call, and rg's arguments for the same
    "l grep rare": (
        "Grep",
        {"pattern": "no_such_name_anywhere", "output_mode": "content"},
        ["-n", "no_such_name_anyw[h]ere"],
    ),
    "l grep lines": (
        "Grep",
        {"pattern": r"class \w+Exception\b", "output_mode": "content", "head_limit": 0},
        ["-n", r"class \w+Exception\b"],
    ),
    "l grep glob": (
        "Grep",
        {"pattern": r"ThreadPoolExecutor\(", "glob": "**/*.py", "output_mode": "content"},
        ["-n", "-tpy", r"ThreadPoolExecutor\("],
    ),
    "l grep newest": ("Grep", {"pattern": r"raise \w+Error"}, ["-l", "--sortr=modified", r"raise \w+Error"]),
    "l glob newest": (
        "Glob",
        {"pattern": "**/*.py"},
        ["--files", "--no-ignore", "--sortr=modified", "--glob=**/*.py"],
    ),
}

_waiting: dict[str, Mapping[str, float]] = {}
"""What was measured of us together with the floor: in turns, so that a busy moment hits both."""


def searches(subject: str) -> Mapping[str, float]:
    if subject == "floor":
        floor, ours = asyncio.run(_searches())
        _waiting["searches"] = ours
        return floor
    return _waiting.pop("searches")


def _search_tools(folder: Path) -> list[Tool]:
    return [make(folder) for make in (glob_tool, grep_tool, ls_tool, file_tree_tool)]


async def _searches() -> tuple[dict[str, float], dict[str, float]]:
    tools = {tool.name: tool for tool in _search_tools(TREE)}
    floor, ours = {}, {}
    for row, (name, tool_input, arguments) in SEARCHES.items():
        bare, through = [], []
        for _ in range(PAIRS):
            bare.append(_timed(arguments))
            through.append(await _timed_call(tools[name], tool_input))
        floor[row], ours[row] = statistics.median(bare), statistics.median(through)
    capped = {"pattern": "return", "output_mode": "content"}
    bare, through = [], []
    for _ in range(PAIRS):
        bare.append(_timed_head(250))
        through.append(await _timed_call(tools["Grep"], capped))
    floor["l grep capped"], ours["l grep capped"] = statistics.median(bare), statistics.median(through)
    return floor, ours


def _timed_head(lines: int) -> float:
    """rg until it has printed so many lines, in the order of paths; then it is ended."""
    command = [*search_program(), *SAME_FILES, "-n", "--sort=path", "return", "."]
    begun = time.perf_counter()
    with subprocess.Popen(command, cwd=TREE, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _, _ in zip(range(lines), process.stdout, strict=False):
            pass
        process.kill()
    return (time.perf_counter() - begun) * 1000


def _timed(arguments: list[str]) -> float:
    command = [*search_program(), *SAME_FILES, *arguments, "."]
    begun = time.perf_counter()
    subprocess.run(command, cwd=TREE, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return (time.perf_counter() - begun) * 1000


async def _timed_call(tool: Tool, tool_input: dict[str, Any]) -> float:
    begun = time.perf_counter()
    await tool.call(tool_input, CONTEXT)
    return (time.perf_counter() - begun) * 1000


def small_calls(subject: str) -> Mapping[str, float]:
    """Time and CPU of ours (children's apart) per call in a folder of ten files, and what the calls leave in memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for number in range(10):
            (folder / f"file{number}.txt").write_text("a line\n" * 20, "utf-8")
        if subject == "floor":
            return {"m Grep": statistics.median(_timed_in(folder) for _ in range(CALLS // 4))}
        return asyncio.run(_small_calls(folder))


def _timed_in(folder: Path) -> float:
    begun = time.perf_counter()
    subprocess.run([*search_program(), "-l", "line", "."], cwd=folder, capture_output=True, check=False)
    return (time.perf_counter() - begun) * 1000


async def _small_calls(folder: Path) -> dict[str, float]:
    tools = {tool.name: tool for tool in (read_tool(FileState(), folder), *_search_tools(folder))}
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "m Read": lambda: tools["Read"].call({"file_path": str(folder / "file1.txt")}, CONTEXT),
        "m LS": lambda: tools["LS"].call({}, CONTEXT),
        "m Grep": lambda: tools["Grep"].call({"pattern": "line"}, CONTEXT),
        "m Glob": lambda: tools["Glob"].call({"pattern": "*.txt"}, CONTEXT),
    }
    figures: dict[str, float] = {}
    for call in calls.values():
        await call()
    before = _rss_mb()
    for row, call in calls.items():
        times, cpu = [], time.process_time()
        for _ in range(CALLS // 4):
            begun = time.perf_counter()
            await call()
            times.append((time.perf_counter() - begun) * 1000)
        figures[row] = statistics.median(times)
        figures[f"{row} CPU"] = (time.process_time() - cpu) * 1000 / len(times)
    figures["m memory"] = max(_rss_mb() - before, 0.0)
    return figures


def _rss_mb() -> float:
    if sys.platform.startswith("linux"):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


BOTH = ("floor", "cellwright")
OURS = ("cellwright",)

SEARCH_ROWS = [
    Row("l grep rare", "what is nowhere, in all installed packages", "ms", searches, BOTH, max_ratio=1.1),
    Row("l grep lines", "a regular expression, all its lines", "ms", nothing, BOTH, max_ratio=1.1),
    Row("l grep glob", "the same for `**/*.py`, less what is ignored", "ms", nothing, BOTH, max_ratio=1.1),
    Row("l grep newest", "files, newest first; the floor is `rg --sortr=modified`", "ms", nothing, BOTH, max_ratio=1.0),
    Row("l glob newest", "`**/*.py`, newest first; the floor is the same", "ms", nothing, BOTH, max_ratio=1.3),
    Row(
        "l grep capped",
        "the first 250 of very many lines; the floor is rg ended then",
        "ms",
        nothing,
        BOTH,
        max_ratio=4,
    ),
    Row("m Grep", "a small folder; the floor is rg alone", "ms", small_calls, BOTH, max_ratio=2.5),
    Row("m Glob", "the same", "ms", nothing, OURS, max_value=12),
    Row("m LS", "a folder of ten files", "ms", nothing, OURS, max_value=2),
    Row("m Read", "a file of twenty lines", "ms", nothing, OURS, max_value=2),
    Row("m Grep CPU", "our own CPU for such a call, without rg's", "ms", nothing, OURS, max_value=4),
    Row("m Glob CPU", "the same", "ms", nothing, OURS, max_value=4),
    Row("m LS CPU", "the same", "ms", nothing, OURS, max_value=1),
    Row("m Read CPU", "the same", "ms", nothing, OURS, max_value=1),
    Row("m memory", "RSS that 200 such calls leave", "MB", nothing, OURS, max_value=10),
]
