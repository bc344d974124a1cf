"""The reports of test runners, each in its own format, read as one kind of report."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from cellwright.text import lazy_pattern

MAX_BYTES = 64 * 2**20
"""A larger report is not read."""

MESSAGE_CHARS = 400
DETAIL_CHARS = 2_000

_PYTEST_PLACE = lazy_pattern(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+): ", re.MULTILINE)
_STACK_PLACE = lazy_pattern(r"(?:\(|at |file://|❯ )(?P<file>/?[\w./@-][^():\n]*):(?P<line>\d+):\d+")
_GO_PLACE = lazy_pattern(r"^\s*(?P<file>[\w./-]+\.go):(?P<line>\d+)(?::\d+)?: (?P<message>.*)", re.MULTILINE)
_RUST_PLACE = lazy_pattern(r"panicked at (?P<file>[^\s:]+\.rs):(?P<line>\d+):\d+:?\n?(?P<message>[^\n]*)")
_ESCAPES = lazy_pattern(r"\x1b\[[0-9;]*m")


class FailedTest(Struct, frozen=True):
    """One test that did not pass."""

    name: str
    status: Literal["failed", "error"]
    message: str = ""
    file: str = ""
    line: int = 0
    details: str = ""

    def to_json(self) -> dict[str, Any]:
        """For the views."""
        return {
            "name": self.name,
            "status": self.status,
            "message": self.message,
            "file": self.file,
            "line": self.line,
        }


class Report(Struct):
    """The number of tests by how they ended, and those that did not pass."""

    passed: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    failures: list[FailedTest] = field(default_factory=list)

    @property
    def total(self) -> int:
        """All tests that were run or skipped."""
        return self.passed + self.failed + self.errors + self.skipped

    def add(self, status: str, failure: FailedTest | None = None) -> None:
        """Count one test."""
        if failure is None:
            self.skipped += status == "skipped"
            self.passed += status == "passed"
            return
        self.failed += failure.status == "failed"
        self.errors += failure.status == "error"
        if len(self.failures) < 500:
            self.failures.append(failure)


Reader = Callable[[Path], Report]
"""Reads a report's file. Raises ValueError for what is none."""


def _bounded(path: Path) -> Path:
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"the report is larger than {MAX_BYTES // 2**20} MB")
    return path


def _short(text: str) -> str:
    return text.strip().partition("\n")[0][:MESSAGE_CHARS]


def _tail(text: str) -> str:
    """The end of a traceback: where it happened, and what."""
    text = _ESCAPES.sub("", text).strip("\n")
    if len(text) <= DETAIL_CHARS:
        return text
    return "[…]\n" + text[-DETAIL_CHARS:].partition("\n")[2]


def read_junit(path: Path) -> Report:
    """JUnit XML, as pytest and `node --test` write it."""
    from xml.etree import ElementTree  # needed for this format alone

    report = Report()
    try:
        for _, element in ElementTree.iterparse(_bounded(path)):
            if element.tag == "testcase":
                _add_junit_case(report, element)
                element.clear()
    except ElementTree.ParseError as error:
        raise ValueError(f"the report is not valid XML: {error}") from error
    return report


def _add_junit_case(report: Report, case: Any) -> None:
    problem = case.find("failure")
    status: Literal["failed", "error"] = "failed"
    if problem is None:
        problem, status = case.find("error"), "error"
    if problem is None:
        report.add("skipped" if case.find("skipped") is not None else "passed")
        return
    text = problem.text or ""
    file, line = case.get("file", ""), int(case.get("line") or -1) + 1
    places = [place for place in _PYTEST_PLACE.finditer(text) if "site-packages" not in place["file"]]
    if places:
        file, line = places[-1]["file"], int(places[-1]["line"])
    elif found := _STACK_PLACE.search(text):
        file, line = found["file"], int(found["line"])
    name = "::".join(part for part in (case.get("classname", ""), case.get("name", "")) if part)
    report.add("", FailedTest(name, status, _short(problem.get("message") or text), file, line, _tail(text)))


def read_unittest(path: Path) -> Report:
    """The JSON lines of `unittest_reporter.py`."""
    report = Report()
    for line in _json_lines(path):
        if line["status"] in ("passed", "skipped"):
            report.add(line["status"])
            continue
        failure = FailedTest(
            line["name"],
            line["status"],
            _short(line["message"]),
            line.get("file", ""),
            int(line.get("line") or 0),
            _tail(line.get("details", "")),
        )
        report.add("", failure)
    return report


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    with _bounded(path).open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not line.startswith("{"):
                continue  # what the tests themselves printed
            try:
                value = json.loads(line)
            except json.JSONDecodeError:
                continue  # cut off by a crash
            yield value


