"""The API's own compaction: what a request for it may hold, and the signed block that stands in place of what it sums up."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

from cellwright.testing.rules.api_error import ApiRejection
from cellwright.testing.rules.history.prefix import blocks_of
from cellwright.testing.rules.history.turn_order import RoleRun
from cellwright.testing.rules.models import ServedModel

# no secret: it only has to be the same in every server of a test run, so that a session can go on with another one
_KEY = b"cellwright local messages server: compaction"


def signature_of_summary(content: str) -> str:
    """The signature of a block with this summary."""
    return hmac.new(_KEY, content.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def check_compaction(body: Mapping[str, Any], model: ServedModel, turns: list[RoleRun]) -> None:
    """Check that a summary stands first and unchanged, and that a request for one holds nothing that it may not."""
    _check_blocks(body)
    if (wanted := body.get("compaction")) is None:
        return
    if not model.compaction:
        raise ApiRejection(f"compaction: `compaction` is not supported on {model.id}")
    if not isinstance(wanted, Mapping) or wanted.get("type") != "summarize" or wanted.keys() - {"type", "instructions"}:
        raise ApiRejection("compaction: Input should be a valid compaction configuration")
    forced = (body.get("tool_choice") or {}).get("type") in ("any", "tool")
    for name, present in (
        ("context_management", body.get("context_management")),
        ("stop_sequences", body.get("stop_sequences")),
        ("tool_choice", forced),
        ("output_config.format", (body.get("output_config") or {}).get("format")),
    ):
        if present:
            raise ApiRejection(f"compaction: `compaction` cannot be combined with {name}")
    last = turns[-1]
    if last.role == "assistant" and any(placed.type == "tool_use" for placed in last.blocks):
        raise ApiRejection("compaction: the conversation ends on an assistant turn that is not finished")


def _check_blocks(body: Mapping[str, Any]) -> None:
    for index, message in enumerate(body["messages"]):
        for position, block in enumerate(blocks_of(message["content"])):
            if block.get("type") != "compaction":
                continue
            path = f"messages.{index}.content.{position}.compaction"
            if (index, position) != (0, 0):
                raise ApiRejection(f"{path}: a `compaction` block must be the first block of the conversation")
            signature = block.get("signature")
            if signature is not None and signature != signature_of_summary(str(block.get("content") or "")):
                raise ApiRejection(f"{path}: Invalid `signature` in `compaction` block")
