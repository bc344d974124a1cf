"""Prices of requests: the price list, the cost of a `usage` block, sums of usage, and the most a request may cost.

Prices are Anthropic's list prices in US dollars per million tokens. Platforms that add to them for a region are not
followed, so there the figure is an estimate. A model or a speed whose price is not known has the cost None, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from cellwright.model.models import canonical

PRICES_DATE = "2026-11-21"
"""The day the table was last held against the published prices."""

WEB_SEARCH_USD = 0.01
US_ONLY_FACTOR = 1.1
"""The price factor that `inference_geo: "us"` adds."""

_TOKEN_FIELDS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


MAX_COUNT = 1_000_000_000
"""More tokens than any request has: a larger count says nothing, and would end the sums, the cost and the session."""


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
