"""RunTests: a project's tests, run by its own runner so that it reports what became of each, with what failed as data."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from xml.etree import ElementTree

from msgspec import Meta, Struct, field, structs

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import CannotBeDone, Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Preview
from cellwright.text import lazy_pattern, visible, visible_line
from cellwright.this_process.files import scratch_folder
from cellwright.tools.code.project_programs import (
    ProgramExit,
    check_folder,
    node_program,
    on_path,
    python_with,
    run_program,
)
from cellwright.tools.inputs import HERE, MAX_WORDS, Words, timed_limits, timeout_meta
from cellwright.tools.paths import resolve_path, shown_path

MAX_BYTES = 64 * 2**20
"""A larger report is not read."""

MESSAGE_CHARS = 400
DETAIL_CHARS = 2_000

_PYTEST_PLACE = lazy_pattern(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+): ", re.MULTILINE)
_STACK_PLACE = lazy_pattern(r"(?:\(|at |file://|❯ )(?P<file>/?[\w./@-][^():\n]*):(?P<line>\d+):\d+")
_GO_PLACE = lazy_pattern(r"^\s*(?P<file>[\w./-]+\.go):(?P<line>\d+)(?::\d+)?: (?P<message>.*)", re.MULTILINE)
_RUST_PLACE = lazy_pattern(r"panicked at (?P<file>[^\s:]+\.rs):(?P<line>\d+):\d+:?\n?(?P<message>[^\n]*)")
_ESCAPES = lazy_pattern(r"\x1b\[[0-9;]*m")

FRAMEWORKS = ("pytest", "unittest", "npm", "go", "cargo")
LOOKED_AT = 2_000
"""Files of a folder that are looked through for Python tests."""

_SUFFIXES = {
    **dict.fromkeys((".py",), ("pytest", "unittest")),
    **dict.fromkeys((".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts"), ("npm",)),
    ".go": ("go",),
    ".rs": ("cargo",),
}
_PYTEST_FILES = {
    "pytest.ini": "[pytest]",
    "pyproject.toml": "[tool.pytest",
    "setup.cfg": "[tool:pytest]",
    "tox.ini": "[pytest]",
    "conftest.py": "",
    "tests/conftest.py": "",
}
MEANINGS: Mapping[str, Mapping[int, str]] = {
    "pytest": {
        1: "tests failed",
        2: "tests could not be collected, or the run was interrupted",
        3: "pytest itself failed",
        4: "pytest was called wrongly",
        5: "no tests found",
    },
    "unittest": {1: "tests failed", 2: "called wrongly", 5: "no tests found"},
    "go": {1: "tests failed, or a package did not compile", 2: "go was called wrongly"},
    "cargo": {101: "tests failed, or it did not compile"},
}

TEST_SECONDS = 120.0
MAX_TEST_SECONDS = 600
LISTED = 100
RESULT_CHARS = 40_000

DESCRIPTION = """\
Run the project's tests and get what failed, with file, line and the end of each traceback. pytest, unittest, npm (vitest, \
jest, node --test, others as `npm test`), go and cargo are recognised. Use this, not Bash, to run tests.
- paths: files, folders or `file::test` (pytest); filter: part of a test's name (-k, -t, -run).
- Python tests run in the kernel's environment, in a process of their own."""


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


def _go_failure(package: str, test: str, text: str) -> FailedTest:
    found = _GO_PLACE.search(text)
    message, file, line = (found["message"], found["file"], int(found["line"])) if found else (_short(text), "", 0)
    name = f"{package}.{test}" if test else package
    return FailedTest(name, "failed" if test else "error", message[:MESSAGE_CHARS], file, line, _tail(text))


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


class TestSelection(Struct, frozen=True):
    """The tests to be run: `words` are more arguments for the runner."""

    folder: Path
    paths: Sequence[str] = ()
    filter: str = ""
    words: Sequence[str] = ()


