"""Texts with gaps: what a wildcard in a rule leaves of it."""

from __future__ import annotations

from collections.abc import Sequence


def matches_pieces(pieces: Sequence[str], text: str) -> bool:
    """Whether `text` is `pieces` in this order with anything between them."""
    if len(pieces) == 1:
        return text == pieces[0]
    first, *middle, last = pieces
    end = len(text) - len(last)
    if len(first) > end or not (text.startswith(first) and text.endswith(last)):
        return False
    at = len(first)
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
