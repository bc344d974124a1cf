from __future__ import annotations

import base64
import json
from typing import Any

from pictures import picture

from cellwright.errors import ErrorCode
from row_tables import for_each_row

PNG = base64.b64encode(picture("PNG")).decode()


def cell(kind: str, source: str, number: int, outputs: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    new: dict[str, Any] = {"cell_type": kind, "id": f"c{number}", "metadata": {}, "source": source.splitlines(True)}
    return new | ({"execution_count": number, "outputs": outputs or []} if kind == "code" else {})


def stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


IMAGE = {"output_type": "display_data", "metadata": {}, "data": {"image/png": PNG, "text/plain": "<Figure>"}}


def put(tools: Any, *cells: dict[str, Any], name: str = "n.ipynb", **more: Any) -> None:
    content = {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}
    (tools.cwd / name).write_text(json.dumps(content))


def read(tools: Any, **given: Any) -> str:
    """The texts of the result, `[image]` where there is one."""
    content = tools.result("NotebookRead", notebook_path="n.ipynb", **given).content
    return content if isinstance(content, str) else "".join(block.get("text", "[image]") for block in content)


FIVE = [cell("markdown", f"# Part {number}", number) for number in range(1, 6)]


@for_each_row(
    ("given", "shown"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"cells": "2"}, [2]),
        ({"cells": "2-3, 5"}, [2, 3, 5]),
        ({"cells": "4-"}, [4, 5]),
        ({"cells": "4-99"}, [4, 5]),
        ({"cell_ids": ["c5", "c1"]}, [1, 5]),
        ({"cell_ids": ["c5"], "cells": "1-2"}, [1, 2, 5]),
    ],
)
def test_cells_are_chosen(tools, given, shown):
    put(tools, *FIVE)
    text = read(tools, **given)
    assert [number for number in range(1, 6) if f"# Part {number}\n" in text] == shown
    assert text.count("<cell ") == len(shown)
    assert text.endswith("</cell>\n" if len(shown) == 5 else f"[{len(shown)} of 5 cells of n.ipynb]")


@for_each_row(
    ("given", "message"),
    [
        ({"cells": "6"}, 'no cells "6": n.ipynb has 5 cells, from 1 on'),
        ({"cells": "0"}, 'no cells "0"'),
        ({"cells": "3-2"}, 'no cells "3-2"'),
        ({"cells": "a"}, "cells must be text that matches"),
        ({"cell_ids": ["nope"]}, "Cell nope was not found in n.ipynb. outline=true lists the cells."),
        ({"cell_ids": ["cell-2"]}, 'by number with cells="3"'),
        ({"cell_ids": []}, "cell_ids"),
        ({"outputs": "some"}, "outputs"),
    ],
)
def test_cells_that_are_not_there_are_told(tools, given, message):
    put(tools, *FIVE)
    error = tools.error("NotebookRead", notebook_path="n.ipynb", **given)
    assert error.code == ErrorCode.INVALID_PARAMETERS
    assert message in error.message


def test_outputs_as_much_as_is_wanted(tools):
    put(tools, cell("code", "x", 1, [stream("a" * 20_000), IMAGE]))
    assert read(tools, outputs="none") == (
        '<cell id="c1" number="1" type="code" execution_count="1">\nx\n</cell>\n[2 outputs not shown]\n'
    )
    short = read(tools)
    assert len(short) < 1000
    assert "[… 19,501 characters left out …]" in short
    assert "[image/png not shown:" in short
    assert "\n<Figure>" in short
    full = read(tools, outputs="full")
    assert "a" * 20_000 in full
    assert "[image]<Figure>" in full


def test_what_does_not_fit_says_how_to_go_on(tools):
    put(tools, *[cell("code", "y" * 30_000, number) for number in range(1, 9)])
    text = read(tools)
    assert text.count("<cell ") == 3
    assert text.endswith('cells="4-8".]')
    assert 'cells="7-8".]' in read(tools, cells="4-")
    assert "PARTIAL" not in read(tools, cells="7-8")


def test_a_cell_with_many_outputs_is_bounded(tools):
    put(tools, cell("code", "x", 1, [stream("z" * 29_000)] * 50), cell("code", "y", 2))
    text = read(tools, outputs="full")
    assert len(text) < 130_000
    assert "[46 more outputs" in text
    assert 'cells="2".]' in text


def test_an_outline_has_a_line_for_each_cell(tools):
    put(tools, cell("markdown", "# Title\ntext", 1), cell("code", "x = 1", 2, [stream("1")]), cell("raw", "", 3))
    size = (tools.cwd / "n.ipynb").stat().st_size
    assert read(tools, outline=True).split("\n") == [
        f"n.ipynb: nbformat 4.5, 3 cells, {size} bytes",
        "    1  c1  markdown  # Title …",
        "    2  c2  code  x = 1  [58 bytes of outputs]",
        "    3  c3  raw  ",
    ]


def test_a_long_outline_goes_on(tools):
    put(tools, *[cell("markdown", "w" * 90, number) for number in range(2000)])
    text = read(tools, outline=True)
    last = text.rpartition("\n")[2]
    first_left = int(last.partition('cells="')[2].partition("-")[0])
    assert f"{first_left - 1:5d}  c{first_left - 2} " in text
    assert f"{first_left:5d}  c{first_left - 1} " in read(tools, outline=True, cells=f"{first_left}-")


