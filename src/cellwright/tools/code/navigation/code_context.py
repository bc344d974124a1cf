"""CodeContext and AnalyzeFunction: code whole with what it imports and calls, one function at a glance. They only read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolContext, ToolResult
from cellwright.codebase.index_reader import IndexedSymbol
from cellwright.errors import ErrorCode, ToolError
from cellwright.text import lazy_pattern
from cellwright.tools.code.navigation.find_names import QualifiedName, Within, definition_line, definition_row
from cellwright.tools.code.navigation.project_code import (
    ProjectCode,
    code_row,
    index_tool,
    where,
)
from cellwright.tools.inputs import HERE, SYMBOL_NAMES

MAX_LINES = 5_000
MAX_CHARS = 80_000

CONTEXT_DESCRIPTION = """\
Show a function, class or range of lines whole, by symbol (`name`, `Class.method`) or by path and lines; with the imports \
of its file and the definitions it calls, if wanted."""

SHOWN = 20

ANALYZE_DESCRIPTION = """\
Describe a function or method: signature, documentation, callers, calls, exceptions, attributes read and written, and \
complexity."""

_RAISES = lazy_pattern(r"\b(?:raise|throw(?:\s+new)?)\s+([A-Za-z_][\w.:]*)|\b(panic)!?\(")
_ATTRIBUTE = lazy_pattern(
    r"\b(?:self|cls|this)(?:\.|->)(\w+)(\s*(?:\[[^\]]*\])?\s*(?:[-+*/%|&^@]|//|\*\*|<<|>>)?=(?!=))?(\s*\()?"
)


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

    @index_tool(
        name="CodeContext",
        description=CONTEXT_DESCRIPTION,
        best_for="a function whole, with what it calls",
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
        text = source.lines_between(first, last)
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
            names = dict.fromkeys(call.name for call in facts.calls_within(first, last))
            called = await code.definitions_of_each(list(names)[:30], context)
            lines += ["", "Calls:", *(f"  {definition_line(symbol)}" for symbol in called)]
            rows += [
                code_row(each.file, each.line, end_line=each.end_line, name=each.qualified, kind=each.kind)
                for each in called
            ]
        if others:
            lines += [
                "",
                f"[There are {len(others)} more of this name:]",
                *(definition_line(each) for each in others[:10]),
            ]
        return await code.answer(lines, rows, note=None if input.callees else "")

    return code_context


async def symbols_named(code: ProjectCode, name: str, under: str, context: ToolContext) -> list[IndexedSymbol]:
    """The definitions of a name, functions and classes first. Raises ToolError where there is none."""
    await code.refresh()
    found = await code.definitions(name, under, context)
    if not found:
        similar = await code.similar_names(name, context)
        hint = f" Names like it: {', '.join(similar)}." if similar else ""
        raise ToolError(f"Nothing named {name} is defined there.{hint}", code=ErrorCode.FILE_NOT_FOUND)
    return sorted(found, key=lambda each: (each.kind in ("variable", "macro"), each.declared))


class AnalyzeFunctionInput(ToolInput):
    """The input of AnalyzeFunction."""

    aliases: ClassVar = SYMBOL_NAMES
    symbol: QualifiedName
    path: Within = HERE


def analyze_function_tool(code: ProjectCode) -> Tool:
    """AnalyzeFunction, for the code of one project."""

    @index_tool(
        name="AnalyzeFunction",
        description=ANALYZE_DESCRIPTION,
        best_for="one function at a glance",
        examples=[{"symbol": "Server.stop"}],
        title=lambda input: f"Analyze {input.symbol}",
    )
    async def analyze_function(input: AnalyzeFunctionInput, context: ToolContext) -> ToolResult:
        symbol, *others = await symbols_named(code, input.symbol, code.scope(input.path), context)
        parsed = await asyncio.to_thread(code.parsed, symbol.file.path)
        names, text = [], ""
        if parsed is not None:
            _, facts, source = parsed
            text = "\n".join(source.lines_between(symbol.line, symbol.end_line))
            names = list(dict.fromkeys(call.name for call in facts.calls_within(symbol.line, symbol.end_line)))
        callees = await code.definitions_of_each(names, context)
        callers = await code.calls_of(symbol.name, "", context)
        written, read = _attributes(text)
        raises = dict.fromkeys(found[1] or found[2] for found in _RAISES.finditer(text))
        outside = [name for name in names if name not in {each.name for each in callees}]
        lines = [definition_line(symbol)]
        if symbol.cyclomatic:
            size = symbol.end_line - symbol.line + 1
            lines.append(
                f"{size} lines, cyclomatic complexity {symbol.cyclomatic}, cognitive {symbol.cognitive}, "
                f"nesting {symbol.nesting}"
            )
        for head, words in (("Raises", raises), ("Writes", written), ("Reads", read), ("Calls besides", outside)):
            lines += [f"{head}: {', '.join(words)}"] if words else []
        lines += [f"Callers ({len(callers)}, by name):"]
        lines += [
            f"  {where(call.file, call.line)}: {by.qualified if by else '(module)'}" for call, by in callers[:SHOWN]
        ]
        lines += [f"  [{len(callers) - SHOWN} more: FindReferences]"] if len(callers) > SHOWN else []
        lines += ["Calls:", *(f"  {definition_line(each)}" for each in callees[:SHOWN])] if callees else []
        if others:
            lines.append(f"[{len(others)} more of this name: give a path, or Class.method.]")
        rows = (
            definition_row(symbol),
            *(
                code_row(call.file, call.line, name=by.qualified if by else "", kind="caller")
                for call, by in callers[:SHOWN]
            ),
            *(code_row(each.file, each.line, name=each.qualified, kind="callee") for each in callees[:SHOWN]),
        )
        return await code.answer(lines, rows)

    return analyze_function


def _attributes(text: str) -> tuple[list[str], list[str]]:
    """The attributes of its own object that a function writes, and those that it reads."""
    written: dict[str, None] = {}
    read: dict[str, None] = {}
    for found in _ATTRIBUTE.finditer(text):
        if found[2]:
            written[found[1]] = None
        elif not found[3]:
            read[found[1]] = None
    return list(written), [name for name in read if name not in written]
