"""Markdown of a model or a tool made safe to show to anybody: parsed, written anew, and read by a second parser.

An answer can carry text that came from a web page or a file. What is kept of it in a notebook, an export or a page is
opened where outputs are trusted: HTML would run there, an image would be loaded by everybody who opens it. So nothing is
filtered out of the text; it is written anew from the tokens of a parser, of which only a few kinds are known here. HTML
stays visible, as the text it is.
"""

from __future__ import annotations

import functools
import html
import threading
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from cellwright.markdown.escaping import fenced, visible_controls
from cellwright.text import lazy_pattern
from cellwright.this_process.late_imports import importing

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from mistune import Markdown

_INERT_TAGS = frozenset({"<br>", "<span>", "</span>", "<code>", "</code>"})
"""Without attributes: what `escaping.py` and `writer.py` write where Markdown has no way to say it."""

_MAY_BE_ACTIVE = lazy_pattern(r"<(?!\s)|\[|https?://")
"""The beginnings of HTML, links and images in a line, by the rules of mistune that find them."""

_MAX_NESTING = 20
"""So deep no answer is; what is deeper, the parser leaves out without a word."""


def safe_markdown(markdown: str) -> str:
    """`markdown` in a form in which nothing is active, images are links, and `safe_markdown` changes nothing more."""
    prepare()
    text = visible_controls(markdown)
    written = _written_anew(text)
    return fenced(text) if written is None else written


def _written_anew(text: str) -> str | None:
    from cellwright.markdown.writer import write

    tokens = _parser().parse(text)
    if any(token.level >= _MAX_NESTING - 1 for token in tokens):
        return None
    written = write(tokens)
    return written if next(active_parts(written), None) is None else None


def prepare() -> None:
    """Import both parsers: 50 ms that nothing needs before the first answer is saved. From any thread.

    One at a time: of packages that two threads import at once, each can get half.
    """
    with _preparing:
        _prepared()


_preparing = threading.Lock()


@functools.cache
def _prepared() -> None:
    _written_anew("**a** [b](https://c.example), `d` and $e$")


def active_parts(markdown: str) -> Iterator[str]:
    """Yield what would be more than text where `markdown` is shown: HTML not ours, images, links that lead elsewhere.

    mistune reads it, which shares no line with markdown-it, and with which nbconvert renders. Asked are its tokens, before
    any HTML.
    """
    tokens, _ = _second_parser().parse(markdown)
    assert not isinstance(tokens, str)
    yield from active_tokens(tokens)


def active_tokens(tokens: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what is active in mistune's `tokens`."""
    from cellwright.markdown.writer import destination

    for token in tokens:
        kind = token["type"]
        if kind in ("inline_html", "block_html"):
            if token["raw"] not in _INERT_TAGS:
                yield token["raw"]
        elif kind == "image":
            yield f"![…]({token['attrs']['url']})"
        elif kind == "link" and destination(token["attrs"]["url"]) is None:
            yield f"[…]({token['attrs']['url']})"
        yield from active_tokens(token.get("children", ()))


@functools.cache
def _second_parser() -> Markdown:
    import mistune
    from mistune.plugins import import_plugin

    class Inline(mistune.InlineParser):
        """Takes apart only lines in which something can be active: most are words, and take half of the time."""

        def __call__(self, s: str, env: MutableMapping[str, Any]) -> list[dict[str, Any]]:
            return super().__call__(s, env) if _MAY_BE_ACTIVE.search(s) else []

        def finalize_tokens(self, tokens: list[dict[str, Any]], depth: int) -> list[dict[str, Any]]:
            return tokens  # emphasis puts some of them together, and makes none

    plugins = ("strikethrough", "table", "url", "task_lists", "def_list")
    return mistune.Markdown(inline=Inline(), plugins=[import_plugin(name) for name in plugins])


@functools.cache
def _parser() -> MarkdownIt:
    with importing:
        from markdown_it import MarkdownIt

    from cellwright.markdown.writer import add_rules

    # HTML is no markup but text; every link is read, and the writer judges where it leads
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _MAX_NESTING})
    parser.enable(["table", "strikethrough"])
    parser.disable(["html_block", "html_inline"])  # they would be asked at each place, to say no
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    add_rules(parser)
    parser.inline.ruler.before("autolink", "own_elements", _own_elements)
    return parser


_OWN_ELEMENT = lazy_pattern(r"<code>([^<\n]+)</code>|<span>&#(36|92);</span>")


def _own_elements(state: StateInline, silent: bool) -> bool:
    """Read inline code and dollars where they stand in elements, as we write them, so that they are written so again."""
    if not state.src.startswith(("<code>", "<span>"), state.pos):
        return False
    match = _OWN_ELEMENT.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    if not silent and match[1]:
        state.push("code_inline", "code", 0).content = html.unescape(match[1])
    elif not silent:
        state.pending += chr(int(match[2]))
    state.pos = match.end()
    return True
