"""The linters a project uses: each one's command, whether running it runs code of the project, and its report.

Reports, each in its linter's own format, are read as one kind of problem.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from cellwright.errors import ErrorCode, ToolError
from cellwright.text import lazy_pattern
from cellwright.tools.code.project_programs import node_program, on_path, own_program, python_with

if TYPE_CHECKING:
    from configparser import RawConfigParser

_TSC = lazy_pattern(
    r"^(?P<file>[^\n(]+)\((?P<line>\d+),(?P<column>\d+)\): (?P<severity>\w+) (?P<code>TS\d+): (?P<message>.*)",
    re.MULTILINE,
)
_FLAKE8 = lazy_pattern(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?P<code>[A-Z]+\d+) (?P<message>.*)", re.MULTILINE
)


class LintProblem(Struct, frozen=True):
    """One thing that a linter found. `line` and `column` count from 1; 0 where it says none."""

    file: str
    line: int
    column: int
    code: str
    message: str
    severity: str = "error"
    fixable: bool = False

    def to_json(self) -> dict[str, Any]:
        """For the views."""
        return asdict(self)


Reader = Callable[[str], list[LintProblem]]
"""Reads a linter's output. Raises ValueError (KeyError, TypeError) for what is none."""


def read_ruff(text: str) -> list[LintProblem]:
    """`ruff check --output-format=json`."""
    return [
        LintProblem(
            found["filename"],
            found["location"]["row"],
            found["location"]["column"],
            found["code"] or "syntax",
            found["message"],
            fixable=bool(found.get("fix")) and found["fix"].get("applicability") == "safe",
        )
        for found in json.loads(text or "[]")
    ]


def read_eslint(text: str) -> list[LintProblem]:
    """`eslint --format json`."""
    return [
        LintProblem(
            file["filePath"],
            found.get("line") or 0,
            found.get("column") or 0,
            found.get("ruleId") or "",
            found["message"],
            "error" if found.get("severity") == 2 else "warning",
            fixable="fix" in found,
        )
        for file in json.loads(text or "[]")
        for found in file["messages"]
    ]


def read_mypy(text: str) -> list[LintProblem]:
    """`mypy --output=json`: an object a line."""
    problems = []
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        found = json.loads(line)
        place = (found["file"], max(found["line"], 0), max(found["column"] + 1, 0))
        problems.append(LintProblem(*place, found.get("code") or "", found["message"], found.get("severity", "error")))
    return problems


def read_tsc(text: str) -> list[LintProblem]:
    """`tsc --pretty false`."""
    return [
        LintProblem(
            found["file"], int(found["line"]), int(found["column"]), found["code"], found["message"], found["severity"]
        )
        for found in _TSC.finditer(text)
    ]


def read_flake8(text: str) -> list[LintProblem]:
    """flake8's default format."""
    return [
        LintProblem(found["file"], int(found["line"]), int(found["column"]), found["code"], found["message"])
        for found in _FLAKE8.finditer(text)
    ]


def read_clippy(text: str) -> list[LintProblem]:
    """`cargo clippy --message-format=json`: an object a line."""
    problems = []
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        found = json.loads(line)
        message = found.get("message") if found.get("reason") == "compiler-message" else None
        spans = [span for span in (message or {}).get("spans", ()) if span.get("is_primary")]
        if message is None or not spans:
            continue
        code = (message.get("code") or {}).get("code", "")
        place = (spans[0]["file_name"], spans[0]["line_start"], spans[0]["column_start"])
        problems.append(LintProblem(*place, code, message["message"], message.get("level", "error")))
    return problems


LINTERS = ("ruff", "eslint", "mypy", "tsc", "flake8", "clippy")
FIXERS = frozenset({"ruff", "eslint", "clippy"})

_ESLINT_FILES = ("eslint.config.js", "eslint.config.mjs", "eslint.config.cjs", "eslint.config.ts", ".eslintrc.json")
_ESLINT_OLD = (".eslintrc", ".eslintrc.js", ".eslintrc.cjs", ".eslintrc.yml", ".eslintrc.yaml")
_GET = {
    "ruff": f"{sys.executable} -m pip install ruff",
    "mypy": f"{sys.executable} -m pip install mypy",
    "flake8": f"{sys.executable} -m pip install flake8",
    "eslint": "npm install --save-dev eslint",
    "tsc": "npm install --save-dev typescript",
    "clippy": "rustup component add clippy",
}


class LinterCall(Struct, frozen=True):
    """A linter's command line. `runs_project_code` says that the project's files can make it run what they hold.

    `clean_codes` are the exit codes with which it has done its work.
    """

    linter: str
    arguments: tuple[str, ...]
    read: Reader
    runs_project_code: bool
    clean_codes: tuple[int, ...] = (0, 1)


def linters_of(folder: Path, paths: Sequence[str]) -> list[str]:
    """The linters that the project has settings for, the likeliest first; ruff for Python files without any."""
    found = []
    pyproject = _toml(folder / "pyproject.toml").get("tool", {})
    if "ruff" in pyproject or any((folder / name).exists() for name in ("ruff.toml", ".ruff.toml")):
        found.append("ruff")
    if any((folder / name).exists() for name in (*_ESLINT_FILES, *_ESLINT_OLD)) or "eslintConfig" in _package(folder):
        found.append("eslint")
    if (folder / ".flake8").exists() or _has_section(folder, "flake8"):
        found.append("flake8")
    if "mypy" in pyproject or (folder / "mypy.ini").exists() or _has_section(folder, "mypy"):
        found.append("mypy")
    if (folder / "tsconfig.json").exists():
        found.append("tsc")
    if (folder / "Cargo.toml").exists():
        found.append("clippy")
    if not found and (any(path.endswith(".py") for path in paths) or any(folder.glob("*.py"))):
        found.append("ruff")
    return [name for name in found if _suits(name, paths)]


