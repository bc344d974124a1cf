"""Lint: a project's linter, with what it found as data.

Reports, each in its linter's own format, are read as one kind of problem.
"""

from __future__ import annotations

import asyncio
import configparser
import json
import os
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct, structs
from msgspec.structs import asdict

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import CannotBeDone, Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Preview
from cellwright.text import counted, lazy_pattern, visible, visible_line
from cellwright.this_process.files import scratch_folder
from cellwright.tools.code.project_programs import (
    ProgramExit,
    check_folder,
    node_program,
    on_path,
    own_program,
    python_with,
    run_program,
)
from cellwright.tools.files.file_state import BackupStore, OriginalsOnly
from cellwright.tools.inputs import HERE, MAX_WORDS, Words, timed_limits, timeout_meta
from cellwright.tools.paths import real_path, resolve_path, shown_path

if TYPE_CHECKING:
    from configparser import RawConfigParser


_TSC = lazy_pattern(
    r"^(?P<file>[^\n(]+)\((?P<line>\d+),(?P<column>\d+)\): (?P<severity>\w+) (?P<code>TS\d+): (?P<message>.*)",
    re.MULTILINE,
)
_FLAKE8 = lazy_pattern(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?P<code>[A-Z]+\d+) (?P<message>.*)", re.MULTILINE
)

LINT_SECONDS = 60.0
LISTED = 200
MAX_BYTES = 64 * 2**20

DESCRIPTION = """\
Check code with the project's linter: ruff, eslint, mypy, tsc, flake8 or clippy, recognised from its settings. Gives file, \
line, rule and message of each problem. Use this, not Bash, to lint.
- fix: true lets ruff, eslint or clippy change the files; read a file again before you edit it afterwards."""


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
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}


def _ini(file: Path) -> RawConfigParser:
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


class LintInput(ToolInput):
    """The input of Lint."""

    paths: Annotated[
        Words, Meta(max_length=MAX_WORDS, description="Files and folders to check; the whole project without.")
    ] = ()
    linter: Annotated[
        str,
        Meta(
            description="The linter; auto takes what the project has settings for.",
            extra_json_schema={"enum": ["auto", *LINTERS]},
        ),
    ] = "auto"
    fix: Annotated[bool, Meta(description=f"Let the linter change the files ({', '.join(sorted(FIXERS))}).")] = False
    path: Annotated[
        str, Meta(min_length=1, description="The project's folder. Leave it out for the working directory.")
    ] = HERE
    timeout_seconds: Annotated[int, timeout_meta(LINT_SECONDS)] = int(LINT_SECONDS)


class LintOutput(ToolOutput):
    """The first problems and how many there are; `changed` are the files that were fixed, None where none was to be."""

    linter: str
    total: int
    problems: tuple[dict[str, Any], ...]
    changed: tuple[str, ...] | None


def lint_tool(cwd: Path, environ: Mapping[str, str] = os.environ, keeper: BackupStore | None = None) -> Tool:
    """Lint. Relative paths start at `cwd`; `environ` is what linters inherit, less its secrets.

    `keeper` is told of the files that a linter may change.
    """
    told = keeper or OriginalsOnly()

    async def preview(input: LintInput) -> Preview:
        what = "Fix" if input.fix else "Check"
        try:
            lint, _, folder = await asyncio.to_thread(_plan, cwd, input, environ)
        except ToolError as error:
            raise CannotBeDone(error, Preview(f"{what} code", kind="command")) from error
        title = f"{what} code with {lint.linter} in {visible_line(folder.as_posix())}"
        return Preview(title, visible(" ".join(lint.arguments)), kind="command")

    def facts(input: LintInput) -> Mapping[str, Any]:
        try:
            return {"runs_project_code": _plan(cwd, input, environ)[0].runs_project_code}
        except ToolError:
            return {"runs_project_code": True}  # nothing will run; but nothing is promised either

    @tool(
        name="Lint",
        rarely_used=True,
        has_effects=False,
        output=LintOutput,
        description=DESCRIPTION,
        access=ToolAccess("lint", "path"),
        category="code",
        best_for="the project's linters",
        limits=timed_limits(results=LISTED),
        examples=[{}, {"paths": ["src/app.py"], "linter": "ruff", "fix": True}],
        facts=facts,
        title=lambda input: visible_line(f"{'Fix' if input.fix else 'Lint'} {' '.join(input.paths)}".strip()),
        preview=preview,
    )
    async def lint(input: LintInput, ctx: ToolContext) -> ToolResult:
        call, others, folder = await asyncio.to_thread(_plan, cwd, input, environ)

        async def problems_of(call: LinterCall) -> list[LintProblem]:
            with scratch_folder("lint") as scratch:
                report = scratch / "report"
                ended = await run_program(
                    call.arguments,
                    cwd=folder,
                    environ=environ,
                    seconds=input.timeout_seconds,
                    progress=ctx.progress,
                    stdout=report,
                    confinement=ctx.confinement,
                )
                return await asyncio.to_thread(_read, call, report, ended)

        if not input.fix:
            return _result(call, await problems_of(call), others, folder)
        looking, _, _ = await asyncio.to_thread(_plan, cwd, structs.replace(input, fix=False), environ)
        files = {problem.file for problem in await problems_of(looking)}
        before = await asyncio.to_thread(_states, folder, files)
        await asyncio.to_thread(told.before_program, [real_path(folder / file) for file in sorted(files)])
        try:
            left = await problems_of(call)
        finally:
            await asyncio.to_thread(told.after_program)
        after = await asyncio.to_thread(_states, folder, files)
        changed = sorted(shown_path(folder, folder / file) for file in files if before[file] != after[file])
        return _result(call, left, others, folder, changed=changed)

    return lint


