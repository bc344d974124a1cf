from __future__ import annotations

import asyncio
import difflib
import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwright.agent.tool import ToolContext
from cellwright.errors import ErrorCode, ToolError
from cellwright.permissions.judges.patch import paths_in_patch
from cellwright.permissions.patch_text import read_patch
from cellwright.tools.files.apply_patch import apply_patch_tool
from cellwright.tools.files.atomic_write import FileWrite, write_together
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.patched_files import apply_hunks
from cellwright.tools.files.staged_file import FileChanged
from row_tables import for_each_row

TEN = "".join(f"line {number}\n" for number in range(1, 11))


def put(tools, name: str, data: str | bytes, *, read: bool = True) -> Path:
    path = tools.cwd / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    if read:
        tools.result("Read", file_path=name)
    return path


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def one(body: str, name: str = "a.txt") -> str:
    return f"--- a/{name}\n+++ b/{name}\n{body}"


# what a patch can do


def test_many_files_at_once(tools):
    put(tools, "a.txt", TEN)
    put(tools, "gone.txt", "x\ny\n")
    put(tools, "old/name.py", "a = 1\nb = 2\n")
    patch = (
        one("@@ -1,3 +1,3 @@\n line 1\n-line 2\n+LINE 2\n line 3\n@@ -9,2 +9,3 @@\n line 9\n line 10\n+line 11\n")
        + "--- /dev/null\n+++ b/new/deep.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file\n"
        + "--- a/gone.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\n-y\n"
        + "diff --git a/old/name.py b/name.py\nold mode 100644\nnew mode 100755\nsimilarity index 50%\n"
        + "rename from old/name.py\nrename to name.py\n--- a/old/name.py\n+++ b/name.py\n"
        + "@@ -1,2 +1,2 @@\n a = 1\n-b = 2\n+b = 3\n"
    )
    result = tools.result("ApplyPatch", patch=patch)
    assert snapshot(tools.cwd) == {
        "a.txt": TEN.replace("line 2\n", "LINE 2\n").encode() + b"line 11\n",
        "new/deep.txt": b"one\ntwo",
        "name.py": b"a = 1\nb = 3\n",
    }
    assert stat.S_IMODE((tools.cwd / "name.py").stat().st_mode) & 0o111
    assert result.content.split("\n")[1:] == [
        "M a.txt (+2 −1)",
        "A new/deep.txt (+2 −0)",
        "D gone.txt (+0 −2)",
        "R old/name.py → name.py (+1 −1, executable)",
    ]
    assert result.display["type"] == "patch"
    assert [(Path(file["path"]).name, file["type"]) for file in result.display["files"]] == [
        ("a.txt", "update"),
        ("deep.txt", "create"),
        ("gone.txt", "delete"),
        ("name.py", "delete"),
        ("name.py", "create"),
    ]
    assert "from old/name.py\n" in result.display["diff"]


def test_what_was_patched_may_be_edited_and_the_original_is_kept(tools):
    put(tools, "a.txt", TEN)
    result = tools.result("ApplyPatch", patch=one("@@ -1,2 +1,2 @@\n-line 1\n+first\n line 2\n"))
    original = Path(result.display["originals"]["a.txt"])
    assert original.read_text() == TEN
    assert original.name == hashlib.sha256(TEN.encode()).hexdigest()
    assert stat.S_IMODE(original.stat().st_mode) == 0o600
    tools.result("Write", file_path="a.txt", content="all\n")
    assert (
        Path(tools.result("Write", file_path="a.txt", content="x\n").display["originals"]["a.txt"]).read_text()
        == "all\n"
    )


