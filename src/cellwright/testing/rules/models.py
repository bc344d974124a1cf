"""The served models and what they accept: facts of the API as of 2026-10.

The models list and the checks read the same table.
"""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass, replace
from typing import Any

ALL_EFFORTS = ("low", "medium", "high", "xhigh", "max")
THINKING_TYPES = ("adaptive", "between_tools", "disabled", "enabled")
UP_TO_HIGH = ("low", "medium", "high")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """One model. `binds_thinking`: its thinking blocks are bound to the conversation before them (preserved thinking).

    `cache_minimum` is the least number of tokens that a cache breakpoint stores. `thinks_by_default`: it thinks without
    `thinking` in the request. `shows_thinking_by_default`: the default `display` of thinking is "summarized".
    """

    id: str
    line: str
    thinking_types: tuple[str, ...]
    thinks_by_default: bool = True
    shows_thinking_by_default: bool = False
    efforts: tuple[str, ...] = ALL_EFFORTS
    efforts_without_thinking: tuple[str, ...] = ALL_EFFORTS
    context_window: int = 1_000_000
    max_tokens: int = 128_000
    cache_minimum: int = 512
    prefill: bool = False
    forced_tool_choice: bool = True
    system_messages: bool = True
    binds_thinking: bool = False
    compaction: bool = True

    @property
    def display_name(self) -> str:
        words = self.id.removeprefix("claude-").split("-")
        return f"Claude {words[0].title()} {'.'.join(words[1:])}"


def _table() -> dict[str, ServedModel]:
    newest = ServedModel(
        id="", line="fable", thinking_types=("adaptive",), forced_tool_choice=False, binds_thinking=True
    )
    five = replace(newest, forced_tool_choice=True, binds_thinking=False)
    opus_5 = replace(five, line="opus", thinking_types=("adaptive", "disabled"))
    opus_4_8 = replace(opus_5, thinks_by_default=False, cache_minimum=1024)
    opus_4_6 = replace(
        opus_4_8,
        thinking_types=("adaptive", "enabled", "disabled"),
        shows_thinking_by_default=True,
        efforts=("low", "medium", "high", "max"),
        cache_minimum=4096,
        system_messages=False,
    )
    opus_4_5 = replace(
        opus_4_6,
        thinking_types=("enabled", "disabled"),
        efforts=UP_TO_HIGH,
        context_window=200_000,
        max_tokens=64_000,
        prefill=True,
        compaction=False,
    )
    served = (
        replace(newest, id="claude-fable-5-2"),
        replace(newest, id="claude-mythos-5-2", line="mythos"),
        replace(newest, id="claude-haiku-5-5", line="haiku", forced_tool_choice=True, compaction=False),
        replace(
            newest,
            id="claude-sonnet-5-5",
            line="sonnet",
            thinking_types=("adaptive", "between_tools"),
            efforts_without_thinking=UP_TO_HIGH,
        ),
        replace(newest, id="claude-fable-5-1"),
        replace(newest, id="claude-opus-5-5", line="opus"),
        replace(newest, id="claude-mythos-5-1", line="mythos"),
        replace(opus_5, id="claude-sonnet-5", line="sonnet", cache_minimum=1024, system_messages=False),
        replace(five, id="claude-fable-5"),
        replace(five, id="claude-mythos-5", line="mythos"),
        replace(opus_5, id="claude-opus-5", efforts_without_thinking=UP_TO_HIGH),
        replace(opus_4_8, id="claude-opus-4-8"),
        replace(opus_4_8, id="claude-opus-4-7", cache_minimum=2048, system_messages=False),
        replace(opus_4_6, id="claude-opus-4-6"),
        replace(opus_4_6, id="claude-sonnet-4-6", line="sonnet", cache_minimum=1024),
        replace(opus_4_5, id="claude-haiku-4-5", line="haiku", efforts=()),
        replace(opus_4_5, id="claude-opus-4-5"),
        replace(opus_4_5, id="claude-sonnet-4-5", line="sonnet", efforts=(), cache_minimum=1024),
    )
    return {model.id: model for model in served}


MODELS = _table()
SCRIPTED_MODEL = "scripted-model"
"""Served besides, and in no list: the name of a script that is not to pass for a model."""
_PLATFORM_PREFIX = re.compile(r"^(?:[a-z]{2,6}\.)?anthropic\.")
_VERSION_SUFFIX = re.compile(r"(?:[@-]\d{8})?(?:-v\d+(?::\d+)?)?$")


def served_model(name: str) -> ServedModel | None:
    """The model of that id, dated alias, Bedrock or Vertex name."""
    plain = _VERSION_SUFFIX.sub("", _PLATFORM_PREFIX.sub("", name))
    return replace(MODELS["claude-opus-5"], id=name, line="script") if plain == SCRIPTED_MODEL else MODELS.get(plain)


def model_info(model: ServedModel) -> dict[str, Any]:
    """The model as `GET /v1/models/{id}` describes it."""
    thinking = {kind: {"supported": kind in model.thinking_types} for kind in THINKING_TYPES}
    efforts = {effort: {"supported": effort in model.efforts} for effort in ALL_EFFORTS}
    supported = {"supported": True}
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.display_name,
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active",
        "deprecated_at": None,
        "retires_at": None,
        "line": model.line,
        "max_input_tokens": model.context_window,
        "max_tokens": model.max_tokens,
        "capabilities": {
            "batch": supported,
            "citations": supported,
            "code_execution": supported,
            "context_management": {"supported": True},
            "effort": {"supported": bool(model.efforts), **efforts},
            "image_input": supported,
            "pdf_input": supported,
            "server_tools": {"supported": True, "code_execution": supported, "web_search": supported},
            "structured_outputs": supported,
            "thinking": {"supported": True, "types": thinking},
        },
    }


def model_list(query: str) -> dict[str, Any]:
    """A page of `GET /v1/models`, newest first; `limit` and `after_id` as in the API."""
    asked = dict(urllib.parse.parse_qsl(query))
    names = list(MODELS)
    start = names.index(asked["after_id"]) + 1 if asked.get("after_id") in MODELS else 0
    end = start + int(asked.get("limit", "20"))
    page = names[start:end]
    return {
        "data": [model_info(MODELS[name]) for name in page],
        "first_id": page[0] if page else None,
        "last_id": page[-1] if page else None,
        "has_more": end < len(names),
    }