def _suits(linter: str, paths: Sequence[str]) -> bool:
    suffixes = {Path(path).suffix for path in paths} - {""}
    if not suffixes:
        return True
    if linter in ("ruff", "flake8", "mypy"):
        return bool(suffixes & {".py", ".pyi", ".ipynb"})
    return suffixes <= {".rs"} if linter == "clippy" else not suffixes & {".py", ".pyi", ".ipynb", ".rs"}


def plan_lint(linter: str, folder: Path, paths: Sequence[str], *, fix: bool, environ: Mapping[str, str]) -> LinterCall:
    """Plan the linter's run. Raises ToolError when it is not installed, or cannot do what is asked."""
    for path in paths:
        if path.startswith("-"):
            raise ToolError(f"The path {path!r} looks like a flag.", code=ErrorCode.INVALID_PARAMETERS)
    if fix and linter not in FIXERS:
        raise ToolError(
            f"{linter} cannot fix what it finds. Those that can: {', '.join(sorted(FIXERS))}.",
            code=ErrorCode.INVALID_PARAMETERS,
        )
    if linter in ("ruff", "mypy", "flake8"):
        return _python_linter(linter, folder, paths, fix=fix)
    if linter == "clippy":
        return _clippy(environ, paths, fix=fix)
    program = node_program(linter, folder)
    if program is None:
        raise _missing("tsc" if linter == "tsc" else linter)
    if linter == "tsc":
        # a project's settings decide what belongs together: single files would be read without them
        return LinterCall("tsc", (program, "--noEmit", "--pretty", "false"), read_tsc, True, (0, 1, 2))
    fixed = ("--format", "json", *(("--fix",) if fix else ()))
    return LinterCall("eslint", (program, *fixed, "--", *(paths or ["."])), read_eslint, True)


def _python_linter(linter: str, folder: Path, paths: Sequence[str], *, fix: bool) -> LinterCall:
    if linter == "ruff":
        own = own_program("ruff")
        program = (own,) if own else _python_module("ruff", folder)
        fixed = ("check", "--output-format=json", "--no-cache", "--force-exclude", "--quiet")
        arguments = (*program, *fixed, *(("--fix",) if fix else ("--no-fix",)), "--", *(paths or ["."]))
        # its settings name no plug-ins; a ruff that the project brought along may be anything
        return LinterCall("ruff", arguments, read_ruff, runs_project_code=own is None)
    program = _python_module(linter, folder)
    if linter == "mypy":
        targets = paths or ([] if _mypy_has_files(folder) else ["."])
        arguments = (*program, "--output=json", "--no-color-output", "--no-error-summary", "--", *targets)
        return LinterCall("mypy", arguments if targets else arguments[:-1], read_mypy, runs_project_code=True)
    return LinterCall("flake8", (*program, "--format=default", "--", *(paths or ["."])), read_flake8, True)


def _python_module(linter: str, folder: Path) -> tuple[str, ...]:
    python = python_with(linter, folder)
    if python is None:
        raise _missing(linter)
    return (python, "-m", linter)


def _clippy(environ: Mapping[str, str], paths: Sequence[str], *, fix: bool) -> LinterCall:
    cargo = on_path("cargo", environ)
    if cargo is None:
        raise _missing("clippy")
    if paths:
        raise ToolError("clippy checks whole packages: leave paths out.", code=ErrorCode.INVALID_PARAMETERS)
    fixed = ("--fix", "--allow-dirty", "--allow-staged") if fix else ()
    return LinterCall("clippy", (cargo, "clippy", "-q", "--message-format=json", *fixed), read_clippy, True, (0, 101))


def _missing(linter: str) -> ToolError:
    return ToolError(f"{linter} is not installed for this project. The user can get it with: {_GET[linter]}")


def _mypy_has_files(folder: Path) -> bool:
    options = _toml(folder / "pyproject.toml").get("tool", {}).get("mypy", {})
    return bool(options.get("files") or options.get("packages")) or any(
        _ini(folder / name).get("mypy", "files", fallback="") for name in ("mypy.ini", "setup.cfg")
    )


def _toml(file: Path) -> dict[str, Any]:
    try:
        import tomllib

        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def _ini(file: Path) -> RawConfigParser:
    import configparser  # two milliseconds that a session's first request need not wait for

    parser = configparser.RawConfigParser()
    try:
        parser.read_string(file.read_text("utf-8"))
    except (OSError, ValueError, configparser.Error):
        return configparser.RawConfigParser()
    return parser


def _has_section(folder: Path, name: str) -> bool:
    return any(_ini(folder / file).has_section(name) for file in ("setup.cfg", "tox.ini"))


def _package(folder: Path) -> dict[str, Any]:
    try:
        package = json.loads((folder / "package.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return package if isinstance(package, dict) else {}
