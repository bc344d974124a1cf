"""Thinking and effort: what each model takes, and what manual thinking demands of the messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cellwright.testing.rules.api_error import ApiRejection
from cellwright.testing.rules.history.thinking_signatures import is_thinking
from cellwright.testing.rules.history.turn_order import RoleRun, exchanges
from cellwright.testing.rules.models import ServedModel

OFF = ("disabled", "between_tools")


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