def test_what_was_shown_may_be_edited_and_nothing_else(tools):
    put(tools, *FIVE)
    given = {"notebook_path": "n.ipynb", "new_source": "new"}
    assert "in this session" in tools.error("NotebookEdit", **given, cell_id="c2").message
    read(tools, outline=True)
    assert "in this session" in tools.error("NotebookEdit", **given, cell_id="c2").message
    read(tools, cells="1-2")
    for mode in ("replace", "delete"):
        error = tools.error("NotebookEdit", **given, cell_id="c3", edit_mode=mode)
        assert error.code == ErrorCode.FILE_ACCESS_ERROR
        assert 'cell_ids=["c3"]' in error.message
    tools.result("NotebookEdit", **given, cell_id="c2")
    read(tools, cell_ids=["c3"])
    tools.result("NotebookEdit", **given, cell_id="c3")
    tools.result("NotebookEdit", notebook_path="n.ipynb", cell_id="c2", edit_mode="delete")
    assert "was not shown" in tools.error("NotebookEdit", **given, cell_id="c4").message


def test_nbformat_3_is_read_in_the_words_of_nbformat_4(tools):
    png = {"output_type": "display_data", "png": PNG, "text": ["<Figure>"]}
    outputs = [
        {"output_type": "stream", "stream": "stderr", "text": ["hot\n"]},
        {"output_type": "pyout", "prompt_number": 3, "text": ["42"], "html": "<b>42</b>"},
        {"output_type": "pyerr", "ename": "E", "evalue": "v", "traceback": ["E: v"]},
        png,
    ]
    code = {"cell_type": "code", "language": "python", "collapsed": False, "prompt_number": 3, "input": ["6*7"]}
    heading = {"cell_type": "heading", "level": 2, "source": "Part"}
    sheets = [{"cells": [heading, {**code, "outputs": outputs}]}, {"cells": [{"cell_type": "html", "source": "<i>"}]}]
    content = {"metadata": {"name": ""}, "nbformat": 3, "nbformat_minor": 0, "worksheets": sheets}
    (tools.cwd / "n.ipynb").write_text(json.dumps(content))
    assert read(tools, outputs="full") == (
        '<cell id="cell-0" number="1" type="heading" level="2">\nPart\n</cell>\n'
        '<cell id="cell-1" number="2" type="code" execution_count="3">\n6*7\n</cell>\n'
        '<output type="stream" name="stderr">\nhot\n</output>\n'
        '<output type="execute_result">\n42\n[also there: text/html (9 characters)]\n</output>\n'
        '<output type="error">\nE: v\n</output>\n<output type="display_data">\n[image]<Figure>\n</output>\n'
        '<cell id="cell-2" number="3" type="html">\n<i>\n</cell>\n'
    )


@for_each_row(
    ("name", "data", "code", "message"),
    [
        ("a.py", "x", ErrorCode.FILE_PATH_INVALID, "Use Read"),
        ("n.ipynb", "{", ErrorCode.FILE_ACCESS_ERROR, "JSON is broken"),
        ("n.ipynb", '{"nbformat": 4}', ErrorCode.FILE_ACCESS_ERROR, "no list of cells"),
        ("n.ipynb", '{"nbformat": 2, "worksheets": []}', ErrorCode.FILE_ACCESS_ERROR, "nbconvert"),
        ("n.ipynb", '{"cells": [1], "nbformat": 4}', ErrorCode.FILE_ACCESS_ERROR, "something else"),
        ("n.ipynb", '{"cells": [[]], "nbformat": 4}', ErrorCode.FILE_ACCESS_ERROR, "holds a list"),
        ("n.ipynb", "[" * 100_000, ErrorCode.FILE_ACCESS_ERROR, "JSON is broken"),
        ("n.ipynb", "\0\1\2", ErrorCode.FILE_ACCESS_ERROR, "binary"),
    ],
)
def test_what_is_no_notebook_is_told(tools, name, data, code, message):
    (tools.cwd / name).write_text(data)
    error = tools.error("NotebookRead", notebook_path=name)
    assert error.code == code
    assert message in error.message


def test_a_missing_notebook_and_a_folder(tools):
    put(tools, name="analysis.ipynb")
    (tools.cwd / "folder.ipynb").mkdir()
    assert "analysis.ipynb" in tools.error("NotebookRead", notebook_path="analisis.ipynb").message
    assert "LS" in tools.error("NotebookRead", notebook_path="folder.ipynb").message


def test_an_empty_notebook(tools):
    put(tools)
    assert "without cells" in read(tools)


def test_titles(tools):
    assert tools.title("NotebookRead", notebook_path="n.ipynb") == "Read n.ipynb"
    assert "Read 4 cells" in tools.title("NotebookRead", notebook_path="n.ipynb", cells="1-3,7")
    assert "Read cells" in tools.title("NotebookRead", notebook_path="n.ipynb", cells="3-")
    assert "Read 2 cells" in tools.title("NotebookRead", notebook_path="n.ipynb", cell_ids=["a", "b"])
    assert tools.title("NotebookRead", notebook_path="n.ipynb", outline=True) == "Outline n.ipynb"
