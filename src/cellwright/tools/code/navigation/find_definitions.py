"""FindDefinitions: where a name is defined. It only reads."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.codebase.index_reader import IndexedSymbol
from cellwright.tools.code.navigation.project_code import (
    LIMITS,
    CodeOutput,
    CodeRow,
    ProjectCode,
    code_row,
    joined,
    short,
    where,
)
from cellwright.tools.inputs import HERE, SYMBOL_NAMES, in_folder

DESCRIPTION = """\
Find where functions, classes, methods, types and constants are defined, by name: `name`, `Class.method`, `module.name` or \
`prefix*`; in a kernel also what its cells alone have defined. Faster and more exact than Grep for a definition."""

Symbol = Annotated[str, Meta(min_length=1, pattern=r"^[^\s\x00]+$", description="`name`, `Class.method` or `prefix*`.")]
Within = Annotated[str, Meta(min_length=1, description="Only in this file or folder.")]


class FindDefinitionsInput(ToolInput):
    """The input of FindDefinitions."""

    aliases: ClassVar = SYMBOL_NAMES
    symbol: Symbol
    path: Within = HERE
    limit: Annotated[int, Meta(ge=1, le=200, description="Rows at most.")] = 30


def find_definitions_tool(code: ProjectCode) -> Tool:
    """FindDefinitions, for the code of one project."""

    @tool(
        name="FindDefinitions",
        other_names=(
            "find_definition",
            "go_to_definition",
        ),
        rarely_used=True,
        output=CodeOutput,
        description=DESCRIPTION,
        access=ToolAccess("index", "path"),
        read_only=True,
        category="search",
        best_for="where a name is defined",
        limits=LIMITS,
        examples=[{"symbol": "Server.stop"}],
        title=lambda input: f"Find definitions of {input.symbol}{in_folder(code.root, input.path)}",
    )
    async def find_definitions(input: FindDefinitionsInput, context: ToolContext) -> ToolResult:
        under = code.scope(input.path)
        await code.refresh()
        found = await code.definitions(input.symbol, under, context)
        shown = found[: input.limit]
        lines = [definition_line(symbol) for symbol in shown]
        live = code.live_definition(input.symbol)
        if not found and not live:
            lines = [f"Nothing named {input.symbol} is defined{in_folder(code.root, input.path)}."]
            similar = await code.similar_names(input.symbol, context)
            lines += [f"Names like it: {', '.join(similar)}."] if similar else []
        elif len(found) > len(shown):
            lines.append(f"[{len(found) - len(shown)} more: give a path, or a higher limit.]")
        if live:
            lines.append(live)
        structured = CodeOutput(rows=tuple(map(definition_row, shown)), total=len(found), index=await code.state())
        return ToolResult(joined(lines, await code.note()), structured=structured)

    return find_definitions


def definition_line(symbol: IndexedSymbol) -> str:
    """A definition as a line: its place, what it is, its head, the beginning of its documentation."""
    lines = "" if symbol.end_line == symbol.line or symbol.file.cells else f"-{symbol.end_line}"
    declared = " (declared)" if symbol.declared else ""
    doc = f"  # {short(symbol.doc)}" if symbol.doc else ""
    head = f"{where(symbol.file, symbol.line)}{lines}: {symbol.kind} {symbol.qualified}{declared}"
    return f"{head} | {short(symbol.signature)}{doc}"


def definition_row(symbol: IndexedSymbol) -> CodeRow:
    """The same for programs."""
    end = symbol.end_line
    return code_row(
        symbol.file, symbol.line, end_line=end, name=symbol.qualified, kind=symbol.kind, text=symbol.signature
    )
