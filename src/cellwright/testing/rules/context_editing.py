"""Long histories made shorter by the API: compaction, and the clearing of old results.

The client's history stays as it is, and so does what thinking is bound to; tokens and the prompt cache are those of what is
left.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

from cellwright.testing.rules.api_error import ApiRejection
from cellwright.testing.rules.models import ServedModel
from cellwright.testing.rules.prefix import CHARS_PER_TOKEN, Prefix, blocks_of, canonical, chain
from cellwright.testing.rules.turn_order import RoleRun

# no secret: it only has to be the same in every server of a test run, so that a session can go on with another one
_KEY = b"cellwright local messages server: compaction"

CLEARED = "[Old tool result content cleared]"
EDIT = "clear_tool_uses_20250919"

_FIELDS = {"type", "trigger", "keep", "clear_at_least", "exclude_tools", "clear_tool_inputs"}
_DEFAULT_TRIGGER, _DEFAULT_KEEP = 100_000, 3


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


def check_edits(body: Mapping[str, Any]) -> None:
    """The edits that are asked for are known, and of the right shape."""
    management = body.get("context_management")
    if management is None:
        return
    edits = management.get("edits", []) if isinstance(management, Mapping) else None
    if not isinstance(edits, list):
        raise ApiRejection("context_management: Input should be a valid context management configuration")
    for index, edit in enumerate(edits):
        path = f"context_management.edits.{index}"
        if not isinstance(edit, Mapping) or not isinstance(edit.get("type"), str):
            raise ApiRejection(f"{path}: Input should be a valid edit")
        if edit["type"] != EDIT:
            continue
        if unknown := edit.keys() - _FIELDS:
            raise ApiRejection(f"{path}.{EDIT}.{min(unknown)}: Extra inputs are not permitted")
        for name, kinds in (
            ("trigger", ("input_tokens", "tool_uses")),
            ("keep", ("tool_uses",)),
            ("clear_at_least", ("input_tokens",)),
        ):
            given = edit.get(name)
            fits = given is None or (given.get("type") in kinds and type(given.get("value")) is int)
            if not fits:
                raise ApiRejection(f"{path}.{EDIT}.{name}: Input should be a valid {name}")


def edited(prefix: Prefix) -> tuple[Prefix, dict[str, Any] | None]:
    """The chain of what the model reads, and what `context_management` of the answer says was done; None for nothing."""
    edits = (prefix.body.get("context_management") or {}).get("edits") or ()
    edit = next((each for each in edits if each.get("type") == EDIT), None)
    if edit is None:
        return prefix, None
    results = [
        (at, position, block)
        for at, message in enumerate(prefix.body["messages"])
        for position, block in enumerate(blocks_of(message["content"]))
        if block.get("type") == "tool_result"
    ]
    trigger = edit.get("trigger") or {"type": "input_tokens", "value": _DEFAULT_TRIGGER}
    if (len(results) if trigger["type"] == "tool_uses" else prefix.total_tokens) <= trigger["value"]:
        return prefix, {"applied_edits": []}
    keep = _value(edit, "keep", _DEFAULT_KEEP)
    old = results[: max(0, len(results) - keep)]
    tokens = sum(len(canonical(block)) // CHARS_PER_TOKEN for _, _, block in old)
    if not old or tokens < _value(edit, "clear_at_least", 0):
        return prefix, {"applied_edits": []}
    messages = [{**message, "content": [*blocks_of(message["content"])]} for message in prefix.body["messages"]]
    for at, position, block in old:
        messages[at]["content"][position] = {**block, "content": CLEARED}
    left = chain({**prefix.body, "messages": messages}, prefix.betas, None, 0)
    applied = {
        "type": EDIT,
        "cleared_tool_uses": len(old),
        "cleared_input_tokens": prefix.total_tokens - left.total_tokens,
    }
    return left, {"applied_edits": [applied]}


def _value(edit: Mapping[str, Any], name: str, default: int) -> int:
    given = edit.get(name)
    return default if given is None else int(given["value"])