def test_copies_modes_and_empty_files(tools):
    path = put(tools, "a.sh", "x\n")
    path.chmod(0o640)
    tools.result(
        "ApplyPatch",
        patch="diff --git a/a.sh b/b.sh\nsimilarity index 100%\ncopy from a.sh\ncopy to b.sh\n"
        "diff --git a/a.sh b/a.sh\nold mode 100644\nnew mode 100755\n"
        "diff --git a/empty b/empty\nnew file mode 100644\nindex 0000000..e69de29\n",
    )
    assert snapshot(tools.cwd) == {"a.sh": b"x\n", "b.sh": b"x\n", "empty": b""}
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert stat.S_IMODE((tools.cwd / "b.sh").stat().st_mode) == 0o640
    tools.result("ApplyPatch", patch="diff --git a/empty b/empty\ndeleted file mode 100644\nindex e69de29..0000000\n")
    assert not (tools.cwd / "empty").exists()


def test_a_binary_file_is_renamed_but_not_patched(tools):
    put(tools, "a.bin", b"\0\1\2", read=False)
    assert "binary" in tools.error("ApplyPatch", patch=one("@@ -1 +1 @@\n-a\n+b\n", "a.bin")).message
    tools.result("ApplyPatch", patch="diff --git a/a.bin b/b.bin\nrename from a.bin\nrename to b.bin\n")
    assert snapshot(tools.cwd) == {"b.bin": b"\0\1\2"}


def test_a_series_changes_a_file_twice(tools):
    put(tools, "a.txt", "1\n")
    patch = one("@@ -1 +1 @@\n-1\n+2\n") + "-- \n2.39\n\nFrom x\n" + one("@@ -1 +1 @@\n-2\n+3\n")
    tools.result("ApplyPatch", patch=patch)
    assert (tools.cwd / "a.txt").read_text() == "3\n"


def test_a_link_is_written_through_and_never_made_or_deleted(tools):
    path = put(tools, "real.txt", "a\n")
    (tools.cwd / "link.txt").symlink_to("real.txt")
    tools.result("ApplyPatch", patch=one("@@ -1 +1 @@\n-a\n+b\n", "link.txt"))
    assert path.read_text() == "b\n"
    assert (tools.cwd / "link.txt").is_symlink()
    gone = tools.error("ApplyPatch", patch="--- a/link.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n")
    assert "symbolic link" in gone.message
    made = tools.error(
        "ApplyPatch", patch="diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n"
    )
    assert "symbolic link" in made.message
    assert path.read_text() == "b\n"


# where hunks fit


@for_each_row(
    ("before", "hunk", "after"),
    [
        (b"a\r\nb\r\n", " a\n-b\n+B\n+C\n", b"a\r\nB\r\nC\r\n"),
        (b"a\r\nb\r\n", " a\r\n-b\r\n+B\n", b"a\r\nB\n"),
        (b"a\nb\n", " a\n-b\n+B\r\n", b"a\nB\r\n"),
        (b"a\r\nb\nc\r\n", " a\n-b\n+B\n c\n", b"a\r\nB\nc\r\n"),
        (b"\xef\xbb\xbfa\r\nb\r\n", " a\n-b\n+é\n", b"\xef\xbb\xbfa\r\n\xc3\xa9\r\n"),
        (b"\xef\xbb\xbfa\nb\n", "-\ufeffa\n+a\n b\n", b"a\nb\n"),
        (b"a\nb\n", "-a\n+\ufeffa\n b\n", b"\xef\xbb\xbfa\nb\n"),
        (b"caf\xe9\nb\n", " café\n-b\n+thé\n", b"caf\xe9\nth\xe9\n"),
        ("é\r\nb\r\n".encode("utf-16"), " é\n-b\n+ü\n", "é\r\nü\r\n".encode("utf-16")),
        (b"a\x0cb\xe2\x80\xa8c\nd\n", " a\x0cb\u2028c\n-d\n+e\n", b"a\x0cb\xe2\x80\xa8c\ne\n"),
    ],
)  # fmt: skip
def test_encodings_and_line_ends_stay(tools, before, hunk, after):
    path = put(tools, "a.txt", before)
    tools.result("ApplyPatch", patch=one(f"@@ -1,3 +1,3 @@\n{hunk}"))
    assert path.read_bytes() == after


# what is refused, with nothing changed


