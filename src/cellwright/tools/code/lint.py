"""Lint: a project's linter, with what it found as data."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, structs

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_output import ToolOutput
from cellwright.agent.tool import CannotBeDone, Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Preview
from cellwright.text import counted, visible, visible_line
from cellwright.this_process.temporary_files import scratch_folder
from cellwright.tools.code.linters import FIXERS, LINTERS, LinterCall, LintProblem, linters_of, plan_lint
from cellwright.tools.code.project_programs import ProgramExit, check_folder, run_program
from cellwright.tools.files.originals import BackupStore, OriginalsOnly
from cellwright.tools.inputs import HERE, MAX_WORDS, Words, timed_limits, timeout_meta
from cellwright.tools.paths import real_path, resolve_path, shown_path

LINT_SECONDS = 60.0
LISTED = 200
MAX_BYTES = 64 * 2**20

DESCRIPTION = """\
Check code with the project's linter: ruff, eslint, mypy, tsc, flake8 or clippy, recognised from its settings. Gives file, \
line, rule and message of each problem. Use this, not Bash, to lint.
- fix: true lets ruff, eslint or clippy change the files; read a file again before you edit it afterwards."""


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
