"""Cache breakpoints in a conversation: what was cached with one request is read with the next, however long the answer was.

The API writes cache entries at breakpoints only, and looks for them at most 20 blocks before a breakpoint. An answer with
ten calls and their results is longer than that, and the whole conversation would be written anew. So besides the end of
the request, the end of the one before it is marked: there its entry stands. Of the four breakpoints that a request may
have, `system` (with the tools) has one, the request's end one, and these at most two.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from cellwright.model.provider import CacheTtl

_SYSTEM_END = b'"cache_control":{"type":"ephemeral","ttl":"1h"}}]'
_ASSISTANT, _USER = b'{"role":"assistant"', b'{"role":"user"'
_NEVER_CACHED = ("thinking", "redacted_thinking")


def cache_control(ttl: CacheTtl | None) -> dict[str, str]:
    """The breakpoint of a conversation; its entries live five minutes unless `ttl` says otherwise."""
    return {"type": "ephemeral", "ttl": ttl} if ttl == "1h" else {"type": "ephemeral"}


def system_with_ttl(system: bytes, ttl: CacheTtl | None) -> bytes:
    """A session's system prompt, whose own breakpoint is one of an hour, with `ttl` where five minutes are asked for."""
    if ttl != "5m" or not system.endswith(_SYSTEM_END):
        return system
    return system.removesuffix(_SYSTEM_END) + b'"cache_control":{"type":"ephemeral"}}]'


def with_request_ends(messages: Sequence[bytes], ttl: CacheTtl | None = None) -> Sequence[bytes]:
    """The messages with a breakpoint where the request before this one ended; those given stay as they are.

    That was before the newest answer. Where that request's answer was not kept (a refusal, an interruption), it was
    before the newest prompt.
    """
    answers = (at for at in range(len(messages) - 1, 0, -1) if _is_answer(messages[at]))
    ends = {next(answers, 0) - 1}
    if len(messages) > 1 and not _is_answer(messages[-1]) and not _is_answer(messages[-2]):
        ends.add(len(messages) - 2)
    marked = list(messages)
    for at in ends - {-1}:
        marked[at] = _marked(messages[at], ttl)
    return marked


def _is_answer(message: bytes) -> bool:
    if message.startswith((_ASSISTANT, _USER)):
        return message.startswith(_ASSISTANT)
    return bool(json.loads(message)["role"] == "assistant")


def _marked(message: bytes, ttl: CacheTtl | None) -> bytes:
    """The message with a breakpoint on the last of its blocks that can have one, if any."""
    # most of what is sent are results: a large one is not decoded for a mark at its end
    if message.startswith(_USER) and message.endswith(b"}]}") and b'"cache_control"' not in message:
        control = json.dumps(cache_control(ttl), separators=(",", ":")).encode()
        return b'%b,"cache_control":%b}]}' % (message.removesuffix(b"}]}"), control)
    decoded: dict[str, Any] = json.loads(message)
    content = decoded["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    for at in reversed(range(len(blocks))):
        block = blocks[at]
        if block["type"] not in _NEVER_CACHED and block.get("text", "x").strip():
            blocks[at] = {**block, "cache_control": cache_control(ttl)}
            return json.dumps({**decoded, "content": blocks}, ensure_ascii=False, separators=(",", ":")).encode()
    return message
