"""What is spent: answers that broke off count too, and a budget bounds all of it."""

import asyncio
import contextlib

import pytest

from cellwright.agent.loop import run_agent
from cellwright.events import TextDelta, TurnEnd
from cellwright.sessions.session import Session
from cellwright.testing import Gate, fault, hold, say, turn


class TestLostAnswers:
    """An answer that breaks off was paid for: its input wholly, its output as far as it came."""

    LONG = "word " * 600

    async def interrupted(self, played):
        with contextlib.suppress(asyncio.CancelledError):
            await run_agent(played.agent, "go", played.session, lambda event: self.stop_at_text(played, event))

    def stop_at_text(self, played, event):
        played.events.append(event)
        if isinstance(event, TextDelta):
            asyncio.current_task().cancel()

    def test_what_a_retry_threw_away_counts(self, play):
        played = play([turn(say(self.LONG), fault("truncated")), say("done")])
        assert played.end.text == "done"
        kept = played.of(TurnEnd)[0]
        assert played.end.cost_usd > kept.cost_usd + len(self.LONG) / 4 * 20 / 1e6
        assert played.end.usage["output_tokens"] >= kept.usage["output_tokens"] + len(self.LONG) / 4
        assert played.end.session_cost_usd == pytest.approx(played.end.cost_usd)
        played.session.close()
        again = Session.load(played.session.path)
        assert again.cost_usd == pytest.approx(played.end.cost_usd)
        assert again.usage == played.end.usage

    def test_the_attempt_after_which_the_run_gives_up_counts(self, play):
        played = play([turn(say(self.LONG), fault("error_event", error_type="invalid_request_error"))])
        assert not played.end.ok
        assert played.end.cost_usd > 0.01
        assert played.end.session_cost_usd == pytest.approx(played.end.cost_usd)

    def test_an_attempt_that_never_began_costs_nothing(self, play):
        played = play([fault("status", status=529, retry_after_ms=1), say("done")])
        assert played.end.cost_usd == pytest.approx(played.of(TurnEnd)[0].cost_usd)

    def test_what_was_interrupted_counts(self, scene):
        gate = Gate()
        played = scene([turn(say(self.LONG), hold(gate)), say("on")])
        asyncio.run(self.interrupted(played))
        assert played.end.stop_reason == "interrupted"
        assert played.end.cost_usd > 0
        interrupted = played.end.cost_usd
        assert played.go_on("again").session_cost_usd == pytest.approx(interrupted + played.end.cost_usd)

    def test_a_budget_bounds_all_attempts_together(self, play):
        def breaks_off(body):
            return turn(say("x" * min(12_000, body["max_tokens"] * 3)), fault("truncated"))

        played = play(breaks_off, budget_usd=0.3)
        assert played.end.error["code"] == "BUDGET_EXCEEDED"
        assert 0.15 < played.end.cost_usd <= 0.3
        asked_for = [body["max_tokens"] for body in played.bodies]
        assert asked_for == sorted(asked_for, reverse=True)
        assert len(set(asked_for)) > 1


def test_every_prompt_that_was_not_answered_counts_for_the_budget(scene):
    played = scene([fault("status", status=401)] * 3 + [say("done")], budget_usd=0.5)
    for _ in range(3):
        assert not played.go_on("word " * 8_000).ok
    assert played.go_on("go").ok
    # 120,000 characters that may cost $0.32 leave $0.18 for the answer
    assert played.bodies[-1]["max_tokens"] < 10_000
