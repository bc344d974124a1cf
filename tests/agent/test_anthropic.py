"""What a request has cached is read by the next one, whatever happened between: nothing is written to the cache twice."""

import dataclasses
import random
from itertools import pairwise

import pytest
from tests.agent.plain_tools import fail, look

from cellwright.agent.agent_setup import ModelSettings
from cellwright.events import TurnEnd
from cellwright.sessions.session import Session
from cellwright.testing import say, think, turn, use

PROMPT = "Look at these things, and say what they have in common. " * 60


def written_again(ends: list[TurnEnd]) -> list[str]:
    """The requests that read less than the ones before them had cached."""
    cached = [
        (
            end.usage["cache_read_input_tokens"],
            end.usage["cache_read_input_tokens"] + end.usage["cache_creation_input_tokens"],
        )
        for end in ends
    ]
    return [
        f"request {number}: {read:,} read, {before:,} were cached"
        for number, ((_, before), (read, _)) in enumerate(pairwise(cached), 2)
        if read < before
    ]


@pytest.mark.parametrize("calls", [1, 9, 10, 19, 40])
def test_parallel_calls_do_not_write_the_conversation_again(play, calls):
    step = turn(think("All at once."), say("I look."), *[use("look", name=f"{number}.txt") for number in range(calls)])
    played = play([step, step, step, say("done")], PROMPT, tools=[look])
    assert not written_again(played.of(TurnEnd))


@pytest.mark.parametrize(("ttl", "hour"), [(None, False), ("5m", False), ("1h", True)])
def test_the_cache_lives_as_long_as_the_setting_says(scene, ttl, hour):
    """A session begun with one setting goes on with another: what an hour keeps stands before what five minutes keep."""
    played = scene([turn(use("look", name="a")), say("one"), say("two")], tools=[look], cache_ttl="5m")
    played.go_on(PROMPT)
    played.agent = dataclasses.replace(played.agent, model_settings=ModelSettings(cache_ttl=ttl))
    played.go_on(PROMPT)
    first, *_, last = [end.usage["cache_creation"] for end in played.of(TurnEnd)]
    assert first["ephemeral_1h_input_tokens"] == 0
    assert first["ephemeral_5m_input_tokens"] > 500
    # the server's entries have no time: what was written for five minutes is still read
    assert (last["ephemeral_1h_input_tokens"] > 500, last["ephemeral_5m_input_tokens"] > 500) == (hour, not hour)


def random_turn(chance: random.Random):
    kind = chance.choice(["calls"] * 6 + ["answer", "answer", "refusal", "cut", "paused"])
    words = [think("Hm.")] * chance.randint(0, 1) + [say("Then this. " * chance.randint(1, 30))] * chance.randint(0, 1)
    if kind == "calls":
        calls = [use(chance.choice(["look", "look", "fail"]), name=f"{n}.txt") for n in range(chance.randint(1, 40))]
        return turn(*words, *[part for call in calls for part in ([say("and")] * (chance.random() < 0.1) + [call])])
    reasons = {"answer": "end_turn", "refusal": "refusal", "cut": "max_tokens", "paused": "pause_turn"}
    return turn(*words, say("So it is."), stop_reason=reasons[kind])


def test_random_conversations_are_cached_once(scene):
    """Prompts of random answers: calls side by side, refusals, cut and paused answers, resumed and forked sessions."""
    wrong = []
    for seed in range(25):
        chance = random.Random(seed)
        played = scene([], tools=[look, fail])
        for _ in range(5):
            played.server.add(*[random_turn(chance) for _ in range(chance.randint(0, 4))], say("done"), say("done"))
            played.go_on(PROMPT if chance.random() < 0.5 else "Go on.")
            played.server.clear()
            if chance.random() < 0.3:
                played.session.close()
                played.session = Session.load(played.session.path)
            elif chance.random() < 0.2:
                played.session = played.session.fork()
        ends = played.of(TurnEnd)
        assert len(ends) >= 5
        wrong += [f"conversation {seed}, {each}" for each in written_again(ends)]
    assert not wrong
