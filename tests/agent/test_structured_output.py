"""The text of a run: messages that continue one another are one answer."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

import pydantic
import pytest

from cellwright.agent.structured_output import (
    MAX_CONTINUATIONS,
    MAX_PAUSES,
    AnswerProblem,
    RunAnswer,
    answer_type,
    api_schema,
)
from cellwright.agent.tool import tool
from cellwright.errors import CellwrightError
from cellwright.events import TurnEnd
from cellwright.testing import say, turn, use
from row_tables import for_each_row

NULLS = {"type": "array", "items": {"type": "null"}}
TO_A, TO_B = {"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}
CITY = '{"name": "Husum", "tide_m": 3.5}'


def says(text: str) -> list[dict[str, str]]:
    return [{"type": "thinking", "thinking": "…"}, {"type": "text", "text": text}]


def test_a_message_replaces_the_one_before_it_unless_that_was_cut_off() -> None:
    answer = RunAnswer(None)
    answer.take(says("Let me look."))
    answer.take(says("The tide is "))
    assert answer.text == "The tide is "
    assert answer.cut_off(continues=True)
    answer.take(says("high."))
    assert answer.text == "The tide is high."
    answer.take(says("Done."))
    assert answer.text == "Done."


def test_a_run_is_given_up_after_so_many_pauses_and_cuts() -> None:
    answer = RunAnswer(None)
    assert [answer.pause() for _ in range(MAX_PAUSES + 1)] == [True] * MAX_PAUSES + [False]
    cuts = [answer.cut_off(continues=False) for _ in range(MAX_CONTINUATIONS + 1)]
    assert cuts == [True] * MAX_CONTINUATIONS + [False]


class City(pydantic.BaseModel):
    """A town by the sea."""

    name: str
    tide_m: float = pydantic.Field(ge=0, le=20)


class Place(TypedDict, total=False):
    name: str


class Trip(TypedDict):
    places: list[Place]
    first: Place | None


@dataclass
class Point:
    at: tuple[float, str]


class Node(pydantic.BaseModel):
    children: list["Node"]


class Branch(TypedDict):
    branches: list["Branch"]


class Tide(TypedDict):
    height: Annotated[float, pydantic.Field(ge=0)]
    place: NotRequired[Annotated[Place, "where it was measured"]]


class Looked(pydantic.BaseModel):
    harbour: str

    @pydantic.field_validator("harbour")
    @classmethod
    def known(cls, value: str) -> str:
        return {"husum": "Husum"}[value]


@tool(read_only=True)
async def look(name: str) -> str:
    """Look at something."""
    return f"{name} looks fine"


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


class TestSchemas:
    @for_each_row(
        ("given", "sent"),
        [
            ({"type": "integer", "minimum": 1}, {"type": "integer", "description": "{minimum: 1}"}),
            (
                {"type": "string", "format": "color", "description": "As in CSS."},
                {"type": "string", "description": "As in CSS.\n\n{format: color}"},
            ),
            ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
            (
                {"type": "array", "items": {"type": "null"}, "minItems": 1},
                {"type": "array", "items": {"type": "null"}, "minItems": 1},
            ),
            (
                {"type": "array", "items": {"type": "null"}, "minItems": 2},
                {"type": "array", "items": {"type": "null"}, "description": "{minItems: 2}"},
            ),
            ({"oneOf": [{"type": "null"}, {"const": 1}]}, {"anyOf": [{"type": "null"}, {"const": 1}]}),
            ({"type": "string", "enum": ["a", None]}, {"enum": ["a", None]}),
            (
                {"type": ["integer", "null"], "minimum": 3},
                {"anyOf": [{"type": "integer", "description": "{minimum: 3}"}, {"type": "null"}]},
            ),
            ({"type": "object", "properties": {"a": {"type": "null"}}}, closed(a={"type": "null"})),
            ({"properties": {}, "additionalProperties": True, "required": []}, closed() | {"required": []}),
            (
                {"allOf": [{"$ref": "#/$defs/A"}], "default": 1, "$defs": {"A": {"type": "integer"}}},
                {"$defs": {"A": {"type": "integer"}}, "$ref": "#/$defs/A", "description": "{default: 1}"},
            ),
            ({"type": "boolean", "default": None, "title": "B", "$comment": "c"}, {"type": "boolean", "title": "B"}),
        ],
    )
    def test_is_sent_as_the_api_takes_it(self, given, sent):
        before = json.dumps(given)
        assert api_schema(given, "S") == sent
        assert json.dumps(given) == before

    @for_each_row(
        ("given", "named"),
        [
            ({"type": "object"}, "`additionalProperties`"),
            ({"type": "object", "additionalProperties": {"type": "string"}}, "`additionalProperties`"),
            (
                {"type": "object", "properties": {"a": {"type": "object", "patternProperties": {}}}},
                "`patternProperties`",
            ),
            ({"allOf": [{"type": "null"}, {"type": "null"}]}, "`allOf`"),
            ({"$ref": "other.json#/a"}, "`$ref` to 'other.json#/a'"),
            ({"$ref": "#"}, "`$ref` to '#'"),
            ({"enum": [[1]]}, "`enum` with lists"),
            ({"type": "array"}, "an array without `items`"),
            ({"type": "array", "items": {}}, "any value at all at /items"),
            ({"type": "arry"}, "the type 'arry'"),
            (
                {
                    "$ref": "#/$defs/A",
                    "$defs": {"A": closed(a={"$ref": "#/$defs/B"}), "B": closed(b={"$ref": "#/$defs/A"})},
                },
                "recursive",
            ),
        ],
    )
    def test_what_the_api_cannot_hold_is_refused_by_name(self, given, named):
        with pytest.raises(CellwrightError) as refused:
            answer_type(given, "Tides")
        assert "schema Tides" in refused.value.message
        assert named in refused.value.message
        assert "Nothing was sent." in refused.value.message

    @for_each_row("given", [dict, dict[str, int], list, Any, Node, Branch, 5, open])
    def test_types_without_such_a_schema_are_refused(self, given):
        with pytest.raises(CellwrightError, match="Nothing was sent"):
            answer_type(given)

    def test_a_dict_that_is_no_schema_is_refused(self):
        with pytest.raises(CellwrightError, match="is not a JSON schema"):
            answer_type({"type": "string", "minLength": "two"})


class TestValues:
    @for_each_row(
        ("given", "text", "value"),
        [
            (City, CITY, City(name="Husum", tide_m=3.5)),
            (list[City], f"[{CITY}]", [City(name="Husum", tide_m=3.5)]),
            (pydantic.TypeAdapter(list[int]), "[1]", [1]),
            (Point, '{"at": [1, "N"]}', Point((1.0, "N"))),
            (Trip, '{"places": [{}, {"name": "a"}], "first": null}', {"places": [{}, {"name": "a"}], "first": None}),
            (Optional[Place], "{}", {}),  # noqa: UP045  # the older spelling is another class
            (list[Trip], "[]", []),
            (Tide, '{"height": 1, "place": {"name": "a"}}', {"height": 1, "place": {"name": "a"}}),
            (Annotated[Place, "where"], "{}", {}),
            (Looked, '{"harbour": "husum"}', Looked(harbour="husum")),
            (Literal["a", "b"], '"b"', "b"),
            ({"type": "array", "items": {"type": "integer", "minimum": 3}}, "[3]", [3]),
        ],
    )
    def test_a_text_that_fits_is_a_value(self, given, text, value):
        assert answer_type(given).read(text) == value

    @for_each_row(
        ("given", "text", "problem"),
        [
            (City, '{"name": "x", "tide_m": 21}', "tide_m: Input should be less than or equal to 20"),
            (City, '{"name": "x"', "Invalid JSON"),
            (Trip, '{"places": [{"name": 1}], "first": null}', "places.0.name: Input should be a valid string"),
            (Point, '{"at": ["N", 1]}', "at.0"),
            (Tide, '{"height": -1}', "height: Input should be greater than or equal to 0"),
            (Looked, '{"harbour": "nowhere"}', "checking it raised KeyError: 'nowhere'"),
            ({"type": "array", "items": {"type": "integer", "minimum": 3}}, "[1]", "the answer[0] must be bigger"),
            ({"type": "null"}, "nil", "not JSON"),
            ({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}, "{}", "must contain ['a']"),
        ],
    )
    def test_a_text_that_does_not_fit_says_what_is_wrong(self, given, text, problem):
        with pytest.raises(AnswerProblem) as unfit:
            answer_type(given).read(text)
        assert problem in str(unfit.value)

    @pytest.mark.parametrize(
        ("given", "name"), [(City, "City"), (list[int], "list[int]"), ({"title": "T", "type": "null"}, "T")]
    )
    def test_a_type_has_a_name_for_messages(self, given, name):
        assert answer_type(given).name == name


class TestInTheLoop:
    def test_the_schema_goes_with_each_request_and_leaves_system_and_tools_alone(self, play):
        played = play([use("look", name="the sea"), say(CITY)], tools=[look], answer_type=answer_type(City))
        assert played.end.text == CITY
        first, second = played.bodies
        assert first["output_config"] == second["output_config"]
        assert first["output_config"]["format"]["type"] == "json_schema"
        assert first["output_config"]["format"]["schema"]["title"] == "City"
        assert [tool["name"] for tool in second["tools"]] == ["look"]
        assert first["system"] == second["system"]

    def test_an_answer_that_does_not_fit_is_asked_for_again_once(self, play):
        played = play([say('{"name": "Husum", "tide_m": 35}'), say(CITY)], answer_type=answer_type(City))
        assert played.end.ok
        assert (played.end.text, played.end.requests) == (CITY, 2)
        asked = played.session.messages[-2]["content"][0]["text"]
        assert ": Input should" in asked
        assert "equal to 20" in asked
        assert played.end.cost_usd == pytest.approx(sum(each.cost_usd for each in played.of(TurnEnd)))

    def test_a_second_one_ends_the_run_with_its_text(self, play):
        played = play([say("no JSON"), say("none again"), say(CITY)], answer_type=answer_type(City))
        assert played.end.error["code"] == "EXECUTION_ERROR"
        assert "not a valid City" in played.end.error["message"]
        assert played.end.text == "none again"
        assert played.go_on("and now?").text == CITY  # the session goes on, and is one that the API takes

    def test_without_a_request_left_nothing_is_asked_again(self, play):
        played = play([say("no JSON"), say(CITY)], answer_type=answer_type(City), max_turns=1)
        assert (played.end.error["code"], played.end.requests) == ("EXECUTION_ERROR", 1)

    def test_a_cut_off_answer_is_asked_for_whole(self, play):
        cut = turn(say('{"name": "Hus'), stop_reason="max_tokens")
        played = play([cut, say(CITY)], answer_type=answer_type(City), max_tokens=500)
        assert played.end.ok
        assert [body["max_tokens"] for body in played.bodies] == [500, 1000]
        assert "cut off" in played.session.messages[-2]["content"][0]["text"]

    def test_cut_off_again_it_fails(self, play):
        cut = turn(say('{"name": "Hus'), stop_reason="max_tokens")
        played = play([cut, cut, say(CITY)], answer_type=answer_type(City))
        assert (played.end.error["code"], played.end.requests) == ("EXECUTION_ERROR", 2)
        assert "cut off" in played.end.error["message"]

    def test_a_refusal_is_a_refusal(self, play):
        played = play([turn(say("{"), stop_reason="refusal")], answer_type=answer_type(City))
        assert played.end.error["code"] == "REFUSED"
