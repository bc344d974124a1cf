from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.errors import ErrorCode, ToolError
from cellwright.sessions.file_changes import (
    changes_folder,
    drop_outcomes_older_than,
    forget_outcomes,
    outcomes,
    untold_changes,
)
from cellwright.tools.files.atomic_write import FileWrite, recover_changes, write_atomically, write_together
from cellwright.tools.files.replace import replace_text
from cellwright.tools.files.staged_file import FileChanged
from eventual import paces
from row_tables import for_each_row

HELPER = Path(__file__).parent / "kill_points.py"
MEMORY = Path("/dev/shm")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")


def put(tools, name: str, data: bytes) -> Path:
    """A file that the session has read."""
    path = tools.cwd / name
    path.write_bytes(data)
    tools.result("Read", file_path=name)
    return path


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.name.startswith(".cellwright")]


# Write


def test_write_creates_a_file_with_its_folders(tools):
    result = tools.result("Write", file_path="new/deep/a.txt", content="é\nb\n")
    path = tools.cwd / "new/deep/a.txt"
    assert path.read_bytes() == "é\nb\n".encode()
    assert "(2 lines, 5 bytes)." in result.content
    assert result.display == {
        "diff": "--- /dev/null\n+++ b/new/deep/a.txt\n@@ -0,0 +1,2 @@\n+é\n+b\n",
        "structuredPatch": [{"oldStart": 0, "oldLines": 0, "newStart": 1, "newLines": 2, "lines": ["+é", "+b"]}],
        "path": str(path),
        "before_sha256": None,
        "after_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "type": "create",
    }


def test_a_new_file_has_the_mode_that_the_umask_leaves(tools):
    old = os.umask(0o027)
    try:
        tools.result("Write", file_path="a.txt", content="x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tools.cwd / "a.txt").stat().st_mode) == 0o640


def test_what_was_written_may_be_changed_without_another_read(tools):
    tools.result("Write", file_path="a.txt", content="one\n")
    tools.result("Edit", file_path="a.txt", old_string="one", new_string="two")
    tools.result("Write", file_path="a.txt", content="three\n")
    assert (tools.cwd / "a.txt").read_text() == "three\n"


def test_an_existing_file_is_not_overwritten_unread(tools):
    (tools.cwd / "a.txt").write_text("precious")
    error = tools.error("Write", file_path="a.txt", content="x")
    assert error.code == ErrorCode.FILE_ACCESS_ERROR
    assert "Read it first" in error.message
    assert (tools.cwd / "a.txt").read_text() == "precious"


def test_reading_a_part_is_not_enough_to_overwrite_but_all_parts_are(tools):
    path = tools.cwd / "a.txt"
    path.write_text("a\nb\nc\n")
    tools.result("Read", file_path="a.txt", limit=1)
    assert "Only a part" in tools.error("Write", file_path="a.txt", content="x").message
    tools.result("Read", file_path="a.txt", offset=3)
    assert "Only a part" in tools.error("Write", file_path="a.txt", content="x").message
    tools.result("Read", file_path="a.txt", offset=2)
    tools.result("Read", file_path="a.txt", offset=3)
    tools.result("Write", file_path="a.txt", content="x")
    assert path.read_text() == "x"


def test_parts_of_a_file_that_changed_between_do_not_add_up(tools):
    path = tools.cwd / "a.txt"
    path.write_text("a\nb\n")
    tools.result("Read", file_path="a.txt", limit=1)
    path.write_text("other\nb\n")
    tools.result("Read", file_path="a.txt", offset=2)
    assert "Only a part" in tools.error("Write", file_path="a.txt", content="x").message


def test_a_file_that_changed_since_is_not_overwritten(tools):
    path = put(tools, "a.txt", b"old")
    path.write_bytes(b"new by someone else")
    error = tools.error("Write", file_path="a.txt", content="x")
    assert error.code == ErrorCode.FILE_ACCESS_ERROR
    assert "changed on disk" in error.message
    assert path.read_bytes() == b"new by someone else"


def test_a_change_that_kept_size_and_time_is_noticed(tools):
    path = put(tools, "a.txt", b"old")
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_bytes(b"new")
    os.utime(path, ns=times)
    assert "changed on disk" in tools.error("Write", file_path="a.txt", content="x").message


def test_a_new_time_with_the_same_content_is_no_change(tools):
    path = put(tools, "a.txt", b"old")
    os.utime(path, ns=(1, 1))
    tools.result("Write", file_path="a.txt", content="x")
    assert path.read_text() == "x"


def test_the_same_content_is_not_written_again(tools):
    path = put(tools, "a.txt", b"same\n")
    before = path.stat()
    result = tools.result("Write", file_path="a.txt", content="same\n")
    assert "nothing was written" in result.content
    assert path.stat().st_ino == before.st_ino
    assert result.display["before_sha256"] == result.display["after_sha256"]


@for_each_row(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"a\nb\n", "x\ny\n", b"x\ny\n"),
        (b"a\r\nb\nc\r\n", "a\nb\nnew\nc\n", b"a\r\nb\nnew\r\nc\r\n"),
        (b"a\r\nb\nc\n", "A\nB\nC", b"A\r\nB\nC"),
        (b"a\r\nb\r\n", "x\r\ny\n", b"x\r\ny\n"),
        (b"\xef\xbb\xbfa\n", "é\n", b"\xef\xbb\xbf\xc3\xa9\n"),
        ("a\n".encode("utf-16"), "é\n", "é\n".encode("utf-16")),
        (b"\xe9\n", "è\n", b"\xe8\n"),
    ],
)
def test_write_keeps_encoding_and_line_ends(tools, before, content, after):
    path = put(tools, "a.txt", before)
    tools.result("Write", file_path="a.txt", content=content)
    assert path.read_bytes() == after