@for_each_row(
    ("patch", "why"),
    [
        (
            one("@@ -1,2 +1,2 @@\n line 1\n-line 7\n+x\n"),
            "its lines are not in the file",
        ),
        (one("@@ -1 +1 @@\n-line 1\n+line 2\n", "b.txt"), "does not exist"),
        (one("@@ -3 +3 @@\n-line 99\n+line 4\n"), "it may have been applied before"),
        ("--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+x\n", "exists already"),
        ("--- a/a.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-line 1\n-line 2\n", "does not have all of its lines"),
        ("diff --git a/a.txt b/a.txt\ndeleted file mode 100644\n", "does not have all of its lines"),
        ("diff --git a/a.txt b/c.txt\nrename from a.txt\nrename to c.txt\n", "exists already"),
        (one("@@ -20,0 +21 @@\n+x\n"), "has only 10 lines"),
        (one("@@ -1,0 +1 @@\n+x\n\\ No newline at end of file\n"), "newline at the end"),
        ("no patch", "must be a unified diff"),
        (one("@@ -1 +1 @@\n-line 1\n+x\n", "~/a.txt"), "not expanded"),
        (one("@@ -1 +1 @@\n-line 1\n+x\n", "folder"), "directory"),
        ("--- /dev/null\n+++ b/n.ipynb\n@@ -0,0 +1 @@\n+x\n", "smallest"),
        (one("@@ -1 +1 @@\n-{\n+[\n", "real.ipynb"), "NotebookEdit"),
    ],
)
def test_a_patch_that_does_not_fit_changes_nothing(tools, patch, why):
    put(tools, "a.txt", TEN)
    put(tools, "c.txt", "c\n")
    put(tools, "real.ipynb", '{\n"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}\n')
    (tools.cwd / "folder").mkdir()
    before = snapshot(tools.cwd)
    good = one("@@ -1 +1 @@\n-c\n+d\n", "c.txt")
    error = tools.error("ApplyPatch", patch=good + patch if patch != "no patch" else patch)
    assert why in error.message
    assert "othing" in error.message
    assert snapshot(tools.cwd) == before


def test_an_unread_file_is_patched_only_exactly_and_not_shown(tools):
    path = put(tools, "a.txt", TEN, read=False)
    tools.result("ApplyPatch", patch=one("@@ -2,2 +2,2 @@\n line 2\n-line 3\n+three\n"))
    assert path.read_text() == TEN.replace("line 3", "three")
    assert "Only a part" in tools.error("Write", file_path="a.txt", content="").message
    put(tools, "b.txt", "the secret line\nb\n", read=False)
    error = tools.error("ApplyPatch", patch=one("@@ -1,2 +1,2 @@\n-the sacred line\n+x\n b\n", "b.txt"))
    assert "read it" in error.message
    assert "secret" not in error.message
    blind = tools.error("ApplyPatch", patch=one("@@ -1,0 +2 @@\n+x\n", "b.txt"))
    assert "the file first" in blind.message


def test_syntax_is_checked_for_all_files(tools):
    put(tools, "a.py", "def f():\n    return 1\n")
    put(tools, "b.json", '{"a": 1}\n')
    good = one("@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return 2\n", "a.py")
    bad = one('@@ -1 +1 @@\n-{"a": 1}\n+{"a": }\n', "b.json")
    before = snapshot(tools.cwd)
    assert "b.json would" in tools.error("ApplyPatch", patch=good + bad).message
    assert snapshot(tools.cwd) == before
    assert "no longer parses" in tools.text("ApplyPatch", patch=good + bad, allow_syntax_errors=True)


