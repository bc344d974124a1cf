"""The project's code that fits a prompt best, attached to it where the user wants that (`--context code`).

Found as `SemanticSearch` finds it, within bounds of lines. What Claude may not read unasked is not in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from cellwright.agent.prompt import ContextItem, ContextItems, PromptContext, text_context
from cellwright.agent.tool import ToolContext, ToolResult
from cellwright.codebase.source_file import SourceText, largest_of, place_in, source_text
from cellwright.conversation.feature import refusal, unheard, without_secrets
from cellwright.errors import ToolError
from cellwright.text import counted, lazy_pattern
from cellwright.tools.code.navigation.project_code import CodeOutput, CodeRow
from cellwright.tools.code.navigation.search_code import SEMANTIC_SEARCH

FILE_LINES = 500
"""Around the hits in one file."""

BESIDE_LINES = 3

TAG = "project_code"
_FILE_NAME = lazy_pattern(r"[\w./-]*\w\.\w{1,6}\b")

Span = tuple[int, int]


async def code_context(cwd: Path, prompt_context: PromptContext, *, asked_for: bool = True) -> ContextItems:
    """Find the code below `cwd` that fits the words of a prompt.

    Not `asked_for`, but wanted by a setting: fewer places of it, and no notice if there are none.
    """
    # fewer hits if a setting wants the code, and not the prompt
    found = await _code_context(cwd, prompt_context, 20 if asked_for else 10)
    return found if asked_for or found.before else ContextItems()


async def _code_context(cwd: Path, prompt_context: PromptContext, hits: int) -> ContextItems:
    words = prompt_context.words.strip()
    tool = prompt_context.tools.get(SEMANTIC_SEARCH)
    if not words or tool is None:
        return ContextItems()
    given = {"query": words[:2_000], "limit": hits, "min_score": 0.4}
    if why := refusal(prompt_context, tool, given):
        return ContextItems(notices=(f"--context code: no code was attached. {why}",))
    may_read = prompt_context.agent.policy.may_read
    context = ToolContext("context", unheard, session_id=prompt_context.session.id, may_read=may_read)
    try:
        result = await tool.call(given, context)
    except ToolError as error:
        return ContextItems(notices=(f"--context code: no code was attached. {error.message}",))
    output = result.structured if isinstance(result, ToolResult) else None
    rows = output.rows if isinstance(output, CodeOutput) else ()
    named = [path for path in _named_files(cwd, words) if may_read(str(cwd / path))]
    text, places, files = await asyncio.to_thread(_attached, cwd, rows, named[:hits])
    if not text:
        # no warning: it is what becomes of every prompt that is not about the code
        return ContextItems(before=(ContextItem("No code of this project fits the prompt", "context", ()),))
    text, notices = await without_secrets(text, prompt_context, "the project's code")
    title = f"Code that fits: {counted(places, 'place')} in {counted(files, 'file')}"
    closed = text.replace(f"</{TAG}", f"<\\/{TAG}")
    opening = f'<{TAG} found="by a search for the words of the prompt; it may have nothing to do with it">'
    block = text_context(title, "context", f"{opening}\n{closed}\n</{TAG}>")
    return ContextItems(before=(block,), notices=tuple(notices))


def _named_files(cwd: Path, words: str) -> list[str]:
    """The files that the prompt names by their path, without an @, which attaches them itself."""
    found = []
    for match in _FILE_NAME.finditer(words):
        name = match[0].removeprefix("./")
        if words[match.start() - 1 : match.start()] != "@" and ".." not in name and (cwd / name).is_file():
            found.append(name)
    return list(dict.fromkeys(found))


def _attached(cwd: Path, rows: Sequence[CodeRow], named: Iterable[str]) -> tuple[str, int, int]:
    """The text, and how many places of how many files are in it. The best hits come first, each file once."""
    paths = dict.fromkeys((*named, *(row.path for row in rows)))
    sources = {path: source for path in paths if (source := _source(cwd, path)) is not None}
    spans = _spans(sources, rows)
    blocks: list[str] = []
    size = places = 0
    for path, taken in spans.items():
        merged = _merged(taken)
        source, parts = sources[path], []
        for first, end in merged:
            lines = enumerate(source.lines_between(first, end), start=first)
            body = "\n".join(f"{number:6d}\t{line[:300]}" for number, line in lines)
            parts.append(f"{path}{place_in(source.cells, first)}\n{body}")
        block = "\n".join(parts)
        if size + len(block) > 120_000:
            block = f"{path}: found, but there is no room for it here."
        elif not block:
            continue
        else:
            places += len(merged)
        size += len(block)
        blocks.append(block)
    return "\n\n".join(blocks), places, len(blocks)


def _spans(sources: Mapping[str, SourceText], rows: Sequence[CodeRow]) -> dict[str, list[Span]]:
    """The lines to show of each file; of one that has no hit the beginning."""
    spans: dict[str, list[Span]] = {path: [] for path in sources}
    left = 5_000  # lines
    for row in rows:
        if row.path in sources:
            taken = spans[row.path]
            room = min(FILE_LINES - sum(end - first + 1 for first, end in taken), left)
            first, end = _span(sources[row.path], row)
            end = min(end, first + room - 1)
            if end >= first:
                taken.append((first, end))
                left -= end - first + 1
    for path, taken in spans.items():
        if not taken:
            taken.append((1, min(sources[path].lines, FILE_LINES, max(left, 1))))
    return spans


def _source(cwd: Path, path: str) -> SourceText | None:
    pure = PurePosixPath(path)
    try:
        return source_text(pure, (cwd / path).read_bytes()) if (cwd / path).stat().st_size <= largest_of(pure) else None
    except OSError:
        return None


def _span(source: SourceText, row: CodeRow) -> Span:
    """The lines of a hit with some beside it; of a notebook, those to the end of its cell."""
    if row.cell is None:
        last = row.end_line or row.line
        return max(row.line - BESIDE_LINES, 1), min(last + BESIDE_LINES, source.lines)
    begins = source.cells[row.cell - 1] if row.cell <= len(source.cells) else 1
    ends = source.cells[row.cell] - 1 if row.cell < len(source.cells) else source.lines
    return begins + row.line - 1, ends


def _merged(spans: Sequence[Span]) -> list[Span]:
    merged: list[Span] = []
    for first, end in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((first, end))
    return merged
