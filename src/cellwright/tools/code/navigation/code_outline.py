"""CodeOutline: the classes, functions and headings of a file or folder, with their heads. It only reads."""

from __future__ import annotations

import asyncio
from pathlib import PurePosixPath
from typing import Annotated

from msgspec import Meta

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolContext, ToolResult
from cellwright.codebase.index_reader import IndexedSymbol
from cellwright.codebase.source_file import language_of, place_in
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.code.navigation.find_names import definition_row
from cellwright.tools.code.navigation.project_code import ProjectCode, index_tool, short
from cellwright.tools.paths import shown_path

MAX_ROWS = 600

DESCRIPTION = """\
List the classes, functions, methods and constants of a file or of all files in a folder, with signatures and lines; of a \
Markdown file the headings. See what is there before you Read it."""


class CodeOutlineInput(ToolInput):
    """The input of CodeOutline."""

    path: Annotated[str, Meta(min_length=1, description="A file or folder.")]
    depth: Annotated[int, Meta(ge=1, le=6, description="1: only the outermost; 2: methods, too.")] = 2
    limit: Annotated[int, Meta(ge=1, le=MAX_ROWS, description="Rows at most.")] = 200


def code_outline_tool(code: ProjectCode) -> Tool:
    """CodeOutline, for the code of one project."""

    @index_tool(
        name="CodeOutline",
        description=DESCRIPTION,
        best_for="what a file defines",
        examples=[{"path": "src/app.py"}],
        title=lambda input: f"Outline {shown_path(code.root, code.root / input.path)}",
    )
    async def code_outline(input: CodeOutlineInput, context: ToolContext) -> ToolResult:
        under = code.scope(input.path)
        is_folder = (code.root / under).is_dir()
        if is_folder:
            await code.refresh()
            symbols = [symbol for symbol in await code.symbols_below(under) if symbol.kind != "heading"]
        else:
            if not language_of(PurePosixPath(under)):
                message = f"{under} is not known as a program, notebook or document: Read it."
                raise ToolError(message, code=ErrorCode.INVALID_PARAMETERS)
            symbols = await asyncio.to_thread(code.symbols, under)
        symbols = code.readable(symbols, context, lambda symbol: symbol.file.path)
        chosen = [each for each in symbols if each.qualified.count(".") < input.depth or each.kind == "heading"]
        shown = chosen[: input.limit]
        lines: list[str] = []
        path = ""
        for symbol in shown:
            if symbol.file.path != path:
                path = symbol.file.path
                lines.append(f"{path} ({symbol.file.lines:,} lines)")
            lines.append(outline_line(symbol))
        if not chosen:
            lines = [f"Nothing is defined in {input.path}."]
        elif len(chosen) > len(shown):
            lines.append(f"[{len(chosen) - len(shown)} more: give a folder or file below, or depth 1.]")
        note = None if is_folder else ""
        return await code.answer(lines, [definition_row(each) for each in shown], len(chosen), note)

    return code_outline


def outline_line(symbol: IndexedSymbol) -> str:
    """A definition, indented by what it is in."""
    indent = "  " * (symbol.qualified.count(".") + 1 if symbol.kind != "heading" else 1)
    end = "" if symbol.file.cells or symbol.end_line == symbol.line else f"-{symbol.end_line}"
    doc = f"  # {short(symbol.doc)}" if symbol.doc else ""
    return f"{indent}{place_in(symbol.file.cells, symbol.line)}{end} {short(symbol.signature)}{doc}"
