"""The row of a question to the index: a whole call, with all processes that work for it, against a Grep for the same."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Any

import psutil

from benchmarks.rows.loop import ROOT
from benchmarks.rows.row import Row
from benchmarks.rows.searches import BOTH, CONTEXT
from cellwright.agent.tool import Tool
from cellwright.conversation.tools.toolset import builtin_tools

CODE = ROOT / "src"
NAME = "definition_row"
QUESTIONS: Mapping[str, dict[str, Any]] = {
    "FindDefinitions": {"symbol": NAME},
    "FindReferences": {"symbol": NAME},
    "CodeContext": {"symbol": NAME, "callees": True},
    "CallChain": {"symbol": NAME},
}
ROUNDS = 5
PAUSE_SECONDS = 0.1
"""Between calls, so that what a call leaves running is counted to it."""

_waiting: dict[str, Mapping[str, float]] = {}


def index_calls(subject: str) -> Mapping[str, float]:
    """CPU of ours and of all children for a call, in ms; both in turns, by one tree and one index."""
    if subject != "floor":
        return _waiting.pop("index")
    with tempfile.TemporaryDirectory() as home, _own_home(home):
        grep, question = asyncio.run(_calls())
    _waiting["index"] = {"m index": question}
    return {"m index": grep}


@contextlib.contextmanager
def _own_home(home: str) -> Iterator[None]:
    before = os.environ.get("CELLWRIGHT_HOME")
    os.environ["CELLWRIGHT_HOME"] = home
    try:
        yield
    finally:
        del os.environ["CELLWRIGHT_HOME"]
        if before is not None:
            os.environ["CELLWRIGHT_HOME"] = before


async def _calls() -> tuple[float, float]:
    tools = {tool.name: tool for tool in builtin_tools("@search", cwd=CODE)}
    while "still being built" in str(await tools["FindDefinitions"].call({"symbol": NAME}, CONTEXT)):
        await asyncio.sleep(PAUSE_SECONDS)
    grep, questions = 0.0, 0.0
    for _ in range(ROUNDS):
        for name, given in QUESTIONS.items():
            grep += await _cost(tools["Grep"], {"pattern": f"def {NAME}", "output_mode": "content"})
            questions += await _cost(tools[name], given)
    calls = ROUNDS * len(QUESTIONS)
    return grep / calls, questions / calls


async def _cost(tool: Tool, given: dict[str, Any]) -> float:
    before = _cpu_ms()
    await tool.call(given, CONTEXT)
    await asyncio.sleep(PAUSE_SECONDS)
    return _cpu_ms() - before


def _cpu_ms() -> float:
    """The CPU that this process and all that it has started have had."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    living = 0.0
    for child in psutil.Process().children(recursive=True):
        times = child.cpu_times()
        living += times.user + times.system + times.children_user + times.children_system
    return (time.process_time() + ended.ru_utime + ended.ru_stime + living) * 1000


INDEX_ROWS = [
    Row(
        "m index",
        "a question to the index, CPU of all processes; the floor is a Grep",
        "ms",
        index_calls,
        BOTH,
        max_ratio=3,
    ),
]