class RunnerCall(Struct, frozen=True):
    """A runner's command line. Its report is in `report` when it has ended, or is its output (`from_output`)."""

    framework: str
    arguments: tuple[str, ...]
    report: Path
    read: Reader | None
    from_output: bool = False
    runner: str = ""


def frameworks_of(folder: Path, paths: Sequence[str]) -> list[str]:
    """The frameworks whose tests the folder seems to have, the likeliest first."""
    suffixes = {Path(path.partition("::")[0]).suffix for path in paths} - {""}
    found = list(_python_frameworks(folder))
    if (folder / "package.json").exists() and (_test_script(folder) or _javascript_runner(folder)):
        found.append("npm")
    if (folder / "go.mod").exists():
        found.append("go")
    if (folder / "Cargo.toml").exists():
        found.append("cargo")
    fitting = [name for suffix in sorted(suffixes) for name in _SUFFIXES.get(suffix, ())]
    if not fitting:
        return found
    # a file says what it is a test of, also where nothing else does
    return [name for name in found if name in fitting] or fitting[:1]


def _python_frameworks(folder: Path) -> Sequence[str]:
    configured = any(_holds(folder / name, mark) for name, mark in _PYTEST_FILES.items())
    if not configured and not _has_python_tests(folder):
        return ()
    if configured or python_with("pytest", folder) is not None:
        return ("pytest",)
    return ("unittest",)


def _holds(file: Path, mark: str) -> bool:
    try:
        return mark in file.read_text("utf-8", errors="replace")
    except OSError:
        return False


def _has_python_tests(folder: Path) -> bool:
    places = [folder, *(folder / name for name in ("tests", "test"))]
    names = (file.name for place in places if place.is_dir() for file in itertools.islice(place.iterdir(), LOOKED_AT))
    return any(
        name.endswith(".py") and (name.startswith("test_") or name == "tests.py" or name.endswith("_test.py"))
        for name in names
    )


def plan_run(framework: str, selection: TestSelection, scratch: Path, environ: Mapping[str, str] | None) -> RunnerCall:
    """Plan the run of the tests; the report goes to `scratch`. Raises ToolError when the runner is not there.

    `environ` None: they run in a container, whose programs are called by their names, and which says what it lacks.
    """
    makers = {"pytest": _pytest, "unittest": _unittest, "npm": _npm, "go": _go, "cargo": _cargo}
    for path in selection.paths:
        if path.startswith("-"):
            raise ToolError(
                f"The path {path!r} looks like a flag; flags go to args.", code=ErrorCode.INVALID_PARAMETERS
            )
    return makers[framework](selection, scratch, environ)


def _pytest(selection: TestSelection, scratch: Path, environ: Mapping[str, str] | None) -> RunnerCall:
    python = "python3" if environ is None else python_with("pytest", selection.folder)
    if python is None:
        raise _missing("pytest", f"{sys.executable} -m pip install pytest")
    report = scratch / "report.xml"
    arguments = [python, "-m", "pytest", "-q", "--color=no", f"--junitxml={report}", "-o", "junit_family=xunit1"]
    if not any(word.startswith("--tb") for word in selection.words):
        arguments.append("--tb=short")
    if selection.filter:
        arguments += ["-k", selection.filter]
    return RunnerCall("pytest", (*arguments, *selection.words, *selection.paths), report, read_junit)


def _unittest(selection: TestSelection, scratch: Path, environ: Mapping[str, str] | None) -> RunnerCall:
    report = scratch / "report.jsonl"
    script = Path(__file__).with_name("unittest_reporter.py")
    if environ is None:
        script = Path(shutil.copy(script, scratch))
    pattern = ("-k", selection.filter) if selection.filter else ()
    python = "python3" if environ is None else sys.executable
    arguments = (python, str(script), str(report), *pattern, *selection.words, *selection.paths)
    return RunnerCall("unittest", arguments, report, read_unittest)


