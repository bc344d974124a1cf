"""CodeMetrics: how large and tangled files and functions are, and which of them change often. It only reads."""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from typing import Annotated, Literal

from msgspec import Meta

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolContext, ToolResult
from cellwright.codebase.facts import FUNCTIONS
from cellwright.codebase.index_reader import IndexedSymbol
from cellwright.errors import ToolError
from cellwright.tools.code.navigation.project_code import (
    CodeRow,
    ProjectCode,
    code_row,
    index_tool,
    where,
)
from cellwright.tools.inputs import HERE
from cellwright.tools.run_git import neutral_git

GIT_SECONDS = 10.0
CHURN_SINCE = "1 year ago"

DESCRIPTION = """\
Measure a file or folder: lines, functions, cyclomatic and cognitive complexity, nesting, maintainability of files, and the \
hot spots: what is complex and changed often in the last year (git)."""

Sort = Literal["cognitive", "cyclomatic", "nesting", "lines", "hot"]


class CodeMetricsInput(ToolInput):
    """The input of CodeMetrics."""

    path: Annotated[str, Meta(min_length=1, description="A file or folder.")] = HERE
    sort: Annotated[Sort, Meta(description="Order; hot: complexity times commits, by file.")] = "cognitive"
    limit: Annotated[int, Meta(ge=1, le=100, description="Rows at most.")] = 20


def code_metrics_tool(code: ProjectCode) -> Tool:
    """CodeMetrics, for the code of one project."""

    @index_tool(
        name="CodeMetrics",
        description=DESCRIPTION,
        best_for="complexity and hot spots",
        examples=[{"path": "src", "sort": "hot"}],
        title=lambda input: f"Measure {input.path}",
    )
    async def code_metrics(input: CodeMetricsInput, context: ToolContext) -> ToolResult:
        under = code.scope(input.path)
        await code.refresh()
        is_file = (code.root / under).is_file()
        found = await (asyncio.to_thread(code.symbols, under) if is_file else code.symbols_below(under))
        symbols = code.readable(found, context, lambda symbol: symbol.file.path)
        functions = [symbol for symbol in symbols if symbol.kind in FUNCTIONS and not symbol.declared]
        lines = [_summary(input.path, symbols, functions)]
        if input.sort == "hot":
            more, rows = await _hot_files(code, under, functions, input.limit)
        else:
            more, rows = _worst_functions(functions, input.sort, input.limit)
        if is_file and (source := code.source(under)) is not None:
            ways = sum(each.cyclomatic for each in functions) or 1
            index = _maintainability(source.text.decode("utf-8", "replace"), ways)
            lines.append(f"Maintainability index {index:.0f} of 100.")
        return await code.answer(
            [*lines, *more], rows, len(functions), note=None if (code.root / under).is_dir() else ""
        )

    return code_metrics


def _summary(path: str, symbols: list[IndexedSymbol], functions: list[IndexedSymbol]) -> str:
    files = {symbol.file.path: symbol.file.lines for symbol in symbols}
    if not functions:
        return f"{path}: {len(files):,} files, {sum(files.values()):,} lines, no functions."
    mean = sum(each.cyclomatic for each in functions) / len(functions)
    classes = sum(each.kind in ("class", "struct", "interface", "trait") for each in symbols)
    return (
        f"{path}: {len(files):,} files that define something, {sum(files.values()):,} lines, {len(functions):,} functions, "
        f"{classes:,} classes; cyclomatic complexity {mean:.1f} on average, "
        f"{max(each.cyclomatic for each in functions)} at most."
    )


def _values(symbol: IndexedSymbol) -> dict[str, float]:
    return {
        "cognitive": symbol.cognitive,
        "cyclomatic": symbol.cyclomatic,
        "nesting": symbol.nesting,
        "lines": symbol.end_line - symbol.line + 1,
    }


def _worst_functions(functions: list[IndexedSymbol], sort: Sort, limit: int) -> tuple[list[str], list[CodeRow]]:
    worst = sorted(functions, key=lambda each: -_values(each)[sort])[:limit]
    lines = [
        f"{where(each.file, each.line)}: {each.qualified} | "
        + ", ".join(f"{name} {value:g}" for name, value in _values(each).items())
        for each in worst
    ]
    rows = [code_row(each.file, each.line, name=each.qualified, kind=each.kind, values=_values(each)) for each in worst]
    return lines, rows


async def _hot_files(
    code: ProjectCode, under: str, functions: list[IndexedSymbol], limit: int
) -> tuple[list[str], list[CodeRow]]:
    complexity: Counter[str] = Counter()
    for each in functions:
        complexity[each.file.path] += each.cyclomatic
    try:
        commits = await _commits(code, under)
    except ToolError as error:
        return [f"[No churn: {error.message}]"], []
    hot = sorted(complexity, key=lambda path: -complexity[path] * commits[path])[:limit]
    hot = [path for path in hot if commits[path]]
    lines = [f"{path}:1: {commits[path]} commits in a year × complexity {complexity[path]}" for path in hot]
    rows = [
        CodeRow(path=path, line=1, values={"commits": commits[path], "cyclomatic": complexity[path]}) for path in hot
    ]
    return lines or ["[No commits in the last year.]"], rows


async def _commits(code: ProjectCode, under: str) -> Counter[str]:
    """The number of commits of the last year that changed each file."""
    git = await neutral_git(code.root, code.environ, GIT_SECONDS)
    arguments = ["log", f"--since={CHURN_SINCE}", "--format=", "--name-only", "--relative", "-z", "--", under or "."]
    output = await git.run(*arguments)
    if output.exit_code:
        raise ToolError(output.errors.strip().partition("\n")[0] or "git failed")
    return Counter(filter(None, output.text.replace("\n", "").split("\0")))


def _maintainability(text: str, ways: int) -> float:
    """The maintainability index from 0 to 100, its volume counted in words and signs."""
    tokens = re.findall(r"\w+|[^\w\s]", text)
    volume = len(tokens) * math.log2(len(set(tokens)) or 1)
    lines = sum(1 for line in text.split("\n") if line.strip()) or 1
    return min(max((171 - 5.2 * math.log(volume or 1) - 0.23 * ways - 16.2 * math.log(lines)) * 100 / 171, 0.0), 100.0)
