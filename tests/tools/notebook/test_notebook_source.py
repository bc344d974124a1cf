"""Notebooks as they are on people's disks: with broken cells, without ids, paired with a text, of 150 MB."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.errors import ErrorCode
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.notebook_json import parse_notebook
from cellwright.tools.notebook.notebook_source import CHECKED_BYTES, NotANotebook, open_notebook
from row_tables import for_each_row

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="

STYLES = [
    {"indent": 1},
    {"indent": 2},
    {"indent": 4},
    {"indent": "\t"},
    {"indent": 0},
    {"indent": None},
    {"indent": None, "separators": (",", ":")},
    {"indent": 1, "ensure_ascii": True},
]


def written(tools, cells, minor=5, **metadata):
    content = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": minor}
    (tools.cwd / "n.ipynb").write_text(json.dumps(content, indent=1) + "\n")


def code(cell_id, source="x = 1"):
    return {
        "cell_type": "code",
        "id": cell_id,
        "metadata": {},
        "execution_count": None,
        "source": source,
        "outputs": [],
    }


def cells_of(tools):
    return json.loads((tools.cwd / "n.ipynb").read_text())["cells"]


@pytest.fixture
def broken(tools):
    without_source = {key: value for key, value in code("b").items() if key != "source"}
    without_type = {"id": "c", "metadata": {}, "source": "y = 2"}
    neither = {"id": "d", "metadata": {}}
    written(tools, [code("a"), without_source, without_type, neither])
    return tools


def test_a_broken_cell_is_shown_as_such_and_the_others_are_changed(broken):
    text = str(broken.result("Read", file_path="n.ipynb").content)
    assert "no source." in text
    assert "no cell_type." in text
    assert "no cell_type and" in text
    assert "y = 2" in text
    assert "broken" in broken.text("NotebookRead", notebook_path="n.ipynb", outline=True)
    before = cells_of(broken)
    broken.result("NotebookEdit", notebook_path="n.ipynb", cell_id="a", new_source="x = 3")
    after = cells_of(broken)
    assert after[0]["source"] == "x = 3"
    assert after[1:] == before[1:]


def test_a_broken_cell_is_mended_or_deleted(broken):
    broken.result("Read", file_path="n.ipynb")
    given = {"notebook_path": "n.ipynb"}
    broken.result("NotebookEdit", **given, cell_id="b", new_source="")
    broken.result("NotebookEdit", **given, cell_id="b", new_source="z = 1")
    error = broken.error("NotebookEdit", **given, cell_id="c", new_source="y = 3")
    assert error.code == ErrorCode.INVALID_PARAMETERS
    assert "no cell_type:" in error.message
    broken.result("NotebookEdit", **given, cell_id="c", cell_type="code")
    broken.result("NotebookEdit", **given, cell_id="d", edit_mode="delete")
    assert [(cell["id"], cell["cell_type"], cell["source"]) for cell in cells_of(broken)] == [
        ("a", "code", "x = 1"),
        ("b", "code", "z = 1"),
        ("c", "code", "y = 2"),
    ]


@pytest.mark.parametrize(("minor", "given"), [(5, True), (4, False)])
def test_a_written_notebook_gets_the_ids_that_its_format_asks_for(tools, minor, given):
    cells = [code("kept"), *({k: v for k, v in code("").items() if k != "id"} for _ in range(2))]
    content = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": minor}
    text = tools.text("Write", file_path="n.ipynb", content=json.dumps(content, indent=2))
    assert ("had no id" in text) is given
    found = [cell.get("id") for cell in cells_of(tools)]
    assert found[0] == "kept"
    assert all(found) is given
    assert len(set(found)) == (3 if given else 2)
    assert (tools.cwd / "n.ipynb").read_text().startswith('{\n  "cells"')
    again = tools.text("Write", file_path="n.ipynb", content=json.dumps(content, indent=2))
    assert "already" in again


def test_a_notebook_in_another_encoding_is_changed_in_it_and_that_is_said(tools):
    written(tools, [code("a", "print('Список продаж в магазине')"), code("b")])
    path = tools.cwd / "n.ipynb"
    path.write_bytes(json.dumps(json.loads(path.read_text()), indent=1, ensure_ascii=False).encode("cp1251"))
    tools.result("Read", file_path="n.ipynb")
    done = tools.text("NotebookEdit", notebook_path="n.ipynb", cell_id="b", new_source="'итого'")
    assert "as Windows-1251," in done
    assert json.loads(path.read_bytes().decode("cp1251"))["cells"][1]["source"] == "'итого'"


PERCENT = "# ---\n# jupyter:\n#   jupytext:\n#     formats: ipynb,py:percent\n# ---\n\n# %%\nx = 1\n"


def test_a_jupytext_pair_is_named_when_it_is_read_and_when_one_of_it_is_changed(tools):
    written(tools, [code("a")], jupytext={"formats": "ipynb,py:percent"})
    (tools.cwd / "n.py").write_text(PERCENT)
    assert "jupytext with n" in str(tools.result("Read", file_path="n.ipynb").content)
    changed = tools.text("NotebookEdit", notebook_path="n.ipynb", cell_id="a", new_source="x = 2")
    assert "n.ipynb is paired" in changed
    assert "jupytext --sync" in changed
    assert "jupytext with n" in tools.text("Read", file_path="n.py")
    changed = tools.text("Edit", file_path="n.py", old_string="x = 1", new_string="x = 2")
    assert "n.py is paired" in changed
    patch = "--- a/n.py\n+++ b/n.py\n@@ -8,1 +8,1 @@\n-x = 2\n+x = 3\n"
    assert "n.py is paired" in tools.text("ApplyPatch", patch=patch)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("jupytext.toml", 'formats = "ipynb,py:percent"\n'),
        ("pyproject.toml", '[tool.jupytext]\nformats = "notebooks//ipynb,scripts//py:percent"\n'),
        ("jupytext.toml", '[formats]\n"notebooks/" = "ipynb"\n"scripts/" = "py:percent"\n'),
    ],
)
def test_pairs_of_a_configuration(tools, name, config):
    (tools.cwd / name).write_text(config)
    in_folders = "scripts" in config
    text = tools.cwd / ("scripts/sub" if in_folders else ".") / "n.py"
    notebook = tools.cwd / ("notebooks/sub" if in_folders else ".") / "n.ipynb"
    for path in (text, notebook):
        path.parent.mkdir(parents=True, exist_ok=True)
    text.write_text("x = 1\n")
    notebook.write_text(json.dumps({"cells": [code("a")], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    assert "Paired by jupytext" in tools.text("Read", file_path=str(text))
    assert "Paired by jupytext" in str(tools.result("Read", file_path=str(notebook)).content)
    (tools.cwd / "alone.py").write_text("x = 1\n")
    assert "jupytext" not in tools.text("Read", file_path="alone.py")


def test_a_notebook_of_150_mb_of_plots_is_changed(tools):
    picture = base64.b64encode(os.urandom(750_000)).decode()
    plot = {"output_type": "display_data", "metadata": {}, "data": {"image/png": picture}}
    written(tools, [{**code(f"c{number}"), "outputs": [plot]} for number in range(158)])
    path = tools.cwd / "n.ipynb"
    assert path.stat().st_size > 150 * 2**20
    given = {"notebook_path": "n.ipynb", "cell_ids": ["c3"], "outputs": "none"}
    tools.result("NotebookRead", **given)
    tools.result("NotebookEdit", notebook_path="n.ipynb", cell_id="c3", new_source="x = 2")
    assert "x = 2" in str(tools.result("NotebookRead", **given).content)


def test_the_spans_of_a_large_notebook_are_looked_for_once(tools):
    """What follows in a turn costs a hash of the file, not a pass over its JSON: as often as the same bytes come."""
    written(tools, [code(f"c{number}", "y" * 50_000) for number in range(CHECKED_BYTES // 50_000 + 1)])
    path = tools.cwd / "n.ipynb"

    def lines_run():
        count = 0

        def trace(frame, event, _arg):
            nonlocal count
            count += frame.f_code.co_qualname.startswith("_Scan.")
            return trace if frame.f_code.co_qualname.startswith("_Scan.") else None

        sys.settrace(trace)
        try:
            with path.open("rb") as file:
                source = open_notebook(file, path.stat().st_size, lambda: False)
        finally:
            sys.settrace(None)
        assert len(source.cells) == CHECKED_BYTES // 50_000 + 1
        return count

    assert lines_run() > 0
    assert lines_run() == 0


def split(source: str, *, as_list: bool = True) -> Any:
    return source.splitlines(keepends=True) if as_list else source


def cell(kind: str, source: Any, minor: int, number: int) -> dict[str, Any]:
    new: dict[str, Any] = {"cell_type": kind, "metadata": {"tags": ["é"], "weight": 1e-05}, "source": source}
    if minor >= 5:
        new["id"] = f"id-{number}"
    if kind == "code":
        png = {"output_type": "display_data", "metadata": {}, "data": {"image/png": PICTURE, "text/plain": ["<F>"]}}
        stream = {"output_type": "stream", "name": "stdout", "text": ["1\n", "2"]}
        new |= {"execution_count": number, "outputs": [png, stream]}
    return dict(sorted(new.items()))


def notebook(sources: list[tuple[str, str]], minor: int, *, as_list: bool = True) -> dict[str, Any]:
    cells = [cell(kind, split(text, as_list=as_list), minor, n) for n, (kind, text) in enumerate(sources)]
    kernel = {"display_name": "Python 3 (é)", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "widgets": {"x": {"n": 1e22, "nan": [1.50, 2]}}, "a/b": "c\u2028d"}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": minor}


def dumps(content: dict[str, Any], style: dict[str, Any], end: str = "\n", line_end: str = "\n") -> bytes:
    text = json.dumps(content, **{"ensure_ascii": False, **style}) + end
    return text.replace("\n", line_end).encode()


SOURCES = [("markdown", "# Title\ntext é"), ("code", 'x = 1\nprint("ä\\n")\n'), ("raw", ""), ("code", "y")]


def put(tools: Any, data: bytes) -> Path:
    path: Path = tools.cwd / "n.ipynb"
    path.write_bytes(data)
    tools.result("Read", file_path="n.ipynb")
    return path


def edit(tools: Any, **given: Any) -> Any:
    return tools.result("NotebookEdit", notebook_path="n.ipynb", **{"new_source": "", **given})


def name(content: dict[str, Any], number: int) -> str:
    return content["cells"][number].get("id", f"cell-{number}")


@pytest.mark.thorough
@for_each_row("style", STYLES)
@for_each_row("minor", range(6))
@for_each_row("end", ["\n", ""])
def test_every_edit_gives_what_a_writer_of_the_same_style_would_have_written(tools, style, minor, end):
    content = notebook(SOURCES, minor)
    path = put(tools, dumps(content, style, end))
    source = "new é\n\tline\u2028\n\"'\\"

    edit(tools, cell_id=name(content, 1), new_source=source)
    content["cells"][1] |= {"source": split(source), "outputs": [], "execution_count": None}
    assert path.read_bytes() == dumps(content, style, end)

    edit(tools, cell_id=name(content, 0), new_source="")
    content["cells"][0]["source"] = []
    assert path.read_bytes() == dumps(content, style, end)

    added = edit(tools, edit_mode="insert", cell_type="code", new_source="end")
    new = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": ["end"]}
    if minor >= 5:
        new["id"] = added.display["cell_id"]
    content["cells"].append(dict(sorted(new.items())))
    assert path.read_bytes() == dumps(content, style, end)

    added = edit(tools, edit_mode="insert", cell_id=name(content, 0), cell_type="markdown", new_source="a\nb")
    new = {"cell_type": "markdown", "metadata": {}, "source": ["a\n", "b"]}
    if minor >= 5:
        new["id"] = added.display["cell_id"]
    content["cells"].insert(1, dict(sorted(new.items())))
    assert path.read_bytes() == dumps(content, style, end)

    for number in (5, 0, 1):
        edit(tools, edit_mode="delete", cell_id=name(content, number))
        del content["cells"][number]
        assert path.read_bytes() == dumps(content, style, end)

    edit(tools, cell_id=name(content, 2), cell_type="markdown", new_source="m")
    changed = content["cells"][2]
    del changed["outputs"], changed["execution_count"]
    changed |= {"cell_type": "markdown", "source": ["m"]}
    assert path.read_bytes() == dumps(content, style, end)

    edit(tools, cell_id=name(content, 0), cell_type="code", new_source="c")
    changed = content["cells"][0] | {"cell_type": "code", "source": ["c"], "outputs": [], "execution_count": None}
    content["cells"][0] = dict(sorted(changed.items()))
    assert path.read_bytes() == dumps(content, style, end)

    for _ in range(3):
        edit(tools, edit_mode="delete", cell_id=name(content, 0))
        del content["cells"][0]
    assert path.read_bytes() == dumps(content, style, end)


def test_an_edit_of_one_cell_is_a_git_diff_of_one_cell(tools):
    content = notebook(SOURCES, 5)
    path = put(tools, dumps(content, {"indent": 1}))
    subprocess.run("git init -q && git add n.ipynb", shell=True, cwd=tools.cwd, check=True)
    edit(tools, cell_id="id-1", new_source="x = 2\nprint(x)\n")
    diff = subprocess.run(["git", "diff", "-U0", "n.ipynb"], cwd=tools.cwd, capture_output=True, text=True, check=True)
    lines = dumps(content, {"indent": 1}).decode().splitlines()
    first = lines.index('   "id": "id-1",') - 3
    last = lines.index('   "id": "id-2",') - 2
    touched = [int(number) for number in re.findall(r"^@@ -(\d+)", diff.stdout, re.MULTILINE)]
    assert touched
    assert all(first <= number <= last for number in touched)
    assert "id-2" not in diff.stdout
    assert path.read_bytes().endswith(b"}\n")


def test_source_as_one_string_stays_one_string(tools):
    content = notebook(SOURCES, 4, as_list=False)
    path = put(tools, dumps(content, {"indent": 1}))
    edit(tools, cell_id="cell-1", new_source="a\nb")
    edit(tools, edit_mode="insert", cell_type="markdown", new_source="c\nd")
    cells = json.loads(path.read_text())["cells"]
    assert (cells[1]["source"], cells[4]["source"]) == ("a\nb", "c\nd")


def test_crlf_and_byte_order_mark_are_kept(tools):
    content = notebook(SOURCES, 5)
    path = put(tools, b"\xef\xbb\xbf" + dumps(content, {"indent": 1}, line_end="\r\n"))
    edit(tools, cell_id="id-1", new_source="a\nb")
    content["cells"][1] |= {"source": ["a\n", "b"], "outputs": [], "execution_count": None}
    assert path.read_bytes() == b"\xef\xbb\xbf" + dumps(content, {"indent": 1}, line_end="\r\n")


def test_what_another_writer_wrote_otherwise_stays_so(tools):
    before = '{"nbformat" : 4, "nbformat_minor":5,\n "metadata": {"u": "a\\/b \\u00e9 é", "n": 1E5, "d": 1, "d": 2},\n'
    other = '{"id": "b", "cell_type":"markdown", "metadata": {"x":[1,2,  3]}, "source" : "o\\u006b"}'
    target = (
        '{"id": "a", "source": ["x"], "cell_type": "code", "execution_count": 1 , "metadata": {"y":  1}, "outputs":[ ]}'
    )
    path = put(tools, f'{before} "cells": [{other} ,\n  {target}], "end": "\\u2028"}}'.encode())
    edit(tools, cell_id="a", new_source="y")
    changed = target.replace('["x"]', '["y"]').replace('"execution_count": 1 ,', '"execution_count": null ,')
    changed = changed.replace("[ ]", "[]")
    assert path.read_text() == f'{before} "cells": [{other} ,\n  {changed}], "end": "\\u2028"}}'
    edit(tools, cell_id="a", edit_mode="delete")
    assert path.read_text() == f'{before} "cells": [{other}], "end": "\\u2028"}}'


TEXTS = st.text(alphabet=st.sampled_from('ab\n\r\t"\\é\u2028\U0001f600\x00u'), max_size=12)


@settings(max_examples=60, deadline=None)
@given(
    sources=st.lists(st.tuples(st.sampled_from(["code", "markdown", "raw"]), TEXTS), min_size=1, max_size=5),
    source=TEXTS,
    style=st.sampled_from(STYLES),
    minor=st.integers(0, 5),
    as_list=st.booleans(),
    data=st.data(),
)
def test_any_notebook_keeps_its_other_cells(sources, source, style, minor, as_list, data):
    content = notebook(sources, minor, as_list=as_list)
    parsed = parse_notebook(dumps(content, style))
    number = data.draw(st.integers(0, len(sources) - 1))
    expected = copy.deepcopy(content)
    changed = expected["cells"][number]
    changed["source"] = split(source, as_list=as_list)
    if changed["cell_type"] == "code":
        changed |= {"outputs": [], "execution_count": None}
    assert parsed.with_source(number, source) == dumps(expected, style)
    text, _ = parsed.with_cell(parsed.place_at(number, after=False), "markdown", source)
    cells = json.loads(text)["cells"]
    assert "".join(cells.pop(number)["source"]) == source
    assert cells == content["cells"]
    place = data.draw(st.integers(0, len(sources)))
    moved = parsed.moved(
        number, parsed.end_place(start=False) if place == len(sources) else parsed.place_at(place, after=False)
    )
    order: list[Any] = list(range(len(sources)))
    order.insert(place, "here")
    order.remove(number)
    cells = [content["cells"][number if which == "here" else which] for which in order]
    assert moved == dumps(content | {"cells": cells}, style)
    assert json.loads(parsed.without(number))["cells"] == [*content["cells"][:number], *content["cells"][number + 1 :]]


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet='{}[]",:abcells \n\\1', max_size=40))
def test_no_text_is_taken_for_a_notebook_or_crashes(text):
    with pytest.raises(NotANotebook):
        parse_notebook(text.encode())


def test_results_say_what_and_where(tools):
    content = notebook(SOURCES, 5)
    path = put(tools, dumps(content, {"indent": 1}))
    replaced = edit(tools, cell_id="id-1", new_source="x = 2")
    assert "code cell id-1" in replaced.content
    assert "Its outputs were" in replaced.content
    assert replaced.display["diff"].split("\n") == [
        "--- a/n.ipynb#id-1",
        "+++ b/n.ipynb#id-1",
        "@@ -1,3 +1 @@",
        "-x = 1",
        '-print("ä\\n")',
        "-",
        "+x = 2",
        "",
    ]
    assert {key: replaced.display[key] for key in ("type", "cell_id", "path")} == {
        "type": "update",
        "cell_id": "id-1",
        "path": str(path),
    }
    assert len(replaced.display["before_sha256"]) == len(replaced.display["after_sha256"]) == 64
    assert edit(tools, cell_id="id-1", new_source="x = 2").content.endswith("nothing was written.")
    added = edit(tools, edit_mode="insert", cell_type="code", new_source="z")
    new = added.display["cell_id"]
    assert f"{new} at the" in added.content
    assert "cell 5 of 5" in added.content
    added = edit(tools, edit_mode="insert", cell_type="code", new_source="z", cell_id="id-0")
    assert "after id-0" in added.content
    assert "cell 2 of 6 (" in added.content
    assert added.display["cell_id"] != new
    assert "cell 5 of 6" in edit(tools, edit_mode="delete", cell_id="id-3").content


def test_cells_without_ids_are_named_by_position(tools):
    path = put(tools, dumps(notebook(SOURCES, 4), {"indent": 1}))
    edit(tools, cell_id="cell-3", new_source="new")
    assert json.loads(path.read_text())["cells"][3]["source"] == ["new"]
    assert "new positions" in edit(tools, cell_id="cell-0", edit_mode="delete").content
    assert (
        "Cell cell-3 was"
        in tools.error("NotebookEdit", notebook_path="n.ipynb", cell_id="cell-3", new_source="").message
    )


@for_each_row(
    ("given", "message"),
    [
        ({"cell_id": "nope"}, "Cell nope was not found. The cells are: id-0, id-1, id-2, id-3."),
        ({"cell_id": "cell-1"}, "use id-1 instead"),
        ({}, "replace needs cell_id"),
        ({"edit_mode": "delete"}, "delete needs cell_id"),
        ({"edit_mode": "insert"}, "insert needs cell_type"),
        ({"edit_mode": "insert", "cell_type": "code", "cell_id": "nope"}, "Cell nope was not found"),
        ({"cell_id": "id-0", "cell_type": "heading"}, "cell_type"),
        ({"cell_id": "id-0", "new_source": "\ud800"}, "no character"),
    ],
)
def test_what_is_wrong_with_an_edit_is_told_and_nothing_written(tools, given, message):
    data = dumps(notebook(SOURCES, 5), {"indent": 1})
    path = put(tools, data)
    error = tools.error("NotebookEdit", **{"notebook_path": "n.ipynb", "new_source": "x", **given})
    assert error.code == ErrorCode.INVALID_PARAMETERS
    assert message in error.message
    assert path.read_bytes() == data


def test_two_cells_with_one_id_are_not_guessed_between(tools):
    content = notebook(SOURCES, 5)
    content["cells"][1]["id"] = "id-0"
    put(tools, dumps(content, {"indent": 1}))
    error = tools.error("NotebookEdit", notebook_path="n.ipynb", new_source="x", cell_id="id-0")
    assert "id-0;" in error.message
    assert "cell-0, cell-1." in error.message
    assert "cell 2 of 4" in tools.text("NotebookEdit", notebook_path="n.ipynb", new_source="x", cell_id="cell-1")
    new = {"edit_mode": "insert", "cell_type": "code", "new_source": "z"}
    tools.text("NotebookEdit", notebook_path="n.ipynb", cell_id="cell-1", **new)
    content = json.loads((tools.cwd / "n.ipynb").read_bytes())
    assert ["".join(cell["source"]) for cell in content["cells"]] == [SOURCES[0][1], "x", "z", "", "y"]
    error = tools.error("NotebookEdit", notebook_path="n.ipynb", new_source="x", cell_id="cell-3")
    assert "id-2 instead" in error.message


@pytest.mark.parametrize("minor", [4, 5])
def test_a_run_that_only_gave_outputs_is_no_change(tools, minor):
    content = notebook(SOURCES, minor)
    path = put(tools, dumps(content, {"indent": 1}))
    name = "id-1" if minor == 5 else "cell-1"
    output = {"output_type": "stream", "name": "stdout", "text": "1\n"}
    asyncio.run(FileNotebook(path).put_outputs(name, expect=None, outputs=[output], execution_count=1))
    for source in ("x = 1", "x = 2"):
        result = tools.text("NotebookEdit", notebook_path="n.ipynb", cell_id=name, new_source=source)
        assert "changed on disk" not in result
        asyncio.run(FileNotebook(path).put_outputs(name, expect=None, outputs=[output], execution_count=2))


@pytest.mark.parametrize("minor", [4, 5])
def test_a_cell_that_others_did_not_change_is_edited_beside_one_that_they_did(tools, minor):
    path = put(tools, dumps(notebook(SOURCES, minor), {"indent": 1}))
    path.write_bytes(dumps(notebook([("markdown", "theirs"), *SOURCES[1:]], minor), {"indent": 1}))
    names = ["id-0", "id-1"] if minor == 5 else ["cell-0", "cell-1"]
    given = {"notebook_path": "n.ipynb", "new_source": "mine"}
    assert "changed on disk" in tools.error("NotebookEdit", cell_id=names[0], **given).message
    assert "changed on disk" in tools.text("NotebookEdit", cell_id=names[1], **given)
    cells = json.loads(path.read_bytes())["cells"]
    assert ["".join(cell["source"]) for cell in cells[:2]] == ["theirs", "mine"]
    assert "was not shown" in tools.error("NotebookEdit", cell_id=names[0], **given).message


def test_where_cells_have_no_ids_and_have_moved_nothing_is_guessed(tools):
    path = put(tools, dumps(notebook(SOURCES, 4), {"indent": 1}))
    path.write_bytes(dumps(notebook([*SOURCES[1:], SOURCES[0]], 4), {"indent": 1}))
    before = path.read_bytes()
    for more in ({"new_source": "x"}, {"edit_mode": "delete"}, {"edit_mode": "move", "position": "end"}, INSERTED):
        error = tools.error("NotebookEdit", notebook_path="n.ipynb", cell_id="cell-1", **more)
        assert "changed on disk" in error.message
    assert path.read_bytes() == before


INSERTED = {"edit_mode": "insert", "cell_type": "code", "new_source": "x"}


def test_a_notebook_must_be_read_and_be_as_it_was_read(tools):
    data = dumps(notebook(SOURCES, 5), {"indent": 1})
    path = tools.cwd / "n.ipynb"
    path.write_bytes(data)
    given = {"notebook_path": "n.ipynb", "new_source": "x", "cell_id": "id-0"}
    assert "Read it first" in tools.error("NotebookEdit", **given).message
    tools.result("Read", file_path="n.ipynb")
    path.write_bytes(dumps(notebook([("markdown", "theirs"), *SOURCES[1:]], 5), {"indent": 1}))
    assert "changed on disk" in tools.error("NotebookEdit", **given).message
    tools.result("Read", file_path="n.ipynb")
    tools.result("NotebookEdit", **given)
    tools.result("NotebookEdit", **{**given, "new_source": "again"})


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("n.ipynb", b"not json", ErrorCode.FILE_ACCESS_ERROR),
        ("n.ipynb", b'{"worksheets": [], "nbformat": 3}', ErrorCode.FILE_ACCESS_ERROR),
        ("n.ipynb", b'{"cells": [1], "nbformat": 4}', ErrorCode.FILE_ACCESS_ERROR),
        ("a.py", b"x", ErrorCode.FILE_PATH_INVALID),
    ],
)
def test_what_is_no_notebook_is_refused(tools, name, data, code):
    (tools.cwd / name).write_bytes(data)
    tools.result("Read", file_path=name)
    assert tools.error("NotebookEdit", notebook_path=name, new_source="", cell_id="a").code == code


def test_a_missing_notebook_is_answered_with_the_nearest_names(tools):
    (tools.cwd / "analysis.ipynb").write_text("")
    error = tools.error("NotebookEdit", notebook_path="analisis.ipynb", new_source="", cell_id="a")
    assert error.code == ErrorCode.FILE_NOT_FOUND
    assert "analysis.ipynb" in error.message


def test_an_edit_never_makes_a_valid_notebook_invalid_but_may_mend_an_invalid_one(tools):
    content = notebook(SOURCES, 5)
    content["cells"][3]["id"] = "not an id!"
    path = put(tools, dumps(content, {"indent": 1}))
    result = edit(tools, cell_id="id-0", new_source="x")
    assert "quite valid before" in result.content
    assert json.loads(path.read_text())["cells"][0]["source"] == ["x"]
    # a cell that only its type makes valid
    content = notebook(SOURCES, 5)
    content["cells"][0]["metadata"] = {"collapsed": "yes"}
    data = dumps(content, {"indent": 1})
    path = put(tools, data)
    error = tools.error("NotebookEdit", notebook_path="n.ipynb", new_source="x", cell_id="id-0", cell_type="code")
    assert "be a valid" in error.message
    assert path.read_bytes() == data


def test_the_preview_is_the_diff_of_the_cell_and_what_then_happens(tools):
    data = dumps(notebook(SOURCES, 5), {"indent": 1})
    path = put(tools, data)
    preview = tools.preview("NotebookEdit", notebook_path="n.ipynb", new_source="x = 1\ny\n", cell_id="id-1")
    assert preview.kind == "diff"
    assert "cell [1]" in preview.title
    assert preview.detail.endswith(' x = 1\n-print("ä\\n")\n+y\n \n')
    given = {"notebook_path": "n.ipynb", "new_source": "z", "edit_mode": "insert", "cell_type": "code"}
    preview = tools.preview("NotebookEdit", **given)
    assert "at the end" in preview.title
    assert "(+1 −0)" in preview.title
    assert path.read_bytes() == data
    assert tools.result("NotebookEdit", **given).display["diff"] == preview.detail
    cannot = tools.cannot("NotebookEdit", notebook_path="n.ipynb", new_source="", cell_id="nope")
    assert "Cell nope was" in cannot.preview.warning


def test_titles(tools):
    assert "Edit a cell" in tools.title("NotebookEdit", notebook_path="n.ipynb", cell_id="a")
    assert "Delete a cell" in tools.title("NotebookEdit", notebook_path="n.ipynb", cell_id="a", edit_mode="delete")
    assert "Insert a cell" in tools.title("NotebookEdit", notebook_path="n.ipynb", edit_mode="insert")


def test_reading_a_notebook_imports_no_nbformat(tools):
    (tools.cwd / "n.ipynb").write_bytes(dumps(notebook(SOURCES, 5), {"indent": 1}))
    script = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from cellwright.agent.tool import ToolContext\n"
        "from cellwright.tools.files.file_state import FileState\n"
        "from cellwright.tools.files.read import read_tool\n"
        "from cellwright.tools.notebook.notebook_edit import notebook_edit_tool\n"
        "from cellwright.tools.search.grep import grep_tool\n"
        "cwd = Path(sys.argv[1])\n"
        "read = read_tool(FileState(), cwd)\n"
        "asyncio.run(read.call({'file_path': 'n.ipynb'}, ToolContext('t', print)))\n"
        "print([name for name in ('nbformat', 'jsonschema', 'IPython') if name in sys.modules])\n"
    )
    run = subprocess.run([sys.executable, "-c", script, str(tools.cwd)], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_loop_goes_on_while_nbformat_is_imported_and_asked(tools):
    put(tools, dumps(notebook(SOURCES, 5), {"indent": 1}))

    async def scene() -> int:
        given = {"notebook_path": "n.ipynb", "new_source": "x", "cell_id": "id-0"}
        task = asyncio.create_task(tools.run("NotebookEdit", given))
        turns = 0
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        await task
        return turns

    assert asyncio.run(scene()) > 1
