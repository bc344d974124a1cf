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
from typing import TYPE_CHECKING

from cellwright.markdown.escaping import fenced, visible_controls
from cellwright.text import lazy_pattern
from cellwright.this_process.late_imports import importing

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline

_MAX_NESTING = 20
"""So deep no answer is; what is deeper, the parser leaves out without a word."""


def safe_markdown(markdown: str) -> str:
    """`markdown` in a form in which nothing is active, images are links, and `safe_markdown` changes nothing more."""
    prepare()
    from cellwright.markdown.active_content import active_parts
    from cellwright.markdown.writer import write

    text = visible_controls(markdown)
    tokens = _parser().parse(text)
    if all(token.level < _MAX_NESTING - 1 for token in tokens):
        written = write(tokens)
        if next(active_parts(written), None) is None:
            return written
    return fenced(text)


def prepare() -> None:
    """Import both parsers: 50 ms that nothing needs before the first answer is saved. From any thread.

    One at a time: of packages that two threads import at once, each can get half.
    """
    with _preparing:
        _prepared()


_preparing = threading.Lock()


@functools.cache
def _prepared() -> None:
    from cellwright.markdown.active_content import active_parts
    from cellwright.markdown.writer import write

    for _ in active_parts(write(_parser().parse("**a** [b](https://c.example), `d` and $e$"))):
        pass


@functools.cache
def _parser() -> MarkdownIt:
    with importing:
        from markdown_it import MarkdownIt

    from cellwright.markdown.mathematics import add_rules

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
