"""The prose of a Markdown text: code, formulas, addresses and file names are hidden, each character in its place.

`without_code` hides code alone, wherever CommonMark lets it stand.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cellwright.text import lazy_pattern
from cellwright.this_process.late_imports import importing

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline


HIDDEN = "\0"
"""Stands for each character of what is no prose: code, formulas, addresses, file names."""
LINE_CHARS = 4_000

_FILE_ENDING = lazy_pattern(
    r"\.(?:csv|tsv|txt|md|rst|py|pyi|ipynb|json|jsonl|ya?ml|toml|cfg|ini|parquet|feather|arrow|h5|hdf5|nc|npy|npz|pkl|pickle|xlsx?|"
    r"db|sqlite|sql|png|jpe?g|gif|svg|pdf|html?|css|js|ts|tsx|sh|zip|gz|tar|log|r|jl|ipynb_checkpoints)\b",
    re.IGNORECASE,
)
_ADDRESS = lazy_pattern(r"(?:https?|ftp|file|s3|gs)://[^\s\0)>\]]{1,2000}|\bwww\.[^\s\0)>\]]{1,2000}")
_TAG = lazy_pattern(
    r"</?[A-Za-z][^<>\n]{0,1000}>"
    r"|<[A-Za-z][\w-]{0,30}"  # over several lines, so with what attributes look like
    r"(?:\s{1,200}[\w:-]{1,60}(?:=(?:\"[^\"<>]{0,1000}\"|'[^'<>]{0,1000}'|[^\s\"'<>]{1,200}))?){1,30}\s{0,200}/?>"
)
_FENCE = lazy_pattern(r" {0,3}(?:> ?){0,4}(`{3,40}|~{3,40})")
_FORMULA_SIGNS = frozenset("\\^_={")
_PATH_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./\\~")

_CODE_SIGNS = ("`", "~~~")

_Range = tuple[int, int]


def prose_of(text: str) -> str:
    """Return `text`, as long as it is, with all that is no prose hidden, each character by HIDDEN.

    >>> prose_of("See `x = 3` and https://a.b/7 now").replace(HIDDEN, "_")
    'See _______ and _____________ now'
    """
    lines = text.split("\n")
    fence = ""
    for number, line in enumerate(lines):
        opened = _FENCE.match(line)
        if fence:
            closes = opened is not None and opened[1].startswith(fence) and not line[opened.end() :].strip()
            lines[number] = HIDDEN * len(line)
            fence = "" if closes else fence
        elif opened is not None and "`" not in line[opened.end() :]:
            fence = opened[1]
            lines[number] = HIDDEN * len(line)
        elif len(line) > LINE_CHARS:
            lines[number] = line[:LINE_CHARS] + HIDDEN * (len(line) - LINE_CHARS)
    prose = _without_pairs(_without_comments("\n".join(lines)))
    prose = _TAG.sub(lambda match: "".join("\n" if char == "\n" else HIDDEN for char in match[0]), prose)
    # it would take a quote or a bracket of a tag along
    prose = _ADDRESS.sub(lambda match: HIDDEN * len(match[0]), prose)
    prose = _without_link_targets(prose)
    return _without_file_names(prose)


def _without_comments(text: str) -> str:
    parts, at = [], 0
    while (start := text.find("<!--", at)) >= 0:
        end = text.find("-->", start)
        end = len(text) if end < 0 else end + 3
        parts += [text[at:start], "".join("\n" if char == "\n" else HIDDEN for char in text[start:end])]
        at = end
    return "".join([*parts, text[at:]])


def _without_pairs(text: str) -> str:
    """Return `text` without inline code and formulas."""
    parts: list[str] = []
    for paragraph in text.split("\n\n"):
        hidden = _hide_between(paragraph, _code_spans(paragraph))
        hidden = _hide_between(hidden, _formulas(hidden))
        parts.append(hidden)
    return "\n\n".join(parts)


def _hide_between(text: str, spans: Iterator[tuple[int, int]]) -> str:
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], "".join("\n" if char == "\n" else HIDDEN for char in text[start:end])]
        at = end
    return "".join([*parts, text[at:]]) if parts else text


def _code_spans(text: str) -> Iterator[tuple[int, int]]:
    ticks = list(re.finditer("`{1,200}", text))
    closers: dict[int, list[int]] = {}  # of each length, the last first
    for index in range(len(ticks) - 1, -1, -1):
        closers.setdefault(len(ticks[index][0]), []).append(index)
    index = 0
    while index < len(ticks):
        same = closers[len(ticks[index][0])]
        while same and same[-1] <= index:
            same.pop()
        if same:
            yield ticks[index].start(), ticks[same[-1]].end()
            index = same[-1]
        index += 1


def _formulas(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(text):
        found = _OPENINGS.search(text, at)
        start = found.start() if found else -1
        if start < 0:
            return
        if text.startswith("\\", start):
            closing = "\\)" if text[start + 1] == "(" else "\\]"
            end = text.find(closing, start + 2, start + LINE_CHARS)
            width = 2
        elif text.startswith("$$", start):
            end, width = text.find("$$", start + 2, start + LINE_CHARS), 2
        else:
            end, width = text.find("$", start + 1, start + 400), 1
            inside = text[start + 1 : end] if end > 0 else ""
            spaced = not inside or inside[0].isspace() or inside[-1].isspace() or "\n" in inside
            if spaced or not _FORMULA_SIGNS.intersection(inside) or text[end + 1 : end + 2].isdigit():
                at = start + 1
                continue
        if end < 0:
            at = start + width
            continue
        yield start, end + width
        at = end + width


_OPENINGS = lazy_pattern(r"\$|\\[(\[]")


def _without_link_targets(text: str) -> str:
    def spans() -> Iterator[tuple[int, int]]:
        at = 0
        while (start := text.find("](", at)) >= 0:
            end = text.find(")", start, start + 2_000)
            line_end = text.find("\n", start, start + 2_000)
            if end < 0 or 0 <= line_end < end:
                at = start + 2
                continue
            yield start + 1, end + 1
            at = end + 1

    return _hide_between(text, spans())


def _without_file_names(text: str) -> str:
    def spans() -> Iterator[tuple[int, int]]:
        last = 0
        for ending in _FILE_ENDING.finditer(text):
            start = ending.start()
            while start > max(last, ending.start() - 200) and text[start - 1] in _PATH_CHARS:
                start -= 1
            if start < ending.start():
                yield start, ending.end()
                last = ending.end()

    return _hide_between(text, spans())


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