def test_a_character_that_the_encoding_lacks_is_refused(tools):
    path = put(tools, "a.txt", b"\xe9\n")
    error = tools.error("Edit", file_path="a.txt", old_string="é", new_string="€")
    assert error.code == ErrorCode.INVALID_PARAMETERS
    assert "'€'" in error.message
    assert path.read_bytes() == b"\xe9\n"


def test_half_a_character_is_refused(tools):
    assert tools.error("Write", file_path="a.txt", content="\ud800").code == ErrorCode.INVALID_PARAMETERS
    assert not (tools.cwd / "a.txt").exists()


def test_paths_that_cannot_be_written(tools):
    (tools.cwd / "folder").mkdir()
    (tools.cwd / "file").write_text("")
    assert tools.error("Write", file_path="folder", content="").code == ErrorCode.FILE_PATH_INVALID
    assert tools.error("Write", file_path="file/below", content="").code == ErrorCode.FILE_PATH_INVALID
    assert tools.error("Write", file_path="n" * 300, content="").code == ErrorCode.FILE_PATH_INVALID
    assert tools.error("Write", file_path="new/" + "n" * 300, content="").code == ErrorCode.FILE_PATH_INVALID
    assert not (tools.cwd / "new").exists()
    assert leftovers(tools.cwd) == []


def test_a_notebook_is_written_only_as_a_notebook(tools):
    assert "smallest" in tools.error("Write", file_path="n.ipynb", content="print(1)").message
    tools.result("Write", file_path="n.ipynb", content='{"cells": [], "metadata": {}, "nbformat": 4}')


# Edit


def test_edit_says_what_changed_with_the_lines_around(tools):
    path = put(tools, "a.py", b"".join(b"line %d\n" % n for n in range(1, 11)))
    result = tools.result("Edit", file_path="a.py", old_string="line 5\n", new_string="five\n5b\n")
    assert path.read_text().splitlines()[4:6] == ["five", "5b"]
    assert result.content.split("\n") == [
        "Edited a.py (+2 −1):",
        "     2\tline 2",
        "     3\tline 3",
        "     4\tline 4",
        "     5\tfive",
        "     6\t5b",
        "     7\tline 6",
        "     8\tline 7",
        "     9\tline 8",
    ]
    assert result.display["type"] == "update"
    assert result.display["diff"].split("\n") == [
        "--- a/a.py",
        "+++ b/a.py",
        "@@ -2,7 +2,8 @@",
        " line 2",
        " line 3",
        " line 4",
        "-line 5",
        "+five",
        "+5b",
        " line 6",
        " line 7",
        " line 8",
        "",
    ]


def test_an_unread_file_is_not_edited(tools):
    (tools.cwd / "a.txt").write_text("a")
    assert "Read it first" in tools.error("Edit", file_path="a.txt", old_string="a", new_string="b").message


