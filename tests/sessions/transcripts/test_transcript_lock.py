"""One writer per transcript: among processes, within one, and after its owner was killed."""

import os
import subprocess
import sys
import threading

import pytest

from cellwright.errors import CellwrightError
from cellwright.sessions.session import Session
from cellwright.sessions.transcripts.transcript import read_messages, read_transcript
from cellwright.sessions.transcripts.transcript_lock import (
    Holder,
    acquire,
    lease_path,
    read_holder,
)

HOLD = """
import sys
from pathlib import Path
from cellwright.sessions.session import Session
session = Session.load(Path(sys.argv[1]))
print(session.id, flush=True)
for line in sys.stdin:
    session.append({"role": "user", "content": line.strip()})
    print("written", flush=True)
"""

HOLD_AND_FORK = """
import os, sys
from pathlib import Path
from cellwright.sessions.session import Session
from cellwright.errors import CellwrightError
session = Session.load(Path(sys.argv[1]))
if os.fork() == 0:
    try:
        session.append({"role": "user", "content": "from the child"})
    except CellwrightError as error:
        print("child", os.getpid(), error.code, flush=True)
    sys.stdin.read()
else:
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    """A closed session with one message."""
    session = Session.create(tmp_path, tmp_path)
    session.begin(model="m", system=[], tools=[])
    session.append({"role": "user", "content": "first"})
    session.close()
    return session.path


@pytest.fixture
def start():
    """Starts Python processes and ends those that still run."""
    processes = []

    def start(code, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_a_second_process_waits_then_forks_and_after_a_kill_gets_the_session(path, start):
    owner = start(HOLD, path)
    assert owner.stdout.readline().strip() == path.stem

    second = Session.load(path, wait_seconds=0.1)
    second.append({"role": "user", "content": "second's"})
    owner.stdin.write("owner's\n")
    owner.stdin.flush()
    owner.stdout.readline()

    assert second.path != path
    assert f"process {owner.pid}" in second.notices[0]
    assert second.id in second.notices[0]
    assert [m["content"] for m in second.messages] == ["first", "second's"]
    assert [m["content"] for m in read_messages(path)] == ["first", "owner's"]

    owner.kill()
    owner.wait()
    third = Session.load(path, wait_seconds=5)
    assert third.path == path
    assert third.notices == []
    third.append({"role": "user", "content": "third's"})
    assert [line.meta["epoch"] for line in read_transcript(path).lines] == [1, 2, 3]


def test_many_processes_fight_for_a_session_and_one_gets_it(path, start):
    rivals = [start(HOLD, path) for _ in range(4)]
    ids = [rival.stdout.readline().strip() for rival in rivals]
    assert ids.count(path.stem) == 1
    assert len(set(ids)) == 4


def test_within_a_process_there_is_one_writer_too(path):
    first = Session.load(path)
    second = Session.load(path, wait_seconds=0)
    assert (first.path, second.path != path) == (path, True)
    assert f"process {os.getpid()}" in second.notices[0]


def test_a_second_writer_gets_the_session_when_it_is_let_go_meanwhile(path):
    first = Session.load(path)
    got = []
    waiting = threading.Thread(target=lambda: got.append(Session.load(path, wait_seconds=60)))
    waiting.start()
    first.append({"role": "user", "content": "last words"})
    first.close()
    waiting.join()
    assert got[0].path == path
    assert got[0].messages[-1]["content"] == "last words"


def test_a_session_that_nobody_holds_any_more_is_free(path):
    forgotten = Session.load(path)
    assert forgotten.path == path
    del forgotten
    assert Session.load(path, wait_seconds=0).path == path


def test_a_damaged_session_is_let_go(path):
    whole = path.read_bytes()
    path.write_bytes(whole[:20])
    with pytest.raises(CellwrightError, match="SESSION_CORRUPTED") as caught:
        Session.load(path)
    path.write_bytes(whole)
    assert Session.load(path, wait_seconds=0).path == path
    assert caught.value.__traceback__ is not None, "what failed is still referred to"


def test_the_lease_file_says_who_has_it_and_may_be_lost(path):
    session = Session.load(path)
    holder = read_holder(lease_path(path))
    assert (holder.pid, holder.epoch) == (os.getpid(), 2)
    session.append({"role": "user", "content": "x"})
    session.close()

    lease_path(path).write_bytes(b'{"epoch": ')
    assert read_holder(lease_path(path)) is None
    Session.load(path).close()
    assert read_holder(lease_path(path)).epoch == 3


def test_a_shorter_holder_replaces_a_longer_one_wholly(tmp_path):
    (tmp_path / "x.lease").write_text('{"epoch": 7, "pid": 123456789, "host": "%s", "started": 1.5}' % ("h" * 300))
    assert read_holder(tmp_path / "x.lease") == Holder(7, 123456789, "h" * 300, 1.5)
    lease = acquire(tmp_path / "x.lease", 0)
    lease.write_holder(1)
    assert (lease.epoch, read_holder(tmp_path / "x.lease").pid) == (8, os.getpid())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_neither_writes_nor_keeps_the_lease(path, start):
    owner = start(HOLD_AND_FORK, path)
    word, _pid, code = owner.stdout.readline().split()
    assert (word, code) == ("child", "FILE_ACCESS_ERROR")

    owner.kill()
    owner.wait()

    session = Session.load(path, wait_seconds=5)
    assert session.path == path
    assert [m["content"] for m in session.messages] == ["first"]
