"""Where cells go, what becomes of them, and that any notebook survives any edit."""

from __future__ import annotations

import asyncio
import copy
import json
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tool_groups import file_tools, notebook_tools

from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.tool import ToolContext
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.files.file_state import FileState
from row_tables import for_each_row

NOTEBOOK = {"metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def four(minor: int = 5) -> dict[str, Any]:
    cells = [{"cell_type": "markdown", "id": f"c{n}", "metadata": {}, "source": [f"# {n}"]} for n in range(4)]
    if minor < 5:
        for cell in cells:
            del cell["id"]
    return {"cells": cells, **NOTEBOOK, "nbformat_minor": minor}


def put(tools: Any, content: Mapping[str, Any]) -> Path:
    path: Path = tools.cwd / "n.ipynb"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    tools.result("NotebookRead", notebook_path="n.ipynb")
    return path


def sources(path: Path) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(path.read_text())["cells"]]


@for_each_row(
    ("given", "index", "words"),
    [
        ({}, 4, "at the end"),
        ({"position": "end"}, 4, "at the end"),
        ({"position": "start"}, 0, "at the start"),
        ({"cell_id": "c1"}, 2, "after c1"),
        ({"cell_id": "c1", "position": "after"}, 2, "after c1"),
        ({"cell_id": "c1", "position": "before"}, 1, "before c1"),
        ({"cell_id": "c0", "position": "before"}, 0, "before c0"),
    ],
)
def test_a_new_cell_goes_where_it_is_said(tools, given, index, words):
    path = put(tools, four())
    call = {"notebook_path": "n.ipynb", "edit_mode": "insert", "cell_type": "code", "new_source": "new", **given}
    # people know no ids
    shown = tools.title("NotebookEdit", **call)
    assert shown == f"Insert a cell{'' if 'cell_id' in given else f' {words}'} in n.ipynb"
    result = tools.result("NotebookEdit", **call)
    assert sources(path)[index] == "new"
    assert "n.ipynb" in result.content
    assert result.display["index"] == index
    assert result.display["cell_id"] == json.loads(path.read_text())["cells"][index]["id"]
    assert len(path.read_text().splitlines()) == len(json.dumps(four(), indent=1).splitlines()) + 10


@for_each_row("minor", [4, 5])
@for_each_row(
    ("given", "order"),
    [
        ({"position": "start"}, "2013"),
        ({"position": "end"}, "0132"),
        ({"position": "before", "target_id": 0}, "2013"),
        ({"position": "after", "target_id": 3}, "0132"),
        ({"target_id": 0}, "0213"),
        ({"position": "before", "target_id": 3}, "0123"),
        ({"position": "after", "target_id": 1}, "0123"),
        ({"target_id": 2}, "0123"),
    ],
)
def test_a_cell_is_moved(tools, minor, given, order):
    content = four(minor)
    path = put(tools, content)
    name = "c{}" if minor == 5 else "cell-{}"
    target = {"target_id": name.format(given["target_id"])} if "target_id" in given else {}
    call = {"notebook_path": "n.ipynb", "edit_mode": "move", "cell_id": name.format(2), **given, **target}
    assert tools.title("NotebookEdit", **call).startswith("Move a cell ")
    result = tools.result("NotebookEdit", **call)
    expected = {**content, "cells": [content["cells"][int(number)] for number in order]}
    assert path.read_text() == json.dumps(expected, indent=1) + "\n"
    index = order.index("2")
    assert f"cell {index + 1} of 4 (index {index})" in result.content
    assert result.display["cell_id"] == (name.format(2) if minor == 5 else f"cell-{index}")
    assert ("nothing was written" in result.content) == (order == "0123")
    assert ("new positions" in result.content) == (order != "0123" and minor == 4)


def test_the_diff_of_a_move_shows_the_order(tools):
    put(tools, four())
    result = tools.result("NotebookEdit", notebook_path="n.ipynb", edit_mode="move", cell_id="c2", position="start")
    assert result.display["diff"].split("@@\n")[1] == "+c2 # 2\n c0 # 0\n c1 # 1\n-c2 # 2\n c3 # 3\n"


@for_each_row(
    ("given", "message"),
    [
        ({"edit_mode": "move", "cell_id": "c1"}, "move needs position"),
        ({"edit_mode": "move", "position": "start"}, "move needs cell_id"),
        ({"edit_mode": "move", "cell_id": "c1", "position": "after"}, "needs target_id"),
        ({"edit_mode": "move", "cell_id": "c1", "target_id": "c2", "position": "end"}, "omit target_id"),
        ({"edit_mode": "insert", "cell_type": "code"}, "insert needs new_source"),
        ({"edit_mode": "insert", "cell_type": "code", "new_source": "", "position": "before"}, "needs cell_id"),
        (
            {"edit_mode": "insert", "cell_type": "code", "new_source": "", "cell_id": "c1", "position": "start"},
            "omit cell_id",
        ),
        ({"edit_mode": "insert", "cell_type": "code", "new_source": "", "target_id": "c1"}, "target_id is for move"),
        ({"cell_id": "c1"}, "replace needs new_source, or a new cell_type"),
        ({"cell_id": "c1", "new_source": "", "position": "end"}, "position is for insert and move"),
        ({"edit_mode": "delete", "cell_id": "c1", "position": "end"}, "position is for insert and move"),
    ],
)
def test_fields_that_do_not_go_together_are_told(tools, given, message):
    path = put(tools, four())
    before = path.read_bytes()
    error = tools.error("NotebookEdit", notebook_path="n.ipynb", **given)
    assert error.code == ErrorCode.INVALID_PARAMETERS
    assert message in error.message
    assert path.read_bytes() == before


