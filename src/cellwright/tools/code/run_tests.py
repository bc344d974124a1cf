"""RunTests: a project's tests, run by its own runner, with what failed as data."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cellwright.agent.tool import CannotBeDone, Tool, ToolContext, ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Preview
from cellwright.text import visible, visible_line
from cellwright.tools.code.project_programs import ProgramExit, check_folder, run_program
from cellwright.tools.code.runners import (
    FRAMEWORKS,
    MEANINGS,
    NONE_FOUND,
    RunnerCall,
    TestSelection,
    frameworks_of,
    plan_run,
)
from cellwright.tools.code.test_reports import FailedTest, Report
from cellwright.tools.paths import resolve_path, shown_path
from cellwright.tools.schema import object_schema, path_field, timed_limits, timeout_field, timeout_of

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


def run_tests_tool(cwd: Path, environ: Mapping[str, str] = os.environ) -> Tool:
    """The tool RunTests. Relative paths start at `cwd`; `environ` is what runners inherit, less its secrets."""

    async def call(tool_input: dict[str, Any], ctx: ToolContext) -> ToolResult:
        wanted = _wanted(cwd, tool_input)
        framework, others = _framework(tool_input, wanted)
        with tempfile.TemporaryDirectory(prefix="cellwright-tests-") as scratch:
            run = await asyncio.to_thread(plan_run, framework, wanted, Path(scratch), environ)
            started = time.monotonic()
            ended = await run_program(
                run.arguments,
                cwd=wanted.folder,
                environ=environ,
                seconds=timeout_of(tool_input, TEST_SECONDS),
                progress=ctx.progress,
                stdout=run.report if run.from_output else None,
            )
            seconds = time.monotonic() - started
            report, problem = await asyncio.to_thread(_report, run)
        return _result(run, ended, report, [problem, *_notes(ended, others)], seconds, wanted.folder)

    async def preview(tool_input: Mapping[str, Any]) -> Preview:
        wanted = _wanted(cwd, tool_input)
        try:
            framework, _ = _framework(tool_input, wanted)
            run = await asyncio.to_thread(plan_run, framework, wanted, Path("REPORT"), environ)
        except ToolError as error:
            raise CannotBeDone(error, Preview("Run tests", kind="command")) from error
        title = f"Run {framework} tests in {visible_line(wanted.folder.as_posix())}"
        return Preview(title, visible(" ".join(run.arguments)), kind="command")

    return Tool(
        name="RunTests",
        description=DESCRIPTION,
        input_schema=object_schema(
            {
                "framework": {
                    "type": "string",
                    "enum": ["auto", *FRAMEWORKS],
                    "default": "auto",
                    "description": "The kind of tests; auto looks at the project.",
                },
                "paths": _words("Files, folders or tests to run; all without."),
                "filter": {"type": "string", "minLength": 1, "description": "Only tests with this in their name."},
                "args": _words("More arguments for the runner."),
                "path": path_field("The project's folder. Leave it out for the working directory."),
                "timeout_seconds": timeout_field(TEST_SECONDS, MAX_TEST_SECONDS),
            },
            required=[],
        ),
        call=call,
        category="code",
        limits=timed_limits(MAX_TEST_SECONDS),
        input_examples=[{}, {"framework": "pytest", "paths": ["tests/test_io.py"], "filter": "encoding"}],
        title=_title,
        preview=preview,
    )


def _words(description: str) -> dict[str, Any]:
    return {
        "type": "array",
        "items": {"type": "string", "minLength": 1, "pattern": "^[^\\x00]*$"},
        "maxItems": 100,
        "description": description,
    }


def _title(tool_input: Mapping[str, Any]) -> str:
    paths = " ".join(tool_input.get("paths", ()))
    named = f" -k {tool_input['filter']}" if "filter" in tool_input else ""
    return visible_line(f"Run tests {paths}{named}".strip())


def _wanted(cwd: Path, tool_input: Mapping[str, Any]) -> TestSelection:
    folder = resolve_path(cwd, tool_input.get("path", "."))
    check_folder(cwd, folder)
    paths, words = tool_input.get("paths", []), tool_input.get("args", [])
    return TestSelection(folder.resolve(), paths, tool_input.get("filter", ""), words)


def _framework(tool_input: Mapping[str, Any], wanted: TestSelection) -> tuple[str, list[str]]:
    """The framework to use, and others that the project seems to have."""
    asked = tool_input.get("framework", "auto")
    if asked != "auto":
        return asked, []
    first, *others = frameworks_of(wanted.folder, wanted.paths) or [""]
    if not first:
        raise ToolError(
            f"No tests were recognised in {wanted.folder}: no pytest settings or test_*.py (there or in tests/), no "
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
    facts: dict[str, Any] = {"framework": run.framework, "exit_code": ended.exit_code, "seconds": round(seconds, 2)}
    counted = report is not None and report.total > 0
    none_found = not counted and (ended.exit_code in (0, NONE_FOUND) and run.read is not None)
    if report is None or not counted:
        head = f"No tests were found ({name}, {code})." if none_found else f"{name} ended with {code}."
        text = "\n".join(part for part in (head, ended.output.strip(), *notes) if part)
        return ToolResult(text, facts, is_error=ended.exit_code != 0 and not none_found)
    facts |= {key: getattr(report, key) for key in ("passed", "failed", "errors", "skipped")}
    facts["failures"] = [failure.to_json() for failure in report.failures[:LISTED]]
    parts = [f"{_counts(report)} ({name}, {seconds:.1f} s, {code})", *_failures(report, folder)]
    if ended.exit_code and not report.failures:
        # all tests passed and yet it failed: coverage too low, a warning, a crash at the end
        parts.append(ended.output.strip())
    return ToolResult("\n".join(part for part in (*parts, *notes) if part), facts)


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
