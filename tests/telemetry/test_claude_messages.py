"""Claude Code's messages of a run."""

from __future__ import annotations

from typing import Any

from cellwright.events import HookSpending, RunEnd, SubagentEvent
from cellwright.telemetry.claude_messages import ClaudeMessages


def ended(**fields: Any) -> RunEnd:
    return RunEnd("end_turn", "ok", {}, 0.5, 10.0, 2, 1, 0, **fields)


def test_the_models_that_hooks_used_are_among_those_of_the_result() -> None:
    of_agent = ended(hook_models={"claude-haiku-5-5": HookSpending({"input_tokens": 3}, 0.1)})
    of_run = ended(hook_models={"claude-haiku-5-5": HookSpending({"input_tokens": 4, "output_tokens": 2}, 0.2)})
    messages = ClaudeMessages(lambda: {})
    assert list(messages.messages(SubagentEvent("toolu_1", "agent", "explore", of_agent))) == []
    (result,) = messages.messages(of_run)
    counted = result["modelUsage"]["claude-haiku-5-5"]
    assert (counted["inputTokens"], counted["outputTokens"]) == (7, 2)
    assert abs(counted["costUSD"] - 0.3) < 1e-9
