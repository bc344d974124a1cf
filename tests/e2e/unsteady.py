"""The one thing that is ever played twice: a scene in a browser that failed. Passing then, it is named as unsteady.

A pytest plugin. What the scene saw when it failed stays in a file of its own; `.unsteady-scenes` names both, and so do
the last lines of the run. That file is emptied when all scenes of a browser are about to be played.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.config import ExitCode
from _pytest.mark.expression import Expression
from _pytest.runner import runtestprotocol
from _pytest.terminal import TerminalReporter

NAMES = ".unsteady-scenes"
REPORTS = ".failed-scenes"
MARK = "browser"
UNSTEADY = "unsteady"


class PlayedAgain:
    """Plays scenes; in the process that others report to, it also keeps the names."""

    def __init__(self, config: pytest.Config, scenes: Path) -> None:
        self.scenes = scenes
        self.root = config.rootpath
        self.is_worker = hasattr(config, "workerinput")
        self.unsteady: list[tuple[str, str]] = []

    @pytest.hookimpl
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        if not self.is_worker and _plays_all(session.config, self.scenes):
            (self.root / NAMES).unlink(missing_ok=True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if item.get_closest_marker(MARK) is None:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if any(report.failed for report in reports):
            kept = self._keep(item, reports)
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
            has_passed = not any(report.failed for report in reports)
            for report in reports:
                if report.when == "call" and has_passed:
                    report.user_properties.append((UNSTEADY, kept))
                elif report.failed:
                    report.sections.append(("The first time", kept))
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _keep(self, item: pytest.Item, reports: list[pytest.TestReport]) -> str:
        """Write down what was seen; where that is."""
        short = hashlib.sha256(item.nodeid.encode()).hexdigest()[:6]
        path = self.root / REPORTS / f"{re.sub(r'[^a-zA-Z0-9_-]+', '-', item.name)}-{short}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(_told(report) for report in reports if report.failed), "utf-8")
        return str(path.relative_to(self.root))

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        kept = dict(report.user_properties).get(UNSTEADY)
        if kept is None or self.is_worker:
            return
        self.unsteady.append((report.nodeid, str(kept)))
        with (self.root / NAMES).open("a", encoding="utf-8") as names:
            names.write(f"{report.nodeid}  {kept}\n")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: TerminalReporter, exitstatus: ExitCode, config: pytest.Config
    ) -> Iterator[None]:
        yield
        if self.unsteady:
            terminalreporter.section("unsteady scenes: failed, and passed when played again", yellow=True)
            for nodeid, kept in self.unsteady:
                terminalreporter.line(f"{nodeid}  {kept}")


def _told(report: pytest.TestReport) -> str:
    sections = [f"--- {name}\n{text}" for name, text in report.sections]
    return "\n".join([f"=== {report.when} of {report.nodeid}", report.longreprtext, *sections])


def _plays_all(config: pytest.Config, scenes: Path) -> bool:
    """Whether all scenes of the folder `scenes` are chosen."""
    chosen = config.option.markexpr
    of_browser = not chosen or Expression.compile(chosen).evaluate(lambda name, **_: name == MARK)
    return bool(
        of_browser
        and not config.option.keyword
        and not config.option.collectonly
        and any(scenes.is_relative_to((config.invocation_params.dir / arg).resolve()) for arg in config.args)
    )
