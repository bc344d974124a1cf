"""RunTests: a project's tests, run by its own runner, with what failed as data."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, structs

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import CannotBeDone, Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Preview
from cellwright.text import visible, visible_line
from cellwright.this_process.temporary_files import scratch_folder
from cellwright.tools.code.project_programs import ProgramExit, check_folder, run_program
from cellwright.tools.code.test_runners import (
    FRAMEWORKS,
    MEANINGS,
    NONE_FOUND,
    FailedTest,
    Report,
    RunnerCall,
    TestSelection,
    frameworks_of,
    plan_run,
)
from cellwright.tools.inputs import HERE, MAX_WORDS, Words, timed_limits, timeout_meta
from cellwright.tools.paths import resolve_path, shown_path

TEST_SECONDS = 120.0
MAX_TEST_SECONDS = 600
DETAILED = 20
LISTED = 100
RESULT_CHARS = 40_000

DESCRIPTION = """\
Run the project's tests and get what failed, with file, line and the end of each traceback. pytest, unittest, npm (vitest, \
jest, node --test, others as `npm test`), go and cargo are recognised. Use this, not Bash, to run tests.
- paths: files, folders or `file::test` (pytest); filter: part of a test's name (-k, -t, -run).
- Python tests run in the kernel's environment, in a process of their own."""


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
        return _result(run, ended, report, [problem, *_notes(ended, others)], seconds, selection.folder)

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


def _notes(ended: ProgramExit, others: list[str]) -> list[str]:
    notes = [f"[The whole output is in {ended.output_path}]"] if ended.output_path else []
    if others:
        notes.append(f"[There are other tests here, too: framework {' or '.join(others)}.]")
    return notes


def _result(
    run: RunnerCall, ended: ProgramExit, report: Report | None, notes: list[str], seconds: float, folder: Path
) -> ToolResult:
    name = run.runner or run.framework
    code = f"exit code {ended.exit_code}"
    if meaning := MEANINGS.get(run.framework, {}).get(ended.exit_code):
        code += f": {meaning}"
    output = RunTestsOutput(framework=run.framework, exit_code=ended.exit_code, seconds=round(seconds, 2))
    counted = report is not None and report.total > 0
    none_found = not counted and (ended.exit_code in (0, NONE_FOUND) and run.read is not None)
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
        detailed = number < DETAILED and chars < RESULT_CHARS
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
