"""SimilarCode: functions and classes that are like a piece of code, copies with other names included. It only reads."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Annotated, ClassVar

from msgspec import Meta

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.codebase.index_reader import Hit
from cellwright.errors import ErrorCode, ToolError
from cellwright.text import lazy_pattern
from cellwright.tools.code.navigation.code_context import symbols_named
from cellwright.tools.code.navigation.find_definitions import Within
from cellwright.tools.code.navigation.project_code import LIMITS, CodeOutput, ProjectCode, code_row, joined, where
from cellwright.tools.inputs import HERE, SYMBOL_NAMES

CANDIDATES = 300
SHINGLE = 4
"""Tokens that are compared together."""

DESCRIPTION = """\
Find functions and classes that are like a snippet or like a function of the project: duplicates, and other places that do \
the same. Names of variables do not count, the order of tokens does."""

_TOKEN = lazy_pattern(r"[^\W\d]\w*|\d[\w.]*|\"[^\"\n]*\"|'[^'\n]*'|[^\s\w]")
_KEYWORDS = frozenset(
    {"if", "else", "elif", "for", "while", "return", "def", "class", "function", "func", "fn", "try", "except", "catch"}
    | {
        "raise",
        "throw",
        "with",
        "async",
        "await",
        "import",
        "from",
        "in",
        "not",
        "and",
        "or",
        "is",
        "new",
        "let",
        "const",
    }
    | {"var", "switch", "case", "match", "break", "continue", "yield", "lambda", "struct", "impl", "public", "static"}
    | {"void", "int", "None", "null", "nil", "True", "False", "true", "false", "self", "this", "finally", "defer", "go"}
)


class SimilarCodeInput(ToolInput):
    """The input of SimilarCode."""

    aliases: ClassVar = SYMBOL_NAMES
    snippet: Annotated[str, Meta(min_length=1, description="The code, or leave it out for symbol.")] | None = None
    symbol: Annotated[str, Meta(min_length=1, description="A function or class of the project.")] | None = None
    path: Within = HERE
    limit: Annotated[int, Meta(ge=1, le=50, description="Hits at most.")] = 10
    min_score: Annotated[float, Meta(ge=0, le=1, description="1 is the same but for names.")] = 0.2


def similar_code_tool(code: ProjectCode) -> Tool:
    """SimilarCode, for the code of one project."""

    @tool(
        name="SimilarCode",
        rarely_used=True,
        output=CodeOutput,
        description=DESCRIPTION,
        access=ToolAccess("index", "path"),
        read_only=True,
        category="search",
        best_for="duplicates",
        limits=LIMITS,
        examples=[{"symbol": "parse_header"}],
        title=lambda input: f"Find code like {input.symbol or 'a snippet'}",
    )
    async def similar_code(input: SimilarCodeInput, context: ToolContext) -> ToolResult:
        if (input.snippet is None) == (input.symbol is None):
            raise ToolError("Give either snippet or symbol.", code=ErrorCode.INVALID_PARAMETERS)
        under = code.scope(input.path)
        own = ("", 0)
        text = input.snippet or ""
        if input.symbol is not None:
            symbol = (await symbols_named(code, input.symbol, "", context))[0]
            own = (symbol.file.path, symbol.line)
            text = await asyncio.to_thread(_text, code, symbol.file.path, symbol.line, symbol.end_line)
        else:
            await code.refresh()
        query = " ".join(list(dict.fromkeys(re.findall(r"[^\W\d]\w{2,}", text)))[:60])
        hits = await code.ask(lambda reader: reader.lexical(query, under, (), CANDIDATES)) or []
        hits = code.readable(hits, context, lambda hit: hit.file.path)
        hits = [hit for hit in hits if (hit.file.path, hit.line) != own and hit.qualified and hit.kind != "heading"]
        scored = await asyncio.to_thread(_scored, code, hits, text)
        chosen = [(score, hit) for score, hit in scored if score >= input.min_score]
        lines = [
            f"{where(hit.file, hit.line)}-{hit.end_line}: {score:.2f} {hit.kind} {hit.qualified}"
            for score, hit in chosen
        ]
        lines = lines[: input.limit] or ["Nothing is like it."]
        rows = [
            code_row(hit.file, hit.line, end_line=hit.end_line, name=hit.qualified, kind=hit.kind, score=score)
            for score, hit in chosen[: input.limit]
        ]
        whole = await code.ask(lambda reader: reader.texts_are_complete())
        note = "" if whole else f"[{_reason(code)} there may be more.]"
        structured = CodeOutput(rows=tuple(rows), total=len(chosen), index=await code.state())
        return ToolResult(joined(lines, note), structured=structured)

    return similar_code


def _reason(code: ProjectCode) -> str:
    return f"There is no index ({code.problem}):" if code.problem else "The index is still being built:"


def _text(code: ProjectCode, path: str, first: int, last: int) -> str:
    source = code.source(path)
    return "" if source is None else "\n".join(source.text.decode("utf-8", "replace").split("\n")[first - 1 : last])


def _scored(code: ProjectCode, hits: Sequence[Hit], text: str) -> list[tuple[float, Hit]]:
    wanted = _shingles(text)
    texts = [(hit, _shingles(_text(code, hit.file.path, hit.line, hit.end_line))) for hit in hits]
    scored = [(round(len(wanted & other) / (len(wanted | other) or 1), 3), hit) for hit, other in texts]
    return sorted(scored, key=lambda pair: (-pair[0], pair[1].file.path, pair[1].line))


def _shingles(text: str) -> set[tuple[str, ...]]:
    """Runs of tokens, each name and value standing for any."""
    tokens = [_token(found) for found in _TOKEN.findall(text)]
    return {tuple(tokens[at : at + SHINGLE]) for at in range(max(len(tokens) - SHINGLE + 1, 1))}


def _token(text: str) -> str:
    if text in _KEYWORDS or not (text[0].isalnum() or text[0] in "_\"'"):
        return text
    return "0" if text[0].isdigit() else "''" if text[0] in "\"'" else "x"