def _npm(selection: TestSelection, scratch: Path, environ: Mapping[str, str] | None) -> RunnerCall:
    report = scratch / "report.json"
    runner = _javascript_runner(selection.folder)
    if runner == "node":
        return _node(selection, scratch, environ)
    program = node_program(runner, selection.folder) if runner else None
    if runner and program is None:
        raise _missing(runner, "npm install")
    named = ("-t", selection.filter) if selection.filter else ()
    if runner == "vitest":
        fixed = ("run", "--reporter=default", "--reporter=json", f"--outputFile.json={report}")
        return RunnerCall(
            "npm", (str(program), *fixed, *named, *selection.words, *selection.paths), report, read_jest, runner=runner
        )
    if runner == "jest":
        fixed = ("--json", f"--outputFile={report}", "--testLocationInResults", "--colors=false")
        return RunnerCall(
            "npm", (str(program), *fixed, *named, *selection.words, *selection.paths), report, read_jest, runner=runner
        )
    npm = on_path("npm", environ)
    if npm is None:
        raise _missing("npm", "installing Node.js")
    if not _test_script(selection.folder):
        raise ToolError("package.json has no script `test`, and neither vitest nor jest is among its dependencies.")
    if selection.filter:
        raise ToolError(
            "filter works with vitest, jest and node --test only; use args.", code=ErrorCode.INVALID_PARAMETERS
        )
    return RunnerCall("npm", (npm, "test", "--", *selection.words, *selection.paths), report, None, runner="npm test")


def _node(selection: TestSelection, scratch: Path, environ: Mapping[str, str] | None) -> RunnerCall:
    node = on_path("node", environ)
    if node is None:
        raise _missing("node", "installing Node.js")
    report = scratch / "report.xml"
    fixed = [node, "--test", "--test-reporter=spec", "--test-reporter-destination=stdout"]
    fixed += ["--test-reporter=junit", f"--test-reporter-destination={report}"]
    if selection.filter:
        fixed.append(f"--test-name-pattern={selection.filter}")
    return RunnerCall("npm", (*fixed, *selection.words, *selection.paths), report, read_junit, runner="node --test")


def _javascript_runner(folder: Path) -> str:
    """vitest, jest or node, by the script and the dependencies of package.json; "" for another."""
    package = _package(folder)
    script = _test_script(folder)
    depends = {**package.get("dependencies", {}), **package.get("devDependencies", {})}
    for name in ("vitest", "jest"):
        if name in script or (not script and name in depends):
            return name
    return "node" if script.startswith("node --test") else ""


def _test_script(folder: Path) -> str:
    script = _package(folder).get("scripts", {}).get("test", "")
    return script if isinstance(script, str) and "no test specified" not in script else ""


