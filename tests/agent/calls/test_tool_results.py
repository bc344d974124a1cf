"""What is said of calls that were cut off: what they have shown, how long they ran, and which were not begun."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import threading
from typing import Any

import pytest

from cellwright.agent.calls.approval import Allow, ToolUse
from cellwright.agent.calls.tool_results import MAX_BYTES, ToolOutput, json_of
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolResult, tool
from cellwright.errors import ToolError
from cellwright.events import Preview, RunEnd, ToolEnd, ToolProgress, ToolStart
from cellwright.permissions.policy import PermissionPolicy
from cellwright.redaction.redaction import Redaction
from cellwright.testing import say, turn, use
from declared_tools import declared
from row_tables import for_each_row

GITHUB = "ghp_" + "a1B2" * 9

SECRET = "ghp_" + "a1B2" * 9


@tool(access=ToolAccess("shell", "command"), category="shell")
async def shout(command: str, ctx: ToolContext) -> str:
    """Say a command aloud, and go on for ever."""
    ctx.progress(text=f"\x1b[1m{command}\x1b[0m 10 %\r{command} 99 %\n")
    await asyncio.Event().wait()
    return "never"


def stop_when(played: Any, ready: Any) -> None:
    """Run a prompt until `ready` holds, then stop it."""

    async def main() -> None:
        run = asyncio.create_task(played.run("go"))
        while not ready():
            await asyncio.sleep(0.001)
        run.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await run

    asyncio.run(main())


def ends(played: Any) -> dict[str, ToolEnd]:
    return {event.tool_use_id: event for event in played.of(ToolEnd)}


def test_what_a_stopped_call_has_shown_is_told_to_claude(scene: Any) -> None:
    played = scene([turn(use("shout", command="one"), use("shout", command="two")), say("It said one.")], tools=[shout])
    stop_when(played, lambda: played.of(ToolProgress))
    first, second = ends(played).values()
    assert "have had effects" in first.content
    assert ":\none 99 %" in first.content
    assert first.duration_ms > 0
    assert "not run" in second.content
    assert second.duration_ms == 0
    played.go_on("what did it say?")
    [_, _, results, _] = played.bodies[1]["messages"]
    assert [block["content"] for block in results["content"]] == [first.content, second.content]


def test_what_a_stopped_call_has_shown_is_bounded(scene: Any) -> None:
    @tool
    async def count(ctx: ToolContext) -> str:
        """Count for ever."""
        for number in range(100_000):
            ctx.progress(text=f"{number}\n")
        ctx.progress(text="counted")
        await asyncio.Event().wait()
        return "never"

    played = scene([use("count"), say("No.")], tools=[count])
    stop_when(played, lambda: played.of(ToolProgress)[-1:] and played.of(ToolProgress)[-1].text == "counted")
    [end] = ends(played).values()
    assert len(end.content) < count.limits.result_chars + 1_000
    assert end.content.endswith("99999\ncounted")


def test_secrets_of_a_stopped_call_are_kept_from_claude(scene: Any) -> None:
    played = scene([use("shout", command=GITHUB), say("A token.")], tools=[shout], redaction=Redaction())
    stop_when(played, lambda: played.of(ToolProgress))
    [end] = ends(played).values()
    assert end.content.endswith(": GitHub token] 99 %")


def test_a_call_that_waits_for_a_permission_was_not_run(scene: Any, tmp_path: Any) -> None:
    asked = threading.Event()

    async def ask(use: ToolUse) -> Allow:
        asked.set()
        await asyncio.Event().wait()
        return Allow()

    policy = PermissionPolicy(roots=(tmp_path,), cwd=tmp_path)
    played = scene([use("shout", command="one"), say("No.")], tools=[shout], policy=policy, can_use_tool=ask)
    stop_when(played, asked.is_set)
    assert ["not run" in end.content for end in ends(played).values()] == [True]


class CountOutput(ToolOutput):
    """A count of what was found, and the names."""

    total: int
    names: tuple[str, ...] = ()


@tool(output=CountOutput, read_only=True)
async def count(name: str) -> ToolResult:
    """Count things."""
    return ToolResult(f"there is {name}", structured=CountOutput(total=1, names=(name,)))


def call_ends(played: Any) -> list[ToolEnd]:
    return list(played.of(ToolEnd))


def test_every_built_in_tool_declares_its_structured_result():
    assert [name for name, declared_tool in declared().items() if declared_tool.output_type is None] == []


def test_programs_get_it_and_the_model_does_not(play):
    played = play([use("count", name="one marker"), say("ok")], tools=[count])
    assert [end.structured for end in call_ends(played)] == [{"total": 1, "names": ["one marker"]}]
    sent = json.dumps(played.bodies)
    assert "one marker" in sent
    assert '"total"' not in sent
    assert '"names"' not in sent


def test_what_a_plain_function_returns_is_its_structured_result(play):
    @tool(read_only=True)
    def table() -> dict[str, Any]:
        """Make a table."""
        return {"rows": [[1, None], [2.5, "ä"]], "mean": math.nan}

    [end] = call_ends(play([use("table"), say("ok")], tools=[table]))
    assert end.structured == {"rows": [[1, None], [2.5, "ä"]], "mean": None}


ENDLESS: dict[str, Any] = {}
ENDLESS["self"] = ENDLESS


@for_each_row("value", [{"object": object()}, {1, object()}, ENDLESS, {"kind": CountOutput}])
def test_what_no_json_can_hold_is_named(value):
    with pytest.raises(ToolError, match=r"^mine ran, but its structured result cannot be written as JSON: "):
        json_of(value, "mine")


@for_each_row(
    ("value", "written"),
    [({"half": "\ud800"}, {"half": "\ufffd"}), ({3: "three"}, {"3": "three"}), ((1, None), [1, None]), (None, None)],
)
def test_what_json_can_hold_is_written_so(value, written):
    assert json_of(value, "mine") == written


@for_each_row(
    "value",
    [
        {"text": "x" * 3 * MAX_BYTES},
        {"rows": [{"n": n, "name": "x" * 50} for n in range(5_000)]},
        {"a": {"b": [["y" * 200] * 200] * 200}},
        ["z" * 100] * 5_000,
        {"keys": {str(n): "v" * 20 for n in range(20_000)}},
    ],
)
def test_it_is_bounded_and_says_so(value):
    bounded = json_of(value, "mine")
    assert len(json.dumps(bounded, ensure_ascii=False)) <= MAX_BYTES * 1.1
    assert isinstance(bounded, list) or bounded["truncated"] is True


def test_secrets_are_taken_out_as_they_are_of_the_text(play):
    @tool
    def show() -> ToolResult:
        """Show."""
        return ToolResult(f"key {SECRET}", structured={"nested": [{"key": f"key {SECRET}"}]})

    searched = Tool(name="show", description="Show.", input_schema={"type": "object"}, call=show.call, category="shell")
    [end] = call_ends(play([use("show"), say("ok")], tools=[searched], redaction=Redaction(lambda: {"T": SECRET})))
    assert SECRET not in json.dumps([end.content, end.structured])
    assert "[secret removed: " in end.structured["nested"][0]["key"]


def test_a_result_that_no_json_can_hold_fails_its_call_alone(play):
    @tool
    def odd() -> ToolResult:
        """Do it."""
        return ToolResult("done", structured={"handle": object()})

    played = play([turn(use("odd"), use("count", name="a")), say("Went on.")], tools=[odd, count])
    assert [end.status for end in call_ends(played)] == ["error", "success"]
    assert "as JSON" in str(call_ends(played)[0].content)
    assert played.end.text == "Went on."


@pytest.mark.parametrize("where", ["preview", "prepare", "facts"])
def test_what_raises_before_a_call_fails_that_call_alone(play, where):
    async def call(tool_input, ctx):
        raise AssertionError("it was never allowed")

    async def broken(tool_input):
        raise RuntimeError("no diff today")

    def broken_facts(tool_input):
        raise RuntimeError("no diff today")

    asked = []

    async def answer(use):
        asked.append(use)
        return Allow()

    made = {"facts": broken_facts}.get(where, broken)
    odd = Tool(
        name="odd",
        description="Do it.",
        input_schema={"type": "object"},
        call=call,
        access=ToolAccess("unknown"),
        **{where: made},
    )
    played = play(
        [turn(use("odd"), use("count", name="a")), say("Went on.")],
        tools=[odd, count],
        policy=PermissionPolicy(mode="default"),
        can_use_tool=answer,
    )
    first, second = call_ends(played)
    assert (first.status, second.status) == ("error", "success")
    assert "no diff today" in str(first.content)
    assert asked == []
    assert (played.end.text, played.end.error) == ("Went on.", None)


def test_a_preview_that_is_whole_is_still_asked_about(play):
    async def call(tool_input, ctx):
        return "done"

    async def preview(tool_input):
        return Preview("Do it?")

    async def answer(use):
        return Allow()

    fine = Tool(name="fine", description="Do it.", input_schema={"type": "object"}, call=call, preview=preview)
    played = play([use("fine"), say("ok")], tools=[fine], policy=PermissionPolicy(mode="default"), can_use_tool=answer)
    assert call_ends(played)[0].content == "done"


def test_the_time_of_a_call_is_estimated_from_earlier_calls_of_the_tool(scene):
    played = scene(
        [use("count", name="a"), turn(use("count", name="b"), use("count", name="c")), say("ok")], tools=[count]
    )
    played.go_on("go")
    first, second = played.of(ToolStart)
    assert first.estimated_seconds is None
    [took] = [end.duration_ms / 1000 for end in call_ends(played)][:1]
    assert second.estimated_seconds == pytest.approx(took)
    [end] = played.of(RunEnd)
    [batch] = end.parallel_batches
    assert len(batch.tool_use_ids) == batch.succeeded == 2
    assert batch.duration_ms >= max(each.duration_ms for each in call_ends(played)[1:])
