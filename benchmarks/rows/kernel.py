"""Rows of the kernel and the terminal: load, first delta on the screen, bytes on the wire, memory, start of the command."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from benchmarks.rows.front_end import FrontEnd, Messages, wire_bytes
from benchmarks.rows.loop import ROOT, nothing
from benchmarks.rows.row import Row
from cellwright.testing import MessagesServer, RecordedRequest, Turn, say, turn, use

WORD = "some words of an answer "
_SAID = say("Hello, this is an answer.")
_AT_A_PACE = [turn(_SAID, delta_chars=8, seconds_between_deltas=0.02)] * 12
"""As a model answers: it thinks, and then its words come one after another."""
_AT_ONCE = [turn(_SAID)] * 10
_SHORT_ANSWERS = [*_AT_A_PACE, *_AT_ONCE]

LOAD = {
    "floor": "import httpx2",
    "sdk": "import anthropic",
    "cellwright": "get_ipython().run_line_magic('load_ext', 'cellwright')",
}

MEASURED_LOAD = """
import json, sys, time
_modules, _cpu = len(sys.modules), time.thread_time()
{load}
_cpu = time.thread_time() - _cpu
print(json.dumps([_cpu * 1000, len(sys.modules) - _modules]))
"""

RSS = """
import json, os
print(json.dumps(int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6))
"""


def load(subject: str) -> Mapping[str, float]:
    with tempfile.TemporaryDirectory() as home, FrontEnd({"CELLWRIGHT_HOME": home}) as kernel:
        cpu_ms, modules = kernel.value(MEASURED_LOAD.format(load=LOAD[subject]))
    return {"a load": cpu_ms, "a modules": modules}


def cell(subject: str) -> Mapping[str, float]:
    """One cell after another in one kernel: cold, warm, first delta, a long stream; what went over the wire."""
    if subject == "floor":
        return _plain_cell()
    deltas = 20_000
    answers = [*_SHORT_ANSWERS, turn(say(WORD * deltas), delta_chars=len(WORD), events_per_write=20)]
    with tempfile.TemporaryDirectory() as home, MessagesServer(answers, validate=False) as server:
        environ = {
            "CELLWRIGHT_HOME": home,
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": server.api_key,
        }
        with FrontEnd(environ) as kernel:
            before = kernel.value(RSS)
            sent, _ = kernel.run("%load_ext cellwright")
            cells = [kernel.run("%%claude\nsay hello") for _ in _AT_A_PACE]
            idle = kernel.value(RSS)
            cells += [kernel.run("%%claude\nsay hello") for _ in _AT_ONCE]
            _, long_messages = kernel.run("%%claude\nsay much", timeout=120)
            after = kernel.value(RSS)
        requests = server.requests
    first_messages = cells[0][1]
    # the widget's own code went out with the first cell; once in a kernel, so it is counted here
    code = [item for item in first_messages if item[1]["msg_type"] == "comm_open"]
    live = [item for item in long_messages if item[1]["msg_type"] != "update_display_data"] + code
    comms = [when for when, message in long_messages if message["msg_type"] == "comm_msg"]
    return {
        "b cell cold": (requests[0].arrived_at - sent) * 1000,
        **_warm(cells, requests),
        "g idle memory": idle - before,
        "g active memory": after - before,
        "j wire": wire_bytes(live) / (len(WORD) * deltas),
        "j saved": (wire_bytes(long_messages) - wire_bytes(live)) / (len(WORD) * deltas),
        "j messages": _busiest_second(comms),
    }


def _plain_cell() -> Mapping[str, float]:
    """The same of a magic that does nothing but ask and print (plain_magic.py)."""
    with MessagesServer(_SHORT_ANSWERS, validate=False) as server:
        environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key, "PYTHONPATH": str(ROOT)}
        with FrontEnd(environ) as kernel:
            sent, _ = kernel.run("%load_ext benchmarks.rows.plain_magic")
            cells = [kernel.run("%%claude\nsay hello") for _ in _SHORT_ANSWERS]
        requests = server.requests
    return {"b cell cold": (requests[0].arrived_at - sent) * 1000, **_warm(cells, requests)}


def _warm(cells: Sequence[tuple[float, Messages]], requests: Sequence[RecordedRequest]) -> Mapping[str, float]:
    """The median of the cells from the third on: the second still finds the first one's threads at work."""
    warm = [*zip(cells, requests, strict=False)][2:]
    until_seen = [until_seen(request, messages) for (_, messages), request in warm]
    at_a_pace = len(_AT_A_PACE) - 2
    return {
        "b cell warm": statistics.median((request.arrived_at - sent) * 1000 for (sent, _), request in warm),
        "c first delta": statistics.median(until_seen[:at_a_pace]),
        "c whole answer": statistics.median(until_seen[at_a_pace:]),
    }