def _package(folder: Path) -> dict[str, Any]:
    try:
        package = json.loads((folder / "package.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return package if isinstance(package, dict) else {}


def _go(selection: TestSelection, scratch: Path, environ: Mapping[str, str] | None) -> RunnerCall:
    go = on_path("go", environ)
    if go is None:
        raise _missing("go", "installing Go (https://go.dev/dl)")
    named = ("-run", selection.filter) if selection.filter else ()
    packages = [_go_package(path) for path in selection.paths] or ["./..."]
    arguments = (go, "test", "-json", *named, *selection.words, *dict.fromkeys(packages))
    return RunnerCall("go", arguments, scratch / "report.jsonl", read_go, from_output=True)


def _go_package(path: str) -> str:
    """The package that a path is in, as go names it."""
    folder = Path(path).parent if path.endswith(".go") else Path(path)
    return path if path.startswith(("./", "/")) and not path.endswith(".go") else f"./{folder.as_posix()}"


def _cargo(selection: TestSelection, scratch: Path, environ: Mapping[str, str] | None) -> RunnerCall:
    cargo = on_path("cargo", environ)
    if cargo is None:
        raise _missing("cargo", "installing Rust (https://rustup.rs)")
    # an integration test's file is a target of its own
    targets = [word for path in selection.paths for word in ("--test", Path(path).stem) if path.startswith("tests/")]
    named = (selection.filter,) if selection.filter else ()
    arguments = (cargo, "test", "--no-fail-fast", "--color=never", *targets, *selection.words, *named)
    return RunnerCall("cargo", arguments, scratch / "report.txt", read_libtest, from_output=True)


def _missing(name: str, way: str) -> ToolError:
    return ToolError(f"{name} is not installed for this project. The user can get it with: {way}")


class RunTestsInput(ToolInput):
    """The input of RunTests."""

    framework: Annotated[
        str,
        Meta(
            description="The kind of tests; auto looks at the project.",
            extra_json_schema={"enum": ["auto", *FRAMEWORKS]},
        ),
    ] = "auto"
    paths: Annotated[Words, Meta(max_length=MAX_WORDS, description="Files, folders or tests to run; all without.")] = ()
    filter: Annotated[str, Meta(min_length=1, description="Only tests with this in their name.")] | None = None
    args: Annotated[Words, Meta(max_length=MAX_WORDS, description="More arguments for the runner.")] = ()
    path: Annotated[
        str, Meta(min_length=1, description="The project's folder. Leave it out for the working directory.")
    ] = HERE
    timeout_seconds: Annotated[int, timeout_meta(TEST_SECONDS, MAX_TEST_SECONDS)] = int(TEST_SECONDS)


class RunTestsOutput(ToolOutput):
    """The end of the tests; the counts are None where the runner gave no report that can be read. First failures only."""

    framework: str
    exit_code: int
    seconds: float
    passed: int | None = None
    failed: int | None = None
    errors: int | None = None
    skipped: int | None = None
    failures: tuple[dict[str, Any], ...] = ()


def run_tests_tool(cwd: Path, environ: Mapping[str, str] = os.environ) -> Tool:
    """RunTests. Relative paths start at `cwd`; `environ` is what runners inherit, less its secrets."""

    async def preview(input: RunTestsInput) -> Preview:
        selection = _selection(cwd, input)
        try:
            framework, _ = _framework(input, selection)
            run = await asyncio.to_thread(plan_run, framework, selection, Path("REPORT"), environ)
        except ToolError as error:
            raise CannotBeDone(error, Preview("Run tests", kind="command")) from error
        title = f"Run {framework} tests in {visible_line(selection.folder.as_posix())}"
        return Preview(title, visible(" ".join(run.arguments)), kind="command")

    @tool(
        name="RunTests",
        rarely_used=True,
        output=RunTestsOutput,
        description=DESCRIPTION,
        access=ToolAccess("tests", "path"),
        category="code",
        best_for="the project's tests",
        limits=timed_limits(MAX_TEST_SECONDS),
        examples=[{}, {"framework": "pytest", "paths": ["tests/test_io.py"], "filter": "encoding"}],
        title=_title,
        preview=preview,
    )
    async def run_tests(input: RunTestsInput, ctx: ToolContext) -> ToolResult:
        selection = _selection(cwd, input)
        framework, others = _framework(input, selection)
        inside = ctx.confinement is not None and ctx.confinement.container is not None
        with scratch_folder("tests", shared=inside) as scratch:
            run = await asyncio.to_thread(plan_run, framework, selection, scratch, None if inside else environ)
            started = time.monotonic()
            ended = await run_program(
                run.arguments,
                cwd=selection.folder,
                environ=environ,
                seconds=input.timeout_seconds,
                progress=ctx.progress,
                stdout=run.report if run.from_output else None,
                confinement=ctx.confinement,
                scratch=scratch,
            )
            seconds = time.monotonic() - started
            report, problem = await asyncio.to_thread(_report, run)
        notes = [problem]
        if ended.output_path:
            notes.append(f"[The whole output is in {ended.output_path}]")
        if others:
            notes.append(f"[There are other tests here, too: framework {' or '.join(others)}.]")
        return _result(run, ended, report, notes, seconds, selection.folder)

    return run_tests


def _title(input: RunTestsInput) -> str:
    named = "" if input.filter is None else f" -k {input.filter}"
    return visible_line(f"Run tests {' '.join(input.paths)}{named}".strip())


def _selection(cwd: Path, input: RunTestsInput) -> TestSelection:
    folder = resolve_path(cwd, input.path)
    check_folder(cwd, folder)
    return TestSelection(folder.resolve(), input.paths, input.filter or "", input.args)


def _framework(input: RunTestsInput, selection: TestSelection) -> tuple[str, list[str]]:
    """The framework to use, and others that the project seems to have."""
    if input.framework != "auto":
        return input.framework, []
    first, *others = frameworks_of(selection.folder, selection.paths) or [""]
    if not first:
        raise ToolError(
            f"No tests were recognised in {selection.folder}: no pytest settings or test_*.py (there or in tests/), no "
            "package.json with a test script, no go.mod, no Cargo.toml. Give the project's folder in path, or a framework.",
            code=ErrorCode.INVALID_PARAMETERS,
        )
    return first, others


def _report(run: RunnerCall) -> tuple[Report | None, str]:
    if run.read is None:
        return None, ""
    try:
        return run.read(run.report), ""
    except OSError:
        return None, ""  # the runner ended before it wrote one; its output says why
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # the file is foreign data: whatever shape it has, the output is still there
        return None, f"[The runner's report could not be read: {error}]"


def _result(
    run: RunnerCall, ended: ProgramExit, report: Report | None, notes: list[str], seconds: float, folder: Path
) -> ToolResult:
    name = run.runner or run.framework
    code = f"exit code {ended.exit_code}"
    if meaning := MEANINGS.get(run.framework, {}).get(ended.exit_code):
        code += f": {meaning}"
    output = RunTestsOutput(framework=run.framework, exit_code=ended.exit_code, seconds=round(seconds, 2))
    counted = report is not None and report.total > 0
    # the exit code for it, of pytest and of our own runner
    none_found = not counted and (ended.exit_code in (0, 5) and run.read is not None)
    if report is None or not counted:
        head = f"No tests were found ({name}, {code})." if none_found else f"{name} ended with {code}."
        text = "\n".join(part for part in (head, ended.output.strip(), *notes) if part)
        return ToolResult(text, structured=output, is_error=ended.exit_code != 0 and not none_found)
    output = structs.replace(
        output,
        passed=report.passed,
        failed=report.failed,
        errors=report.errors,
        skipped=report.skipped,
        failures=tuple(failure.to_json() for failure in report.failures[:LISTED]),
    )
    parts = [f"{_counts(report)} ({name}, {seconds:.1f} s, {code})", *_failures(report, folder)]
    if ended.exit_code and not report.failures:
        # all tests passed and yet it failed: coverage too low, a warning, a crash at the end
        parts.append(ended.output.strip())
    return ToolResult("\n".join(part for part in (*parts, *notes) if part), structured=output)


def _counts(report: Report) -> str:
    numbers = {
        "failed": report.failed,
        "with errors": report.errors,
        "passed": report.passed,
        "skipped": report.skipped,
    }
    return ", ".join(f"{number:,} {name}" for name, number in numbers.items() if number)


def _failures(report: Report, folder: Path) -> list[str]:
    parts: list[str] = []
    chars = 0
    for number, failure in enumerate(report.failures[:LISTED]):
        detailed = number < 20 and chars < RESULT_CHARS
        parts.append(_failure_text(failure, folder, detailed=detailed))
        chars += len(parts[-1])
    left = report.failed + report.errors - len(parts)
    if left > 0:
        parts.append(f"[and {left:,} more; run fewer with paths or filter]")
    return parts


def _failure_text(failure: FailedTest, folder: Path, *, detailed: bool) -> str:
    place = shown_path(folder, folder / failure.file) if failure.file else ""
    place += f":{failure.line}" if failure.line else ""
    head = f"{failure.status.upper()} {failure.name}" + (f" ({place})" if place else "")
    if not detailed or not failure.details:
        return f"{head}: {failure.message}"
    return f"\n{head}\n{failure.details}"
