"""CallChain: who calls a function, and whom it calls, to a depth, by name. It only reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.codebase.index_reader import IndexedFile, IndexedSymbol
from cellwright.tools.code.navigation.code_context import symbols_named
from cellwright.tools.code.navigation.find_definitions import Within
from cellwright.tools.code.navigation.project_code import LIMITS, CodeOutput, ProjectCode, code_row, joined, where
from cellwright.tools.inputs import HERE, SYMBOL_NAMES

MAX_ROWS = 300

DESCRIPTION = """\
Show who calls a function, or whom it calls, as a tree to a depth. By name: functions of the same name are taken together."""


class CallChainInput(ToolInput):
    """The input of CallChain."""

    aliases: ClassVar = SYMBOL_NAMES
    symbol: Annotated[str, Meta(min_length=1, description="`name` or `Class.method`.")]
    direction: Annotated[Literal["callers", "callees"], Meta(description="Which way to go.")] = "callers"
    depth: Annotated[int, Meta(ge=1, le=6)] = 2
    path: Within = HERE
    limit: Annotated[int, Meta(ge=1, le=MAX_ROWS, description="Rows at most.")] = 100


class _Link(Struct, frozen=True):
    """A call at a place; `next` is the function to go on with, None where there is none."""

    file: IndexedFile
    line: int
    name: str
    next: IndexedSymbol | None


Links = Callable[[IndexedSymbol], Awaitable[list[_Link]]]


def call_chain_tool(code: ProjectCode) -> Tool:
    """CallChain, for the code of one project."""

    @tool(
        name="CallChain",
        rarely_used=True,
        output=CodeOutput,
        description=DESCRIPTION,
        access=ToolAccess("index", "path"),
        read_only=True,
        category="search",
        best_for="who calls what",
        limits=LIMITS,
        examples=[{"symbol": "load_config", "depth": 3}],
        title=lambda input: f"Follow {input.direction} of {input.symbol}",
    )
    async def call_chain(input: CallChainInput, context: ToolContext) -> ToolResult:
        found = await symbols_named(code, input.symbol, code.scope(input.path), context)
        start = found[0]

        async def callers(symbol: IndexedSymbol) -> list[_Link]:
            calls = await code.calls_of(symbol.name, "", context)
            return [
                _Link(call.file, call.line, caller.qualified if caller else "(module)", caller)
                for call, caller in calls
            ]

        async def callees(symbol: IndexedSymbol) -> list[_Link]:
            return await _called(code, symbol, context)

        lines = [f"{where(start.file, start.line)}: {start.kind} {start.qualified}"]
        chain = await _walk(start, callers if input.direction == "callers" else callees, input)
        lines += ["  " * depth + f"{where(link.file, link.line)}: {link.name}{mark}" for depth, link, mark in chain]
        if not chain:
            lines.append(f"No {input.direction} were found.")
        elif len(chain) >= input.limit:
            lines.append("[There may be more: a smaller depth, or a higher limit.]")
        rows = tuple(
            code_row(link.file, link.line, name=link.name, kind="call", depth=depth) for depth, link, _ in chain
        )
        structured = CodeOutput(rows=rows, total=len(rows), index=await code.state())
        return ToolResult(joined(lines, await code.note()), structured=structured)

    return call_chain


async def _called(code: ProjectCode, symbol: IndexedSymbol, context: ToolContext) -> list[_Link]:
    parsed = await asyncio.to_thread(code.parsed, symbol.file.path)
    if parsed is None:
        return []
    file, facts, _ = parsed
    within = [call for call in facts.calls if symbol.line <= call.line <= symbol.end_line]
    targets = {
        each.name: each
        for each in await code.definitions_of_each(list(dict.fromkeys(call.name for call in within)), context)
    }
    first = {call.name: call for call in reversed(within)}
    return [
        _Link(
            file,
            call.line,
            f"{targets[name].qualified} ({where(targets[name].file, targets[name].line)})",
            targets[name],
        )
        for name, call in sorted(first.items(), key=lambda item: item[1].line)
        if name in targets
    ]


async def _walk(start: IndexedSymbol, links: Links, input: CallChainInput) -> list[tuple[int, _Link, str]]:
    """The links in the order of a tree, each with its depth; a function is gone on from once."""
    chain: list[tuple[int, _Link, str]] = []
    seen = {(start.file.path, start.qualified)}

    async def visit(symbol: IndexedSymbol, depth: int) -> None:
        for link in await links(symbol):
            if len(chain) >= input.limit:
                return
            following = link.next
            key = None if following is None else (following.file.path, following.qualified)
            known = key in seen
            chain.append((depth, link, " (see above)" if known and depth < input.depth else ""))
            if following is not None and key is not None and not known and depth < input.depth:
                seen.add(key)
                await visit(following, depth + 1)

    await visit(start, 1)
    return chain