def test_a_partly_read_file_may_be_edited(tools):
    path = tools.cwd / "a.txt"
    path.write_text("a\nb\n")
    tools.result("Read", file_path="a.txt", limit=1)
    tools.result("Edit", file_path="a.txt", old_string="a", new_string="x")
    assert path.read_text() == "x\nb\n"
    assert "Only a part" in tools.error("Write", file_path="a.txt", content="").message


def test_an_edit_of_a_changed_file_keeps_the_others_change_and_says_so(tools):
    path = put(tools, "a.txt", b"mine\nyours\n")
    path.write_bytes(b"mine\nchanged by you\n")
    result = tools.result("Edit", file_path="a.txt", old_string="mine", new_string="ours")
    assert path.read_bytes() == b"ours\nchanged by you\n"
    assert "changed on disk" in result.content
    assert "Only a part" in tools.error("Write", file_path="a.txt", content="").message


def test_a_changed_file_is_read_again_when_the_edit_is_not_certain(tools):
    path = put(tools, "a.txt", b"one\n")
    path.write_bytes(b"secret of mine: ona\n")
    error = tools.error("Edit", file_path="a.txt", old_string="one", new_string="two")
    assert "changed on disk" in error.message
    assert "secret" not in error.message
    path.write_bytes(b"one one\n")
    assert "changed on disk" in tools.error("Edit", file_path="a.txt", old_string="one", new_string="x").message
    changed = tools.error("Edit", file_path="a.txt", old_string="one", new_string="x", replace_all=True)
    assert "changed on disk" in changed.message


def test_an_ambiguous_old_string_is_refused_with_its_lines(tools):
    path = put(tools, "a.txt", b"x\ny\nx\nx\n")
    error = tools.error("Edit", file_path="a.txt", old_string="x", new_string="z")
    assert error.code == ErrorCode.INVALID_PARAMETERS
    assert "3 times, at lines 1, 3, 4." in error.message
    assert path.read_bytes() == b"x\ny\nx\nx\n"


def test_overlapping_places_are_ambiguous(tools):
    put(tools, "a.txt", b"aaa")
    assert "2 times" in tools.error("Edit", file_path="a.txt", old_string="aa", new_string="b").message
    tools.result("Edit", file_path="a.txt", old_string="aa", new_string="b", replace_all=True)
    assert (tools.cwd / "a.txt").read_bytes() == b"ba"


def test_replace_all_says_how_many(tools):
    path = put(tools, "a.txt", b"x\ny\nx\n")
    result = tools.result("Edit", file_path="a.txt", old_string="x", new_string="z", replace_all=True)
    assert path.read_bytes() == b"z\ny\nz\n"
    assert result.content.startswith("Edited a.txt (+2 −2, 2 places):")


def test_equal_strings_are_refused(tools):
    put(tools, "a.txt", b"x")
    assert "the same" in tools.error("Edit", file_path="a.txt", old_string="x", new_string="x").message


@pytest.mark.parametrize(
    ("content", "old_string", "hints"),
    [
        (b"def f():\n    return 1\n", "def f():\n  return 1\n", ["     1\tdef f():", "white space"]),
        (b"alpha\nbeta = compute(gamma)\n", "beta = compute(gama)", ["     2\tbeta = compute(gamma)", "'beta = comp"]),
        (b"a\nb\n", "     1\ta\n     2\tb", ["line number"]),
        (b"a\n", "nothing of the kind", ["read the file again"]),
        (b"x = 1\ny = 2\nend", "y = 2\nend\nmore", ["     2\ty = 2", "after the last line"]),
    ],
)
def test_when_old_string_is_not_there_the_nearest_place_is_shown(tools, content, old_string, hints):
    put(tools, "a.txt", content)
    error = tools.error("Edit", file_path="a.txt", old_string=old_string, new_string="new")
    assert error.code == ErrorCode.INVALID_PARAMETERS
    for hint in hints:
        assert hint in error.message


def test_the_nearest_place_of_a_large_file_takes_bounded_time():
    text = "some text that is like\n" * 200_000

    def replace() -> None:
        with pytest.raises(ToolError):
            replace_text(text, "some tixt that os loke the oters", "", replace_all=False, display_path="")

    assert paces(replace, 400, tries=3) < 400