def test_a_type_is_changed_and_the_source_stays(tools):
    content = four()
    content["cells"][1] = {"attachments": {"a.png": {"image/png": "AAAA"}}, **content["cells"][1]}
    path = put(tools, content)
    given = {"notebook_path": "n.ipynb", "cell_id": "c1"}
    tools.result("NotebookEdit", **given, cell_type="raw")
    assert json.loads(path.read_text())["cells"][1] == {**content["cells"][1], "cell_type": "raw"}
    result = tools.result("NotebookEdit", **given, cell_type="code")
    assert "attachments are gone" in result.content
    code = {"cell_type": "code", "id": "c1", "metadata": {}, "execution_count": None, "outputs": [], "source": ["# 1"]}
    assert json.loads(path.read_text())["cells"][1] == code
    assert list(json.loads(path.read_text())["cells"][1]) == sorted(code)


def test_a_new_cell_is_written_like_its_neighbours(tools):
    """Other writers sort keys otherwise, and write the source as one string."""
    cell = {
        "metadata": {"id": "x"},
        "id": "c0",
        "cell_type": "code",
        "source": "a",
        "execution_count": 1,
        "outputs": [],
    }
    path = put(tools, {"cells": [cell], **NOTEBOOK})
    given = {"notebook_path": "n.ipynb", "edit_mode": "insert", "cell_type": "code"}
    tools.result("NotebookEdit", **given, new_source="b\nc")
    new = json.loads(path.read_text())["cells"][1]
    assert list(new) == list(cell)
    assert new["source"] == "b\nc"


def test_nbformat_3_is_changed_in_its_own_words(tools):
    code = {"cell_type": "code", "collapsed": False, "input": ["a"], "language": "julia", "metadata": {}, "outputs": []}
    code["prompt_number"] = 4
    note = {"cell_type": "markdown", "metadata": {}, "source": ["b"]}
    content = {"metadata": {"name": ""}, "nbformat": 3, "nbformat_minor": 0}
    sheets = [{"cells": [code, note], "metadata": {}}, {"cells": [copy.deepcopy(note)], "metadata": {}}]
    path = put(tools, {**content, "worksheets": sheets})
    given = {"notebook_path": "n.ipynb"}
    tools.result("NotebookEdit", **given, cell_id="cell-0", new_source="x\ny")
    sheets[0]["cells"][0] |= {"input": ["x\n", "y"], "prompt_number": None}
    tools.result("NotebookEdit", **given, edit_mode="insert", cell_type="code", new_source="z")
    new = {"cell_type": "code", "collapsed": False, "input": ["z"], "language": "julia", "metadata": {}, "outputs": []}
    sheets[1]["cells"].append(new)
    tools.result("NotebookEdit", **given, cell_id="cell-1", cell_type="code")
    sheets[0]["cells"][1] = {**new, "input": ["b"]}
    tools.result("NotebookEdit", **given, edit_mode="move", cell_id="cell-1", position="start")
    sheets[0]["cells"].reverse()
    assert path.read_text() == json.dumps({**content, "worksheets": sheets}, indent=1) + "\n"
    error = tools.error("NotebookEdit", **given, edit_mode="move", cell_id="cell-0", position="end")
    assert "different worksheets" in error.message


def test_a_notebook_in_utf_16_stays_so(tools):
    path = tools.cwd / "n.ipynb"
    path.write_bytes(json.dumps(four(), indent=1).encode("utf-16"))
    tools.result("Read", file_path="n.ipynb")
    tools.result("NotebookEdit", notebook_path="n.ipynb", cell_id="c1", new_source="é")
    assert sources_of(path.read_text("utf-16")) == ["# 0", "é", "# 2", "# 3"]


