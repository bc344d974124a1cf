"""Our own proxies of the Messages API, as a kernel sees them: they say whether they lead to Anthropic's own address.

To a kernel its proxy is an address like any gateway's, which may know less than Anthropic's API. So it is asked, once.
"""

from __future__ import annotations

import json
import time
from urllib.parse import urlsplit

from cellwright.text import lazy_pattern

FACTS = "/upstream"
"""The path, below a proxy's address, at which it says where it leads."""

ASK_SECONDS = 0.5
ASK_AGAIN_SECONDS = 60.0

_OURS = lazy_pattern(r"/cellwright/api/anthropic/?\Z|/services/[^/]+/anthropic/?\Z")
_known: dict[str, tuple[bool, float]] = {}


def leads_to_anthropic(url: str) -> bool:
    """Return whether the address is a proxy of ours that leads to Anthropic. May block, once, for `ASK_SECONDS`."""
    if _OURS.search(urlsplit(url).path) is None:
        return False
    answer, until = _known.get(url, (False, 0.0))
    if time.monotonic() >= until:
        said = _ask(url)
        answer, seconds = (said, float("inf")) if said is not None else (False, ASK_AGAIN_SECONDS)
        _known[url] = (answer, time.monotonic() + seconds)
    return answer


def _ask(url: str) -> bool | None:
    """The proxy's word; None if it gives none."""
    from http.client import HTTPConnection, HTTPException, HTTPSConnection  # 10 ms, for users of a proxy

    place = urlsplit(url)
    try:
        kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
        connection = kind(place.hostname or "", place.port, timeout=ASK_SECONDS)
        try:
            connection.request("GET", f"{place.path.rstrip('/')}{FACTS}")
            reply = connection.getresponse()
            said = json.loads(reply.read(1_000)) if reply.status == 200 else {}
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError):
        return None
    return said.get("anthropic") is True if isinstance(said, dict) else False