def test_an_empty_old_string_creates_and_fills_but_never_overwrites(tools):
    tools.result("Edit", file_path="new/a.txt", old_string="", new_string="x\n")
    assert (tools.cwd / "new/a.txt").read_text() == "x\n"
    assert "exists" in tools.error("Edit", file_path="new/a.txt", old_string="", new_string="y").message
    put(tools, "empty.txt", b"")
    tools.result("Edit", file_path="empty.txt", old_string="", new_string="y")
    assert (tools.cwd / "empty.txt").read_text() == "y"
    error = tools.error("Edit", file_path="missing.txt", old_string="a", new_string="b")
    assert error.code == ErrorCode.FILE_NOT_FOUND


@for_each_row(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\n", "\nb", "\nB", b"a\r\nB\r\n"),
        (b"a\r\nb\r\n", "a", "1\n2", b"1\r\n2\r\nb\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "c\r\nd", b"c\r\nd\r\n"),
        (b"a\r\nb\nc\n", "a\nb\nc", "A\nB\nC", b"A\r\nB\nC\n"),
        (b"a\r\nb\nc\n", "b", "1\n2", b"a\r\n1\n2\nc\n"),
        (b"a\nb\r\nc", "c", "1\n2", b"a\nb\r\n1\r\n2"),
        (b"a\nb\n", "a\n", "a\r\n", b"a\r\nb\n"),
        (b"a\r\r\nb\r\n", "a\r", "x", b"x\r\nb\r\n"),
        (b"a\n\nb", "a\n\nb", "a\nb", b"a\nb"),
        (b"\xef\xbb\xbf\xc3\xa9 x\n", "é", "è", b"\xef\xbb\xbf\xc3\xa8 x\n"),
        ("é x\r\n".encode("utf-16"), "é x\n", "ü\ny\n", "ü\r\ny\r\n".encode("utf-16")),
        (b"caf\xe9 \x80\n", "café", "thé", b"th\xe9 \x80\n"),
        (b"no end", "end", "END", b"no END"),
        (b"a\x0cb\xe2\x80\xa8c\n", "b", "B", b"a\x0cB\xe2\x80\xa8c\n"),
    ],
)
def test_edit_keeps_every_byte_outside_of_what_it_replaces(tools, before, old, new, after):
    path = put(tools, "a.txt", before)
    tools.result("Edit", file_path="a.txt", old_string=old, new_string=new)
    assert path.read_bytes() == after


def test_the_same_text_with_either_line_end_is_ambiguous(tools):
    put(tools, "a.txt", b"a\r\nb\r\na\nb\n")
    assert "2 times, at lines 1, 3" in tools.error("Edit", file_path="a.txt", old_string="a\nb", new_string="").message


PIECES = st.text(alphabet="ab \né€", max_size=8)


@given(text=st.text(alphabet="ab \né€", max_size=60), old=PIECES.filter(bool), new=PIECES)
def test_replacing_is_what_str_replace_does(text, old, new):
    if old in text and old != new:
        assert replace_text(text, old, new, replace_all=True, display_path="a") == (
            text.replace(old, new),
            text.count(old),
        )


@given(text=st.text(alphabet="ab\n", max_size=60), old=PIECES.filter(bool), new=PIECES)
def test_in_a_crlf_text_it_does_so_on_the_lines_and_all_ends_stay(text, old, new):
    crlf = text.replace("\n", "\r\n")
    if old in text and "\n" in text and old != new:
        result, _ = replace_text(crlf, old, new, replace_all=True, display_path="a")
        assert result == text.replace(old, new).replace("\n", "\r\n")


@given(lines=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["\n", "\r\n"])), min_size=1), data=st.data())
def test_in_a_mixed_text_the_other_lines_stay_as_they_are(lines, data):
    at = data.draw(st.integers(0, len(lines) - 1))
    marked = [("mark", end) if number == at else (line, end) for number, (line, end) in enumerate(lines)]
    text = "".join(line + end for line, end in marked)
    result, count = replace_text(text, "mark\n", "x\n", replace_all=False, display_path="a")
    assert count == 1
    assert result == text.replace("mark", "x")


# what is kept, and what is left


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o4750])
def test_mode_bits_are_kept(tools, mode):
    path = put(tools, "a.sh", b"x\n")
    path.chmod(mode)
    tools.result("Edit", file_path="a.sh", old_string="x", new_string="y")
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_is_kept(tools):
    path = put(tools, "a.txt", b"x\n")
    os.chown(path, 12345, 23456)
    tools.result("Edit", file_path="a.txt", old_string="x", new_string="y")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


def test_extended_attributes_are_kept(tools):
    path = put(tools, "a.txt", b"x\n")
    try:
        os.setxattr(path, "user.note", b"kept")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    tools.result("Edit", file_path="a.txt", old_string="x", new_string="y")
    assert os.getxattr(path, "user.note") == b"kept"


