"""The second parser: it names what is active in Markdown, which is HTML not ours, images, links that lead elsewhere.

mistune shares no line with markdown-it, and nbconvert renders with it. Asked are its tokens, before any HTML.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from cellwright.markdown.links import destination
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from mistune import Markdown

_INERT_TAGS = frozenset({"<br>", "<span>", "</span>", "<code>", "</code>"})
"""Without attributes: what `escaping.py` and `writer.py` write where Markdown has no way to say it."""


def active_parts(markdown: str) -> Iterator[str]:
    """Yield what would be more than text where `markdown` is shown."""
    tokens, _ = _parser().parse(markdown)
    assert not isinstance(tokens, str)
    yield from active_tokens(tokens)


def active_tokens(tokens: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what is active in mistune's `tokens`."""
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


_MAY_BE_ACTIVE = lazy_pattern(r"<(?!\s)|\[|https?://")
"""The beginnings of HTML, links and images in a line, by the rules of mistune that find them."""


@functools.cache
def _parser() -> Markdown:
    import mistune  # with the parser: nothing needs it before the first answer is saved
    from mistune.plugins import import_plugin

    class Inline(mistune.InlineParser):
        """Takes apart only lines in which something can be active: most are words, and take half of the time."""

        def __call__(self, s: str, env: MutableMapping[str, Any]) -> list[dict[str, Any]]:
            return super().__call__(s, env) if _MAY_BE_ACTIVE.search(s) else []

        def finalize_tokens(self, tokens: list[dict[str, Any]], depth: int) -> list[dict[str, Any]]:
            return tokens  # emphasis puts some of them together, and makes none

    plugins = ("strikethrough", "table", "url", "task_lists", "def_list")
    return mistune.Markdown(inline=Inline(), plugins=[import_plugin(name) for name in plugins])
