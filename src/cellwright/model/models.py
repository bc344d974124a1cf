"""The limits of each model: context, output, kinds of thinking, effort.

The table is the documentation's of November 2026; the API itself knows it newer (`GET /v1/models/{id}`), and
`refined` folds that in. Requests are built from the table alone: one that changes in mid-session would restart the
cache.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

EFFORTS = ("low", "medium", "high", "xhigh", "max")
"""The degrees of effort a model may be told to think with; not each knows all of them."""

ProviderName = Literal["api", "claude-code"]

PROVIDERS: tuple[ProviderName, ...] = ("api", "claude-code")
"""The ways to the model that a user chooses among: what the environment leads to (a key, a sign-in, a platform), or the
program Claude Code."""

Thinking = Literal["summarized", "omitted", "disabled", "disabled or omitted"]
"""The use made of the model's thinking: a summary, nothing that can be read, or none where the model can do without.

A model that cannot gives a summary also for "disabled"; with "disabled or omitted" nothing that can be read.
"""

NEEDS_THINKING = ("xhigh", "max")
"""The degrees with which thinking cannot be switched off."""

THINKING_TYPES = ("adaptive", "between_tools", "disabled", "enabled")


class ModelLimits(NamedTuple):
    """The limits of a model. Sizes are in tokens; `thinking` holds the `thinking.type` values it accepts.

    `known` is False where the sizes are a careful guess. `efforts` are the values that `output_config.effort` may have,
    `tool_search` whether tools may be declared with `defer_loading` and loaded by a `tool_reference`, `compaction` whether
    the API sums up a conversation with it.
    """

    context_window: int
    max_output: int
    thinking: frozenset[str] = frozenset()
    efforts: tuple[str, ...] = EFFORTS
    known: bool = True
    tool_search: bool = False
    compaction: bool = False

    def reported(self) -> dict[str, Any]:
        """The limits that a user chooses a model by, as JSON."""
        return {
            "context_window": self.context_window,
            "max_output": self.max_output,
            "effort": bool(self.efforts),
            "efforts": list(self.efforts),
        }


def _limits(
    context_window: int,
    max_output: int,
    thinking: str,
    *,
    efforts: tuple[str, ...] = EFFORTS,
    tool_search: bool = True,
    compaction: bool = True,
) -> ModelLimits:
    return ModelLimits(
        context_window=context_window,
        max_output=max_output,
        thinking=frozenset(thinking.split()),
        efforts=efforts,
        tool_search=tool_search,
        compaction=compaction,
    )


_NO_XHIGH = ("low", "medium", "high", "max")
_UP_TO_HIGH = ("low", "medium", "high")

_LIMITS = {
    "claude-fable-5": _limits(1_000_000, 128_000, "adaptive"),
    "claude-mythos-5": _limits(1_000_000, 128_000, "adaptive"),
    "claude-opus-5-5": _limits(1_000_000, 128_000, "adaptive"),
    "claude-sonnet-5-5": _limits(1_000_000, 128_000, "adaptive between_tools"),
    "claude-haiku-5-5": _limits(1_000_000, 128_000, "adaptive", tool_search=False, compaction=False),
    "claude-opus-5": _limits(1_000_000, 128_000, "adaptive disabled"),
    "claude-sonnet-5": _limits(1_000_000, 128_000, "adaptive disabled"),
    "claude-opus-4-8": _limits(1_000_000, 128_000, "adaptive disabled"),
    "claude-opus-4-7": _limits(1_000_000, 128_000, "adaptive disabled"),
    "claude-opus-4-6": _limits(1_000_000, 128_000, "adaptive enabled disabled", efforts=_NO_XHIGH),
    "claude-sonnet-4-6": _limits(1_000_000, 64_000, "adaptive enabled disabled", efforts=_NO_XHIGH),
    "claude-opus-4-5": _limits(200_000, 64_000, "enabled disabled", efforts=_UP_TO_HIGH, compaction=False),
    "claude-sonnet-4-5": _limits(200_000, 64_000, "enabled disabled", efforts=(), compaction=False),
    "claude-haiku-4-5": _limits(200_000, 64_000, "enabled disabled", efforts=(), tool_search=False, compaction=False),
    # retired at Anthropic, still served by other platforms
    "claude-opus-4": _limits(200_000, 32_000, "enabled disabled", efforts=(), compaction=False),
    "claude-sonnet-4": _limits(200_000, 64_000, "enabled disabled", efforts=(), compaction=False),
    "claude-3": _limits(200_000, 4_096, "disabled", efforts=(), tool_search=False, compaction=False),
}

_UNKNOWN_CLAUDE = ModelLimits(context_window=200_000, max_output=64_000, thinking=frozenset({"adaptive"}), known=False)
_UNKNOWN = ModelLimits(context_window=200_000, max_output=32_000, known=False)


def canonical(model: str) -> str:
    """The plain id of a Claude model behind what platforms wrap around it; another model's name as it is.

    `us.anthropic.claude-haiku-4-5-20251001-v1:0` (Bedrock), `claude-opus-4-5@20251101` (Google Cloud) and
    `anthropic/claude-opus-4.5` (gateways) are `claude-haiku-4-5`, `claude-opus-4-5`, `claude-opus-4-5`.
    """
    match = re.search(r"claude-[a-z0-9.-]+", model.lower())
    if match is None:
        return model
    return re.sub(r"(-\d{8})?(-v\d+)?(-latest)?$", "", match[0].replace(".", "-"))


def accepted_effort(model: str, wanted: str | None) -> str | None:
    """The effort to send to `model` where `wanted` is asked for: the next lower one that it has, or none.

    >>> accepted_effort("claude-opus-4-5", "max"), accepted_effort("claude-haiku-4-5", "low")
    ('high', None)
    """
    efforts = limits(model).efforts
    if wanted is None or wanted in efforts:
        return wanted
    most = EFFORTS.index(wanted) if wanted in EFFORTS else len(EFFORTS)
    return next((each for each in reversed(efforts) if EFFORTS.index(each) <= most), None)


def model_shown(named: str, answered: str) -> str:
    """The name to show of the run's model: `named`, until another than it has `answered`, as after a fallback."""
    differs = named and answered and canonical(answered) != canonical(named)
    return _file_name(canonical(answered)) if differs else _file_name(named)


