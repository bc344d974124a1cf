"""Lint: a project's linter, with what it found as data."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cellwright.agent.tool import CannotBeDone, Tool, ToolContext, ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Preview
from cellwright.text import visible, visible_line
from cellwright.tools.code.linters import FIXERS, LINTERS, LinterCall, LintProblem, linters_of, plan_lint
from cellwright.tools.code.project_programs import ProgramExit, check_folder, run_program
from cellwright.tools.files.originals import BackupStore, OriginalsOnly
from cellwright.tools.paths import real_path, resolve_path, shown_path
from cellwright.tools.schema import counted, object_schema, path_field, timed_limits, timeout_field, timeout_of

LINT_SECONDS = 60.0
LISTED = 200
MAX_BYTES = 64 * 2**20

DESCRIPTION = """\
Check code with the project's linter: ruff, eslint, mypy, tsc, flake8 or clippy, recognised from its settings. Gives file, \
line, rule and message of each problem. Use this, not Bash, to lint.
- fix: true lets ruff, eslint or clippy change the files; read a file again before you edit it afterwards."""


def lint_tool(cwd: Path, environ: Mapping[str, str] = os.environ, keeper: BackupStore | None = None) -> Tool:
    """The tool Lint. Relative paths start at `cwd`; `environ` is what linters inherit, less its secrets.

    `keeper` is told of the files that a linter may change.
    """
    told = keeper or OriginalsOnly()

    async def call(tool_input: dict[str, Any], ctx: ToolContext) -> ToolResult:
        lint, others, folder = await asyncio.to_thread(_plan, cwd, tool_input, environ)
        seconds = timeout_of(tool_input, LINT_SECONDS)

        async def problems_of(lint: LinterCall) -> list[LintProblem]:
            with tempfile.TemporaryDirectory(prefix="cellwright-lint-") as scratch:
                report = Path(scratch) / "report"
                ended = await run_program(
                    lint.arguments, cwd=folder, environ=environ, seconds=seconds, progress=ctx.progress, stdout=report
                )
                return await asyncio.to_thread(_read, lint, report, ended)

        if not tool_input.get("fix"):
            return _result(lint, await problems_of(lint), others, folder)
        looking, _, _ = await asyncio.to_thread(_plan, cwd, {**tool_input, "fix": False}, environ)
        files = {problem.file for problem in await problems_of(looking)}
        before = await asyncio.to_thread(_states, folder, files)
        await asyncio.to_thread(told.before_program, [real_path(folder / file) for file in sorted(files)])
        try:
            left = await problems_of(lint)
        finally:
            await asyncio.to_thread(told.after_program)
        after = await asyncio.to_thread(_states, folder, files)
        changed = sorted(shown_path(folder, folder / file) for file in files if before[file] != after[file])
        return _result(lint, left, others, folder, changed=changed)

    async def preview(tool_input: Mapping[str, Any]) -> Preview:
        what = "Fix" if tool_input.get("fix") else "Check"
        try:
            lint, _, folder = await asyncio.to_thread(_plan, cwd, tool_input, environ)
        except ToolError as error:
            raise CannotBeDone(error, Preview(f"{what} code", kind="command")) from error
        title = f"{what} code with {lint.linter} in {visible_line(folder.as_posix())}"
        return Preview(title, visible(" ".join(lint.arguments)), kind="command")

    def facts(tool_input: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return {"runs_project_code": _plan(cwd, tool_input, environ)[0].runs_project_code}
        except ToolError:
            return {"runs_project_code": True}  # nothing will run; but nothing is promised either

    return Tool(
        name="Lint",
        description=DESCRIPTION,
        input_schema=object_schema(
            {
                "paths": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1, "pattern": "^[^\\x00]*$"},
                    "maxItems": 100,
                    "description": "Files and folders to check; the whole project without.",
                },
                "linter": {
                    "type": "string",
                    "enum": ["auto", *LINTERS],
                    "default": "auto",
                    "description": "The linter; auto takes what the project has settings for.",
                },
                "fix": {
                    "type": "boolean",
                    "default": False,
                    "description": f"Let the linter change the files ({', '.join(sorted(FIXERS))}).",
                },
                "path": path_field("The project's folder. Leave it out for the working directory."),
                "timeout_seconds": timeout_field(LINT_SECONDS),
            },
            required=[],
        ),
        call=call,
        category="code",
        limits=timed_limits(results=LISTED),
        input_examples=[{}, {"paths": ["src/app.py"], "linter": "ruff", "fix": True}],
        facts=facts,
        title=_title,
        preview=preview,
    )


def _title(tool_input: Mapping[str, Any]) -> str:
    what = "Fix" if tool_input.get("fix") else "Lint"
    return visible_line(f"{what} {' '.join(tool_input.get('paths', ()))}".strip())


def _plan(cwd: Path, tool_input: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[LinterCall, list[str], Path]:
    """The linter's call, other linters that the project has, and the folder it runs in. Raises ToolError."""
    folder = resolve_path(cwd, tool_input.get("path", ".")).resolve()
    check_folder(cwd, folder)
    paths, fix = tool_input.get("paths", []), bool(tool_input.get("fix"))
    linter, others = tool_input.get("linter", "auto"), []
    if linter == "auto":
        linter, *others = linters_of(folder, paths) or [""]
    if not linter:
        raise ToolError(
            f"No linter was recognised in {folder}: no settings for {', '.join(LINTERS)}. Give the project's folder in "
            "path, or name a linter. For Python, ruff needs no settings.",
            code=ErrorCode.INVALID_PARAMETERS,
        )
    return plan_lint(linter, folder, paths, fix=fix, environ=environ), others, folder


def _states(folder: Path, files: Iterable[str]) -> dict[str, tuple[int, int] | None]:
    """What tells whether a file was changed."""
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
    facts = {
        "linter": lint.linter,
        "total": len(problems),
        "problems": [problem.to_json() for problem in problems[:LISTED]],
        **({"changed": changed} if changed is not None else {}),
    }
    return ToolResult("\n".join(lines), facts)