def test_a_symbolic_link_is_written_through(tools):
    (tools.cwd / "real").mkdir()
    path = put(tools, "real/a.txt", b"x\n")
    link = tools.cwd / "link.txt"
    link.symlink_to("real/a.txt")
    tools.result("Edit", file_path="link.txt", old_string="x", new_string="y")
    assert link.is_symlink()
    assert path.read_bytes() == b"y\n"
    assert leftovers(tools.cwd) == []
    assert str(path) in tools.preview("Edit", file_path="link.txt", old_string="y", new_string="z").warning


def test_a_link_that_leads_nowhere_gets_its_file(tools):
    (tools.cwd / "link.txt").symlink_to("later.txt")
    tools.result("Write", file_path="link.txt", content="x")
    assert (tools.cwd / "link.txt").is_symlink()
    assert (tools.cwd / "later.txt").read_text() == "x"


def test_a_read_only_file_is_not_replaced():
    # root may write everything, so a child without its rights tries, in a folder that it can reach
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from cellwright.agent.tool import ToolError\n"
        "from cellwright.tools.files.atomic_write import write_atomically\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "path = Path(sys.argv[1])\n"
        "try: write_atomically(path, b'new', replacing=path.stat())\n"
        "except ToolError as error: print(error.code)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        path = Path(folder) / "a.txt"
        path.write_bytes(b"old")
        path.chmod(0o444)
        run = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
        assert run.stdout.strip() == "FILE_ACCESS_ERROR"
        assert path.read_bytes() == b"old"
        assert leftovers(Path(folder)) == []


def test_a_file_that_changes_while_it_is_written_is_not_lost(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"read")
    status = path.stat()
    path.write_bytes(b"changed meanwhile")
    with pytest.raises(FileChanged):
        write_atomically(path, b"new", replacing=status)
    with pytest.raises(FileChanged):
        write_atomically(path, b"new", replacing=None)
    assert path.read_bytes() == b"changed meanwhile"
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("deep", ["x", "x/y"])
def test_a_folder_that_became_a_link_is_not_followed(tmp_path, deep):
    real = tmp_path / deep
    real.mkdir(parents=True)
    path = real / "a.txt"
    path.write_bytes(b"old")
    status = path.stat()
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "x").rename(elsewhere)
    (tmp_path / "x").symlink_to(elsewhere)
    for replacing in (status, None):
        with pytest.raises(FileChanged):
            write_atomically(path, b"new", replacing=replacing)
    with pytest.raises(FileChanged):
        write_atomically(real / "new" / "b.txt", b"new", replacing=None)
    assert (tmp_path / "elsewhere" / deep.removeprefix("x").lstrip("/") / "a.txt").read_bytes() == b"old"
    assert leftovers(tmp_path) == []
    assert not list(elsewhere.rglob("new"))


def test_a_file_that_became_a_link_is_not_followed(tmp_path):
    path, target = tmp_path / "a.txt", tmp_path / "target"
    path.write_bytes(b"old")
    target.write_bytes(b"target")
    status = path.stat()
    path.unlink()
    path.symlink_to(target)
    with pytest.raises(FileChanged):
        write_atomically(path, b"new", replacing=status)
    assert target.read_bytes() == b"target"


def test_folders_that_were_made_for_nothing_go_again(tmp_path):
    with pytest.raises(OSError, match="name too long"):
        write_atomically(tmp_path / "a" / "b" / ("x" * 300), b"", replacing=None)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_only_lets_through_is_passed(tmp_path):
    script = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from cellwright.tools.files.atomic_write import write_atomically\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "write_atomically(Path(sys.argv[1]), b'new', replacing=None)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        inner = Path(folder) / "inner"
        inner.mkdir(mode=0o777)
        inner.chmod(0o777)
        Path(folder).chmod(0o711)
        subprocess.run([sys.executable, "-c", script, str(inner / "a.txt")], check=True)
        assert (inner / "a.txt").read_bytes() == b"new"


WRITER = """
import sys
import tempfile
from pathlib import Path
from cellwright.tools.files.atomic_write import write_atomically
path, size = Path(sys.argv[1]), 1 << 22
print("ready", flush=True)
for number in range(10_000):
    write_atomically(path, bytes([number % 256]) * size, replacing=path.stat())
    print(number, flush=True)
"""


