"""Everything the API demands of a request, checked in one place and answered in its own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellwright.testing.rules.api_error import ApiRejection
from cellwright.testing.rules.context_editing import check_compaction, check_edits, edited
from cellwright.testing.rules.images import check_pictures
from cellwright.testing.rules.models import ServedModel
from cellwright.testing.rules.prefix import Prefix, blocks_of, chain, check_breakpoints, nested
from cellwright.testing.rules.request_fields import check_shape
from cellwright.testing.rules.thinking import (
    Memory,
    check_binding,
    check_manual_thinking,
    check_thinking,
    thinking_display,
)
from cellwright.testing.rules.tool_definitions import check_strict, check_tool_choice, check_tools
from cellwright.testing.rules.turn_order import (
    check_content,
    check_conversation,
    check_last,
    check_system_text,
    exchanges,
    tail_start,
)


def check_request(
    body: Mapping[str, Any], model: ServedModel, betas: frozenset[str], memory: Memory, *, counting: bool = False
) -> Prefix:
    """The request's chain; `ApiRejection` with the field's path when the API would not take it.

    What was found right with an earlier request that begins alike is not looked at again. `counting`: a token count.
    """
    if not isinstance(body.get("messages"), list):
        raise ApiRejection(
            "messages: Input should be a valid list" if "messages" in body else "messages: Field required"
        )
    base, known = memory.prefixes.recall(body, betas)
    check_shape(body, betas, first_message=known, counting=counting)
    _check_options(body, model)
    if base is None:
        check_tools(body.get("tools") or ())
        check_system_text(body.get("system"))
    check_tool_choice(body, model)
    check_thinking(body, model)
    if not body["messages"]:
        raise ApiRejection("messages: at least one message is required")
    check_content(body["messages"], max(0, known - 1))
    _check_citations(body)
    turns = exchanges(body["messages"], tail_start(body["messages"], known))
    check_conversation(body["messages"], turns, model)
    check_compaction(body, model, turns)
    check_edits(body)
    prefix = chain(body, betas, base, known)
    if body.get("compaction") is None:
        check_last(turns, model, paused=prefix.state in memory.paused)
    check_manual_thinking(body)
    check_pictures(prefix.pictures, model)
    check_breakpoints(body, prefix)
    check_binding(model, prefix, known)
    if thinking_display(body, model) is not None:
        memory.check_thinking_complete(body["model"], turns)
    if (tokens := edited(prefix)[0].total_tokens) > model.context_window:
        raise ApiRejection(f"prompt is too long: {tokens} tokens > {model.context_window} maximum")
    memory.prefixes.remember(prefix)
    return prefix


def _check_options(body: Mapping[str, Any], model: ServedModel) -> None:
    max_tokens = body.get("max_tokens", 1)
    if max_tokens > model.max_tokens:
        raise ApiRejection(
            f"max_tokens: {max_tokens} > {model.max_tokens}, which is the maximum allowed number of output tokens for "
            f"{body['model']}"
        )
    output_format = (body.get("output_config") or {}).get("format")
    if max_tokens == 0:
        _check_warming(body, output_format)
    for index, sequence in enumerate(body.get("stop_sequences") or ()):
        if not sequence.strip():
            raise ApiRejection(f"stop_sequences.{index}: each stop sequence must contain non-whitespace")
    if output_format:
        check_strict(output_format["schema"], "output_config.format.schema")


def _check_citations(body: Mapping[str, Any]) -> None:
    """Structured output cannot carry citations."""
    if not (body.get("output_config") or {}).get("format"):
        return
    for index, message in enumerate(body["messages"]):
        for position, block in enumerate(blocks_of(message["content"])):
            for inner, path in nested(block, f"messages.{index}.content.{position}"):
                if isinstance(inner.get("citations"), dict) and inner["citations"].get("enabled"):
                    raise ApiRejection(f"{path}.{inner['type']}.citations: incompatible with output_config.format")


def _check_warming(body: Mapping[str, Any], output_format: Any) -> None:
    """`max_tokens: 0` only fills the cache."""
    forced = (body.get("tool_choice") or {}).get("type") in ("tool", "any")
    for name, present in (
        ("stream", body.get("stream")),
        ("tool_choice", forced),
        ("output_config.format", output_format),
    ):
        if present:
            raise ApiRejection(f"max_tokens: 0 cannot be combined with {name}")
