"""The models: the limits of each (context, output, kinds of thinking, effort), and what its requests cost.

The table of limits is the documentation's of November 2026; the API itself knows it newer (`GET /v1/models/{id}`), and
`refined` folds that in. Requests are built from the table alone: one that changes in mid-session would restart the
cache.

Prices are Anthropic's list prices in US dollars per million tokens. Platforms that add to them for a region are not
followed, so there the figure is an estimate. A model or a speed whose price is not known has the cost None, never 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

from msgspec import Struct, field

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

PRICES_DATE = "2026-11-21"
"""The day the table was last held against the published prices."""

WEB_SEARCH_USD = 0.01
US_ONLY_FACTOR = 1.1
"""The price factor that `inference_geo: "us"` adds."""

_TOKEN_FIELDS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


MAX_COUNT = 1_000_000_000
"""More tokens than any request has: a larger count says nothing, and would end the sums, the cost and the session."""


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


def usage_of(value: Any) -> dict[str, Any]:
    """A usage block as the wire brings it, with the numbers that can be believed. Raises TypeError where it is none.

    A count beyond `MAX_COUNT` is left out, as one that was not said; the names of a tier, a place or a speed may stand
    among the counts.
    """
    if not isinstance(value, Mapping | None):
        raise TypeError(f"usage is {value!r:.100}")
    usage: dict[str, Any] = {}
    for key, counted in (value or {}).items():
        if key == "iterations":
            usage[key] = list(map(usage_of, counted or ()))
        elif isinstance(counted, Mapping):
            usage[key] = usage_of(counted)
        elif type(counted) in (int, float) and counted >= 0:
            usage[key] = counted if counted <= MAX_COUNT else None
        elif key.endswith(("_tokens", "_requests")) and counted is not None:
            raise TypeError(f"{key} is {counted!r:.100}")
        else:  # what is no count: a number here could not be added up
            usage[key] = None if type(counted) in (int, float) else counted
    return usage


class Price(Struct, frozen=True):
    """US dollars per million tokens. Writing the cache costs 1.25 times the input for 5 minutes, twice for an hour."""

    input: float
    output: float
    cache_read: float

    @property
    def cache_write_5m(self) -> float:
        return self.input * 1.25

    @property
    def cache_write_1h(self) -> float:
        return self.input * 2


class Tariff(Struct, frozen=True):
    """A model's price, and the one of a request whose prompt (cached parts included) is over `long_from` tokens."""

    price: Price
    long_from: int = 0
    long_price: Price | None = None

    def of(self, prompt_tokens: int) -> Price:
        return self.long_price if self.long_price is not None and prompt_tokens > self.long_from else self.price


_TARIFFS = {
    # what the cache read of 5.2 costs was not found: a tenth of the input, as the rule was
    "claude-fable-5-2": Tariff(Price(8, 40, 0.80)),
    "claude-mythos-5-2": Tariff(Price(8, 40, 0.80)),
    "claude-fable-5-1": Tariff(Price(10, 50, 0.25)),
    "claude-mythos-5-1": Tariff(Price(10, 50, 0.25)),
    "claude-fable-5": Tariff(Price(10, 50, 1.00)),
    "claude-mythos-5": Tariff(Price(10, 50, 1.00)),
    "claude-opus-5-5": Tariff(Price(4, 20, 0.20)),
    "claude-sonnet-5-5": Tariff(Price(2, 10, 0.10)),
    "claude-haiku-5-5": Tariff(Price(0.10, 0.50, 0.01), 100_000, Price(0.50, 2.50, 0.05)),
    "claude-opus-5": Tariff(Price(5, 25, 0.50)),
    "claude-sonnet-5": Tariff(Price(2, 10, 0.20)),
    "claude-opus-4-8": Tariff(Price(5, 25, 0.50)),
    "claude-opus-4-7": Tariff(Price(5, 25, 0.50)),
    "claude-opus-4-6": Tariff(Price(5, 25, 0.50)),
    "claude-opus-4-5": Tariff(Price(5, 25, 0.50)),
    "claude-sonnet-4-6": Tariff(Price(3, 15, 0.30)),
    "claude-sonnet-4-5": Tariff(Price(3, 15, 0.30)),
    "claude-haiku-4-5": Tariff(Price(1, 5, 0.10)),
}


BATCH_FACTOR = 0.5
"""A message of the Message Batches API costs half."""


