"""The second parser: it names what is active in Markdown, which is HTML not ours, images, links that lead elsewhere.

mistune shares no line with markdown-it, and nbconvert renders with it. Asked are its tokens, before any HTML.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cellwright.markdown.links import destination

if TYPE_CHECKING:
    from mistune import Markdown

_INERT_TAGS = frozenset({"<br>", "<span>", "</span>", "<code>", "</code>"})
"""Without attributes: what `escaping.py` and `writer.py` write where Markdown has no way to say it."""


def active_parts(markdown: str) -> Iterator[str]:
    """Yield what would be more than text where `markdown` is shown."""
    tokens, _ = _parser().parse(markdown)
    assert not isinstance(tokens, str)
    yield from _active(tokens)


def _active(tokens: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for token in tokens:
        kind = token["type"]
        if kind in ("inline_html", "block_html"):
            if token["raw"] not in _INERT_TAGS:
                yield token["raw"]
        elif kind == "image":
            yield f"![…]({token['attrs']['url']})"
        elif kind == "link" and destination(token["attrs"]["url"]) is None:
            yield f"[…]({token['attrs']['url']})"
        yield from _active(token.get("children", ()))


@functools.cache
def _parser() -> Markdown:
    import mistune  # with the parser: nothing needs it before the first answer is saved

    return mistune.create_markdown(
        escape=False, renderer=None, plugins=["strikethrough", "table", "url", "task_lists", "def_list"]
    )
