"""Many processes at once: kernels that write, others that list, search, name and delete, and one that is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import sys
import types
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from tests.sessions.catalog.conftest import Held, begun, say

from cellwright.sessions.catalog.catalog import Catalog
from cellwright.sessions.catalog.index import catch_up, with_database
from cellwright.sessions.catalog.metadata import read_about, write_tags, write_title

SECONDS = 120
TURNS = 6

spawning = multiprocessing.get_context("spawn")


@pytest.fixture(autouse=True)
def plain_main(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that another test made may stand for this process's program, and children would look for its file."""
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))


def started(work: Callable[..., None], *arguments: Any) -> BaseProcess:
    process = spawning.Process(target=work, args=arguments)
    process.start()
    return process


def ended(*processes: BaseProcess) -> None:
    for process in processes:
        process.join(SECONDS)
        assert process.exitcode == 0


def write_sessions(project: Path, name: str) -> None:
    """A kernel: two sessions, listed after each turn, so that it reads what others write as well."""
    for number in range(2):
        session = begun(project)
        for turn in range(TURNS):
            say(session, f"{name}x{number} turn{turn}")
            mine = [entry for entry in Catalog().entries() if entry.id == session.id]
            assert mine[0].turns == turn + 1
        session.close()


def name_and_search(project: Path, path: Path, number: int) -> None:
    for count in range(10):
        write_title(path, f"title {number} {count}")
        write_tags(path, [f"tag{number}"])
        assert len(Catalog().search("beginning")) == 1


def test_all_see_what_all_write(held: Held, project: Path) -> None:
    named = held("the beginning")
    names = ["ada", "bob", "cleo"]
    processes = [started(write_sessions, project, name) for name in names]
    processes += [started(name_and_search, project, named, number) for number in range(2)]
    ended(*processes)
    entries = Catalog().entries()
    titles = [f"{name}x{number} turn0" for name in names for number in range(2)]
    assert sorted(entry.title for entry in entries if entry.turns == TURNS) == sorted(titles)
    for name in names:
        assert len(Catalog().search(f"{name}x1 turn{TURNS - 1}")) == 1
    assert read_about(named).title in {"title 0 9", "title 1 9"}
    with sqlite3.connect(Catalog().path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.execute("INSERT INTO words(words) VALUES ('integrity-check')")
        said = connection.execute("SELECT count(*) FROM said WHERE who <> 'title'").fetchone()[0]
    assert said == 2 + len(names) * 2 * TURNS * 2, "nothing twice, nothing missing"


def test_what_others_add_while_it_looks_is_not_taken_for_gone(held: Held) -> None:
    catalog = Catalog()
    added: list[Path] = []

    def add_between(statement: str) -> None:
        """Another process adds a session, and lists it, just before this one reads what the catalog has."""
        if "FROM session" in statement and not added:
            added.append(held("theirs"))
            assert len(catalog.entries()) == 1

    def work(connection: sqlite3.Connection) -> list[tuple[str]]:
        connection.set_trace_callback(add_between)
        catch_up(connection, catalog.sessions, None)
        return connection.execute("SELECT path FROM session").fetchall()

    assert with_database(catalog.path, work) == [(str(added[0]),)]


def test_what_another_reads_before_it_is_said_does_not_hide_it(held: Held) -> None:
    path = held("Count the bees")
    whole = path.read_bytes()
    first_line = whole[: whole.index(b"\n") + 1]
    begun: list[int] = []

    def overtake(statement: str) -> None:
        """Another process is faster, and has read no more than the transcript's beginning."""
        if statement.startswith("BEGIN") and not begun:
            begun.append(1)
            path.write_bytes(first_line)
            assert Catalog().entries() == []
            path.write_bytes(whole)

    def work(connection: sqlite3.Connection) -> list[tuple[int]]:
        connection.set_trace_callback(overtake)
        catch_up(connection, Catalog().sessions, None)
        return connection.execute("SELECT turns FROM session").fetchall()

    assert with_database(Catalog().path, work) == [(1,)]
    assert begun == [1]


def die_in_the_middle(_: Path) -> None:
    """Is killed inside a transaction, half of a session written."""

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        catch_up_inside(connection)
        os.kill(os.getpid(), signal.SIGKILL)

    with_database(Catalog().path, work)


def catch_up_inside(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO said(session, who, text) VALUES (1, 'you', 'half')")
    connection.execute("INSERT INTO words(rowid, text) SELECT id, text FROM said WHERE text = 'half'")


def test_a_process_that_is_killed_while_it_writes_leaves_nothing_half_done(held: Held, project: Path) -> None:
    held("Count the bees")
    assert len(Catalog().search("bees")) == 1
    process = started(die_in_the_middle, project)
    process.join(SECONDS)
    assert process.exitcode == -signal.SIGKILL
    assert Catalog().search("half") == []
    assert len(Catalog().search("bees")) == 1


def rebuild_and_spoil(project: Path, spoil: bool) -> None:
    for _ in range(5):
        if spoil:
            Catalog().path.write_bytes(b"no database" * 1000)
        assert len(Catalog().entries()) == 8


def test_one_that_finds_the_catalog_damaged_again_and_again_disturbs_no_other(held: Held, project: Path) -> None:
    for number in range(8):
        held(f"session {number}")
    ended(*(started(rebuild_and_spoil, project, number == 0) for number in range(3)))
    assert len(Catalog().entries()) == 8


def hold_locked(locked: Any, done: Any) -> None:
    def work(connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN EXCLUSIVE")
        locked.set()
        done.wait(SECONDS)
        connection.execute("ROLLBACK")

    with_database(Catalog().path, work)


def test_a_catalog_that_stays_locked_keeps_nobody_from_the_list(held: Held, project: Path) -> None:
    held("Count the bees")
    Catalog().entries()
    locked, done = spawning.Event(), spawning.Event()
    process = started(hold_locked, locked, done)
    try:
        assert locked.wait(SECONDS)
        held("New since then")
        assert [entry.title for entry in Catalog().search("new")] == ["New since then"]
    finally:
        done.set()
    ended(process)


def delete_all(project: Path) -> None:
    for entry in Catalog().entries(project, limit=100):
        Catalog().delete(entry.id)


def test_sessions_that_go_while_others_look(held: Held, project: Path) -> None:
    for number in range(8):
        held(f"session {number}")
    deleting = started(delete_all, project)
    while deleting.is_alive():
        assert len(Catalog().entries()) <= 8
        Catalog().search("session")
    ended(deleting)
    assert Catalog().entries() == []


def test_catching_up_twice_reads_nothing_twice(held: Held, project: Path) -> None:
    for number in range(3):
        held(f"session {number}")
    catalog = Catalog()
    counts = with_database(
        catalog.path, lambda connection: [catch_up(connection, catalog.sessions, None) for _ in range(2)]
    )
    assert counts == [3, 0]