def test_previews_show_all_files_and_what_is_fuzzy(tools):
    put(tools, "a.txt", "a \nb\n")
    put(tools, "b.txt", "b\n")
    patch = one("@@ -1,2 +1,2 @@\n a\n-b\n+B\n") + one("@@ -1 +1 @@\n-b\n+B\n", "b.txt")
    preview = tools.preview("ApplyPatch", patch=patch)
    assert "and 1 more: 2" in preview.title
    assert "+++ b/a.txt" in preview.detail
    assert "+++ b/b.txt" in preview.detail
    assert "hunk 1: fuzzy:" in preview.warning
    assert (tools.cwd / "a.txt").read_text() == "a \nb\n"
    gone = tools.preview("ApplyPatch", patch="--- a/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n")
    assert gone.detail == (
        "diff --git a/b.txt b/b.txt\ndeleted file mode 100644\n--- a/b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n"
    )
    ends = tools.preview("ApplyPatch", patch=one("@@ -1 +1 @@\n-b\n+b\r\n", "b.txt"))
    assert "only line ends" in ends.warning
    broken = tools.cannot("ApplyPatch", patch=patch.replace("-b\n", "-c\n"))
    assert "cannot be done" in broken.preview.warning
    assert broken.preview.detail == patch.replace("-b\n", "-c\n")
    assert tools.cwd / "a.txt" in broken.files
    assert tools.cannot("ApplyPatch", patch="nonsense").files == ()
    assert tools.title("ApplyPatch", patch="nonsense") == "Apply a patch"


def test_all_files_of_a_patch_are_in_memory_at_once_and_so_bounded(tools):
    patch = ""
    for number in range(7):
        put(tools, f"{number}.txt", "a\n" + "x" * 9 * 2**20, read=False)
        patch += one("@@ -1 +1 @@\n-a\n+b\n", f"{number}.txt")
    assert "than 50 MB" in tools.error("ApplyPatch", patch=patch).message
    assert (tools.cwd / "0.txt").read_bytes().startswith(b"a")


def test_what_python_takes_is_seen_in_each_of_many_files(tools):
    patch = ""
    for number in range(12):
        put(tools, f"{number}.py", "if a:\n    b\n", read=False)
        new = "  b" if number != 7 else "b"
        patch += one(f"@@ -1,2 +1,2 @@\n if a:\n-    b\n+{new}\n", f"{number}.py")
    assert tools.error("ApplyPatch", patch=patch).message.startswith("7.py would")
    assert (tools.cwd / "0.py").read_text() == "if a:\n    b\n"


# whatever happens while it is written


def status(path: Path) -> os.stat_result:
    return path.stat()


def test_a_failure_midway_takes_back_what_was_done(tmp_path):
    one_file, gone, new = tmp_path / "one", tmp_path / "gone", tmp_path / "sub/new"
    one_file.write_text("1")
    gone.write_text("2")
    writes = [
        FileWrite(path=one_file, replacing=status(one_file), after=b"one"),
        FileWrite(path=gone, replacing=status(gone), after=None),
        FileWrite(path=new, replacing=None, after=b"new"),
        # by then it is not what was looked at
        FileWrite(path=one_file, replacing=status(one_file), after=b"again"),
    ]
    with pytest.raises(FileChanged):
        write_together(writes)
    assert snapshot(tmp_path) == {"one": b"1", "gone": b"2"}
    assert not new.parent.exists()
    write_together(writes[:3])
    assert snapshot(tmp_path) == {"one": b"one", "sub/new": b"new"}


CHILD = """
import asyncio, json, os, resource, signal, sys
from pathlib import Path
from cellwright.errors import ToolError
from cellwright.agent.tool import ToolContext
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.read import read_tool
from cellwright.tools.files.apply_patch import apply_patch_tool
patch = sys.stdin.read()
state, cwd = FileState(), Path(sys.argv[1])
tools = {tool.name: tool for tool in (read_tool(state, cwd), apply_patch_tool(state, cwd))}
loop = asyncio.new_event_loop()
call = lambda name, **given: loop.run_until_complete(tools[name].call(given, ToolContext("t", print)))
call("Read", file_path="a.txt")
call("ApplyPatch", patch="--- /dev/null\\n+++ b/warm.txt\\n@@ -0,0 +1 @@\\n+x\\n")
if sys.argv[2] == "bytes":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
elif sys.argv[2] == "files":
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 4,) * 2)
try:
    print(call("ApplyPatch", patch=patch).content)
except ToolError as error:
    print(error.code, error.message)
"""


