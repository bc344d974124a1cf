"""Calls of one message whose tool asks together: all questions at once, answers in any order, one run at a time."""

import asyncio

import pytest
from msgspec.structs import replace

from cellwright.agent.calls.approval import Allow, Deny
from cellwright.agent.tool import Tool
from cellwright.events import Answered, Asked, Preview, ToolEnd, ToolStart
from cellwright.permissions.policy import PermissionPolicy
from cellwright.testing import say, turn, use

SCHEMA = {
    "type": "object",
    "properties": {"cell": {"type": "string"}},
    "required": ["cell"],
    "additionalProperties": False,
}


class Cells:
    """A tool that says in which order its calls ran, and whether two ever ran at once."""

    def __init__(self, *, together=True):
        self.ran = []
        self.running = 0
        self.at_once = 0
        self.tool = Tool(
            name="Change", description="For the test.", input_schema=SCHEMA, call=self.call, asks_together=together
        )

    async def call(self, tool_input, _ctx):
        self.running += 1
        self.at_once = max(self.at_once, self.running)
        await asyncio.sleep(0)
        self.ran.append(tool_input["cell"])
        self.running -= 1
        return f"changed {tool_input['cell']}"


class User:
    """Answers when all `wanted` questions are there, in the order of `answers`; an allowed call may run first."""

    def __init__(self, cells, wanted, answers):
        self.cells = cells
        self.wanted = wanted
        self.answers = answers
        self.asked = {}

    async def can_use_tool(self, asked):
        answer = self.asked[asked.input["cell"]] = asyncio.get_running_loop().create_future()
        if len(self.asked) == self.wanted:
            self.answering = asyncio.create_task(self.answer())
        return await answer

    async def answer(self):
        for cell, given in self.answers.items():
            self.asked[cell].set_result(given)
            while isinstance(given, Allow) and cell not in self.cells.ran:
                await asyncio.sleep(0)


@pytest.fixture
def ask(play, tmp_path):
    def run(cells, user, *names):
        script = [turn(*(use("Change", cell=name) for name in names)), turn(say("Done."))]
        policy = PermissionPolicy(roots=(tmp_path,), cwd=tmp_path)
        return play(script, tools=[cells.tool], policy=policy, can_use_tool=user.can_use_tool)

    return run


def results(played):
    return [(result["content"], result.get("is_error", False)) for result in played.results()]


def test_all_are_asked_at_once_and_each_runs_when_it_is_allowed(ask):
    cells = Cells()
    user = User(cells, 3, {"c": Allow(), "a": Deny("not this one"), "b": Allow()})
    played = ask(cells, user, "a", "b", "c")
    assert cells.ran == ["c", "b"]
    assert cells.at_once == 1
    assert [error for _, error in results(played)] == [True, False, False]
    assert "not this one" in results(played)[0][0]
    kinds = [type(event) for event in played.events if isinstance(event, Asked | Answered)]
    assert kinds[:3] == [Asked] * 3
    [start] = played.of(ToolStart)
    assert len(start.calls) == 3
    assert not start.parallel
    assert len(played.of(ToolEnd)) == 3


def test_what_is_allowed_for_the_session_answers_the_others(ask):
    cells = Cells()
    user = User(cells, 3, {"b": Allow(scope="session", rules=("Change",))})
    played = ask(cells, user, "a", "b", "c")
    assert sorted(cells.ran) == ["a", "b", "c"]
    by = {answered.question_id: answered.by for answered in played.of(Answered)}
    assert sorted(by.values()) == ["callback", "policy", "policy"]
    assert not any(error for _, error in results(played))


def test_an_interrupt_answers_every_open_question_and_every_call(scene, tmp_path):
    cells = Cells()

    async def never(asked):
        if asked.input["cell"] == "b":
            task.cancel()
        await asyncio.Event().wait()

    script = [turn(*(use("Change", cell=name) for name in "ab")), turn(say("Done."))]
    policy = PermissionPolicy(roots=(tmp_path,), cwd=tmp_path)
    played = scene(script, tools=[cells.tool], policy=policy, can_use_tool=never)

    async def run():
        nonlocal task
        task = asyncio.ensure_future(played.run("go"))
        with pytest.raises(asyncio.CancelledError):
            await task

    task = None
    asyncio.run(run())
    assert cells.ran == []
    assert len(played.of(Asked)) == len(played.of(Answered)) == 2
    assert len(played.results()) == 2


class OneAtATime:
    """Fails where a question comes while another is open."""

    def __init__(self):
        self.open = False

    async def can_use_tool(self, _asked):
        assert not self.open
        self.open = True
        await asyncio.sleep(0)
        self.open = False
        return Allow()


def test_other_tools_ask_one_after_another(ask):
    cells = Cells(together=False)
    ask(cells, OneAtATime(), "a", "b")
    assert cells.ran == ["a", "b"]


def test_calls_that_are_shown_with_a_question_are_allowed_with_it_as_long_as_they_stay_what_was_shown(ask):
    cells = Cells(together=False)
    shown = {"a": "as it was", "b": "as it was", "c": "as it was"}

    async def preview(tool_input):
        return Preview(f"Change {tool_input['cell']}", shown[tool_input["cell"]])

    cells.tool = replace(cells.tool, preview=preview)
    asked = []

    class Person:
        async def can_use_tool(self, use):
            asked.append(use.input["cell"])
            shown["c"] = "another by now"
            return Allow(by="widget", following=use.input["cell"] == "a")

    played = ask(cells, Person(), "a", "b", "c")
    assert cells.ran == ["a", "b", "c"]
    assert asked == ["a", "c"]
    first, second = played.of(Asked)
    assert [call.preview.title for call in first.following] == ["Change b", "Change c"]
    assert second.following == ()
