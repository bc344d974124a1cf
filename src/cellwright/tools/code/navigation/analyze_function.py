"""AnalyzeFunction: one function at a glance: head, callers, callees, what it raises, reads and writes. It only reads."""

from __future__ import annotations

import asyncio
from typing import Annotated, ClassVar

from msgspec import Meta

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.text import lazy_pattern
from cellwright.tools.code.navigation.code_context import symbols_named
from cellwright.tools.code.navigation.find_definitions import Within, definition_line, definition_row
from cellwright.tools.code.navigation.project_code import LIMITS, CodeOutput, ProjectCode, code_row, joined, where
from cellwright.tools.inputs import HERE, SYMBOL_NAMES

SHOWN = 20

DESCRIPTION = """\
Describe a function or method: signature, documentation, callers, calls, exceptions, attributes read and written, and \
complexity."""

_RAISES = lazy_pattern(r"\b(?:raise|throw(?:\s+new)?)\s+([A-Za-z_][\w.:]*)|\b(panic)!?\(")
_ATTRIBUTE = lazy_pattern(
    r"\b(?:self|cls|this)(?:\.|->)(\w+)(\s*(?:\[[^\]]*\])?\s*(?:[-+*/%|&^@]|//|\*\*|<<|>>)?=(?!=))?(\s*\()?"
)


class AnalyzeFunctionInput(ToolInput):
    """The input of AnalyzeFunction."""

    aliases: ClassVar = SYMBOL_NAMES
    symbol: Annotated[str, Meta(min_length=1, description="`name` or `Class.method`.")]
    path: Within = HERE


def analyze_function_tool(code: ProjectCode) -> Tool:
    """AnalyzeFunction, for the code of one project."""

    @tool(
        name="AnalyzeFunction",
        rarely_used=True,
        output=CodeOutput,
        description=DESCRIPTION,
        access=ToolAccess("index", "path"),
        read_only=True,
        category="search",
        best_for="one function at a glance",
        limits=LIMITS,
        examples=[{"symbol": "Server.stop"}],
        title=lambda input: f"Analyze {input.symbol}",
    )
    async def analyze_function(input: AnalyzeFunctionInput, context: ToolContext) -> ToolResult:
        symbol, *others = await symbols_named(code, input.symbol, code.scope(input.path), context)
        parsed = await asyncio.to_thread(code.parsed, symbol.file.path)
        facts, text = None, ""
        if parsed is not None:
            _, facts, source = parsed
            text = "\n".join(source.text.decode("utf-8", "replace").split("\n")[symbol.line - 1 : symbol.end_line])
        within = [] if facts is None else [each for each in facts.calls if symbol.line <= each.line <= symbol.end_line]
        names = list(dict.fromkeys(call.name for call in within))
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
        structured = CodeOutput(rows=rows, total=len(rows), index=await code.state())
        return ToolResult(joined(lines, await code.note()), structured=structured)

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
