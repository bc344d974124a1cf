"""Inputs that do not fit are answered in words; a tool's own spelling of its fields is made of others."""

from __future__ import annotations

import asyncio
import datetime
from typing import Annotated, Any, ClassVar, Literal

import fastjsonschema
import pytest
from msgspec import Meta

from cellwright.agent.calls.input_schema import check_input, compile_schema
from cellwright.agent.calls.tool_input import ToolInput, json_schema
from cellwright.agent.tool import Tool, tool
from cellwright.errors import ToolError
from row_tables import for_each_row


class Step(ToolInput):
    """A part of a plan."""

    ignored: ClassVar = ("id",)

    name: Annotated[str, Meta(min_length=1)]
    state: Literal["todo", "doing", "done"] = "todo"


class PlanInput(ToolInput):
    """An input with a field of each kind."""

    aliases: ClassVar = {"stages": "steps"}

    steps: Annotated[tuple[Step, ...], Meta(min_length=1, max_length=3)]
    limit: Annotated[int, Meta(ge=1)] | None = None
    ratio: Annotated[float, Meta(ge=0, le=1)] = 0.5
    loud: bool = False
    names: dict[str, str] = {}  # noqa: RUF012  msgspec copies it


@tool(name="Plan", description="For the test.")
def plan(input: PlanInput) -> str:
    return repr(input)


ONE = {"steps": [{"name": "a"}]}


@for_each_row(
    ("given", "problem"),
    [
        ({**ONE, "limit": "ten"}, "limit must be a whole number ≥ 1; got 'ten'"),
        ({**ONE, "limit": 0}, "limit must be a whole number ≥ 1; got 0"),
        ({**ONE, "limit": 1.5}, "limit must be a whole number ≥ 1; got 1.5"),
        ({**ONE, "ratio": 2}, "ratio must be a number from 0 to 1; got 2"),
        ({**ONE, "loud": "yes"}, "loud must be true or false; got 'yes'"),
        ({**ONE, "names": {"a": 1}}, "names.a must be text; got 1"),
        ({"steps": []}, "steps must be a list of 1 to 3 items, each an object with name, state; got []"),
        ({"steps": [{"name": ""}]}, "steps[0].name must be text that is not empty; got ''"),
        ({"steps": [{"name": "a", "state": "x"}]}, 'steps[0].state must be one of "todo", "doing", "done"; got \'x\''),
        ({"steps": [{}]}, "steps[0].name is missing"),
        ({}, "steps is missing"),
        ({"step": []}, "steps is missing, and there is no field step"),
        ({**ONE, "x": 1}, "there is no field x; the fields are steps, limit, ratio, loud, names"),
        (
            {"steps": "x" * 200},
            f"steps must be a list of 1 to 3 items, each an object with name, state; got '{'x' * 78}…",
        ),
    ],
)
def test_a_wrong_input_is_answered_in_words(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ToolError) as error:
        check_input(plan, given)
    assert error.value.message.partition(": ")[2] == f"{problem}."


def test_other_spellings_ignored_fields_and_nulls_are_taken() -> None:
    foreign = {"stages": [{"name": "a", "id": "7"}], "limit": None}
    assert check_input(plan, foreign) == ONE
    assert check_input(plan, {**ONE, "stages": [{"name": "b"}]}) == ONE, "said twice: our spelling counts"


def test_the_schema_tells_claude_no_more_than_it_needs() -> None:
    schema = json_schema(PlanInput, {"limit": {"maximum": 9}})
    assert schema["required"] == ["steps"]
    assert schema["properties"]["limit"] == {"type": "integer", "minimum": 1, "maximum": 9}
    assert schema["properties"]["steps"]["items"]["properties"]["state"]["enum"] == ["todo", "doing", "done"]
    assert "$ref" not in str(schema)
    assert "title" not in str(schema)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/x.json", "file:///etc/hostname", "other.json"])
def test_a_schema_that_refers_to_another_document_is_refused(address: str) -> None:
    with pytest.raises(fastjsonschema.JsonSchemaDefinitionException, match="may not refer to"):
        compile_schema({"$ref": address})


def test_what_only_a_function_of_the_users_knows_is_said_in_words_too() -> None:
    @tool(description="For the test.")
    def book(day: datetime.date) -> str:
        return str(day)

    assert isinstance(book, Tool)
    with pytest.raises(ToolError, match=r"day must be a date \(2026-01-31\); got 'soon'"):
        asyncio.run(book.call({"day": "soon"}, None))  # type: ignore[arg-type]


def test_the_hints_of_an_input_are_read_once() -> None:
    json_schema(PlanInput)
    # texts, as this module keeps them, would be compiled at each look, of which every tool needs three
    hints = [*PlanInput.__annotations__.values(), *Step.__annotations__.values()]
    assert not [hint for hint in hints if isinstance(hint, str)]