def read_jest(path: Path) -> Report:
    """The JSON of jest, and of vitest's reporter `json`."""
    try:
        data = json.loads(_bounded(path).read_text("utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"the report is not valid JSON: {error}") from error
    report = Report()
    for file in data.get("testResults", ()):
        name = file.get("name", "")
        if not file.get("assertionResults") and file.get("status") == "failed":
            message = _ESCAPES.sub("", file.get("message", ""))
            report.add("", FailedTest(Path(name).name, "error", _short(message), name, 0, _tail(message)))
        for test in file.get("assertionResults", ()):
            _add_jest_test(report, name, test)
    return report


def _add_jest_test(report: Report, file: str, test: Mapping[str, Any]) -> None:
    status = test.get("status", "")
    if status != "failed":
        report.add("passed" if status == "passed" else "skipped")
        return
    text = _ESCAPES.sub("", "\n".join(test.get("failureMessages") or ()))
    line = int((test.get("location") or {}).get("line") or 0)
    if not line:
        base = Path(file).name
        line = next((int(found["line"]) for found in _STACK_PLACE.finditer(text) if found["file"].endswith(base)), 0)
    title = " > ".join([*test.get("ancestorTitles", ()), test.get("title", "")])
    report.add("", FailedTest(title, "failed", _short(text), file, line, _tail(text)))


def read_go(path: Path) -> Report:
    """The events of `go test -json`."""
    report = Report()
    output: dict[_GoTest, str] = {}
    running: dict[_GoTest, None] = {}
    failed: dict[_GoTest, None] = {}
    for event in _json_lines(path):
        test = (event.get("Package") or event.get("ImportPath", ""), event.get("Test", ""))
        match event.get("Action"):
            case "output" | "build-output":
                output[test] = (output.get(test, "") + event.get("Output", ""))[-4 * DETAIL_CHARS :]
            case "run":
                running[test] = None
            case "pass" | "skip" as action if test[1]:
                running.pop(test, None)
                report.add("passed" if action == "pass" else "skipped")
            case "fail" if test[1]:
                running.pop(test, None)
                failed[test] = None
            case "build-fail":
                failed[test] = None
            case "fail" if (event.get("FailedBuild"), "") not in failed:
                _fail_package(test, running, failed)
    # a test with subtests fails because of them
    parents = {(package, name.rpartition("/")[0]) for package, name in failed if "/" in name}
    for test in failed:
        if test not in parents:
            report.add("", _go_failure(*test, output.get(test, "")))
    return report


_GoTest = tuple[str, str]
"""A package, and the name of a test in it; "" for the package itself."""


def _fail_package(package: _GoTest, running: dict[_GoTest, None], failed: dict[_GoTest, None]) -> None:
    """A package failed: by a test that did, or by one that never came to its end (a crash, its time), or by itself."""
    unfinished = [test for test in running if test[0] == package[0]]
    for test in unfinished:
        del running[test]
    failed.update(dict.fromkeys(unfinished))
    if not any(test[0] == package[0] for test in failed):
        failed[package] = None


def _go_failure(package: str, test: str, text: str) -> FailedTest:
    found = _GO_PLACE.search(text)
    message, file, line = (found["message"], found["file"], int(found["line"])) if found else (_short(text), "", 0)
    name = f"{package}.{test}" if test else package
    return FailedTest(name, "failed" if test else "error", message[:MESSAGE_CHARS], file, line, _tail(text))


def read_libtest(path: Path) -> Report:
    """Read what Rust's test harness prints: `test NAME ... ok`, then the output of what failed."""
    text = _bounded(path).read_text("utf-8", errors="replace")
    report = Report()
    details = dict(re.findall(r"^---- (.+?) stdout ----\n(.*?)(?=^---- |^failures:$)", text, re.MULTILINE | re.DOTALL))
    for name, status in re.findall(r"^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)", text, re.MULTILINE):
        if status != "FAILED":
            report.add("passed" if status == "ok" else "skipped")
            continue
        told = details.get(name, "")
        found = _RUST_PLACE.search(told)
        message = found["message"] if found else _short(told)
        file, line = (found["file"], int(found["line"])) if found else ("", 0)
        report.add("", FailedTest(name, "failed", message, file, line, _tail(told)))
    return report
