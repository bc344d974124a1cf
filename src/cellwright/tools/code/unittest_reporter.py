"""Run a project's unittest tests and write what became of each as JSON lines: a program that imports nothing of ours.

    python unittest_reporter.py REPORT [-k PATTERN] [NAME …]

A name is a module, a class or a test, or the path of a file or folder; without any the current folder is searched.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
import unittest
from pathlib import Path
from types import TracebackType
from typing import Any

OutcomeError = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]


class Reporter(unittest.TextTestResult):
    """unittest's own result, which writes each outcome to the report as well."""

    report: Any = None

    def _write(self, test: unittest.TestCase, status: str, error: OutcomeError | None = None, reason: str = "") -> None:
        line: dict[str, Any] = {"name": test.id(), "status": status, "message": reason}
        if error is not None and error[1] is not None:
            frames = [frame for frame in traceback.extract_tb(error[2]) if "unittest" not in Path(frame.filename).parts]
            if frames:
                line |= {"file": frames[-1].filename, "line": frames[-1].lineno}
            line["message"] = "".join(traceback.format_exception_only(error[1])).strip()
            line["details"] = "".join([*traceback.format_list(frames), line["message"]])
        self.report.write(json.dumps(line) + "\n")
        self.report.flush()

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self._write(test, "passed")

    def addFailure(self, test: unittest.TestCase, err: OutcomeError) -> None:
        super().addFailure(test, err)
        self._write(test, "failed", err)

    def addError(self, test: unittest.TestCase, err: OutcomeError) -> None:
        super().addError(test, err)
        self._write(test, "error", err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self._write(test, "skipped", reason=reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: OutcomeError) -> None:
        super().addExpectedFailure(test, err)
        self._write(test, "passed")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        super().addUnexpectedSuccess(test)
        self._write(test, "failed", reason="It was expected to fail, and passed.")

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: OutcomeError | None) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None and err[0] is not None:
            self._write(subtest, "failed" if issubclass(err[0], test.failureException) else "error", err)


def _suite(loader: unittest.TestLoader, names: list[str]) -> unittest.TestSuite:
    suite = unittest.TestSuite()
    for name in names or ["."]:
        path = Path(name)
        if path.is_dir():
            suite.addTests(loader.discover(name, top_level_dir=None if name == "." else _top(path)))
        elif path.suffix == ".py":
            suite.addTests(loader.discover(str(path.parent), pattern=path.name, top_level_dir=_top(path.parent)))
        else:
            suite.addTests(loader.loadTestsFromName(name))
    return suite


def _top(folder: Path) -> str:
    """The folder that imports start from: the nearest above `folder` that is no package."""
    while (folder / "__init__.py").exists() and folder != Path():
        folder = folder.parent
    return str(folder)


def main() -> int:
    """Run the tests; 0 if all passed, 1 if not, 5 if there were none."""
    parser = argparse.ArgumentParser()
    parser.add_argument("report")
    parser.add_argument("-k", dest="pattern")
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    sys.path[0] = os.getcwd()  # noqa: PTH109  as `python -m unittest` has it
    loader = unittest.TestLoader()
    if options.pattern:
        loader.testNamePatterns = [options.pattern if "*" in options.pattern else f"*{options.pattern}*"]
    started = time.perf_counter()
    with Path(options.report).open("w", encoding="utf-8") as Reporter.report:
        runner = unittest.TextTestRunner(resultclass=Reporter)  # type: ignore[arg-type]  # a stub's generics
        result = runner.run(_suite(loader, options.names))
    print(f"{result.testsRun} tests in {time.perf_counter() - started:.1f} s")
    if not result.testsRun and result.wasSuccessful():
        return 5
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
