"""Where the hunks of a patch fit: offsets, equal places, white space, and patches that are a little wrong."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tools.files.test_apply_patch import TEN, diff, one, put

from cellwright.errors import ErrorCode
from cellwright.permissions.patch_text import read_patch
from cellwright.tools.files.patched_files import apply_hunks
from row_tables import for_each_row


def test_an_offset_is_tolerated_and_told(tools):
    put(tools, "a.txt", "new\nnew\n" + TEN)
    result = tools.text("ApplyPatch", patch=one("@@ -5,3 +5,3 @@\n line 5\n-line 6\n+six\n line 7\n"))
    assert result.split("\n")[1:] == ["M a.txt (+1 −1)", "  hunk 1: at line 7, 2 after its place"]
    assert (tools.cwd / "a.txt").read_text() == "new\nnew\n" + TEN.replace("line 6", "six")


def test_of_equal_places_the_stated_one_is_taken_and_otherwise_none(tools):
    path = put(tools, "a.txt", "a\nx\nb\n" * 4)
    tools.result("ApplyPatch", patch=one("@@ -7,3 +7,3 @@\n a\n-x\n+y\n b\n"))
    assert path.read_text() == "a\nx\nb\n" * 2 + "a\ny\nb\n" + "a\nx\nb\n"
    error = tools.error("ApplyPatch", patch=one("@@ -2,3 +2,3 @@\n a\n-x\n+y\n b\n"))
    assert error.code == ErrorCode.INVALID_PARAMETERS
    assert "hunk 1 (line 3" in error.message
    assert "(lines 1, 4, …)" in error.message


@for_each_row(
    ("text", "hunk", "after", "note"),
    [
        ("a  \nb\nc\n", " a\n-b\n+B\n c\n", "a  \nB\nc\n", "white space at line ends"),
        ("a\nb \nc\n", " a\n-b\n+B\n c\n", "a\nB\nc\n", "white space at line ends"),
        ("a\n\t\nc\n", " a\n\n-c\n+C\n", "a\n\t\nC\n", "white space at line ends"),
        ("a\nb", " a\n-b\n+B\n", "a\nB", "white space at line ends"),
        ("    a\n    b\n\n    c\n", " a\n-b\n+B\n+  D\n\n c\n", "    a\n    B\n      D\n\n    c\n", "indentation"),
        ("a\nb\n  c\n", "     a\n-    b\n+    B\n       c\n", "a\nB\n  c\n", "indentation"),
        ("\ta\n\tb\n", " a\n-b\n+B\n", "\ta\n\tB\n", "indentation"),
    ],
)
def test_white_space_may_differ_in_a_file_that_was_read(tools, text, hunk, after, note):
    path = put(tools, "a.txt", text)
    patch = one(f"@@ -1,3 +1,3 @@\n{hunk}")
    assert note in tools.text("ApplyPatch", patch=patch)
    assert path.read_text() == after
    path.write_text(text)
    unread = tools.error("ApplyPatch", patch=patch)
    assert "not read as" in unread.message
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("text", "hunk"),
    [
        ("    a\n  b\n", " a\n-b\n+B\n"),
        ("\ta\n    b\n", " a\n-b\n+B\n"),
        ("a b\n", "-a  b\n+c\n"),
        ("  \n\t\n", " \n-\n+x\n"),
    ],
)
def test_other_differences_are_no_fit(tools, text, hunk):
    path = put(tools, "a.txt", text)
    assert "in the file" in tools.error("ApplyPatch", patch=one(f"@@ -1,2 +1,2 @@\n{hunk}")).message
    assert path.read_text() == text


def test_wrong_counts_are_told(tools):
    path = put(tools, "a.txt", TEN)
    text = tools.text("ApplyPatch", patch=one("@@ -2,9 +2,9 @@\n line 2\n-line 3\n+three\n line 4\n"))
    assert "hunk 1: the counts" in text
    assert path.read_text() == TEN.replace("line 3", "three")


def test_hunks_may_share_lines_but_must_be_in_order(tools):
    path = put(tools, "a.txt", "a\nb\nc\nd\ne\n")
    tools.result("ApplyPatch", patch=one("@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n@@ -3,3 +3,3 @@\n c\n-d\n+D\n e\n"))
    assert path.read_text() == "a\nB\nc\nD\ne\n"
    error = tools.error("ApplyPatch", patch=one("@@ -4,2 +4,2 @@\n-D\n+d\n e\n@@ -1,2 +1,2 @@\n a\n-B\n+b\n"))
    assert "hunk 2" in error.message
    assert "file's order" in error.message


def test_all_that_does_not_fit_is_named_with_the_nearest_place(tools):
    put(tools, "a.txt", "def alpha(one, two):\n    return one\n")
    put(tools, "b.txt", TEN)
    error = tools.error(
        "ApplyPatch",
        patch=one("@@ -1,2 +1,2 @@\n-def alpha(one, tow):\n+def beta():\n     return one\n")
        + one("@@ -1 +1 @@\n-line 1\n+x\n@@ -5 +5 @@\n-nope\n+x\n@@ -9 +9 @@\n-nope\n+x\n", "b.txt"),
    )
    assert "\tdef alpha(one, two" in error.message
    assert "b.txt, hunk 2 (" in error.message
    assert "b.txt, hunk 3" in error.message
    assert "hunk 1 (line 9" not in error.message


NUMBERS = st.lists(st.integers(0, 999), min_size=2, max_size=30, unique=True)


CHANGES = st.lists(st.sampled_from(["keep", "keep", "keep", "drop", "change", "add"]), min_size=30, max_size=30)


@settings(deadline=None)
@given(numbers=NUMBERS, changes=CHANGES, head=st.lists(st.sampled_from("xyz"), max_size=4))
def test_where_lines_came_before_it_a_patch_finds_its_place(numbers, changes, head):
    before = [f"{number}\n" for number in numbers]
    after = [
        {"keep": line, "drop": "", "change": f"new {line}", "add": f"more\n{line}"}[change]
        for line, change in zip(before, changes, strict=False)
    ]
    patch = diff("".join(before), "".join(after), 3)
    if not patch:
        return
    moved = "".join(f"{line}\n" for line in head)
    (file,) = read_patch(patch)
    applied = apply_hunks(moved + "".join(before), file.hunks, exact=True)
    assert applied.misfits == []
    assert applied.text == moved + "".join(after)
    assert bool(applied.notes) is bool(head)
