"""Rows of what a user waits for at the edges of a cell: its first delta, its first call of a tool, its end."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.rows.front_end import FrontEnd, Messages
from benchmarks.rows.kernel import until_seen
from benchmarks.rows.loop import nothing
from benchmarks.rows.row import Row
from cellwright.testing import MessagesServer, RecordedRequest, Turn, say, turn, use

THINKING_SECONDS = 1.0
"""The time of a model for its first words."""

SETTLED_SECONDS = 2.0
"""The time after which what is loaded in the background is there: few ask in a kernel's first two seconds."""

ENDS = {"n end": 50, "n end of many": 500}


def first_answer(subject: str) -> Mapping[str, float]:
    """The first answer of a kernel, which comes at once."""
    with _answered([turn(say("Hello, this is an answer."))]) as (messages, requests):
        return {"c first answer": until_seen(requests[0], messages)}


def first_tool(subject: str) -> Mapping[str, float]:
    """From the end of a kernel's first answer, which calls a tool, to the next request."""

    def read(folder: Path) -> list[Any]:
        return [use("Read", file_path=str(folder / "small.txt"))]

    with _tool_turns(1, read, thinking_seconds=THINKING_SECONDS) as (_, requests):
        return {"n first tool": _ms(requests[0].finished_at, requests[1].arrived_at)}


def ends(subject: str) -> Mapping[str, float]:
    """From the end of the last answer to the cell's."""

    def read(folder: Path) -> list[Any]:
        return [use("Read", file_path=str(folder / "small.txt"))]

    figures = {}
    for row, turns in ENDS.items():
        with _tool_turns(turns, read, thinking_seconds=0) as (messages, requests):
            figures[row] = _ms(requests[-1].finished_at, messages[-1][0])
    return figures


def _ms(begun: float | None, ended: float) -> float:
    assert begun is not None
    return (ended - begun) * 1000


@contextlib.contextmanager
def _tool_turns(
    count: int, calls: Any, *, thinking_seconds: float
) -> Iterator[tuple[Messages, Sequence[RecordedRequest]]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "small.txt").write_text("a line\n" * 20, "utf-8")
        left = count

        def answer(_body: dict[str, Any]) -> Turn:
            nonlocal left
            left -= 1
            time.sleep(thinking_seconds)
            return turn(*calls(folder)) if left >= 0 else turn(say("That is all. " * 20))

        with _answered(answer, folder) as found:
            yield found


@contextlib.contextmanager
def _answered(script: Any, folder: Path | None = None) -> Iterator[tuple[Messages, Sequence[RecordedRequest]]]:
    """The messages of a kernel's first cell that asks, and its requests."""
    with tempfile.TemporaryDirectory() as home, MessagesServer(script, validate=False) as server:
        environ = {"CELLWRIGHT_HOME": home, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
        with FrontEnd(environ) as kernel:
            kernel.run(f"import os; os.chdir({str(folder or home)!r})\n%load_ext cellwright")
            time.sleep(SETTLED_SECONDS)
            _, messages = kernel.run("%%claude\nsay hello", timeout=300)
        yield messages, server.requests


OURS = ("cellwright",)

CELL_END_ROWS = [
    Row(
        "c first answer",
        "a kernel's first answer, at once after the request: its first delta → first message to the front end",
        "ms",
        first_answer,
        OURS,
        max_value=10,
    ),
    Row(
        "n first tool",
        "a kernel's first call of a tool: end of the answer → next request",
        "ms",
        first_tool,
        OURS,
        max_value=25,
    ),
    Row("n end", "end of the last answer → end of the cell, after 50 tool turns", "ms", ends, OURS, max_value=10),
    Row("n end of many", "the same after 500", "ms", nothing, OURS, max_value=30),
]
