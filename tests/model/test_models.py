"""What models take."""

import pytest

from cellwright.model.models import EFFORTS, accepted_effort, canonical, limits, refined, thinking_field
from cellwright.testing.rules.models import MODELS
from row_tables import for_each_row

NO_XHIGH = ("low", "medium", "high", "max")
UP_TO_HIGH = ("low", "medium", "high")
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
    ("model", "window", "output", "thinking", "efforts"),
    [
        ("claude-opus-5-5", 1_000_000, 128_000, SUMMARISED, EFFORTS),
        ("claude-sonnet-5-5", 1_000_000, 128_000, SUMMARISED, EFFORTS),
        ("claude-haiku-5-5", 1_000_000, 128_000, SUMMARISED, EFFORTS),
        ("claude-fable-5-2", 1_000_000, 128_000, SUMMARISED, EFFORTS),
        ("claude-mythos-5-1", 1_000_000, 128_000, SUMMARISED, EFFORTS),
        ("claude-opus-5", 1_000_000, 128_000, SUMMARISED, EFFORTS),
        ("claude-opus-4-6", 1_000_000, 128_000, SUMMARISED, NO_XHIGH),
        ("claude-opus-4-5-20251101", 200_000, 64_000, None, UP_TO_HIGH),
        ("claude-sonnet-4-5", 200_000, 64_000, None, ()),
        ("claude-haiku-4-5", 200_000, 64_000, None, ()),
        ("claude-opus-4-1-20250805", 200_000, 32_000, None, ()),
        ("claude-3-7-sonnet-20250219", 200_000, 4_096, None, ()),
        ("claude-unheard-of", 200_000, 64_000, SUMMARISED, EFFORTS),
        ("qwen3-coder", 200_000, 32_000, None, EFFORTS),
    ],
)
def test_the_table(model, window, output, thinking, efforts):
    found = limits(model)
    assert (found.context_window, found.max_output, found.efforts) == (window, output, efforts)
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
    assert (newer.context_window, newer.max_output, newer.efforts, newer.known) == (2_000_000, 256_000, (), True)
    assert newer.thinking == {"adaptive"}


def test_the_api_says_which_efforts_there_are():
    efforts = {"supported": True, **{name: supported(name in ("low", "high")) for name in EFFORTS}}
    newer = refined(limits("claude-haiku-4-5"), {"capabilities": {"effort": efforts}})
    assert newer.efforts == ("low", "high")


def test_the_table_has_the_efforts_that_the_api_takes():
    assert {name: limits(name).efforts for name in MODELS} == {name: model.efforts for name, model in MODELS.items()}


@for_each_row(
    ("model", "wanted", "sent"),
    [
        ("claude-opus-5-5", "max", "max"),
        ("claude-opus-4-6", "xhigh", "high"),
        ("claude-opus-4-6", "max", "max"),
        ("claude-opus-4-5", "max", "high"),
        ("claude-opus-4-5", "xhigh", "high"),
        ("claude-haiku-4-5", "low", None),
        ("claude-opus-4-5", None, None),
        ("qwen3-coder", "max", "max"),
    ],
)
def test_an_effort_that_the_model_lacks_is_lowered(model, wanted, sent):
    assert accepted_effort(model, wanted) == sent


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
