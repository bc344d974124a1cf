"""Amounts in what slash commands tell."""

from __future__ import annotations

import pytest

from cellwright.commands.cost import usd


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (0, "0.00 USD"),
        (0.00003, "less than 0.0001 USD"),
        (0.0321, "0.0321 USD"),
        (12.3456, "12.35 USD"),
        (None, "not known: a model's price is missing"),
    ],
)
def test_small_amounts_can_be_told_apart_and_none_is_mathematics(amount: float | None, words: str) -> None:
    assert usd(amount) == words
