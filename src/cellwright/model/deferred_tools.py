"""Tools whose definitions are loaded on demand, for the ways to a model that know of it and for those that do not.

A tool that is declared with `defer_loading` is no part of what is told before the first word; a `tool_reference` in a
result loads it, behind everything that is cached. Anthropic's own API does that; other platforms and most gateways
refuse or drop the fields. There the definitions are sent with all others, and the reference becomes a sentence: a
session can be resumed anywhere.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from cellwright.model.transports.own_proxies import leads_to_anthropic

VARIABLE = "ENABLE_TOOL_SEARCH"

_DEFERRED, _REFERENCE = b'"defer_loading"', b'"tool_reference"'
_ON, _OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


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