def _plan(cwd: Path, input: LintInput, environ: Mapping[str, str]) -> tuple[LinterCall, list[str], Path]:
    """The linter's call, other linters that the project has, and the folder it runs in. Raises ToolError."""
    folder = resolve_path(cwd, input.path).resolve()
    check_folder(cwd, folder)
    linter, others = input.linter, list[str]()
    if linter == "auto":
        linter, *others = linters_of(folder, input.paths) or [""]
    if not linter:
        raise ToolError(
            f"No linter was recognised in {folder}: no settings for {', '.join(LINTERS)}. Give the project's folder in "
            "path, or name a linter. For Python, ruff needs no settings.",
            code=ErrorCode.INVALID_PARAMETERS,
        )
    return plan_lint(linter, folder, input.paths, fix=input.fix, environ=environ), others, folder


def _states(folder: Path, files: Iterable[str]) -> dict[str, tuple[int, int] | None]:
    """Return, for each file, what tells whether it was changed."""
    states: dict[str, tuple[int, int] | None] = {}
    for file in files:
        try:
            status = (folder / file).stat()
        except OSError:
            states[file] = None
        else:
            states[file] = (status.st_mtime_ns, status.st_size)
    return states


def _read(lint: LinterCall, report: Path, ended: ProgramExit) -> list[LintProblem]:
    """The problems; a ToolError with what the linter said when it did not get to its work."""
    try:
        text = report.read_text("utf-8", errors="replace") if report.stat().st_size <= MAX_BYTES else None
    except OSError:
        text = ""
    if text is None:
        raise ToolError(f"{lint.linter} found too much to be read. Give paths.")
    said = ended.output.strip() or text.strip()[:4000]
    if ended.exit_code not in lint.clean_codes:
        raise ToolError(f"{lint.linter} ended with exit code {ended.exit_code}:\n{said}")
    try:
        problems = lint.read(text)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # the linter may be the project's own: whatever it printed, this must be an answer
        raise ToolError(f"{lint.linter} did not answer in its own format ({error}):\n{said}") from error
    if ended.exit_code and not problems:
        raise ToolError(f"{lint.linter} ended with exit code {ended.exit_code} and named no problem:\n{said}")
    return problems


def _result(
    lint: LinterCall, problems: list[LintProblem], others: list[str], folder: Path, changed: list[str] | None = None
) -> ToolResult:
    lines = []
    if changed is not None:
        lines.append(
            f"Changed {counted(len(changed), 'file')}: {', '.join(changed)}" if changed else "Nothing was changed."
        )
    left = " left" if changed is not None else ""
    fixable = sum(problem.fixable for problem in problems)
    codes = ", ".join(
        f"{code or 'no rule'} {count}" for code, count in Counter(p.code for p in problems).most_common(12)
    )
    more = f", {fixable:,} can be fixed with fix: true" if fixable and changed is None else ""
    lines.append(f"{counted(len(problems), 'problem')}{left} ({lint.linter}{more})" + (f": {codes}" if codes else ""))
    for problem in problems[:LISTED]:
        place = f"{shown_path(folder, folder / problem.file)}:{problem.line}:{problem.column}"
        severity = "" if problem.severity == "error" else f"{problem.severity} "
        lines.append(f"{place} {severity}{problem.code} {problem.message}".rstrip())
    if len(problems) > LISTED:
        lines.append(f"[and {len(problems) - LISTED:,} more; give paths to see fewer]")
    if others:
        lines.append(f"[The project has settings for other linters, too: {', '.join(others)}.]")
    output = LintOutput(
        linter=lint.linter,
        total=len(problems),
        problems=tuple(problem.to_json() for problem in problems[:LISTED]),
        changed=None if changed is None else tuple(changed),
    )
    return ToolResult("\n".join(lines), structured=output)
