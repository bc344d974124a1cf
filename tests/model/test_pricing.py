"""Costs, against figures reckoned by hand from the published prices."""

import pytest

from cellwright.model.pricing import add_usage, context_tokens, cost_usd, worst_case_usd
from row_tables import for_each_row


def usage(fresh: int = 0, output: int = 0, *, written: int = 0, read: int = 0, hour: int = 0) -> dict[str, object]:
    return {
        "input_tokens": fresh,
        "output_tokens": output,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "cache_creation": {"ephemeral_1h_input_tokens": hour, "ephemeral_5m_input_tokens": written - hour},
    }


@for_each_row(
    ("model", "tokens", "dollars"),
    [
        # opus 5.5: 4 in, 20 out, writes 5 (5 min) and 8 (1 h), reads 0.20
        ("claude-opus-5-5", usage(1_000_000), 4.0),
        ("claude-opus-5-5", usage(0, 1_000_000), 20.0),
        ("claude-opus-5-5", usage(written=1_000_000), 5.0),
        ("claude-opus-5-5", usage(written=1_000_000, hour=1_000_000), 8.0),
        ("claude-opus-5-5", usage(written=1_000_000, hour=400_000), 3.0 + 3.2),
        ("claude-opus-5-5", usage(read=1_000_000), 0.20),
        ("claude-opus-5-5", usage(1000, 500, written=2000, read=50_000), 0.004 + 0.01 + 0.01 + 0.01),
        # haiku 5.5: five times the price for a prompt over 100,000 tokens, however much of it is cached
        ("claude-haiku-5-5", usage(100_000, 10_000), 0.010 + 0.005),
        ("claude-haiku-5-5", usage(100_001, 10_000), 0.0500005 + 0.025),
        ("claude-haiku-5-5", usage(1, 10_000, read=100_000), 0.0000005 + 0.025 + 0.005),
        ("claude-haiku-5-5", usage(written=80_000), 0.010),
        ("claude-haiku-5-5", usage(written=80_000, hour=80_000), 0.016),
        ("claude-sonnet-5-5", usage(1_000_000, 1_000_000, written=1_000_000, read=1_000_000), 2 + 10 + 2.5 + 0.1),
        ("claude-fable-5-1", usage(1_000_000, 1_000_000, written=1_000_000, read=1_000_000), 10 + 50 + 12.5 + 0.25),
        ("claude-fable-5-2", usage(1_000_000, 1_000_000), 8 + 40),
        ("claude-opus-5", usage(1_000_000, 1_000_000, read=1_000_000), 5 + 25 + 0.5),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", usage(1_000_000, 1_000_000, read=1_000_000), 1 + 5 + 0.1),
    ],
)
def test_prices(model, tokens, dollars):
    assert cost_usd(model, tokens) == pytest.approx(dollars)


@pytest.mark.parametrize("model", ["claude-opus-6", "claude-opus-5-6", "llama-4", ""])
def test_an_unknown_price_is_none(model):
    assert cost_usd(model, usage(1, 1)) is None
    assert worst_case_usd(model, 1, 1) is None


def test_what_cannot_be_reckoned_is_none():
    assert cost_usd("claude-opus-5-5", {}) is None, "a gateway that counts nothing"
    assert cost_usd("claude-opus-5-5", {**usage(1, 1), "speed": "fast"}) is None


def test_extras():
    searched = {**usage(), "server_tool_use": {"web_search_requests": 3, "web_fetch_requests": 2}}
    assert cost_usd("claude-opus-5-5", searched) == pytest.approx(0.03)
    in_the_us = {**usage(1_000_000), "inference_geo": "us"}
    assert cost_usd("claude-opus-5-5", in_the_us) == pytest.approx(4.4)
    nothing_special = {**usage(1_000_000), "server_tool_use": None, "cache_creation": None, "inference_geo": "global"}
    assert cost_usd("claude-opus-5-5", nothing_special) == pytest.approx(4.0)


def test_iterations_are_what_is_billed():
    parts = [
        {"type": "compaction", **usage(1_000_000, 100_000)},
        {"type": "message", **usage(0, 50_000, read=10_000)},
        {"type": "advisor_message", "model": "claude-fable-5-1", **usage(1000, 1000)},
    ]
    whole = {**usage(), "iterations": parts}
    assert cost_usd("claude-opus-5-5", whole) == pytest.approx((4 + 2) + (1 + 0.002) + (0.01 + 0.05))
    unknown = {**usage(), "iterations": [*parts, {"model": "claude-opus-9", **usage(1, 1)}]}
    assert cost_usd("claude-opus-5-5", unknown) is None


def test_the_worst_case_is_never_less_than_the_cost():
    for model in ("claude-opus-5-5", "claude-haiku-5-5"):
        for prompt in (10, 99_999, 150_000):
            worst = worst_case_usd(model, prompt, 1000)
            assert worst is not None
            for real in (usage(prompt, 1000), usage(0, 1000, written=prompt, hour=prompt), usage(0, 9, read=prompt)):
                assert worst >= (cost_usd(model, real) or 0) - 1e-12


def test_the_worst_case_by_hand():
    assert worst_case_usd("claude-opus-5-5", 100_000, 32_000) == pytest.approx(0.8 + 0.64)
    assert worst_case_usd("claude-haiku-5-5", 200_000, 1_000_000) == pytest.approx(0.2 + 2.5)


def test_usage_adds_up():
    a = {**usage(1, 2, written=3, read=4, hour=3), "service_tier": "standard", "server_tool_use": None}
    b = {
        **usage(10, 20),
        "server_tool_use": {"web_search_requests": 1},
        "output_tokens_details": {"thinking_tokens": 5},
    }
    total = add_usage(a, b)
    assert total == {
        "input_tokens": 11,
        "output_tokens": 22,
        "cache_creation_input_tokens": 3,
        "cache_read_input_tokens": 4,
        "cache_creation": {"ephemeral_1h_input_tokens": 3, "ephemeral_5m_input_tokens": 0},
        "server_tool_use": {"web_search_requests": 1},
        "output_tokens_details": {"thinking_tokens": 5},
    }
    assert add_usage({}, total) == total


def test_a_sum_holds_what_was_billed():
    whole = {**usage(), "iterations": [{"type": "compaction", **usage(5, 6)}, {"type": "message", **usage(1, 2)}]}
    total = add_usage({}, whole)
    assert (total["input_tokens"], total["output_tokens"]) == (6, 8)
    assert "iterations" not in total


def test_the_context_is_the_last_prompt_and_its_answer():
    assert context_tokens(usage(1, 2, written=30, read=400)) == 433
    assert context_tokens({**usage(), "iterations": [usage(9000, 1), usage(1, 2, read=30)]}) == 33
    assert context_tokens({}) == 0
