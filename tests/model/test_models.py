"""What models take."""

import pytest

from cellwright.model.models import canonical, limits, refined, thinking_field
from row_tables import for_each_row

SUMMARISED = {"type": "adaptive", "display": "summarized"}


@for_each_row(
    ("name", "plain"),
    [
        ("claude-opus-5-5", "claude-opus-5-5"),
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.claude-opus-5-5", "claude-opus-5-5"),
        ("claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("anthropic/claude-sonnet-5.5", "claude-sonnet-5-5"),
        ("claude-opus-5-5[1m]", "claude-opus-5-5"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku"),
        ("llama-4:70b", "llama-4:70b"),
    ],
)
def test_platforms_wrap_names(name, plain):
    assert canonical(name) == plain


@for_each_row(
    ("model", "window", "output", "thinking", "effort"),
    [
        ("claude-opus-5-5", 1_000_000, 128_000, SUMMARISED, True),
        ("claude-sonnet-5-5", 1_000_000, 128_000, SUMMARISED, True),
        ("claude-haiku-5-5", 1_000_000, 128_000, SUMMARISED, True),
        ("claude-fable-5-2", 1_000_000, 128_000, SUMMARISED, True),
        ("claude-mythos-5-1", 1_000_000, 128_000, SUMMARISED, True),
        ("claude-opus-5", 1_000_000, 128_000, SUMMARISED, True),
        ("claude-opus-4-6", 1_000_000, 128_000, SUMMARISED, True),
        ("claude-opus-4-5-20251101", 200_000, 64_000, None, True),
        ("claude-sonnet-4-5", 200_000, 64_000, None, False),
        ("claude-haiku-4-5", 200_000, 64_000, None, False),
        ("claude-opus-4-1-20250805", 200_000, 32_000, None, False),
        ("claude-3-7-sonnet-20250219", 200_000, 4_096, None, False),
        ("claude-unheard-of", 200_000, 64_000, SUMMARISED, True),
        ("qwen3-coder", 200_000, 32_000, None, True),
    ],
)
def test_the_table(model, window, output, thinking, effort):
    found = limits(model)
    assert (found.context_window, found.max_output, found.effort) == (window, output, effort)
    assert thinking_field(model) == thinking


def test_a_guess_says_that_it_is_one():
    assert limits("claude-opus-5-5").known
    assert not limits("claude-unheard-of").known
    assert not limits("qwen3-coder").known


def supported(value: bool) -> dict[str, bool]:
    return {"supported": value}


def test_the_api_knows_better():
    info = {
        "max_input_tokens": 2_000_000,
        "max_tokens": 256_000,
        "capabilities": {
            "thinking": {"supported": True, "types": {"adaptive": supported(True), "disabled": supported(False)}},
            "effort": {"supported": False},
        },
    }
    newer = refined(limits("claude-unheard-of"), info)
    assert (newer.context_window, newer.max_output, newer.effort, newer.known) == (2_000_000, 256_000, False, True)
    assert newer.thinking == {"adaptive"}


@pytest.mark.parametrize(
    "info",
    [
        {},
        {"max_input_tokens": None, "max_tokens": "many", "capabilities": None},
        {"max_input_tokens": True, "max_tokens": -5, "capabilities": {"thinking": [], "effort": "yes"}},
    ],
)
def test_what_makes_no_sense_changes_nothing(info):
    table = limits("claude-opus-5-5")
    assert refined(table, info) == table
