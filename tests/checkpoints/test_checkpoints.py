"""What is kept, where, for whom and for how long; and what a process that was killed leaves behind."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from cellwright.checkpoints.journal import drop_journals_older_than, fold, journal_of
from cellwright.sessions.session import Session
from cellwright.testing import use
from cellwright.tools.files import file_state
from cellwright.tools.files.file_state import (
    drop_older_than,
    keep_original,
    original,
    original_path,
    originals_folder,
    sha256,
)


def write(name: str, text: str) -> Any:
    return use("Write", file_path=name, content=text)


def state_files(own_place: Path) -> list[Path]:
    home = own_place / "cellwright"
    return [path for name in ("checkpoints", "originals") for path in (home / name).rglob("*")]


def test_it_is_all_for_the_user_alone_and_no_git_is_needed(work, own_place):
    there = work([use("Read", file_path="a.py"), write("a.py", "new\n"), write("b.py", "b\n")])
    there.put("a.py", "old\n")
    there.say()
    there.type("/undo")
    found = state_files(own_place)
    assert len(found) >= 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}
    folders = {path.parent for path in found}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    assert not (there.cwd / ".git").exists()


def test_one_content_is_kept_once(work):
    there = work([use("Read", file_path=name) for name in ("a", "b")] + [write("a", "x\n"), write("b", "y\n")])
    for name in ("a", "b"):
        there.put(name, "same\n")
    there.say()
    kept = [path for path in originals_folder().iterdir() if path.read_bytes() == b"same\n"]
    assert len(kept) == 1


def test_what_is_written_down_comes_before_the_change(work):
    there = work([use("Read", file_path="a.py"), write("a.py", "new\n")])
    there.put("a.py", "old\n").chmod(0o640)
    there.say("Do it")
    path = journal_of(there.conversation.sessions.current).path
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [next(iter(line)) for line in lines] == ["checkpoints", "turn", "file", "end"]
    assert lines[2]["before"] == {"sha256": sha256(b"old\n"), "mode": 0o640}
    assert lines[2]["after"] == sha256(b"new\n")


def test_what_cannot_be_kept_is_named_and_left(work, own_place):
    (own_place / "cellwright").mkdir()
    (own_place / "cellwright" / "originals").write_text("no folder")
    there = work([use("Read", file_path="a.py"), write("a.py", "new\n")])
    there.put("a.py", "old\n")
    there.say()
    assert there.read("a.py") == "new\n"
    assert there.changed.not_kept == (str(there.cwd / "a.py"),)
    assert "content was not kept" in there.type("/undo")
    assert not there.asked
    assert there.read("a.py") == "new\n"


def test_what_is_too_large_is_not_kept():
    data = bytes(file_state.KEPT_FILE_BYTES + 1)
    assert not keep_original(data, sha256(data))
    assert not originals_folder().exists()


def test_a_content_that_was_altered_is_not_restored(work):
    there = work([use("Read", file_path="a.py"), write("a.py", "new\n")])
    there.put("a.py", "old\n")
    there.say()
    kept = original_path(sha256(b"old\n"))
    kept.write_bytes(b"forged\n")
    assert original(sha256(b"old\n")) is None
    page = there.type("/undo")
    assert "not kept" in page
    assert there.read("a.py") == "new\n"


def test_a_journal_that_was_cut_off_is_read_as_far_as_it_goes(work):
    there = work([write("a.py", "one\n")], [write("b.py", "two\n")])
    there.say()
    path = journal_of(there.conversation.sessions.current).path
    with path.open("ab") as file:
        file.write(b'{"turn": "x"}\n{"file": "/p"}\n[1]\n{"turn": 9, "at": 1')
    there.again()
    there.say()
    assert [turn.number for turn in journal_of(there.conversation.sessions.current).history.turns] == [1, 2]
    there.type("/undo 2")
    assert (there.read("a.py"), there.read("b.py")) == (None, None)


def test_lines_of_a_later_version_are_passed_over():
    assert fold([{"turn": 1, "at": 1.0, "seq": 1, "prompt": "x"}, {"thing": 1}]).turns[0].number == 1


def test_what_is_old_goes():
    keep_original(b"old", sha256(b"old"))
    keep_original(b"new", sha256(b"new"))
    hour_ago = time.time() - 3600
    os.utime(original_path(sha256(b"old")), (hour_ago, hour_ago))
    drop_older_than(1800)
    assert original(sha256(b"old")) is None
    assert original(sha256(b"new")) == b"new"


def test_old_journals_go_with_the_setting(work, own_place):
    (own_place / ".claude").mkdir()
    (own_place / ".claude" / "settings.json").write_text('{"cleanupPeriodDays": 2}')
    there = work([write("a.py", "one\n")])
    there.say()
    path = journal_of(there.conversation.sessions.current).path
    drop_journals_older_than(86_400)
    assert path.exists()
    three_days_ago = time.time() - 3 * 86_400
    os.utime(path, (three_days_ago, three_days_ago))
    drop_journals_older_than(2 * 86_400)
    assert not path.exists()


def test_a_session_in_memory_is_undone_too_and_leaves_no_journal(work, own_place):
    there = work([write("a.py", "one\n")])
    there.say(session=Session.create(there.cwd, None))
    there.type("/undo")
    assert there.read("a.py") is None
    assert not (own_place / "cellwright" / "checkpoints").exists()


def test_a_fork_knows_the_turns_it_was_forked_after(work):
    there = work([write("a.py", "one\n")], [write("b.py", "two\n")], [])
    there.say("First")
    fork = there.conversation.sessions.current.fork()
    there.say("Second")
    there.conversation.sessions.use(fork)
    assert "First" in (page := there.type("/rewind"))
    assert "Second" not in page
    there.type("/rewind 1")
    assert fork.messages == []
    assert (there.read("a.py"), there.read("b.py")) == (None, "two\n")


KILLED = """
import os, sys
from pathlib import Path
from cellwright.checkpoints.checkpoints import Checkpoints
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import sessions_folder
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.file_state import UpcomingChange
from cellwright.tools.files.atomic_write import write_atomically

