"""`make test-times`: where the time of a test run goes, by file. A plugin (`-p measured_times`), under xdist too."""

from __future__ import annotations

import collections
import os
import resource
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from forked.forked_python import VARIABLE, spent_in

MEASURED = "measured"
MOST_ITEMS = 60
KINDS = {
    "kernels": "ipykernel",
    "servers": "jupyter_server",
    "labs": "jupyterlab",
    "pythons": "python",
}  # the first that fits


class Counter:
    """Seconds and child processes since the last look."""

    def __init__(self) -> None:
        self.started: collections.Counter[str] = collections.Counter()
        self.before = self._now()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            words = " ".join(map(str, arguments[1])) if isinstance(arguments[1], (list, tuple)) else str(arguments[1])
            self.started[next((kind for kind, word in KINDS.items() if word in words), "others")] += 1
        elif event == "os.forkpty":
            self.started["terminals"] += 1

    @staticmethod
    def _now() -> tuple[float, float, float]:
        of_us, of_children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        forked = spent_in(Path(os.environ[VARIABLE]).parent) if VARIABLE in os.environ else 0.0
        return (
            time.monotonic(),
            of_us.ru_utime + of_us.ru_stime,
            of_children.ru_utime + of_children.ru_stime + forked,
        )

    def look(self) -> dict[str, float]:
        now = self._now()
        spent = [after - before for after, before in zip(now, self.before, strict=True)]
        found = {"wall": spent[0], "cpu": spent[1], "cpu of children": spent[2], **self.started}
        self.before = now
        self.started.clear()
        return found


class Times:
    """Measures where the tests run, adds up where the reports arrive."""

    def __init__(self) -> None:
        self.counter = Counter()
        self.files: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        self.items: collections.Counter[str] = collections.Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
        report = yield
        report.user_properties = [(MEASURED, self.counter.look())]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = self.files[report.nodeid.partition("::")[0]]
        file["items"] += report.when == "call"
        for name, value in report.user_properties:
            if name == MEASURED:
                file.update(value)
                self.items[report.nodeid] += value["cpu"] + value["cpu of children"]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        columns = ["items", "wall", "cpu", "cpu of children", *KINDS, "terminals", "others"]
        total = sum(self.files.values(), collections.Counter())
        rows = sorted(self.files.items(), key=lambda row: -(row[1]["cpu"] + row[1]["cpu of children"]))
        terminalreporter.section("times by file")
        terminalreporter.line(" ".join(f"{name:>9.9}" for name in columns))
        for name, found in [*rows, ("in total", total)]:
            terminalreporter.line(" ".join(f"{round(found[column], 1):>9}" for column in columns) + f"  {name}")
        terminalreporter.section(f"the {MOST_ITEMS} tests that compute most, with their children")
        for name, seconds in self.items.most_common(MOST_ITEMS):
            terminalreporter.line(f"{seconds:>9.1f}  {name}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Times(), "times")