@pytest.mark.parametrize("writes", [0, 1, 2, 3])
def test_a_writer_that_is_killed_leaves_the_old_file_or_the_new_one(tmp_path, writes):
    path = tmp_path / "a.bin"
    path.write_bytes(b"\xff" * (1 << 22))
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    with child:
        for _ in range(writes + 1):
            child.stdout.readline()
        child.kill()
    data = path.read_bytes()
    assert len(data) == 1 << 22
    assert len(set(data)) == 1


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tools):
    path = put(tools, "a.txt", b"old\n")
    script = (
        "import asyncio, resource, signal, sys\n"
        "from pathlib import Path\n"
        "from cellwright.agent.tool import ToolContext, ToolError\n"
        "from cellwright.tools.files.file_state import FileState\n"
        "from cellwright.tools.files.read import read_tool\n"
        "from cellwright.tools.files.write import write_tool\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "state, cwd = FileState(), Path(sys.argv[1])\n"
        "tools = {tool.name: tool for tool in (read_tool(state, cwd), write_tool(state, cwd))}\n"
        "call = lambda name, **given: asyncio.run(tools[name].call(given, ToolContext('t', print)))\n"
        "call('Read', file_path='a.txt')\n"
        "for name in ('a.txt', 'new/b.txt'):\n"
        "    try: call('Write', file_path=name, content='x' * 5000)\n"
        "    except ToolError as error: print(error.code)\n"
    )
    run = subprocess.run([sys.executable, "-c", script, str(tools.cwd)], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["FILE_ACCESS_ERROR"] * 2
    assert path.read_bytes() == b"old\n"
    assert [entry.name for entry in tools.cwd.iterdir()] == ["a.txt"]


def test_a_call_cancelled_before_it_writes_changes_nothing(tools):
    path = put(tools, "a.txt", b"old")

    async def scene() -> None:
        task = asyncio.create_task(tools.run("Write", {"file_path": "a.txt", "content": "new"}))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())
    assert path.read_bytes() == b"old"


# previews and titles


def test_previews_show_what_would_be_done_without_doing_it(tools):
    path = put(tools, "a.py", b"a\nb\n")
    edit = tools.preview("Edit", file_path="a.py", old_string="b", new_string="c\nd\ne")
    assert (edit.title, edit.kind, edit.path, edit.warning) == ("Edit a.py (+3 −1)", "diff", "a.py", "")
    assert edit.detail == "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,4 @@\n a\n-b\n+c\n+d\n+e\n"
    assert tools.preview("Write", file_path="a.py", content="x\n").title == "Overwrite a.py (+1 −2)"
    assert tools.preview("Write", file_path="new/b.py", content="x\n").title == "Create new/b.py (+1 −0)"
    assert tools.preview("Edit", file_path="new/b.py", old_string="", new_string="x").title == "Create new/b.py (+1 −0)"
    assert path.read_bytes() == b"a\nb\n"
    assert not (tools.cwd / "new").exists()


def test_nobody_is_asked_for_what_cannot_be_done(tools):
    put(tools, "a.py", b"a\n")
    cannot = tools.cannot("Edit", file_path="a.py", old_string="z", new_string="y")
    assert cannot.preview.title == "Edit a.py"
    assert "old_string is not" in cannot.preview.warning
    assert cannot.files == (tools.cwd / "a.py",)
    assert "null byte" in tools.cannot("Write", file_path="a\0", content="").error.message


def test_titles(tools):
    assert tools.title("Write", file_path=str(tools.cwd / "a.py"), content="") == "Write a.py"
    assert tools.title("Edit", file_path="src/a.py", old_string="", new_string="") == "Edit src/a.py"


def test_a_diff_of_large_files_takes_bounded_time(tools):
    path = put(tools, "a.txt", b"".join(b"%d\n" % n for n in range(15_000)))
    new = itertools.cycle(["zero\n", "null\n"])  # a diff as large each time
    old = itertools.chain(["0\n"], itertools.cycle(["zero\n", "null\n"]))

    def edit() -> None:
        tools.result("Edit", file_path="a.txt", old_string=next(old), new_string=next(new), replace_all=True)

    assert paces(edit, 400, tries=3) < 400
    assert path.read_bytes().count(b"zero") == 1500


