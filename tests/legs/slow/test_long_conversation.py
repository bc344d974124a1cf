"""A session of a thousand turns with a window of 200,000 tokens: it goes on, and forgets nothing that it must not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright.sessions.session import Session
from long_session import play

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]


def test_a_thousand_turns_in_a_window_of_200000_tokens(tmp_path: Path, own_place: Path) -> None:
    played = play(tmp_path / "home", 1_000, {})
    print(
        f"{played.requests} requests, {len(played.compactions)} compactions, at most {played.max_input_tokens:,} tokens of "
        f"input, ${played.cost_usd:.2f} (summaries ${sum(each.cost_usd or 0 for each in played.compactions):.2f}), "
        f"{played.seconds:.0f} s, transcript {played.transcript.stat().st_size / 1e6:.1f} MB"
    )
    assert (played.errors, played.rejected, played.missing) == ([], [], [])
    assert played.requests >= 1_000
    assert len(played.compactions) >= 5
    assert played.max_input_tokens < 200_000
    session = Session.load(played.transcript)
    assert session.encoded == played.sent
    assert len(session.story) == played.story
