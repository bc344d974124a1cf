"""Destinations a link may have: the web, a mailbox, or a file below the notebook."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from cellwright.text import lazy_pattern

_SCHEME = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.-]*:")
_FOLLOWED = lazy_pattern(r"https?://[^/?#\s]|mailto:[^\s]", re.IGNORECASE)
# none of these ends a destination, opens code, a formula, emphasis or a placeholder of JupyterLab's for a formula
_KEPT = "%:/?#&=+,;._~@-"
_ENTITY = lazy_pattern(r"&(?=#?\w+;)")
_WRITTEN_OUT = lazy_pattern(r"(?<![\w:])https?://[^\s<>\"'`\\^{}|\[\]$*]+", re.IGNORECASE)
_NOT_ITS_END = "?!.,:;_~'\""
_MAX_CHARS = 8_000


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
