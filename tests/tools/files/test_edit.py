from __future__ import annotations

import os
import stat
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.errors import ErrorCode
from cellwright.tools.files import file_state
from cellwright.tools.files.file_state import keep_original, original_path
from cellwright.tools.files.replace import differences
from row_tables import for_each_row


def put(tools, data: bytes, name: str = "a.txt") -> Path:
    path = tools.cwd / name
    path.write_bytes(data)
    tools.result("Read", file_path=name)
    return path


def edits(*pairs: tuple[str, str]) -> list[dict[str, object]]:
    return [{"old_string": old, "new_string": new} for old, new in pairs]


def test_edits_are_made_in_order_each_on_what_the_ones_before_left(tools):
    path = put(tools, b"a\nb\nc\n")
    result = tools.result(
        "MultiEdit",
        file_path="a.txt",
        edits=[*edits(("a", "x\nb2"), ("b2\nb", "y")), {"old_string": "y", "new_string": "z", "replace_all": True}],
    )
    assert path.read_text() == "x\nz\nc\n"
    assert result.content.split("\n") == [
        "Edited a.txt (+2 −2):",
        "     1\tx",
        "     2\tz",
        "     3\tc",
        "1. 'a': line 1",
        "2. 'b2': line 2",
        "3. 'y': line 2",
    ]
    assert result.display["type"] == "update"
    assert result.display["structuredPatch"][0]["lines"] == ["-a", "-b", "+x", "+z", " c"]


def test_all_or_nothing_with_the_status_of_each(tools):
    path = put(tools, b"one\ntwo\ntwo\nthree\n")
    error = tools.error(
        "MultiEdit",
        file_path="a.txt",
        edits=edits(("one", "1"), ("two", "2"), ("thre e", "3"), ("three", "3"), ("x", "x")),
    )
    assert error.code == ErrorCode.INVALID_PARAMETERS
    lines = error.message.split("\n")
    assert "3 of 5 edits" in lines[0]
    assert "1. 'one':" in lines[1]
    assert lines[2].startswith("2. 'two':")
    assert "2 times" in lines[2]
    assert "lines 2, 3." in lines[2]
    assert lines[3].startswith("3. 'thre e':")
    assert any(line.startswith("4. 'three': ") for line in lines)
    assert any(line.startswith("5. 'x': ") for line in lines)
    assert [each["fits"] for each in error.details["edits"]] == [True, False, False, True, False]
    assert path.read_bytes() == b"one\ntwo\ntwo\nthree\n"


def test_replace_all_says_how_many(tools):
    path = put(tools, b"a a\na\n")
    given = {"old_string": "a", "new_string": "b", "replace_all": True}
    assert "1. 'a': 3 places" in tools.text("MultiEdit", file_path="a.txt", edits=[given])
    assert path.read_text() == "b b\nb\n"


def test_the_first_edit_may_create_the_file(tools):
    text = tools.text("MultiEdit", file_path="new/a.txt", edits=edits(("", "x = 1\n"), ("1", "2")))
    assert (tools.cwd / "new/a.txt").read_text() == "x = 2\n"
    assert text.startswith("Created new/a.txt")
    assert text.endswith(": the file, 6 characters\n2. '1': line 1")
    assert "exists" in tools.error("MultiEdit", file_path="new/a.txt", edits=edits(("", "y"))).message
    later = tools.error("MultiEdit", file_path="new/a.txt", edits=edits(("2", "3"), ("", "y")))
    assert "the first edit" in later.message
    missing = tools.error("MultiEdit", file_path="b.txt", edits=edits(("a", "b")))
    assert missing.code == ErrorCode.FILE_NOT_FOUND
    failed = tools.error("MultiEdit", file_path="b.txt", edits=edits(("", "x"), ("y", "z")))
    assert "1. '':" in failed.message
    assert "1 character" in failed.message
    assert not (tools.cwd / "b.txt").exists()


def test_the_file_must_be_read_and_a_changed_one_is_not_shown(tools):
    path = tools.cwd / "a.txt"
    path.write_text("a\n")
    assert "Read it first" in tools.error("MultiEdit", file_path="a.txt", edits=edits(("a", "b"))).message
    put(tools, b"mine\nyours\n")
    path.write_bytes(b"mine\nsecret\n")
    error = tools.error("MultiEdit", file_path="a.txt", edits=edits(("mine", "ours"), ("secrets", "x")))
    assert "changed on disk" in error.message
    assert "\tsecret" not in error.message
    assert "had changed" in tools.text("MultiEdit", file_path="a.txt", edits=edits(("mine", "ours")))
    assert path.read_bytes() == b"ours\nsecret\n"


def test_only_the_result_has_to_parse(tools):
    path = put(tools, b"def f(a):\n    return a\n", "a.py")
    tools.result("MultiEdit", file_path="a.py", edits=edits(("def f(a):", "def f(a"), ("def f(a", "def g(a):")))
    assert path.read_text() == "def g(a):\n    return a\n"
    assert (
        "no longer parse" in tools.error("MultiEdit", file_path="a.py", edits=edits(("def g(a):", "def g(a"))).message
    )


