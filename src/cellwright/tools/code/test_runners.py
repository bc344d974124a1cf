"""The tests a project has, and the command that starts its runner so that it reports what became of each."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.code.project_programs import node_program, on_path, python_with
from cellwright.tools.code.test_reports import Reader, read_go, read_jest, read_junit, read_libtest, read_unittest

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
NONE_FOUND = 5
"""The exit code for it, of pytest and of our own runner."""


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