def killed(base: Path, kind: str, count: int, every: int = 1, **environ: str) -> dict[str, Any]:
    environment = {"CELLWRIGHT_HOME": str(base / "home"), **os.environ, **environ}
    command = [sys.executable, str(HELPER), str(base / "here"), kind, str(count), str(every)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize(
    ("kind", "count", "every"), [("plain", 1, 1), ("linked", 1, 1), ("mixed", 3, 2), ("mixed", 40, 17)]
)
def test_killed_at_a_point_where_it_writes_all_files_are_new_or_old(tmp_path, own_place, kind, count, every):
    counts = killed(tmp_path, kind, count, every)
    assert counts["wrong"] == {}
    assert counts["temporary names in the folder"] == 0
    assert min(counts["old"], counts["new"]) > 0


@pytest.mark.skipif(not os.access(MEMORY, os.W_OK), reason="there is no second disk")
@pytest.mark.parametrize("kind", ["linked", "mixed"])
def test_the_same_where_the_state_folder_is_on_another_disk(tmp_path, kind):
    home = MEMORY / f"cellwright-test-{os.getpid()}"
    try:
        counts = killed(tmp_path, kind, 3, 3, CELLWRIGHT_HOME=str(home))
    finally:
        subprocess.run(["rm", "-rf", str(home)], check=True)
    assert counts["wrong"] == {}
    assert min(counts["old"], counts["new"]) > 0


def test_the_same_where_every_file_has_a_name(tmp_path, own_place):
    counts = killed(tmp_path, "mixed", 4, 3, KILL_NAMED="1")
    assert counts["wrong"] == {}
    assert min(counts["old"], counts["new"]) > 0


KILLED = """
import os, signal, sys
from pathlib import Path
from cellwright.sessions.file_changes import CallId, changing_call
from cellwright.tools.files.atomic_write import FileWrite, write_together
real, folder = os.replace, Path(sys.argv[1])
def killing(source, target, **named):
    if str(target) == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
    real(source, target, **named)
os.replace = killing
changing_call.set(CallId("s", "toolu_1"))
write_together([FileWrite(path=folder / name, replacing=(folder / name).stat(), after=b"new") for name in "abc"])
"""


@pytest.fixture
def cut_off(tmp_path, own_place):
    """A change of the files a, b and c that was killed before the file `at` got its new content."""
    folder = tmp_path / "project"
    folder.mkdir()

    def cut(at: str) -> Path:
        for name in "abc":
            (folder / name).write_bytes(b"old")
        child = subprocess.run([sys.executable, "-c", KILLED, str(folder), at], check=False)
        assert child.returncode == -9
        return folder

    return cut


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_next_who_writes_ends_it(cut_off):
    folder = cut_off("b")
    assert contents(folder) == {"a": b"new", "b": b"old", "c": b"old"}
    write_together([FileWrite(path=folder / "d", replacing=None, after=b"d")])
    assert contents(folder) == {"a": b"new", "b": b"new", "c": b"new", "d": b"d"}
    assert outcomes("s")["toolu_1"].made
    forget_outcomes("s")
    assert len(list(changes_folder().iterdir())) == 1, "nobody who works there was told"
    assert untold_changes([folder / "elsewhere"]) == []
    [told] = untold_changes([folder])
    assert "cut off" in told.text
    assert list(changes_folder().iterdir()) == []


def test_without_the_new_contents_it_goes_back(cut_off):
    folder = cut_off("b")
    for path in changes_folder().glob("*-2.new"):
        path.write_bytes(b"half")
    recover_changes()
    assert contents(folder) == {"a": b"old", "b": b"old", "c": b"old"}
    assert outcomes("s")["toolu_1"].text.startswith("Nothing was written")


def test_what_the_user_took_back_stays_so(cut_off):
    folder = cut_off("b")
    (folder / "a").write_bytes(b"old")
    recover_changes()
    assert contents(folder) == {"a": b"old", "b": b"old", "c": b"old"}
    assert not outcomes("s")["toolu_1"].made


@pytest.mark.parametrize("of_the_user", ["a", "b"])
def test_what_somebody_else_changed_since_is_left_and_told(cut_off, of_the_user):
    folder = cut_off("b")
    (folder / of_the_user).write_bytes(b"mine")
    before = contents(folder)
    recover_changes()
    assert contents(folder) == before
    [text] = [outcome.text for outcome in outcomes("s").values()]
    assert "changed from outside" in text
    assert "As before: " in text


def test_a_link_in_the_place_of_a_file_is_not_followed(cut_off, tmp_path):
    folder = cut_off("b")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"old")
    (folder / "b").unlink()
    (folder / "b").symlink_to(elsewhere)
    recover_changes()
    assert elsewhere.read_bytes() == b"old"
    assert (folder / "b").is_symlink()


