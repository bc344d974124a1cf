from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.permissions.judges.patch import paths_in_patch
from cellwright.permissions.patch_text import PatchProblem, read_patch
from row_tables import for_each_row

HUNK = "@@ -1 +1 @@\n-a\n+b\n"


@for_each_row(
    ("patch", "paths"),
    [
        (f"--- a/x.py\n+++ b/x.py\n{HUNK}", [("x.py", "edit")]),
        (f"--- x.py\n+++ x.py\n{HUNK}", [("x.py", "edit")]),
        (f"--- x.py\t2020-01-01 00:00:00\n+++ x.py\t2021-01-01\n{HUNK}", [("x.py", "edit")]),
        (f"--- /abs/x\n+++ /abs/x\n{HUNK}", [("/abs/x", "edit")]),
        (
            f"diff --git /abs/x b/y\nrename from /abs/x\nrename to y\n--- /abs/x\n+++ b/y\n{HUNK}",
            [("/abs/x", "delete"), ("y", "create")],
        ),
        ("diff --git /abs/x /abs/x\nold mode 100644\nnew mode 100755\n", [("/abs/x", "edit")]),
        (f"--- a//abs/x\n+++ b//abs/x\n{HUNK}", [("/abs/x", "edit")]),
        (f"--- a/../../x\n+++ b/../../x\n{HUNK}", [("../../x", "edit")]),
        (f"--- b/x\n+++ a/x\n{HUNK}", [("x", "edit")]),
        (f"--- i/x\n+++ w/x\n{HUNK}", [("x", "edit")]),
        (f"--- a/x\n+++ a/x\n{HUNK}", [("a/x", "edit")]),
        ("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\n", [("x", "create")]),
        ("--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n", [("x", "delete")]),
        ("diff --git a/x y b/x y\nnew file mode 100644\nindex 000..e69\n", [("x y", "create")]),
        ("diff --git a/x b/x\ndeleted file mode 100644\nindex e69..000\n", [("x", "delete")]),
        ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", [("x", "edit")]),
        ("diff --git x x\nold mode 100644\nnew mode 100755\n", [("x", "edit")]),
        (
            "diff --git a/x b/d/y\nsimilarity index 100%\nrename from x\nrename to d/y\n",
            [("x", "delete"), ("d/y", "create")],
        ),
        (
            f"diff --git a/x b/y\nsimilarity index 90%\ncopy from x\ncopy to y\n--- a/x\n+++ b/y\n{HUNK}",
            [("x", "read"), ("y", "create")],
        ),
        (f'--- "a/t\\303\\251 \\"q\\".py"\n+++ "b/t\\303\\251 \\"q\\".py"\n{HUNK}', [('té "q".py', "edit")]),
        ('diff --git "a/\\303\\251" "b/\\303\\251"\nold mode 100644\nnew mode 100755\n', [("é", "edit")]),
        (
            f"From 1234 Mon\nSubject: x\n---\n x | 2 +-\n\n--- a/x\n+++ b/x\n{HUNK}-- \n2.39\n\n--- a/y\n+++ b/y\n{HUNK}",
            [("x", "edit"), ("y", "edit")],
        ),
        # lines of a file that look like headers are lines of the file
        ("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a/secret\n+++ b/secret\n a\n", [("x", "edit")]),
        (f"--- a/x\r\n+++ b/x\r\n{HUNK}".replace("@@\n", "@@\r\n"), [("x", "edit")]),
    ],
)
def test_the_files_that_a_patch_names(patch, paths):
    assert paths_in_patch(patch) == paths


@pytest.mark.parametrize(
    ("strip", "names", "path"),
    [(0, "a/x", "a/x"), (1, "a/x", "x"), (2, "a/b/x", "x"), (1, "/a/x", "a/x")],
)
def test_strip_takes_leading_parts_off(strip, names, path):
    assert paths_in_patch(f"--- {names}\n+++ {names}\n{HUNK}", strip) == [(path, "edit")]


def test_strip_makes_one_name_of_two_folders():
    patch = f"--- old.d/src/x\n+++ new.d/src/x\n{HUNK}"
    with pytest.raises(PatchProblem, match="set `strip`"):
        read_patch(patch)
    assert paths_in_patch(patch, 1) == [("src/x", "edit")]