def sources_of(text: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"]]


def test_what_was_wrong_before_may_stay_and_nothing_new_may_come(tools):
    content = four()
    content["cells"][1] |= {"id": "not an id!", "surprise": 1}
    put(tools, content)
    given = {"notebook_path": "n.ipynb", "cell_id": "not an id!"}
    assert "quite valid before" in tools.result("NotebookEdit", **given, new_source="x").content
    content["cells"][1]["metadata"] = {"collapsed": 3}
    put(tools, content)
    error = tools.error("NotebookEdit", **given, cell_type="code")
    assert "data.metadata.collapsed" in error.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(string.printable, max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
SOURCES = st.text(st.sampled_from('ab\n\r\t"\\é\u2028\U0001f600\x00'), max_size=10)
OUTPUTS = st.lists(
    st.fixed_dictionaries({"output_type": st.just("stream"), "name": st.just("stdout"), "text": SOURCES})
    | st.fixed_dictionaries(
        {
            "output_type": st.just("display_data"),
            "metadata": st.just({}),
            "data": st.dictionaries(st.sampled_from(["text/plain", "image/png", "text/html"]), SOURCES),
        }
    ),
    max_size=2,
)


@st.composite
def notebooks(draw: st.DrawFn) -> dict[str, Any]:
    """Valid notebooks of nbformat 4, and some that are not."""
    minor = draw(st.integers(0, 6))
    cells = []
    for number in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["code", "markdown", "raw"]))
        source = draw(SOURCES)
        cell: dict[str, Any] = {
            "cell_type": kind,
            "metadata": draw(st.dictionaries(st.text(max_size=3), JSON, max_size=2)),
        }
        cell["source"] = draw(st.sampled_from([source, source.splitlines(keepends=True)]))
        if kind == "code":
            cell |= {"execution_count": draw(st.none() | st.integers(0, 9)), "outputs": draw(OUTPUTS)}
        elif minor and draw(st.booleans()):
            cell["attachments"] = {"a.png": {"image/png": "AAAA"}}
        if minor >= 5:
            cell["id"] = draw(st.sampled_from([f"id-{number}", "same", "not an id!"]))
        cells.append(dict(draw(st.permutations(list(cell.items())))))
    return {"cells": cells, "metadata": draw(st.dictionaries(st.text(max_size=3), JSON, max_size=2))} | {
        "nbformat": 4,
        "nbformat_minor": minor,
    }


EDITS = st.fixed_dictionaries(
    {},
    optional={
        "edit_mode": st.sampled_from(["replace", "insert", "delete", "move"]),
        "cell_id": st.sampled_from(["id-0", "id-1", "same", "not an id!", "cell-0", "cell-1", "cell-3", "nope"]),
        "target_id": st.sampled_from(["id-0", "id-2", "cell-0", "cell-2"]),
        "cell_type": st.sampled_from(["code", "markdown", "raw"]),
        "position": st.sampled_from(["before", "after", "start", "end"]),
        "new_source": SOURCES | st.just("\ud800"),
    },
)


@settings(max_examples=250, deadline=None)
@pytest.mark.thorough
@given(
    content=notebooks(),
    edits=st.lists(EDITS, min_size=1, max_size=4),
    indent=st.sampled_from([None, 0, 1, 2, "\t"]),
    ensure_ascii=st.booleans(),
)
def test_any_edit_of_any_notebook_is_whole_or_refused(tmp_path_factory, content, edits, indent, ensure_ascii):
    from nbformat.validator import iter_validate  # a second to import

    def is_valid() -> bool:
        return next(iter_validate(json.loads(path.read_bytes())), None) is None

    folder = tmp_path_factory.getbasetemp()
    path = folder / "any.ipynb"
    path.write_bytes(json.dumps(content, indent=indent, ensure_ascii=ensure_ascii).encode("utf-8", "replace"))
    state = FileState()
    tools = {tool.name: tool for tool in [*file_tools(state, folder), *notebook_tools(state, folder)]}
    context = ToolContext("toolu_any", lambda **_: None)
    for edit in edits:
        asyncio.run(tools["NotebookRead"].call({"notebook_path": "any.ipynb"}, context))
        before, valid = path.read_bytes(), is_valid()
        call = {"notebook_path": "any.ipynb", **edit}
        check_input(tools["NotebookEdit"], call)
        try:
            asyncio.run(tools["NotebookEdit"].call(call, context))
        except ToolError:
            assert path.read_bytes() == before
            continue
        assert is_valid() or not valid
        old, new = json.loads(before), json.loads(path.read_bytes())
        assert {**old, "cells": []} == {**new, "cells": []}
        assert len(new["cells"]) - len(old["cells"]) == {"insert": 1, "delete": -1}.get(edit.get("edit_mode", ""), 0)
    assert [file.name for file in folder.glob("*.tmp")] == []


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_broken_notebook_crashes_or_is_written(tmp_path_factory, data):
    whole = json.dumps(four(), indent=1).encode()
    broken = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    changes = st.lists(st.tuples(st.integers(0, 500), st.sampled_from(b'{}[]",:\\0\x00\xffa')), max_size=4)
    for at, value in data.draw(changes):
        if broken:
            broken[at % len(broken)] = value
    folder = tmp_path_factory.getbasetemp()
    path = folder / "broken.ipynb"
    path.write_bytes(bytes(broken))
    state = FileState()
    tools = {tool.name: tool for tool in [*file_tools(state, folder), *notebook_tools(state, folder)]}
    context = ToolContext("toolu_any", lambda **_: None)
    call = {"notebook_path": "broken.ipynb", "cell_id": "c1", "new_source": "x"}
    try:
        asyncio.run(tools["Read"].call({"file_path": "broken.ipynb"}, context))
        asyncio.run(tools["NotebookEdit"].call(call, context))
    except ToolError:
        assert path.read_bytes() == bytes(broken)
    else:
        json.loads(path.read_bytes())
