"""Structured results of calls: in the events, bounded, redacted, never sent; what cannot be JSON fails its call alone."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from cellwright.agent.calls.approval import Allow
from cellwright.agent.calls.tool_results import MAX_BYTES, ToolOutput, json_of
from cellwright.agent.tool import Tool, ToolAccess, ToolResult, tool
from cellwright.errors import ToolError
from cellwright.events import Preview, RunEnd, ToolEnd, ToolStart
from cellwright.permissions.policy import PermissionPolicy
from cellwright.redaction.redaction import Redaction
from cellwright.testing import say, turn, use
from declared_tools import declared
from row_tables import for_each_row

SECRET = "ghp_" + "a1B2" * 9


class CountOutput(ToolOutput):
    """A count of what was found, and the names."""

    total: int
    names: tuple[str, ...] = ()


@tool(output=CountOutput, read_only=True)
async def count(name: str) -> ToolResult:
    """Count things."""
    return ToolResult(f"there is {name}", structured=CountOutput(total=1, names=(name,)))


def ends(played: Any) -> list[ToolEnd]:
    return list(played.of(ToolEnd))


def test_every_built_in_tool_declares_its_structured_result():
    assert [name for name, declared_tool in declared().items() if declared_tool.output_type is None] == []


def test_programs_get_it_and_the_model_does_not(play):
    played = play([use("count", name="one marker"), say("ok")], tools=[count])
    assert [end.structured for end in ends(played)] == [{"total": 1, "names": ["one marker"]}]
    sent = json.dumps(played.bodies)
    assert "one marker" in sent
    assert '"total"' not in sent
    assert '"names"' not in sent


def test_what_a_plain_function_returns_is_its_structured_result(play):
    @tool(read_only=True)
    def table() -> dict[str, Any]:
        """Make a table."""
        return {"rows": [[1, None], [2.5, "ä"]], "mean": math.nan}

    [end] = ends(play([use("table"), say("ok")], tools=[table]))
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
    [end] = ends(play([use("show"), say("ok")], tools=[searched], redaction=Redaction(lambda: {"T": SECRET})))
    assert SECRET not in json.dumps([end.content, end.structured])
    assert "[secret removed: " in end.structured["nested"][0]["key"]


def test_a_result_that_no_json_can_hold_fails_its_call_alone(play):
    @tool
    def odd() -> ToolResult:
        """Do it."""
        return ToolResult("done", structured={"handle": object()})

    played = play([turn(use("odd"), use("count", name="a")), say("Went on.")], tools=[odd, count])
    assert [end.status for end in ends(played)] == ["error", "success"]
    assert "as JSON" in str(ends(played)[0].content)
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
    first, second = ends(played)
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
    assert ends(played)[0].content == "done"


def test_the_time_of_a_call_is_estimated_from_earlier_calls_of_the_tool(scene):
    played = scene(
        [use("count", name="a"), turn(use("count", name="b"), use("count", name="c")), say("ok")], tools=[count]
    )
    played.go_on("go")
    first, second = played.of(ToolStart)
    assert first.estimated_seconds is None
    [took] = [end.duration_ms / 1000 for end in ends(played)][:1]
    assert second.estimated_seconds == pytest.approx(took)
    [end] = played.of(RunEnd)
    [batch] = end.parallel_batches
    assert len(batch.tool_use_ids) == batch.succeeded == 2
    assert batch.duration_ms >= max(each.duration_ms for each in ends(played)[1:])