@for_each_row(
    ("patch", "why"),
    [
        ("", "no file"),
        ("*** Begin Patch\n*** Update File: x\n@@\n-a\n+b\n", "must be a unified diff"),
        (HUNK, "no `--- ` and"),
        ("--- a/x\n+++ b/x\n", "no hunk"),
        ("--- a/x\n+++ b/x\n@@ def f():\n-a\n+b\n", "no hunk header"),
        ("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n b\n", "changes nothing"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "no name"),
        ("--- a/\n+++ b/\n@@ -1 +1 @@\n-a\n+b\n", "no name"),
        ("diff --git a/x b/x\nindex 1..2\nBinary files a/x and b/x differ\n", "binary"),
        ("diff --git a/x b/x\nindex 1..2\nGIT binary patch\nliteral 1\n", "binary"),
        ("diff --git a/x b/y\nold mode 100644\nnew mode 100755\n", "not clear which file"),
        ("diff --git a/x b/y\nrename from x\n", "without `rename to`"),
        (f"diff --git a/x b/y\nrename from x\nrename to y\n--- a/z\n+++ b/y\n{HUNK}", "are not those"),
        ("diff --git a/x b/x\nrename from x\nrename from y\nrename to z\n", "a second time"),
        (f"--- x\n+++ y\n{HUNK}", "To rename, use"),
        (f'--- "a/\\377"\n+++ "a/\\377"\n{HUNK}', "not UTF-8"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n\\ No newline\n-a\n+b\n", "must follow a line"),
        ("--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n-a\n+b\n\\ No newline\n+c\n", "no newline at the end"),
    ],
)
def test_what_is_no_patch_is_said(patch, why):
    with pytest.raises(PatchProblem, match=why):
        read_patch(patch)


def test_lines_their_marks_and_the_missing_newline():
    (file,) = read_patch("--- a/x\n+++ b/x\n@@ -1,3 +1,2 @@ def f\n a\n\n-b\n\\ No newline at end of file\n+c\n")
    (hunk,) = file.hunks
    assert hunk.recounted
    assert hunk.lines == ((" ", "a\n"), (" ", "\n"), ("-", "b"), ("+", "c\n"))
    assert (hunk.old, hunk.new) == (["a\n", "\n", "b"], ["a\n", "\n", "c\n"])


@pytest.mark.parametrize("counts", ["-1,9 +1,9", "-1,1 +1,1", "-1 +1,2", "-1,0 +1,0"])
def test_wrong_counts_are_corrected_without_losing_a_file(counts):
    patch = f"--- a/x\n+++ b/x\n@@ {counts} @@\n a\n-b\n+c\n d\n\n--- a/y\n+++ b/y\n{HUNK}"
    first, second = read_patch(patch)
    assert first.hunks[0].recounted
    assert first.hunks[0].lines == ((" ", "a\n"), ("-", "b\n"), ("+", "c\n"), (" ", "d\n"))
    assert second.new == "y"
    assert not second.hunks[0].recounted


PIECES = st.sampled_from(
    [
        *("--- a/x", "+++ b/x", "--- /dev/null", "+++ /dev/null", "diff --git a/x b/x", "diff --git a/x b/y", "-- "),
        *("@@ -1,2 +1,2 @@", "@@ -1 +1 @@", "@@ -0,0 +1 @@", "@@", "rename from x", "rename to y", "copy from x"),
        *("new file mode 100755", "old mode 100644", "new mode 120000", "similarity index 90%", "\\ No newline", ""),
        *(
            " a",
            "-a",
            "+a",
            "+",
            "-",
            "--- ",
            "+++ ",
            "\r",
            "text",
            "index 1..2 100644",
            '--- "a/\\3',
            "Binary files a",
        ),
    ]
)


@settings(deadline=None)
@given(lines=st.lists(PIECES | st.text(max_size=6), max_size=25), strip=st.none() | st.integers(0, 3))
def test_any_text_is_a_patch_or_a_problem(lines, strip):
    patch = "\n".join(lines)
    try:
        files = read_patch(patch, strip)
    except PatchProblem:
        return
    assert files
    assert all(name for name, _ in paths_in_patch(patch, strip))
