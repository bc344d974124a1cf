"""`--schema`: a cell's answer as a value, in a real kernel and against the server that checks schemas as the API does."""

from __future__ import annotations

import json

import pytest
from notebook_kernel import NotebookKernel

from cache_marks import without_cache_marks
from cellwright.conversation.runs.run_options import Result
from cellwright.errors import CellwrightError
from cellwright.kernel.magic.cell_prompt import MagicOptions
from cellwright.kernel.magic.options import keep_result, named_type
from cellwright.testing import MessagesServer, say, use

CITY = '{"name": "Husum", "tide_m": 3.5}'
MODEL = """
import pydantic
class City(pydantic.BaseModel):
    name: str
    tide_m: float = pydantic.Field(ge=0, le=20)
"""


def test_the_value_goes_into_the_variable_also_with_tools_in_between(kernel: NotebookKernel, model: MessagesServer):
    assert kernel.run(MODEL).status == "ok"
    model.add(use("Glob", pattern="*.csv"), say(f"[{CITY}]"))
    cell = kernel.run("%%claude --schema list[City] --out towns\nWhich towns?")
    assert cell.status == "ok", cell.reply
    shown = kernel.run("print(towns, type(towns[0]) is City)")
    assert shown.stdout.split() == ["[City(name='Husum',", "tide_m=3.5)]", "True"]
    first, last = [request.body for request in model.requests[-2:]]
    assert first["output_config"]["format"] == last["output_config"]["format"]
    assert last["output_config"]["format"]["schema"]["type"] == "array"


def test_without_a_name_the_value_is_shown(kernel: NotebookKernel, model: MessagesServer):
    kernel.run_ok("pair = {'type': 'array', 'items': {'type': 'integer'}, 'maxItems': 2}")
    model.add(say("[1, 2]"))
    cell = kernel.run("%claude --schema pair two numbers")
    assert cell.outputs[-1] == {"text/plain": "[1, 2]"}


def test_a_program_gets_the_json_alone(kernel: NotebookKernel, model: MessagesServer):
    kernel.run("number = {'type': 'integer'}")
    model.add(say("7"))
    told = json.loads(kernel.run("%claude --schema number --format json a number").stdout)
    assert told["final_response"] == "7"


def test_an_answer_that_does_not_fit_is_asked_for_again(kernel: NotebookKernel, model: MessagesServer):
    kernel.run(MODEL)
    model.add(say(CITY.replace("3.5", "35")), say(CITY))
    kernel.run_ok("%claude --schema City --out town which?")
    assert kernel.run("print(town.tide_m)").stdout == "3.5\n"
    assert "equal to 20" in json.dumps(model.requests[-1].body["messages"][-1])


def test_a_cell_whose_answer_never_fits_fails_and_binds_nothing(kernel: NotebookKernel, model: MessagesServer):
    kernel.run(MODEL)
    model.add(say("no"), say("still no"))
    cell = kernel.run("%claude --schema City --out nowhere which?")
    assert "EXECUTION_ERROR" in cell.error
    assert "not a valid City" in cell.error
    assert "still no" in cell.outputs[0]["text/markdown"]
    found = kernel.run("print('nowhere' in globals())")
    assert found.stdout == "False\n"


def test_the_session_goes_on_with_and_without_a_schema(kernel: NotebookKernel, model: MessagesServer):
    kernel.run("number = {'type': 'integer'}")
    model.add(say("7"), say("It was seven."))
    kernel.run_ok("%claude --schema number --out n a number")
    kernel.run_ok("%claude which was it?")
    typed, plain = [request.body for request in model.requests[-2:]]
    assert "format" not in plain.get("output_config", {})
    assert plain["system"] == typed["system"]
    assert plain["tools"] == typed["tools"]
    assert without_cache_marks(plain["messages"][:-2]) == without_cache_marks(typed["messages"])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Nobody", "there is no Nobody in this kernel. Run the cell that defines it. Nothing was sent."),
        ("tree", "recursive"),
        ("dict[str,int]", "`additionalProperties`"),
    ],
)
def test_a_schema_that_cannot_be_used_sends_nothing(kernel: NotebookKernel, name: str, says: str):
    kernel.run(
        "import pydantic\nclass tree(pydantic.BaseModel):\n    branches: list['tree']\ntree.model_rebuild()",
    )
    cell = kernel.run(f"%claude --schema {name} --new what?")
    assert cell.status == "error"
    assert says in cell.error


def test_ask_takes_a_schema_too(kernel: NotebookKernel, model: MessagesServer):
    kernel.run(MODEL)
    model.add(say(CITY), say("no"), say("still no"))
    cell = kernel.run("import cellwright\nr = cellwright.ask('which?', schema=City)\nprint(r.value, '|', r.text)")
    assert cell.stdout.endswith(f"name='Husum' tide_m=3.5 | {CITY}\n")
    cell = kernel.run(
        "try:\n    cellwright.ask('which?', schema=City)\nexcept cellwright.RunError as e:\n    print(e.result.text, e.code)"
    )
    assert cell.stdout.endswith("no EXECUTION_ERROR\n")


def test_a_dry_run_tells_the_schema(kernel: NotebookKernel, model: MessagesServer):
    kernel.run("number = {'type': 'integer'}")
    before = len(model.requests)
    cell = kernel.run("%claude --dry-run --schema number a number")
    assert 'answer: {"type": "integer"}' in cell.stdout
    assert len(model.requests) == before


def test_where_the_result_goes(capsys: pytest.CaptureFixture[str]):
    result = Result(text="7", session_id="s", usage={}, cost_usd=None, stop_reason="end_turn", events=(), value=7)
    namespace: dict[str, object] = {}
    for options in (
        MagicOptions(out="whole"),
        MagicOptions(out="value", schema="int"),
        MagicOptions(schema="int", background=True),
        MagicOptions(),
    ):
        keep_result(result, options, namespace)
    assert namespace == {"whole": result, "value": 7}
    assert capsys.readouterr().out == ""
    keep_result(result, MagicOptions(schema="int"), namespace)
    assert capsys.readouterr().out == "7\n"


def test_names_are_looked_up_as_an_annotation_looks_them_up():
    class Town:
        Street = str

    assert named_type("Town.Street", {"Town": Town}).name == "Town.Street"
    assert named_type("list[int]", {}).read("[1]") == [1]
    with pytest.raises(CellwrightError, match="has no attribute"):
        named_type("Town.Square", {"Town": Town})
