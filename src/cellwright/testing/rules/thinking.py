"""Thinking and effort: what each model takes, what manual thinking demands of the messages, and signatures of its blocks.

A signature is bound to the block's own text and to the conversation that it was thought in.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cellwright.testing.rules.api_error import ApiRejection
from cellwright.testing.rules.models import ServedModel
from cellwright.testing.rules.prefix import Block, Prefix, PromptCache, RecentPrefixes, blocks_of, canonical, next_state
from cellwright.testing.rules.turn_order import RoleRun, exchanges

# no secret: it only has to be the same in every server of a test run, so that a session can go on with another one
_KEY = b"cellwright local messages server"

_BOUND_ELSEWHERE = (
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set "
    '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block". That setting requires the '
    "`thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header. "
)

OFF = ("disabled", "between_tools")


def _seal(payload: bytes, text: str) -> str:
    return hmac.new(_KEY, payload + b"\0" + text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:32]


def signer(model: ServedModel, prefix: Prefix) -> Callable[[str], str]:
    """Signs the thinking blocks of one answer to the request of `prefix`, in order."""
    signed: list[str] = []

    def sign(text: str) -> str:
        previous = signed[-1] if signed else _last_signature(prefix.body["messages"])
        bound = {
            "model": model.id,
            "tools": prefix.tools_digest,
            "system": prefix.system_digest,
            "state": prefix.state.hex(),
            "after": previous[-16:],
        }
        payload = json.dumps(bound).encode()
        signature = base64.b64encode(payload + _seal(payload, text).encode()).decode()
        signed.append(signature)
        return signature

    return sign


def _last_signature(messages: list[Mapping[str, Any]]) -> str:
    for message in reversed(messages):
        for block in reversed(blocks_of(message.get("content"))):
            if is_thinking(block):
                return signature_of(block)
    return ""


def is_thinking(block: Block) -> bool:
    return block.get("type") in ("thinking", "redacted_thinking")


def signature_of(block: Block) -> str:
    return str(block.get("signature") or block.get("data") or "")


def _unseal(block: Block) -> dict[str, str] | None:
    """Read what the block is bound to; None when the signature is not ours or the text was changed."""
    try:
        raw = base64.b64decode(signature_of(block), validate=True)
        payload, seal = raw[:-32], raw[-32:].decode("ascii")
        bound = json.loads(payload)
    except (binascii.Error, ValueError):
        return None
    redacted = block.get("type") == "redacted_thinking"
    intact = redacted or hmac.compare_digest(seal, _seal(payload, str(block.get("thinking", ""))))
    return bound if intact else None


def check_binding(model: ServedModel, prefix: Prefix, first_message: int) -> None:
    """Every thinking block from `first_message` on must be unchanged and stand where it was thought.

    A block of another model is not readable for this one and is passed over, as the API does.
    """
    messages = prefix.body["messages"]
    binding = (prefix.body.get("thinking") or {}).get("block_binding") or {}
    if binding.get("prefix_mismatch_behavior") == "drop_block":
        return
    turn_start = 0
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        if index == 0 or messages[index - 1]["role"] != "assistant":
            turn_start = prefix.start_of(index)
        if index < first_message:
            continue
        for position, block in enumerate(blocks_of(message["content"])):
            if is_thinking(block):
                reached = prefix.start_of(index) + position
                states = {prefix.state_before(at).hex() for at in range(turn_start, reached + 1)}
                _check_block(block, f"messages.{index}.content.{position}", model, prefix, states)


def _check_block(block: Block, path: str, model: ServedModel, prefix: Prefix, states: set[str]) -> None:
    bound = _unseal(block)
    if bound is None:
        raise ApiRejection(f"{path}: Invalid `signature` in `thinking` block")
    if bound["model"] != model.id or not model.binds_thinking or bound["state"] in states:
        return
    raise ApiRejection(f"{path}: {_BOUND_ELSEWHERE}{_difference(bound, prefix)}")


def _difference(bound: Mapping[str, str], prefix: Prefix) -> str:
    if bound["system"] != prefix.system_digest:
        return "The `system` prompt differs from the one this block was created with."
    if bound["tools"] != prefix.tools_digest:
        return "The `tools` differ from the ones this block was created with."
    signatures = {
        signature_of(block)[-16:]
        for message in prefix.body["messages"]
        for block in blocks_of(message.get("content"))
        if is_thinking(block)
    }
    if bound["after"] and bound["after"] not in signatures:
        return "The `thinking` block that preceded this one when it was created is missing from this request."
    return "An earlier message differs from the one this block was created with."


@dataclass(slots=True)
class Memory:
    """Earlier requests (`prefixes`), what they cached (`cache`), and the answers that were sent whole."""

    prefixes: RecentPrefixes = field(default_factory=RecentPrefixes)
    cache: PromptCache = field(default_factory=PromptCache)
    thinking_of: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    paused: set[bytes] = field(default_factory=set)

    def keep_answer(self, prefix: Prefix, content: Sequence[dict[str, Any]], stop_reason: str) -> None:
        signatures = [signature_of(block) for block in content if is_thinking(block)]
        for block in content:
            if block["type"] == "tool_use":
                self.thinking_of[block["id"]] = (prefix.body["model"], signatures)
        if stop_reason == "pause_turn":
            state = prefix.state
            for block in content:
                state = next_state(state, "assistant", canonical(block))
            self.paused.add(state)

    def check_thinking_complete(self, model: str, turns: Sequence[RoleRun]) -> None:
        """While its tool results are sent, the latest assistant turn must hold all the thinking it came with."""
        latest = next((turn for turn in reversed(turns) if turn.role == "assistant"), None)
        if latest is None or latest is turns[-1]:
            return
        present = {signature_of(placed.block) for placed in latest.blocks if is_thinking(placed.block)}
        calls = [placed.block["id"] for placed in latest.blocks if placed.type == "tool_use"]
        for thought_by, signatures in (self.thinking_of[call] for call in calls if call in self.thinking_of):
            if thought_by == model and not present.issuperset(signatures):
                raise ApiRejection(
                    f"messages.{latest.message}.content.0: `thinking` or `redacted_thinking` blocks in the latest "
                    "assistant message cannot be modified. These blocks must remain as they were in the original "
                    "response."
                )


def thinking_display(body: Mapping[str, Any], model: ServedModel) -> str | None:
    """Return how thinking is sent: "summarized", "omitted" (without its text), None when the model does not think."""
    config = body.get("thinking")
    if not config:
        return _default_display(model) if model.thinks_by_default else None
    if config["type"] in OFF:
        return None
    display = config.get("display") or _default_display(model)
    return "omitted" if display == "omitted" else "summarized"


def _default_display(model: ServedModel) -> str:
    return "summarized" if model.shows_thinking_by_default else "omitted"


def check_thinking(body: Mapping[str, Any], model: ServedModel) -> None:
    """The type must be one the model has, the budget must leave room, the effort must be one it offers."""
    config = body.get("thinking") or {}
    kind = config.get("type")
    if kind and kind not in model.thinking_types:
        raise ApiRejection(_unsupported(kind, model))
    budget = config.get("budget_tokens")
    if budget is not None and "max_tokens" in body and budget >= body["max_tokens"]:
        raise ApiRejection(
            "thinking.enabled.budget_tokens: `max_tokens` must be greater than `thinking.budget_tokens`."
        )
    _check_effort((body.get("output_config") or {}).get("effort"), kind, model)


def _unsupported(kind: str, model: ServedModel) -> str:
    if kind == "adaptive":
        return "thinking.type: adaptive thinking is not supported on this model"
    instead = ""
    if "adaptive" in model.thinking_types and kind == "enabled":
        instead = ' Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
    return f'thinking.type: "thinking.type.{kind}" is not supported for this model.{instead}'


def _check_effort(effort: str | None, kind: str | None, model: ServedModel) -> None:
    if effort is None:
        return
    if not model.efforts:
        raise ApiRejection("output_config.effort: This model does not support the effort parameter.")
    allowed = model.efforts
    if kind in OFF:
        allowed = tuple(name for name in allowed if name in model.efforts_without_thinking)
    if effort not in allowed:
        thinking = " with thinking off" if kind in OFF else ""
        raise ApiRejection(
            f"output_config.effort: '{effort}' is not supported for this model{thinking}. Use one of: "
            f"{', '.join(allowed)}"
        )


def check_manual_thinking(body: Mapping[str, Any]) -> None:
    """With `thinking.type` "enabled", the assistant turn whose tool results are sent must begin with its thinking."""
    if (body.get("thinking") or {}).get("type") != "enabled":
        return
    spoken = [turn for turn in exchanges(body["messages"]) if turn.role != "system"]
    if not any(placed.type == "tool_result" for placed in spoken[-1].blocks):
        return
    start = _loop_start(spoken)
    first = start.blocks[0]
    if not is_thinking(first.block):
        raise ApiRejection(
            f"{first.path}.type: Expected `thinking` or `redacted_thinking`, but found `{first.type}`. When `thinking` "
            "is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of "
            "`tool_use` and `tool_result` blocks). To avoid this requirement, disable `thinking`."
        )


def _loop_start(turns: Sequence[RoleRun]) -> RoleRun:
    """The assistant turn that the user's last prompt led to."""
    start = turns[-2]
    for user, assistant in zip(turns[-3::-2], turns[-2::-2], strict=False):
        start = assistant
        if not any(placed.type == "tool_result" for placed in user.blocks):
            break
    return start
