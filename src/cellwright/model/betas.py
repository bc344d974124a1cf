"""Betas of Anthropic's own API, for ways to a model that know of them and for those that do not.

Long conversations: compaction, and the clearing of old results. Compaction gives a signed `compaction` block, which is
sent first in place of what it sums up, with some models. A session that has such a block can go on anywhere: where the API
does not take the block, its summary is sent as text.

Tools whose definitions are loaded on demand: a tool that is declared with `defer_loading` is no part of what is told
before the first word; a `tool_reference` in a result loads it, behind everything that is cached. Other platforms and most
gateways refuse or drop the fields. There the definitions are sent with all others, and the reference becomes a sentence: a
session can be resumed anywhere.

To a kernel our own proxy is an address like any gateway's, which may know less than Anthropic's API. So it is asked, once,
whether it leads to Anthropic.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from cellwright.model.provider import Request
from cellwright.text import lazy_pattern

FACTS = "/upstream"
"""The path, below a proxy's address, at which it says where it leads."""

ASK_SECONDS = 0.5

_OURS = lazy_pattern(r"/cellwright/api/anthropic/?\Z|/services/[^/]+/anthropic/?\Z")
_known: dict[str, tuple[bool, float]] = {}

VARIABLE = "ENABLE_TOOL_SEARCH"

_DEFERRED, _REFERENCE = b'"defer_loading"', b'"tool_reference"'
_ON, _OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off")

COMPACTION_BETA = "compact-2026-09-04"
EDITING_BETA = "context-management-2025-06-27"


_START = b'{"role":"assistant","content":[{"type":"compaction"'


def leads_to_anthropic(url: str) -> bool:
    """Return whether the address is a proxy of ours that leads to Anthropic. May block, once, for `ASK_SECONDS`."""
    if _OURS.search(urlsplit(url).path) is None:
        return False
    answer, until = _known.get(url, (False, 0.0))
    if time.monotonic() >= until:
        said = _ask(url)
        answer, seconds = (said, float("inf")) if said is not None else (False, 60.0)
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


def may_defer(environ: Mapping[str, str], *, is_own_platform: bool) -> bool:
    """Decide whether definitions may be loaded on demand on the way to the model that `environ` describes.

    As in Claude Code: `ENABLE_TOOL_SEARCH` says so, else only at Anthropic's own address, and through a proxy of ours that
    leads there, is it known to work.
    """
    said = environ.get(VARIABLE, "").strip().lower()
    if said in _OFF or said in _ON:
        return said in _ON
    return is_own_platform and is_anthropics_address(environ)


def is_anthropics_address(environ: Mapping[str, str]) -> bool:
    """Return whether requests go to Anthropic's own address, perhaps by a proxy of ours, and not to a gateway."""
    url = environ.get("ANTHROPIC_BASE_URL", "").strip() or "https://api.anthropic.com"
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host == "anthropic.com" or host.endswith(".anthropic.com") or leads_to_anthropic(url)


@functools.lru_cache(maxsize=8)
def all_loaded(tools: bytes) -> bytes:
    """The definitions as if none were deferred."""
    if _DEFERRED not in tools:
        return tools
    definitions = [{key: value for key, value in tool.items() if key != "defer_loading"} for tool in json.loads(tools)]
    return _encoded(definitions)


def without_references(messages: Sequence[bytes]) -> list[bytes]:
    """The messages with a sentence in the place of each `tool_reference`; the others are the same bytes."""
    return [_without_references(message) if _REFERENCE in message else message for message in messages]


def _without_references(message: bytes) -> bytes:
    decoded = json.loads(message)
    if isinstance(decoded["content"], list):
        decoded["content"] = [_as_words(block) for block in decoded["content"]]
    return _encoded(decoded)


def _as_words(block: dict[str, Any]) -> dict[str, Any]:
    if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
        return {**block, "content": [_as_words(inner) for inner in block["content"]]}
    if block.get("type") == "tool_reference":
        return {"type": "text", "text": f"{block['tool_name']} can be called now."}
    return block


def _encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def may_compact(environ: Mapping[str, str], *, is_own_platform: bool) -> bool:
    """Decide whether the API at the end of the way that `environ` describes has compaction of its own."""
    return is_own_platform and is_anthropics_address(environ)


def betas_of(request: Request, *, is_there: bool) -> tuple[str, ...]:
    """The betas that the request makes use of; `is_there`: the API at the other end has them."""
    if not is_there:
        return ()
    compacts = request.compaction is not None or (begins_compacted(request.messages) and not request.summary_as_text)
    edits = request.clear_tool_results_at is not None and request.compaction is None
    return (*((COMPACTION_BETA,) if compacts else ()), *((EDITING_BETA,) if edits else ()))


def fields_of(request: Request) -> dict[str, Any]:
    """The fields of the request for what it makes use of."""
    if request.compaction is not None:
        more = {"instructions": request.compaction} if request.compaction.strip() else {}
        return {"compaction": {"type": "summarize", **more}}
    if request.clear_tool_results_at is None:
        return {}
    # fewer are not worth it: what stands behind the first result that is cleared is written to the cache anew
    edit = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": request.clear_tool_results_at},
        "keep": {"type": "tool_uses", "value": 5},
        "clear_at_least": {"type": "input_tokens", "value": 20_000},
    }
    return {"context_management": {"edits": [edit]}}


def begins_compacted(messages: Sequence[bytes]) -> bool:
    """Return whether the messages begin with a block of the API's own compaction."""
    return bool(messages) and messages[0].startswith(_START)


def with_summary_as_text(messages: Sequence[bytes]) -> Sequence[bytes]:
    """The messages with the block that they begin with as text of the user's side; the others are the same bytes."""
    if not begins_compacted(messages):
        return messages
    block: Mapping[str, Any] = json.loads(messages[0])["content"][0]
    text = f"<conversation-summary>\n{block.get('content') or 'The earlier conversation is lost.'}\n</conversation-summary>"
    said = {"role": "user", "content": [{"type": "text", "text": text}]}
    return [json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode(), *messages[1:]]