def cost_usd(model: str, usage: Mapping[str, Any]) -> float | None:
    """Compute the cost of a request with this `usage` block, in US dollars; None where a price is not known.

    A block with `iterations` is billed as their sum, each at its own model's price and its own prompt's length.
    """
    if usage.get("speed") == "fast":
        return None
    parts = [_tokens_usd(part.get("model") or model, part) for part in _billed_parts(usage)]
    if any(part is None for part in parts):
        return None
    tokens_usd = sum(part for part in parts if part is not None)
    if usage.get("inference_geo") == "us":
        tokens_usd *= US_ONLY_FACTOR
    if usage.get("service_tier") == "batch":
        tokens_usd *= BATCH_FACTOR
    searches = (usage.get("server_tool_use") or {}).get("web_search_requests") or 0
    return tokens_usd + searches * WEB_SEARCH_USD


def price_of(model: str, prompt_tokens: int = 0) -> Price | None:
    """The price of `model` for a prompt of this size; None where it is not known."""
    tariff = _TARIFFS.get(canonical(model))
    return None if tariff is None else tariff.of(prompt_tokens)


def worst_case_usd(model: str, input_tokens: int, max_tokens: int) -> float | None:
    """The most a request of `input_tokens` can cost, in US dollars: all of them written to the cache, all output used.

    A long prompt can change the price of the output too: what a token of output costs is the difference of two calls
    with the same `input_tokens`. None where the price is not known.
    """
    tariff = _TARIFFS.get(canonical(model))
    if tariff is None:
        return None
    price = tariff.of(input_tokens)
    return (input_tokens * price.cache_write_1h + max_tokens * price.output) / 1_000_000


class Total(Struct, frozen=True):
    """Usage and cost of answers; None where the price of one is not known."""

    usage: Mapping[str, Any]
    cost_usd: float | None

    def plus(self, usage: Mapping[str, Any], cost_usd: float | None) -> Total:
        both = self.cost_usd is not None and cost_usd is not None
        return Total(add_usage(self.usage, usage), self.cost_usd + cost_usd if both else None)  # type: ignore[operator]


class Tally(Struct, frozen=True):
    """The number of answers, and what they came to together."""

    count: int = 0
    total: Total = field(default_factory=lambda: Total({}, 0.0))

    def plus(self, usage: Mapping[str, Any], cost_usd: float | None) -> Tally:
        return Tally(self.count + 1, self.total.plus(usage, cost_usd))


def add_usage(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """The sum of two usage blocks: every count, nested ones too. Words such as the service tier are left out.

    What `iterations` holds is added to the counts, so that the sum is what was billed.
    """
    return _add(_billed(a), _billed(b))


def context_tokens(usage: Mapping[str, Any]) -> int:
    """Count the tokens of the conversation after the message with this usage: prompt, cached or not, and output."""
    last = _billed_parts(usage)[-1]
    return sum(last.get(name) or 0 for name in _TOKEN_FIELDS)


def _tokens_usd(model: str, usage: Mapping[str, Any]) -> float | None:
    tariff = _TARIFFS.get(canonical(model))
    if tariff is None or usage.get("output_tokens") is None:
        return None
    fresh, output, written, read = (usage.get(name) or 0 for name in _TOKEN_FIELDS)
    by_ttl = usage.get("cache_creation") or {}
    for_an_hour = by_ttl.get("ephemeral_1h_input_tokens") or 0
    written = max(written, for_an_hour)
    price = tariff.of(fresh + written + read)
    total = (
        fresh * price.input
        + (written - for_an_hour) * price.cache_write_5m
        + for_an_hour * price.cache_write_1h
        + read * price.cache_read
        + output * price.output
    )
    return total / 1_000_000


def _billed_parts(usage: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return usage.get("iterations") or [usage]


def _billed(usage: Mapping[str, Any]) -> dict[str, Any]:
    iterations = usage.get("iterations")
    if not iterations:
        return dict(usage)
    whole = {key: value for key, value in usage.items() if key not in (*_TOKEN_FIELDS, "cache_creation", "iterations")}
    for iteration in iterations:
        whole = _add(whole, {key: iteration.get(key) for key in (*_TOKEN_FIELDS, "cache_creation")})
    return whole


def _add(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for key in [*a, *(key for key in b if key not in a)]:
        ours, theirs = a.get(key), b.get(key)
        if isinstance(ours, Mapping) or isinstance(theirs, Mapping):
            total[key] = _add(ours or {}, theirs or {})
        elif isinstance(ours, int | float) or isinstance(theirs, int | float):
            total[key] = (ours or 0) + (theirs or 0)
    return total
