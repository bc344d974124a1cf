"""A conversation as JSON: the API's messages as they were, for programs.

{"cellwright_conversation": 1, "session": ID, "model": …, "messages": [{"role": …, "content": [block, …]}, …]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

FORMAT = 1


def as_json(messages: Sequence[Mapping[str, Any]], *, session: str, model: str) -> str:
    """The text of the file. Thinking is kept without its signature, which is bound to the conversation it came from."""
    content = {
        "cellwright_conversation": FORMAT,
        "session": session,
        "model": model,
        "messages": [_without_signatures(message) for message in messages],
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _without_signatures(message: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(message["content"], str):
        return dict(message)
    kept = [block for block in message["content"] if block["type"] != "redacted_thinking"]
    return {**message, "content": [{name: block[name] for name in block if name != "signature"} for block in kept]}