def test_where_the_folder_is_not_there_it_waits(cut_off, tmp_path):
    folder = cut_off("b")
    folder.rename(tmp_path / "elsewhere")
    assert recover_changes() == []
    (tmp_path / "elsewhere").rename(folder)
    recover_changes()
    assert contents(folder) == {"a": b"new", "b": b"new", "c": b"new"}


def test_a_change_of_another_machine_has_its_time(cut_off):
    folder = cut_off("b")
    [record] = changes_folder().glob("s.*.jsonl")
    line = json.loads(record.read_bytes())
    for at, ended in ((time.time(), False), (time.time() - 100, True)):
        record.write_bytes(json.dumps({**line, "host": "another", "at": at}).encode() + b"\n")
        recover_changes()
        assert (contents(folder)["b"] == b"new") is ended


def test_what_nobody_could_end_is_dropped_in_time(cut_off):
    cut_off("b")
    drop_outcomes_older_than(100)
    assert len(list(changes_folder().iterdir())) > 1
    drop_outcomes_older_than(-100)
    assert list(changes_folder().iterdir()) == []


def test_a_change_that_is_being_made_is_left_alone(cut_off):
    folder = cut_off("b")
    [record] = changes_folder().glob("s.*.jsonl")
    hold = "import fcntl, sys; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_EX); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(record)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        holder.stdout.readline()
        assert recover_changes() == []
        assert contents(folder) == {"a": b"new", "b": b"old", "c": b"old"}
        holder.communicate(b"\n")
    recover_changes()
    assert contents(folder) == {"a": b"new", "b": b"new", "c": b"new"}


def test_hard_links_survive_every_way_of_changing_a_file(tools):
    path = tools.cwd / "a.py"
    path.write_text("one = 1\n")
    (tools.cwd / "b.py").hardlink_to(path)
    path.chmod(0o750)
    tools.result("Read", file_path="a.py")
    tools.result("Edit", file_path="a.py", old_string="1", new_string="100")
    assert (tools.cwd / "b.py").read_text() == "one = 100\n"
    tools.result("Write", file_path="a.py", content="x\n")
    assert (tools.cwd / "b.py").read_text() == "x\n"
    tools.result("ApplyPatch", patch="--- a/b.py\n+++ b/b.py\n@@ -1 +1 @@\n-x\n+y\n")
    assert path.read_text() == "y\n"
    assert (path.stat().st_nlink, path.stat().st_mode & 0o777) == (2, 0o750)


@pytest.mark.skipif(
    os.geteuid() == 0 and not all(folder.stat().st_mode & 0o001 for folder in Path(sys.base_prefix).parents),
    reason="nobody but root can read this Python",
)
def test_a_hard_linked_file_is_as_it_was_when_another_file_of_the_call_fails():
    # root may delete everything, so a child without its rights tries
    script = """
import os, sys
from pathlib import Path
from cellwright.tools.files.atomic_write import FileWrite, write_together
if os.geteuid() == 0: os.setuid(65534)
folder = Path(sys.argv[1])
path, kept = folder / "a", folder / "locked" / "b"
writes = [
    FileWrite(path=path, replacing=path.stat(), after=b"new content"),
    FileWrite(path=kept, replacing=kept.stat(), after=None),
]
try: write_together(writes)
except PermissionError: print("refused")
"""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for each in (folder, folder / "home", folder / "locked"):
            each.mkdir(exist_ok=True)
            each.chmod(0o777)
        for name in ("a", "locked/b"):
            (folder / name).write_bytes(b"old")
            (folder / name).chmod(0o666)
        (folder / "link").hardlink_to(folder / "a")
        (folder / "locked").chmod(0o555)
        environ = {**os.environ, "CELLWRIGHT_HOME": str(folder / "home")}
        run = subprocess.run(
            [sys.executable, "-c", script, place], env=environ, capture_output=True, text=True, check=True
        )
        assert run.stdout == "refused\n"
        assert (folder / "a").read_bytes() == (folder / "link").read_bytes() == b"old"
        assert (folder / "locked" / "b").read_bytes() == b"old"
        assert list((folder / "home" / "changes").iterdir()) == []
        (folder / "locked").chmod(0o777)
