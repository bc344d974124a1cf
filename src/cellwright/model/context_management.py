"""Help with long conversations that Anthropic's own API has as betas: compaction, and the clearing of old results.

Compaction gives a signed `compaction` block, which is sent first in place of what it sums up, with some models. A session
that has such a block can go on anywhere: where the API does not take the block, its summary is sent as text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cellwright.model.deferred_tools import is_anthropics_address
from cellwright.model.provider import Request

COMPACTION_BETA = "compact-2026-09-04"
EDITING_BETA = "context-management-2025-06-27"

MIN_CLEARED_TOKENS = 20_000
"""Fewer are not worth it: what stands behind the first result that is cleared is written to the cache anew."""

_START = b'{"role":"assistant","content":[{"type":"compaction"'


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
    edit = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": request.clear_tool_results_at},
        "keep": {"type": "tool_uses", "value": 5},
        "clear_at_least": {"type": "input_tokens", "value": MIN_CLEARED_TOKENS},
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
