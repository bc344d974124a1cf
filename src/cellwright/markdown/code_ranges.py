"""The places of code in Markdown, wherever CommonMark lets it stand: between fences or backticks."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cellwright.this_process.late_imports import importing

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline

_CODE_SIGNS = ("`", "~~~")

_Range = tuple[int, int]


@functools.lru_cache(maxsize=1)
def without_code(markdown: str) -> str:
    """`markdown` with spaces where code is; everything else stays where it is. Line ends become line feeds.

    Text that is only indented counts as prose: people indent what they mean to be read.
    """
    markdown = markdown.replace("\r\n", "\n").replace("\r", "\n")
    if not any(sign in markdown for sign in _CODE_SIGNS):
        return markdown
    pieces: list[str] = []
    at = 0
    for start, end in _code(markdown):
        pieces += [markdown[at:start], *("\n" if character == "\n" else " " for character in markdown[start:end])]
        at = end
    return "".join([*pieces, markdown[at:]])


def _code(markdown: str) -> Iterator[_Range]:
    """Find the places of code, in order."""
    lines = markdown.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    parser = _parser()
    for token in parser.parse(markdown):
        if token.map is None:
            continue
        first, end = token.map
        if token.type == "fence":
            yield starts[first], min(starts[end], len(markdown))
        elif token.type == "inline":
            places = _char_offsets(token.content, lines, starts, first)
            spans: list[_Range] = []
            parser.inline.parse(token.content, parser, {"spans": spans}, [])
            for opened, closed in spans:
                yield places[opened], places[closed - 1] + 1


def _char_offsets(content: str, lines: list[str], starts: list[int], first: int) -> list[int]:
    """Find the place of each character of an inline token: its lines are those of the source from `first`, without what
    belongs to the blocks around it (indentation, `>`, `- `).
    """
    places: list[int] = []
    for number, line in enumerate(content.split("\n"), first):
        text = line.lstrip()
        begin = starts[number] + max(lines[number].rfind(text), 0)
        places += [begin] * (len(line) - len(text))
        places += range(begin, begin + len(text) + 1)
    return places


@functools.cache
def _parser() -> MarkdownIt:
    # 20 ms; most prompts have no code
    with importing:
        from markdown_it import MarkdownIt
        from markdown_it.rules_inline import backtick

    def noted_backtick(state: StateInline, silent: bool) -> bool:
        start, tokens = state.pos, len(state.tokens)
        taken = backtick(state, silent)
        if len(state.tokens) > tokens and state.tokens[-1].type == "code_inline":
            state.env.get("spans", []).append((start, state.pos))
        return taken

    parser = MarkdownIt("zero").enable(["fence", "blockquote", "list", "heading", "lheading", "hr"])
    # what in a line takes precedence over backticks, or as much as they do
    parser.enable(["backticks", "escape", "autolink", "html_inline"])
    parser.inline.ruler.at("backticks", noted_backtick)
    # the lines of a block are taken apart once, with a list for what is found
    parser.core.ruler.disable("inline")
    return parser