def in_child(tools, limit: str, patch: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", CHILD, str(tools.cwd), limit], input=patch, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    (tools.cwd / "warm.txt").unlink()
    return run.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="limits of this kind are Linux's")
@pytest.mark.parametrize(("limit", "why"), [("bytes", "File too large"), ("files", "Too many open files")])
def test_a_full_disk_or_no_descriptors_left_change_nothing(tools, limit, why):
    put(tools, "a.txt", "a\n")
    patch = one("@@ -1 +1 @@\n-a\n+b\n") + "".join(
        f"--- /dev/null\n+++ b/d{number}/n.txt\n@@ -0,0 +1 @@\n+{'x' * 1000 * number}\n" for number in range(1, 16)
    )
    before = snapshot(tools.cwd)
    output = in_child(tools, limit, patch)
    assert output.startswith("FILE_ACCESS_ERROR")
    assert why in output
    assert "are unchanged" in output
    assert snapshot(tools.cwd) == before
    assert [path.name for path in tools.cwd.iterdir()] == ["a.txt"]


KILLED = """
import asyncio, sys
from pathlib import Path
from cellwright.agent.tool import ToolContext
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.apply_patch import apply_patch_tool
tool = apply_patch_tool(FileState(), Path(sys.argv[1]))
there = "--- a/{0}\\n+++ b/{0}\\n@@ -1 +1 @@\\n-{1}\\n+{2}\\n"
a, b = "a" * 500_000, "b" * 500_000
print("ready", flush=True)
for number in range(10_000):
    patch = "".join(there.format(name, *((a, b) if number % 2 == 0 else (b, a))) for name in ("1", "2", "3"))
    asyncio.run(tool.call({"patch": patch}, ToolContext("t", print)))
    print(number, flush=True)
"""


