from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cellwright.permissions.patch_text import read_patch
from cellwright.tools.files.changes import diff_texts
from cellwright.tools.files.patched_files import apply_hunks
from row_tables import for_each_row

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "  d"]), max_size=25)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))
EQUAL = st.lists(st.sampled_from("xyz"), max_size=12).map(lambda lines: "".join(f"{line}\n" for line in lines))


@settings(deadline=None)
@given(head=EQUAL, before=TEXTS, after=TEXTS, tail=EQUAL)
def test_a_diff_says_how_to_get_from_one_text_to_the_other(head, before, after, tail):
    before, after = head + before + tail, head + after + tail
    diff = diff_texts(before, after, "a.txt")
    if before == after:
        assert (diff.text, diff.added, diff.removed, diff.excerpt) == ("", 0, 0, "")
        return
    (file,) = read_patch(diff.text)
    assert not any(hunk.recounted for hunk in file.hunks)
    applied = apply_hunks(before, file.hunks, exact=False)
    assert (applied.text, applied.notes, applied.misfits) == (after, [], [])
    lines = after.split("\n")
    for shown in diff.excerpt.split("\n"):
        number, _, line = shown.partition("\t")
        if number.strip().isdecimal():
            assert lines[int(number) - 1] == line


@settings(deadline=None)
@given(before=EQUAL, after=EQUAL)
def test_hunks_keep_three_lines_around(before, after):
    if before == after:
        return
    (file,) = read_patch(diff_texts(before, after, "a").text)
    lines = before.count("\n")
    for hunk in file.hunks:
        kept = [mark == " " for mark, _ in hunk.lines]
        above, below = kept.index(False), kept[::-1].index(False)
        first = hunk.old_start if hunk.old else hunk.old_start + 1
        assert above == 3 or (above < 3 and first == 1)
        assert below == 3 or (below < 3 and first + len(hunk.old) - 1 == lines)


@for_each_row(
    ("before", "after", "names"),
    [
        ("a\n", "b\n", ["--- /tmp/x.py", "+++ /tmp/x.py"]),
        (None, "b\n", ["--- /dev/null", "+++ /tmp/x.py"]),
        ("a\n", None, ["--- /tmp/x.py", "+++ /dev/null"]),
    ],
)
def test_a_file_outside_of_the_project_has_its_path_in_the_headers(before, after, names):
    diff = diff_texts(before, after, "/tmp/x.py")
    assert list(diff.header) == names
    (file,) = read_patch(diff.text)
    assert {file.old, file.new} - {None} == {"/tmp/x.py"}


def test_the_structured_patch_has_the_same_lines():
    diff = diff_texts(
        "".join(f"{n}\n" for n in range(30)), "".join(f"{n}\n" for n in range(30) if n not in (2, 20)), "a"
    )
    assert diff.structured_patch() == [
        {"oldStart": 1, "oldLines": 6, "newStart": 1, "newLines": 5, "lines": [" 0", " 1", "-2", " 3", " 4", " 5"]},
        {
            "oldStart": 18,
            "oldLines": 7,
            "newStart": 17,
            "newLines": 6,
            "lines": [" 17", " 18", " 19", "-20", " 21", " 22", " 23"],
        },
    ]
    assert diff_texts(None, "@@ -1 +1 @@", "a").structured_patch()[0]["lines"] == [
        "+@@ -1 +1 @@",
        "\\ No newline at end of file",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured otherwise there")
def test_a_large_text_with_a_small_change_costs_little_memory():
    script = (
        "from cellwright.tools.files.changes import diff_texts\n"
        "before = 'some line of text\\n' * 500_000 + 'end\\n'\n"
        "after = before.replace('end', 'END')\n"
        # of this program: `ru_maxrss` begins with what the test's own process had, and would hide whatever is below that
        "def peak_kb():\n"
        "    [line] = [line for line in open('/proc/self/status') if line.startswith('VmHWM')]\n"
        "    return int(line.split()[1])\n"
        "at_first = peak_kb()\n"
        "diff = diff_texts(before, after, 'a')\n"
        "assert (diff.added, diff.removed) == (1, 1)\n"
        "print(peak_kb() - at_first)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 40 * 1024
