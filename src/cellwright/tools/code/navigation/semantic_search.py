"""SemanticSearch: the functions, classes and sections that fit a question, by words and by meaning. It only reads."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Annotated

from msgspec import Meta

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.codebase.index_reader import Hit
from cellwright.codebase.parsing.source_file import language_of
from cellwright.codebase.search_units import searchable
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.code.navigation.find_definitions import Within
from cellwright.tools.code.navigation.project_code import (
    LIMITS,
    PARSED_FILES,
    CodeOutput,
    CodeRow,
    ProjectCode,
    code_row,
    joined,
    where,
)
from cellwright.tools.inputs import HERE, MAX_GLOBS, Globs
from cellwright.tools.search.ripgrep import checked_globs

SEMANTIC_SEARCH = "SemanticSearch"
CANDIDATES = 1_000
LINE_CHARS = 200

DESCRIPTION = """\
Find the functions, classes and sections of documents that fit a question or words: "where are uploads retried", when you \
do not know the names. It goes by words and the parts of identifiers (retry_upload: retry, upload), in any order, and by \
meaning where the user has set up an embedding; use words that the code itself would use."""


class SemanticSearchInput(ToolInput):
    """The input of SemanticSearch."""

    query: Annotated[str, Meta(min_length=1, description="What the code does, in words it would use.")]
    path: Within = HERE
    limit: Annotated[int, Meta(ge=1, le=100, description="Hits at most.")] = 10
    language: Annotated[str, Meta(min_length=1, description="Only this: Python, TypeScript, Markdown.")] | None = None
    glob: Annotated[str, Meta(min_length=1, description="Only such files: `*.py`, `tests/**`.")] | None = None
    exclude: Annotated[Globs, Meta(max_length=MAX_GLOBS, description="Files and folders to leave out.")] = ()
    min_score: Annotated[float, Meta(ge=0, le=1, description="Only hits this near to the best one (1).")] = 0.0
    context_lines: Annotated[int, Meta(ge=5, le=100, description="Lines of each hit.")] = 15


def semantic_search_tool(code: ProjectCode) -> Tool:
    """SemanticSearch, for the code of one project."""

    @tool(
        name=SEMANTIC_SEARCH,
        other_names=(
            "codebase_search",
            "code_search",
            "search_code",
        ),
        rarely_used=True,
        output=CodeOutput,
        description=DESCRIPTION,
        access=ToolAccess("index", "path"),
        read_only=True,
        category="search",
        best_for="code by what it does",
        limits=LIMITS,
        examples=[{"query": "retry upload after timeout", "glob": "*.py"}],
        title=lambda input: f"Search for “{input.query}”",
    )
    async def semantic_search(input: SemanticSearchInput, context: ToolContext) -> ToolResult:
        under = code.scope(input.path)
        accepts = _filter(input)
        languages = [] if input.language is None else _languages(input.language)
        await code.refresh()
        found, note = await code.fitting(input.query, under, languages, CANDIDATES)
        whole = await code.ask(lambda reader: reader.texts_are_complete())
        if found is None or not whole:
            found, note = [*(found or ()), *await _unindexed(code, input, under, languages)], await _note(code)
        found = [hit for hit in found if hit.score >= input.min_score and accepts(hit.file.path)]
        found = code.readable(found, context, lambda hit: hit.file.path)
        best = _distinct(found)[: input.limit]
        shown = await asyncio.to_thread(lambda: [now for hit in best if (now := code.fresh_hit(hit)) is not None])
        blocks = await asyncio.to_thread(lambda: [_block(code, hit, input.context_lines) for hit in shown])
        if not shown:
            blocks = [f"Nothing fits {input.query!r}. Try other words, or Grep."]
        structured = CodeOutput(rows=tuple(map(_row, shown)), total=len(found), index=await code.state())
        return ToolResult(joined(["\n\n".join(blocks)], note), structured=structured)

    return semantic_search


async def _note(code: ProjectCode) -> str:
    status = await code.status()
    if code.problem:
        return f"[There is no index ({code.problem}): only files with a word of the query were looked at.]"
    share = "its texts" if status.complete else f"{status.share:.0%}"
    return f"[The index is still being built ({share}): there may be better hits in a moment.]"


def _languages(name: str) -> list[str]:
    wanted = name.lower()
    every = {language_of(PurePosixPath(f"a{suffix}")) for suffix in _SUFFIXES}
    same = {"js": "javascript", "ts": "typescript", "py": "python", "cpp": "c++", "golang": "go", "md": "markdown"}
    wanted = same.get(wanted, wanted)
    found = [each for each in every if each.lower() == wanted]
    if not found:
        raise ToolError(
            f"Language {name!r} was not found. Available: {', '.join(sorted(every))}.",
            code=ErrorCode.INVALID_PARAMETERS,
        )
    # notebooks hold Python, and .tsx is TypeScript to those who write it
    return [*found, *({"Python": ["notebook"], "TypeScript": ["TSX"]}.get(found[0], []))]


_SUFFIXES = (".py", ".js", ".ts", ".tsx", ".go", ".java", ".rs", ".c", ".cpp", ".sh", ".md", ".ipynb", ".txt")


def _filter(input: SemanticSearchInput) -> Callable[[str], bool]:
    wanted = None if input.glob is None else checked_globs([input.glob])
    excluded = [checked_globs([glob.removesuffix("/").removesuffix("/**")]) for glob in input.exclude]

    def accepts(path: str) -> bool:
        if wanted is not None and not wanted(path):
            return False
        parts = path.split("/")
        above = ["/".join(parts[: end + 1]) for end in range(len(parts))]
        return not any(each(part) for each in excluded for part in above)

    return accepts


def _distinct(hits: Sequence[Hit]) -> list[Hit]:
    """The hits, each without those that lie in a better one."""
    kept: list[Hit] = []
    for hit in hits:
        if not any(hit.file.path == each.file.path and each.line <= hit.line <= each.end_line for each in kept):
            kept.append(hit)
    return kept


async def _unindexed(code: ProjectCode, input: SemanticSearchInput, under: str, languages: Sequence[str]) -> list[Hit]:
    """Hits in files that hold words of the query, counted as they come: for the time until there is an index."""
    words = sorted({word.lower() for word in searchable(input.query).split() if len(word) > 2}, key=len, reverse=True)[
        :8
    ]
    if not words:
        return []
    paths = await code.files_with(f"(?i){'|'.join(map(re.escape, words))}", under, fixed=False)
    return await asyncio.to_thread(_counted, code, paths[:PARSED_FILES], words, languages)


def _counted(code: ProjectCode, paths: Sequence[str], words: Sequence[str], languages: Sequence[str]) -> list[Hit]:
    hits: list[Hit] = []
    for path in paths:
        if (parsed := code.parsed(path)) is None or (languages and parsed[0].language not in languages):
            continue
        file, facts, source = parsed
        lines = source.text.decode("utf-8", "replace").lower().split("\n")
        for symbol in facts.symbols:
            text = "\n".join(lines[symbol.line - 1 : symbol.end_line])
            share = sum(word in text for word in words) / len(words)
            if share and symbol.kind not in ("class", "variable", "macro"):
                hits.append(Hit(symbol.line, symbol.end_line, round(share, 4), file, symbol.qualified, symbol.kind))
    return sorted(hits, key=lambda hit: -hit.score)[:CANDIDATES]


def _block(code: ProjectCode, hit: Hit, lines: int) -> str:
    """A hit with its first lines, as they are now."""
    head = (
        f"{where(hit.file, hit.line)}-{hit.end_line} ({hit.score:.2f})"
        if not hit.file.cells
        else where(hit.file, hit.line)
    )
    head += f": {hit.kind} {hit.qualified}" if hit.qualified else ""
    source = code.source(hit.file.path)
    if source is None:
        return f"{head}\n[gone]"
    text = source.text.decode("utf-8", "replace").split("\n")
    last = min(hit.end_line, hit.line + lines - 1)
    body = [
        f"{number:6d}\t{line[:LINE_CHARS]}" for number, line in enumerate(text[hit.line - 1 : last], start=hit.line)
    ]
    return "\n".join([head, *body])


def _row(hit: Hit) -> CodeRow:
    return code_row(hit.file, hit.line, end_line=hit.end_line, name=hit.qualified, kind=hit.kind, score=hit.score)