def until_seen(request: RecordedRequest, messages: Messages) -> float:
    """From the first delta of an answer that says hello to the message that shows it, in ms."""
    assert request.first_delta_at is not None
    seen = next(when for when, message in messages if "Hello" in str(message["content"]))
    return (seen - request.first_delta_at) * 1000


def _busiest_second(times: Sequence[float]) -> int:
    """The most of these moments, which are in order, that lie within one second."""
    return max((bisect_left(times, first + 1) - at for at, first in enumerate(times)), default=0)


LONG_TURNS = 300
EARLY, LATE = (10, 40), (LONG_TURNS - 30, LONG_TURNS)
ANSWER_SECONDS = 0.02
"""What the server waits before each answer. It takes 0.8 ms longer to read a late request than an early one, and the same
turn costs the kernel 2 to 10 % more where it has waited 1 ms longer."""


def long_cell(subject: str) -> Mapping[str, float]:
    """CPU of a whole kernel for a tool turn late in a cell, and relative to that of another kernel early in one.

    The two take turns one by one, so that what the machine does meanwhile hits both.
    """
    computing, late_begins = threading.Lock(), threading.Event()
    with contextlib.ExitStack() as stack:
        late, early = (stack.enter_context(_LongCell(turns, computing)) for turns in (LATE[1], EARLY[1]))
        stack.enter_context(_cores_of_their_own(late.kernel.pid, early.kernel.pid))
        late.at(LATE[0] - EARLY[0], late_begins.set)
        beside = stack.enter_context(ThreadPoolExecutor(1)).submit(early.run, late_begins)
        late.run()
        beside.result()
    ours, theirs = late.per_turn(LATE), early.per_turn(EARLY)
    return {"h cell": statistics.mean(ours), "h cell growth": _undisturbed(ours) / _undisturbed(theirs)}


class _LongCell:
    """A cell of many tool turns in a kernel with a model of its own, and the CPU that the kernel has had before each.

    The lock is held while the kernel computes.
    """

    def __init__(self, turns: int, computing: threading.Lock) -> None:
        self.turns = turns
        self.cpu: list[float] = []
        self._computing = computing
        self._calls: dict[int, Callable[[], None]] = {}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            home = stack.enter_context(tempfile.TemporaryDirectory())
            self.small = Path(home) / "small.txt"
            self.small.write_text("a line\n" * 20, "utf-8")
            server = stack.enter_context(MessagesServer(self._answer, validate=False))
            environ = {
                "CELLWRIGHT_HOME": home,
                "ANTHROPIC_BASE_URL": server.url,
                "ANTHROPIC_API_KEY": server.api_key,
            }
            self.kernel = stack.enter_context(FrontEnd(environ))
            self.kernel.run(f"import os; os.chdir({home!r})\n%load_ext cellwright")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def at(self, number: int, call: Callable[[], None]) -> None:
        """Call this when that turn begins."""
        self._calls[number] = call

    def run(self, begins: threading.Event | None = None) -> None:
        """Run the cell, once `begins` is set."""
        if begins is None or begins.wait(300):
            self.kernel.run("%%claude\nread it often", timeout=300)

    def per_turn(self, window: tuple[int, int]) -> list[float]:
        """CPU of each turn in a window, in ms."""
        return [after - before for before, after in pairwise(self.cpu[slice(*window)])]

    def _answer(self, _body: dict[str, Any]) -> Turn:
        if self.cpu:
            self._computing.release()
        self.cpu.append(_cpu_ms(self.kernel.pid))
        self._calls.get(len(self.cpu), lambda: None)()
        time.sleep(ANSWER_SECONDS)
        if len(self.cpu) > self.turns:
            return turn(say("Done."))
        self._computing.acquire()
        return turn(use("Read", file_path=str(self.small)))