def _file_name(model: str) -> str:
    """The name of a model that a local server calls by its file's path.

    >>> model_shown("local", "/models/SmolLM2-135M-Instruct.Q4_K_M.gguf"), model_shown("x", "meta-llama/Llama-3")
    ('SmolLM2-135M-Instruct.Q4_K_M', 'meta-llama/Llama-3')
    """
    is_path = model.lower().endswith(".gguf") or model.startswith(("/", "~", ".")) or model[1:3] in (":\\", ":/")
    return re.split(r"[/\\]", model)[-1].removesuffix(".gguf") or model if is_path else model


def model_name(model: str) -> str:
    """A model's name for people: `claude-opus-5-5` is `Opus 5.5`; the day of a release is left out."""
    family, *version = model.removeprefix("claude-").split("-")
    version = [part for part in version if len(part) < 8]
    return f"{family.capitalize()} {'.'.join(version)}".strip() if model.startswith("claude-") else model


def limits(model: str) -> ModelLimits:
    """Look up the limits of `model` in the table; never fails.

    A later version of a listed model (`claude-fable-5-2`) is like it, an unlisted Claude like the newest ones. Any
    other model (behind a gateway) gets no thinking field.
    """
    name = canonical(model)
    if not name.startswith("claude-"):
        return _UNKNOWN
    while name:
        if name in _LIMITS:
            return _LIMITS[name]
        name = name.rpartition("-")[0]
    return _UNKNOWN_CLAUDE


COMPACT_AT = 0.8
"""The part of a model's window at which a conversation is summed up, if no setting says another."""


def thinking_field(
    model: str, wanted: Thinking = "summarized", effort: str | None = None, budget: int = 0
) -> dict[str, Any] | None:
    """The `thinking` of a request. Summaries are asked for: what 5.5 models say between calls comes as thinking.

    `budget` (tokens, below the request's `max_tokens`) is for models that think only with one; with less than the API's
    least they do not think.
    """
    accepted = limits(model).thinking
    unwanted, unseen = wanted.startswith("disabled"), wanted.endswith("omitted")
    if unwanted and "disabled" in accepted and effort not in NEEDS_THINKING:
        return {"type": "disabled"}
    if "adaptive" in accepted:
        return {"type": "adaptive", "display": "omitted" if unseen else "summarized"}
    # a model cannot be given fewer tokens to think
    if "enabled" in accepted and not unwanted and budget >= 1_024:
        return {"type": "enabled", "budget_tokens": budget}
    return None


def may_think_now(messages: Sequence[bytes]) -> bool:
    """Return whether thinking with a budget may begin with this request: not in mid-turn, where the turn began without.

    The API refuses it behind a call whose message did not begin with thinking.
    """
    if not messages or b'"tool_result"' not in messages[-1]:
        return True
    answer = next((json.loads(message) for message in reversed(messages) if b'"assistant"' in message), None)
    content = answer["content"] if answer is not None else ()
    return not content or content[0]["type"] in ("thinking", "redacted_thinking")


def refined(table: ModelLimits, model_info: Mapping[str, Any]) -> ModelLimits:
    """`table` with what a `GET /v1/models/{id}` answer says; what it leaves out, or says without sense, is kept."""
    capabilities = _mapping(model_info.get("capabilities"))
    types = _mapping(_mapping(capabilities.get("thinking")).get("types"))
    thinking = frozenset(name for name in THINKING_TYPES if _mapping(types.get(name)).get("supported") is True)
    effort = _mapping(capabilities.get("effort"))
    levels = tuple(name for name in EFFORTS if _mapping(effort.get(name)).get("supported") is True)
    efforts = () if effort.get("supported") is False else levels or table.efforts or EFFORTS
    window, output = _size(model_info.get("max_input_tokens")), _size(model_info.get("max_tokens"))
    return table._replace(
        context_window=window or table.context_window,
        max_output=output or table.max_output,
        thinking=thinking if types else table.thinking,
        efforts=efforts if isinstance(effort.get("supported"), bool) else table.efforts,
        known=table.known or bool(window and output),
    )


def _size(value: Any) -> int:
    # more tokens than any window has
    return value if type(value) is int and 0 < value <= 1_000_000_000 else 0


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def is_among(model: str, patterns: Iterable[str]) -> bool:
    """Return whether any of `patterns` means `model`: a name (date optional), one with `*`, a line (`haiku`)."""
    name = model.lower()
    undated = re.sub(r"-\d{8}$", "", name)
    for pattern in map(str.lower, patterns):
        if fnmatchcase(name, pattern) or fnmatchcase(undated, pattern) or pattern in undated.split("-"):
            return True
    return False
