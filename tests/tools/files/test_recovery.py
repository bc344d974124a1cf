"""Changes of files cut off by `kill -9`: all files are new or old again, nothing is left over, and what is said is true."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from cellwright.sessions.file_changes import (
    changes_folder,
    drop_outcomes_older_than,
    forget_outcomes,
    outcomes,
    untold_changes,
)
from cellwright.tools.files.atomic_write import FileWrite, write_together
from cellwright.tools.files.recovery import recover_changes

HELPER = Path(__file__).parent / "kill_points.py"
MEMORY = Path("/dev/shm")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")


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