def _undisturbed(times: Sequence[float]) -> float:
    """The lower quartile: what else the machine does only ever adds to a time."""
    return statistics.quantiles(times, n=4)[0]


@contextlib.contextmanager
def _cores_of_their_own(*pids: int) -> Iterator[None]:
    """Keep processes and ours, which is the server, on different cores, where there are two.

    The server reads more with each request. Whether it then drives who shares its core out of the cache is a guess.
    """
    cores = sorted(os.sched_getaffinity(0)) if sys.platform.startswith("linux") else []
    if len(cores) < 2:
        yield
        return
    for pid in pids:
        _keep_on(pid, cores[:1])
    _keep_on(os.getpid(), cores[1:])
    try:
        yield
    finally:
        _keep_on(os.getpid(), cores)


def _keep_on(pid: int, cores: Sequence[int]) -> None:
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            os.sched_setaffinity(int(task.name), cores)


def _cpu_ms(pid: int) -> float:
    """The CPU that the threads of a process have had."""
    if sys.platform.startswith("linux"):
        whole = 0
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                whole += int((task / "schedstat").read_text().split()[0])
        return whole / 1e6
    shown = subprocess.run(["ps", "-o", "time=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout
    minutes, _, seconds = shown.strip().rpartition(":")
    return (int(minutes.rpartition(":")[2]) * 60 + float(seconds)) * 1000


def terminal(subject: str) -> Mapping[str, float]:
    with tempfile.TemporaryDirectory() as home, MessagesServer([turn(say("hi"))], validate=False) as server:
        environ = {
            **os.environ,
            "CELLWRIGHT_HOME": home,
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": server.api_key,
        }
        arguments = {
            "floor": ["-c", f"import httpx2; httpx2.post({server.url!r} + '/v1/messages', json={{}})"],
            "cellwright": ["-m", "cellwright.terminal.main", "-p", "hello", "--no-session"],
        }[subject]
        begun = time.monotonic()
        subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environ, capture_output=True, check=False)
        arrived = server.all_requests[0].arrived_at
    return {"k terminal": (arrived - begun) * 1000}


OURS = ("cellwright",)
PLAIN = ("floor", "cellwright")

KERNEL_ROWS = [
    Row("a load", "CPU of %load_ext or import in a running kernel", "ms", load, max_ratio=0.6),
    Row("a modules", "modules that it adds", "", nothing, max_value=60),
    Row("b cell cold", "%load_ext + first cell → first request", "ms", cell, subjects=PLAIN, max_value=150),
    Row("b cell warm", "a cell → its request", "ms", nothing, subjects=PLAIN, max_ratio=2.9),
    Row(
        "c first delta",
        "the server's first delta → first message to the front end",
        "ms",
        nothing,
        subjects=PLAIN,
        max_ratio=3.3,
    ),
    Row(
        "c whole answer",
        "the same of an answer that comes whole, at once after the request",
        "ms",
        nothing,
        subjects=PLAIN,
        max_ratio=3.3,
    ),
    Row("g idle memory", "RSS that the kernel gained after twelve cells", "MB", nothing, subjects=OURS, max_value=35),
    Row("g active memory", "… and after a stream of 20,000 deltas", "MB", nothing, subjects=OURS, max_value=60),
    Row("j wire", "bytes to the front end / bytes of text, 20,000 deltas", "", nothing, subjects=OURS, max_value=1.2),
    Row(
        "j saved",
        "the same for the Markdown and the plain text that are saved",
        "",
        nothing,
        subjects=OURS,
        max_value=2.1,
    ),
    Row("j messages", "messages to the front end in the busiest second", "", nothing, subjects=OURS, max_value=30),
    Row("h cell", "CPU of a kernel for tool turn 285 of 300 in one cell", "ms", long_cell, subjects=OURS, max_value=8),
    Row("h cell growth", "the same, relative to turn 25", "×", nothing, subjects=OURS, max_value=1.1),
    Row(
        "k terminal",
        "start of the command → first request",
        "ms",
        terminal,
        subjects=PLAIN,
        max_value=250,
    ),
]