cwd = Path.cwd()
session = Session.create(cwd, sessions_folder(cwd))
session.begin(model="m", system=[], tools=[])
session.append({"role": "user", "content": [{"type": "text", "text": "Go on until you are killed."}]})
checkpoints = Checkpoints(lambda: (cwd,), lambda: True, lambda: 30)
checkpoints.begin(session, "Go on until you are killed.", 1)
state = FileState(keeper=checkpoints)
print(session.path, flush=True)
for number in range(10**6):
    path = cwd / f"{number % 7}.txt"
    before = path.read_bytes() if path.exists() else None
    after = b"%d\\n" % number
    status = path.stat() if before is not None else None
    state.keeper.before_changes([UpcomingChange(path=path, before=before, after=after, status=status)])
    write_atomically(path, after, replacing=status)
    state.keeper.after_changes([path])
    print(number, flush=True)
"""


@pytest.mark.parametrize("changes", [1, 5, 30])
def test_a_turn_that_was_killed_in_the_middle_can_be_taken_back(work, changes):
    there = work([])
    there.put("0.txt", "the user's\n")
    there.put("8.txt", "untouched\n")
    code = textwrap.dedent(KILLED)
    process = subprocess.Popen([sys.executable, "-c", code], cwd=there.cwd, stdout=subprocess.PIPE, text=True)
    path = Path(process.stdout.readline().strip())
    for _ in range(changes):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    there.conversation.sessions.use(Session.load(path))
    assert "did not end" in there.type("/rewind")
    page = there.type("/undo")
    assert "as they are" not in page
    left = {file.name: file.read_text() for file in there.cwd.glob("*.txt")}
    assert left == {"0.txt": "the user's\n", "8.txt": "untouched\n"}