def test_notebooks_are_left_to_their_tool(tools):
    put(tools, b'{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', "n.ipynb")
    assert "NotebookEdit" in tools.error("MultiEdit", file_path="n.ipynb", edits=edits(("cells", "x"))).message


def test_preview_and_title(tools):
    put(tools, b"a\nb\n")
    preview = tools.preview("MultiEdit", file_path="a.txt", edits=edits(("a", "x"), ("b", "y")))
    assert preview.title == "Edit a.txt (+2 −2)"
    assert tools.title("MultiEdit", file_path="a.txt", edits=edits(("a", "x"), ("b", "y"))) == "Edit a.txt (2 edits)"


ENDS = st.sampled_from(["\n", "\r\n"])
CODECS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"])


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(st.text(alphabet="aé \t", max_size=4), ENDS), min_size=1, max_size=12),
    codec=CODECS,
    data=st.data(),
)
def test_every_byte_outside_of_the_edits_stays(tmp_path_factory, rows, codec, data):
    from tests.tools.conftest import Toolbox

    tools = Toolbox(tmp_path_factory.mktemp("edits"))
    marked = sorted(data.draw(st.sets(st.integers(0, len(rows) - 1), min_size=1, max_size=3)))
    lines = [f"mark{number}{end}" if number in marked else f"{line}é{end}" for number, (line, end) in enumerate(rows)]
    text = "".join(lines)
    path = put(tools, text.encode(codec))
    given = edits(*((f"mark{number}\n", f"new {number}\n") for number in marked))
    tools.result("MultiEdit", file_path="a.txt", edits=given)
    assert path.read_bytes() == text.replace("mark", "new ").encode(codec)


# how the nearest place differs


@for_each_row(
    ("there", "sought", "words"),
    [
        ("\tif x:\n\t\ty", "    if x:\n        y", ["indentation"]),
        ("a  \nb", "a\nb", ["white space at the end of a line"]),
        ("a  = 1", "a = 1", ["white space within a line"]),
        ("x = “a”", 'x = "a"', ["quotes"]),
        ("x = 'a'", 'x = "a"', ["quotes"]),
        ("a – b", "a - b", ["characters that look alike"]),
        ("a\u00a0b", "a b", ["characters that look alike"]),
        ("a\u200bb", "ab", ["characters that look alike"]),
        ("if a &lt; b", "if a < b", ["escapes"]),
        ("print('\\t')", "print('\t')", ["escapes"]),
        ("a\r", "a", ["line ends"]),
        ("Name", "name", ["upper and lower case"]),
        ("\tx = “A”", '  x = "a"', ["quotes", "indentation", "upper and lower case"]),
        ("abc", "abd", []),
        ("abc", "abc", []),
    ],
)
def test_the_difference_is_named(there, sought, words):
    named = differences(there, sought)
    assert len(named) == len(words)
    assert all(word in name for word, name in zip(words, named, strict=True))


def test_of_similar_lines_the_one_with_similar_neighbours_is_shown(tools):
    put(tools, b"def a():\n    return call(x, 1)\n\n\ndef bcd():\n    return call(x, 1)\n")
    error = tools.error("Edit", file_path="a.txt", old_string="def bxd():\n    retrn call(x, 1)", new_string="")
    assert "     5\tdef bcd():" in error.message
    assert "Line 5 is 'def" in error.message


# the original


def test_the_original_is_kept_for_the_user_alone(tools, own_place):
    put(tools, b"before\n")
    result = tools.result("Edit", file_path="a.txt", old_string="before", new_string="after")
    kept = Path(result.display["originals"]["a.txt"])
    assert kept.read_bytes() == b"before\n"
    assert kept.is_relative_to(own_place)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert "originals" not in tools.result("Write", file_path="new.txt", content="x").display


def test_only_so_many_originals_are_kept():
    folder = original_path("x").parent
    folder.mkdir(parents=True)
    for number in range(file_state.KEPT_FILES):
        (folder / f"{number:064}").write_bytes(b"x")
        os.utime(folder / f"{number:064}", (number, number))
    keep_original(b"new", "new")
    left = {path.name for path in folder.iterdir()}
    assert file_state.KEPT_FILES - file_state.LOOKED_AT_EACH <= len(left) <= file_state.KEPT_FILES
    assert "new" in left
    assert f"{0:064}" not in left
    assert f"{file_state.KEPT_FILES - 1:064}" in left


def test_originals_take_only_so_much_room():
    folder = original_path("x").parent
    folder.mkdir(parents=True)
    for number in range(file_state.LOOKED_AT_EACH - 1):
        with (folder / str(number)).open("wb") as file:
            file.truncate(file_state.KEPT_BYTES // 4)
        os.utime(folder / str(number), (number, number))
    keep_original(b"new", "new")
    assert {path.name for path in folder.iterdir()} == {"new", "14", "13", "12"}


def test_where_no_original_can_be_kept_the_edit_is_made(tools, monkeypatch):
    put(tools, b"before\n")
    monkeypatch.setenv("CELLWRIGHT_HOME", "/dev/null/nowhere")
    result = tools.result("Edit", file_path="a.txt", old_string="before", new_string="after")
    assert "originals" not in result.display
    assert (tools.cwd / "a.txt").read_text() == "after\n"