@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_killed_in_between_it_leaves_every_file_whole(tmp_path, times):
    whole = [letter.encode() * 500_000 + b"\n" for letter in "ab"]
    for name in "123":
        (tmp_path / name).write_bytes(whole[0])
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE)
    with child:
        for _ in range(times):
            child.stdout.readline()
        child.kill()
    assert all((tmp_path / name).read_bytes() in whole for name in "123")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_disk_that_is_really_full(tools, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        (small / "a.txt").write_text("a\n")
        patch = "".join(
            f"--- /dev/null\n+++ b/small/n{number}\n@@ -0,0 +1 @@\n+{'x' * 12_000}\n" for number in range(20)
        )
        error = tools.error("ApplyPatch", patch=one("@@ -1 +1 @@\n-a\n+b\n", "small/a.txt") + patch)
        assert error.code == ErrorCode.FILE_ACCESS_ERROR
        assert "No space left" in error.message
        assert snapshot(small) == {"a.txt": b"a\n"}
        assert "No space left" in tools.error("Write", file_path="small/big", content="x" * 100_000).message
        assert snapshot(small) == {"a.txt": b"a\n"}
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


# properties

LINES = st.lists(st.text(alphabet="ab \t\r\x0c\u2028é", max_size=3), max_size=14)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


def diff(before: str, after: str, context: int, name: str = "a.txt") -> str:
    """A unified diff, by difflib, as git would write it."""
    old, new = ([*lines] for lines in (before.split("\n"), after.split("\n")))
    old, new = ([f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else []) for lines in (old, new))
    body = list(difflib.unified_diff(old, new, n=context))[2:]
    marked = [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in body]
    return one("".join(marked), name) if body else ""


@settings(deadline=None)
@given(before=TEXTS, after=TEXTS, context=st.integers(0, 4), exact=st.booleans())
def test_a_diff_applied_to_what_it_was_made_from_gives_what_it_was_made_to(before, after, context, exact):
    patch = diff(before, after, context)
    if not patch:
        return
    (file,) = read_patch(patch)
    applied = apply_hunks(before, file.hunks, exact=exact and context > 0)
    if exact and applied.misfits:
        assert all("must be there" in misfit.why for misfit in applied.misfits)
        return
    assert applied.misfits == []
    assert applied.text == after
    assert applied.notes == []


@for_each_row("seed", range(6))
def test_what_git_makes_of_a_diff_is_what_we_make_of_it(tools, seed):
    before = "".join(f"{(number * (seed + 3)) % 7} of {number % (seed + 4)}\n" for number in range(60))
    lines = before.splitlines(keepends=True)
    for number in range(seed, len(lines), 7 + seed):
        lines[number] = ["", "changed\n", "one\ntwo\n", "\r\n"][number % 4]
    put(tools, "a.txt", before)
    (tools.cwd / "after.txt").write_text("".join(lines), newline="")
    made = subprocess.run(
        ["git", "diff", "--no-index", "--no-color", "a.txt", "after.txt"],
        cwd=tools.cwd,
        capture_output=True,
        check=False,
    ).stdout.decode()
    (tools.cwd / "after.txt").unlink()
    tools.result("ApplyPatch", patch=made.replace("b/after.txt", "b/a.txt"))
    assert (tools.cwd / "a.txt").read_bytes().decode() == "".join(lines)


MUTATION = st.tuples(st.integers(0, 10_000), st.sampled_from(["drop", "twice", "swap", "mark", "cut", "text"]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(mutations=st.lists(MUTATION, min_size=1, max_size=4), filler=st.text(alphabet=" +-@a1,\\\n", max_size=8))
def test_a_damaged_patch_applies_wholly_or_not_at_all(tools, mutations, filler):
    contents = {"a.txt": TEN, "d/b.txt": "x\ny\nz\n", "c.txt": "c\n"}
    for path in [path for path in tools.cwd.rglob("*") if path.is_file()]:
        path.unlink()
    for name, text in contents.items():
        put(tools, name, text)
    patch = (
        diff(TEN, TEN.replace("line 4", "four").replace("line 9\n", ""), 2)
        + diff("x\ny\nz\n", "x\nY\nz\n", 1, "d/b.txt")
        + "diff --git a/c.txt b/e.txt\nsimilarity index 50%\nrename from c.txt\nrename to e.txt\n"
        + "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+n\n+m\n"
    )
    before = snapshot(tools.cwd)
    damaged = mutated(patch, mutations, filler)
    try:
        tools.result("ApplyPatch", patch=damaged or " ")
    except ToolError:
        assert snapshot(tools.cwd) == before
        return
    after = snapshot(tools.cwd)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert changed <= {os.path.normpath(name) for name, _ in paths_in_patch(damaged)}
    assert not [name for name in after if ".cellwright" in name]


def mutated(patch: str, mutations: list[tuple[int, str]], filler: str) -> str:
    lines = patch.split("\n")
    for place, kind in mutations:
        at = place % len(lines)
        if kind == "drop" and len(lines) > 1:
            del lines[at]
        elif kind == "twice":
            lines.insert(at, lines[at])
        elif kind == "swap":
            lines[at], lines[0] = lines[0], lines[at]
        elif kind == "mark":
            lines[at] = " +-\\@"[place % 5] + lines[at][1:]
        elif kind == "cut":
            lines[at] = lines[at][: len(lines[at]) // 2]
        else:
            lines[at] += filler
    return "\n".join(lines)


def test_a_file_with_unsaved_changes_in_an_editor_is_not_written(tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("x\n")
    patch = "".join(f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-x\n+y\n" for name in ("a.txt", "b.txt"))
    tool = apply_patch_tool(FileState(lambda path: path.name == "b.txt"), tmp_path)
    with pytest.raises(ToolError, match=r"^b\.txt is open in the user's editor with unsaved changes"):
        asyncio.run(tool.call({"patch": patch}, ToolContext("toolu_1", lambda **_: None)))
    assert (tmp_path / "a.txt").read_text() == (tmp_path / "b.txt").read_text() == "x\n"
