"""Destinations a link may have, and what is active in Markdown: HTML not ours, images, links that lead elsewhere.

mistune shares no line with markdown-it, and nbconvert renders with it. Asked are its tokens, before any HTML.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from mistune import Markdown


_SCHEME = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.-]*:")
_FOLLOWED = lazy_pattern(r"https?://[^/?#\s]|mailto:[^\s]", re.IGNORECASE)
# none of these ends a destination, opens code, a formula, emphasis or a placeholder of JupyterLab's for a formula
_KEPT = "%:/?#&=+,;._~@-"
_ENTITY = lazy_pattern(r"&(?=#?\w+;)")
_WRITTEN_OUT = lazy_pattern(r"(?<![\w:])https?://[^\s<>\"'`\\^{}|\[\]$*]+", re.IGNORECASE)
_NOT_ITS_END = "?!.,:;_~'\""
_MAX_CHARS = 8_000

_INERT_TAGS = frozenset({"<br>", "<span>", "</span>", "<code>", "</code>"})
"""Without attributes: what `escaping.py` and `writer.py` write where Markdown has no way to say it."""


def destination(address: str) -> str | None:
    """`address` as a link's destination in Markdown; None for one that a click must not follow."""
    address = address.strip()
    if not address or len(address) > _MAX_CHARS or not (_FOLLOWED.match(address) or _is_below(address)):
        return None
    encoded = quote(address, safe=_KEPT, errors="replace").replace("@@", "%40%40")
    # not `&amp;`: mistune reads it, and what it was put before, twice
    return _ENTITY.sub("%26", encoded)


def _is_below(address: str) -> bool:
    """Return whether this is a relative address that nobody's reading takes out of the notebook's folder."""
    path = re.split(r"[?#]", unquote(unquote(address)), maxsplit=1)[0]
    if _SCHEME.match(address) or ":" in path or "\\" in path or address.startswith(("/", "?")):
        return False
    depth = 0
    for part in path.split("/"):
        # "" may be the root to somebody: `a//b`
        depth += {"..": -1, ".": 0}.get(part.strip(), 1)
        if depth < 0:
            return False
    return not path.startswith("/") and "//" not in path


def split_at_addresses(text: str) -> list[tuple[str, bool]]:
    """`text` in pieces; True with those that are addresses of the web written out."""
    pieces: list[tuple[str, bool]] = []
    position = 0
    for match in _WRITTEN_OUT.finditer(text):
        address = _without_what_follows(match[0])
        if destination(address) is None:
            continue
        pieces += [(text[position : match.start()], False), (address, True)]
        position = match.start() + len(address)
    return [*pieces, (text[position:], False)]


def _without_what_follows(address: str) -> str:
    """`address` without the sentence's punctuation, and without a parenthesis that was opened before it."""
    while True:
        shorter = address.rstrip(_NOT_ITS_END)
        if shorter.endswith(")") and shorter.count(")") > shorter.count("("):
            shorter = shorter[:-1]
        if shorter == address:
            return address
        address = shorter


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
