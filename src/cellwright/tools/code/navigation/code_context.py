"""CodeContext: a function, class or range of lines whole, with what it imports and calls. It only reads."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.codebase.index_reader import IndexedSymbol
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.code.navigation.find_definitions import definition_line
from cellwright.tools.code.navigation.project_code import (
    LIMITS,
    CodeOutput,
    CodeRow,
    ProjectCode,
    code_row,
    joined,
    where,
)
from cellwright.tools.inputs import HERE, SYMBOL_NAMES

MAX_LINES = 5_000
MAX_CHARS = 80_000

DESCRIPTION = """\
Show a function, class or range of lines whole, by symbol (`name`, `Class.method`) or by path and lines; with the imports \
of its file and the definitions it calls, if wanted."""


class CodeContextInput(ToolInput):
    """The input of CodeContext."""

    aliases: ClassVar = {**SYMBOL_NAMES, "first_line": "offset"}
    symbol: Annotated[str, Meta(min_length=1, description="What to show; leave it out for lines of path.")] | None = (
        None
    )
    path: Annotated[str, Meta(min_length=1, description="The file, or the folder to find symbol in.")] = HERE
    offset: Annotated[int, Meta(ge=1, description="The first line.")] = 1
    limit: Annotated[int, Meta(ge=1, description="Lines at most.")] = MAX_LINES
    imports: Annotated[bool, Meta(description="Its file's imports, too.")] = False
    callees: Annotated[bool, Meta(description="Also the definitions it calls.")] = False

    @classmethod
    def canonical(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Lines may also be said by the first and the last."""
        kept = super().canonical(values)
        last, first = kept.pop("last_line", None), kept.get("offset", 1)
        if isinstance(last, int) and isinstance(first, int):
            kept.setdefault("limit", last - first + 1)
        return kept


def code_context_tool(code: ProjectCode) -> Tool:
    """CodeContext, for the code of one project."""

    @tool(
        name="CodeContext",
        rarely_used=True,
        output=CodeOutput,
        description=DESCRIPTION,
        access=ToolAccess("index", "path"),
        read_only=True,
        category="search",
        best_for="a function whole, with what it calls",
        limits=LIMITS,
        examples=[{"symbol": "Server.stop", "callees": True}],
        title=lambda input: f"Show {input.symbol or input.path}",
    )
    async def code_context(input: CodeContextInput, context: ToolContext) -> ToolResult:
        under = code.scope(input.path)
        others: list[IndexedSymbol] = []
        if input.symbol is not None:
            found, *others = await symbols_named(code, input.symbol, under, context)
            path, first, last = found.file.path, found.line, found.end_line
        else:
            path, first, last = under, input.offset, input.offset + input.limit - 1
        if not code.readable([path], context, str):
            raise ToolError(
                f"{path} may not be read without being asked for: use Read.", code=ErrorCode.PERMISSION_DENIED
            )
        parsed = await asyncio.to_thread(code.parsed, path)
        if parsed is None:
            raise ToolError(f"{path} is not text that is known here: use Read.", code=ErrorCode.FILE_ACCESS_ERROR)
        file, facts, source = parsed
        last = min(last, first + MAX_LINES - 1, source.lines)
        text = source.text.decode("utf-8", "replace").split("\n")[first - 1 : last]
        body = "\n".join(f"{number:6d}\t{line}" for number, line in enumerate(text, start=first))[:MAX_CHARS]
        lines = [f"{where(file, first)}-{last}", body]
        rows = [code_row(file, first, end_line=last, name=input.symbol or "")]
        if input.imports:
            lines += [
                "",
                "Imports:",
                *(
                    f"  {where(file, each.line)}: {each.module} {' '.join(each.names)}".rstrip()
                    for each in facts.imports
                ),
            ]
        if input.callees:
            names = dict.fromkeys(call.name for call in facts.calls if first <= call.line <= last)
            called = await code.definitions_of_each(list(names)[:30], context)
            lines += ["", "Calls:", *(f"  {definition_line(symbol)}" for symbol in called)]
            rows += [_row(symbol) for symbol in called]
        if others:
            lines += [
                "",
                f"[There are {len(others)} more of this name:]",
                *(definition_line(each) for each in others[:10]),
            ]
        structured = CodeOutput(rows=tuple(rows), total=len(rows), index=await code.state())
        return ToolResult(joined(lines, await code.note() if input.callees else ""), structured=structured)

    return code_context


def _row(symbol: IndexedSymbol) -> CodeRow:
    return code_row(symbol.file, symbol.line, end_line=symbol.end_line, name=symbol.qualified, kind=symbol.kind)


async def symbols_named(code: ProjectCode, name: str, under: str, context: ToolContext) -> list[IndexedSymbol]:
    """The definitions of a name, functions and classes first. Raises ToolError where there is none."""
    await code.refresh()
    found = await code.definitions(name, under, context)
    if not found:
        similar = await code.similar_names(name, context)
        hint = f" Names like it: {', '.join(similar)}." if similar else ""
        raise ToolError(f"Nothing named {name} is defined there.{hint}", code=ErrorCode.FILE_NOT_FOUND)
    return sorted(found, key=lambda each: (each.kind in ("variable", "macro"), each.declared))
