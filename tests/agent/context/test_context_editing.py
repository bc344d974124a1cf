"""Context editing by the API: old results are left out, the history stays; and what that costs where there is a cache."""

import os

import pytest
from msgspec.structs import replace
from tests.agent.context.test_compaction import dig

from cellwright.agent.agent_setup import CompactionSettings
from cellwright.events import TurnEnd
from cellwright.model.anthropic import AnthropicProvider
from cellwright.model.credentials import choose_transport
from cellwright.testing import say, think, turn, use

STEPS = 70
WINDOW = CompactionSettings(window=100_000)


@pytest.fixture
def played(scene):
    """`played(clear)`: a long turn of results of 1,000 tokens, with context editing or without."""

    def play(*, clear):
        steps = [turn(think("Deeper."), use("dig", words=900))] * STEPS
        made = scene([*steps, say("done")], tools=[dig], compaction=replace(WINDOW, clear_tool_results=clear))
        environ = {**os.environ, "ANTHROPIC_BASE_URL": made.server.url, "ANTHROPIC_API_KEY": made.server.api_key}
        object.__setattr__(made.agent, "provider", AnthropicProvider(choose_transport(environ), own_compaction=True))
        made.go_on("Dig.")
        assert made.end.ok, made.end.error
        assert made.server.rejected == []
        return made

    return play


def largest(played):
    return max(end.context_tokens for end in played.of(TurnEnd))


def test_old_results_are_left_out_and_the_history_stays(played):
    cleared = played(clear=True)
    edit = cleared.bodies[-1]["context_management"]["edits"][0]
    assert edit["trigger"] == {"type": "input_tokens", "value": 40_000}
    assert "context-management-2025-06-27" in cleared.server.requests[-1].headers["anthropic-beta"]
    assert largest(cleared) < 41_000 < 70_000 < largest(played(clear=False))
    assert len(cleared.bodies[-1]["messages"]) == 2 * STEPS + 1


def test_with_a_cache_it_costs_more_than_it_saves(played):
    """The reason for which it is off: docs/decisions/compaction.md."""
    with_it, without = played(clear=True).end.cost_usd, played(clear=False).end.cost_usd
    print(f"with it ${with_it:.3f}, without ${without:.3f}")
    assert with_it > 1.2 * without
