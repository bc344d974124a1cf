"""Each answer is counted once: in its run, in its session, in the list of sessions; whatever became of it."""

import asyncio
import contextlib

import pytest
from tests.agent.plain_tools import change, look

from cellwright.agent.loop import run_agent
from cellwright.agent.tool import ToolContext, tool
from cellwright.events import RunEnd, TextDelta, TurnEnd
from cellwright.sessions.catalog.catalog import Catalog, fork_at
from cellwright.sessions.session import Session
from cellwright.testing import Gate, fault, hold, say, turn, use

LONG = "word " * 600
SIDE_USD = 0.125


@tool(read_only=True)
async def page(name: str, ctx: ToolContext) -> str:
    """Have a small model read a page."""
    ctx.spend({"input_tokens": 10, "output_tokens": 5}, SIDE_USD)
    return f"{name} is a page"


def stopped(played):
    """Run a prompt that is stopped in the middle of its answer."""

    def at_text(event):
        played.events.append(event)
        if isinstance(event, TextDelta):
            asyncio.current_task().cancel()

    async def run():
        with contextlib.suppress(asyncio.CancelledError):
            await run_agent(played.agent, "go", played.session, at_text)

    asyncio.run(run())


def resumed(played):
    played.session.close()
    played.session = Session.load(played.session.path)


def forked(played):
    before = played.session
    played.session = before.fork()
    before.close()


def forked_with_other_tools(played):
    before = played.session
    played.session = before.fork(tools=[tool.to_param() for tool in (look, page)])
    before.close()


def forked_at_the_first_turn(played):
    played.session.close()
    played.session = fork_at(played.session.path, 1)


def prompt(played):
    played.go_on("go")


GATE = Gate()

SCENES = {
    "one answer": ([say("a")], [prompt]),
    "calls": ([turn(use("look", name="a"), use("change", name="b")), say("a")], [prompt]),
    "a side request": ([turn(use("page", name="a"), use("page", name="b")), say("a")], [prompt]),
    "a retry": ([turn(say(LONG), fault("truncated")), say("a")], [prompt]),
    "no answer at all": ([fault("status", status=400)], [prompt]),
    "a refusal": ([turn(say("No."), stop_reason="refusal"), say("a")], [prompt, prompt]),
    "a refusal, then a resume": ([turn(say("No."), stop_reason="refusal"), say("a")], [prompt, resumed, prompt]),
    "an answer without content": ([turn(use("look", name="a")), turn(stop_reason="end_turn")], [prompt]),
    "cut at the limit": ([turn(say("a"), stop_reason="max_tokens"), say("b")], [prompt]),
    "stopped": ([turn(say(LONG), hold(GATE)), say("a")], [stopped, prompt]),
    "stopped, and nothing after it": ([turn(say(LONG), hold(GATE))], [stopped]),
    "stopped, then a fork": ([say("a"), turn(say(LONG), hold(GATE)), say("b")], [prompt, stopped, forked, prompt]),
    "a resume": ([say("a"), say("b")], [prompt, resumed, prompt]),
    "a fork": ([say("a"), say("b")], [prompt, forked, prompt]),
    "other tools": ([say("a"), use("page", name="a"), say("b")], [prompt, forked_with_other_tools, prompt]),
    "a fork at a turn": ([say("a")] * 4, [prompt, prompt, forked_at_the_first_turn, prompt]),
    "forks of forks": (
        [say("a")] * 4,
        [prompt, forked, prompt, forked, resumed, prompt, forked_with_other_tools, prompt],
    ),
    "a fork of what only a tool spent": ([use("page", name="a"), say("a"), say("b")], [prompt, forked, prompt]),
}


@pytest.mark.parametrize("name", SCENES)
def test_what_is_spent_is_counted_once(scene, tmp_path, name):
    script, steps = SCENES[name]
    played = scene(script, tools=[look, change, page])
    # where the catalog looks
    played.session = Session.create(tmp_path, tmp_path / "state" / "sessions" / "bees")
    sessions = {}
    for step in steps:
        step(played)
        sessions[played.session.id] = played.session
    played.session.close()
    ends = played.of(RunEnd)
    spent = sum(end.cost_usd for end in ends)
    assert spent >= sum(end.cost_usd for end in played.of(TurnEnd))
    assert (spent > 0) == (name != "no answer at all")

    listed = Catalog(tmp_path / "state").entries()
    assert sum(entry.cost_usd for entry in listed) == pytest.approx(spent)
    in_memory = {each.id: each.cost_usd for each in sessions.values()}
    assert sum(in_memory.values()) == pytest.approx(spent)
    on_disk = {each: Session.load(session.path) for each, session in sessions.items()}
    assert {each: session.cost_usd for each, session in on_disk.items()} == pytest.approx(in_memory)
    # with what was paid before it, the last session is what its whole conversation has cost
    last = on_disk[played.session.id]
    assert last.cost_usd + last.cost_before_usd <= spent + 1e-9
    assert ends[-1].session_cost_usd == pytest.approx(last.cost_usd)
