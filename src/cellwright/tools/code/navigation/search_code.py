"""SemanticSearch and SimilarCode: code that fits a question, by words and by meaning, or is like a piece of code.

They only read. Copies with other names are found, too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Annotated, ClassVar

from msgspec import Meta
from msgspec.structs import replace

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.tool import Tool, ToolContext, ToolResult
from cellwright.codebase.index_reader import Hit
from cellwright.codebase.source_file import language_of, searchable
from cellwright.errors import ErrorCode, ToolError
from cellwright.text import lazy_pattern
from cellwright.tools.code.navigation.code_context import symbols_named
from cellwright.tools.code.navigation.find_names import Within
from cellwright.tools.code.navigation.project_code import (
    PARSED_FILES,
    CodeRow,
    ProjectCode,
    code_row,
    index_tool,
    where,
)
from cellwright.tools.inputs import HERE, MAX_GLOBS, SYMBOL_NAMES, Globs
from cellwright.tools.search.ripgrep import checked_globs

SHINGLE = 4
"""Tokens that are compared together."""

SIMILAR_DESCRIPTION = """\
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

SEMANTIC_SEARCH = "SemanticSearch"
CANDIDATES = 1_000
LINE_CHARS = 200

SEMANTIC_DESCRIPTION = """\
Find the functions, classes and sections of documents that fit a question or words: "where are uploads retried", when you \
do not know the names. It goes by words and the parts of identifiers (retry_upload: retry, upload), in any order, and by \
meaning where the user has set up an embedding; use words that the code itself would use."""


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

    @index_tool(
        name="SimilarCode",
        description=SIMILAR_DESCRIPTION,
        best_for="duplicates",
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
        hits = await code.ask(lambda reader: reader.lexical(query, under, (), 300)) or []
        hits = code.readable(hits, context, lambda hit: hit.file.path)
        hits = [hit for hit in hits if (hit.file.path, hit.line) != own and hit.qualified and hit.kind != "heading"]
        scored = await asyncio.to_thread(_scored, code, hits, text)
        chosen = [hit for hit in scored if hit.score >= input.min_score]
        shown = chosen[: input.limit]
        lines = [
            f"{where(hit.file, hit.line)}-{hit.end_line}: {hit.score:.2f} {hit.kind} {hit.qualified}" for hit in shown
        ] or ["Nothing is like it."]
        whole = await code.ask(lambda reader: reader.texts_are_complete())
        reason = f"There is no index ({code.problem}):" if code.problem else "The index is still being built:"
        note = "" if whole else f"[{reason} there may be more.]"
        return await code.answer(lines, [_row(hit) for hit in shown], len(chosen), note)

    return similar_code


def _text(code: ProjectCode, path: str, first: int, last: int) -> str:
    source = code.source(path)
    return "" if source is None else "\n".join(source.lines_between(first, last))


def _scored(code: ProjectCode, hits: Sequence[Hit], text: str) -> list[Hit]:
    """The hits by their likeness to `text`, which is their score."""
    wanted = _shingles(text)
    texts = [(hit, _shingles(_text(code, hit.file.path, hit.line, hit.end_line))) for hit in hits]
    scored = [replace(hit, score=round(len(wanted & other) / (len(wanted | other) or 1), 3)) for hit, other in texts]
    return sorted(scored, key=lambda hit: (-hit.score, hit.file.path, hit.line))


def _shingles(text: str) -> set[tuple[str, ...]]:
    """Runs of tokens, each name and value standing for any."""
    tokens = [_token(found) for found in _TOKEN.findall(text)]
    return {tuple(tokens[at : at + SHINGLE]) for at in range(max(len(tokens) - SHINGLE + 1, 1))}


def _token(text: str) -> str:
    if text in _KEYWORDS or not (text[0].isalnum() or text[0] in "_\"'"):
        return text
    return "0" if text[0].isdigit() else "''" if text[0] in "\"'" else "x"


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

    @index_tool(
        name=SEMANTIC_SEARCH,
        other_names=(
            "codebase_search",
            "code_search",
            "search_code",
        ),
        description=SEMANTIC_DESCRIPTION,
        best_for="code by what it does",
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
        return await code.answer(["\n\n".join(blocks)], [_row(hit) for hit in shown], len(found), note)

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
    text = source.lines_between(hit.line, min(hit.end_line, hit.line + lines - 1))
    body = [f"{number:6d}\t{line[:LINE_CHARS]}" for number, line in enumerate(text, start=hit.line)]
    return "\n".join([head, *body])


def _row(hit: Hit) -> CodeRow:
    return code_row(hit.file, hit.line, end_line=hit.end_line, name=hit.qualified, kind=hit.kind, score=hit.score)
