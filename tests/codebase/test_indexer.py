"""The index of a project is what its files are: after changes, kills, damage, under rules, with two processes at it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
from indexed_project import FILES, build_index, start_indexer

from cellwright.codebase.index_reader import MIN_SCORE, IndexJob, IndexStatus, reading, status_of
from cellwright.codebase.indexer import HELPED_FILES
from cellwright.codebase.store import BUSY, index_path, lock_path
from cellwright.sessions.transcripts.transcript_lock import acquire, is_held
from eventual import eventually


def paths(database: Path) -> dict[str, int]:
    with reading(database) as reader:
        return {file.path: file.id for file in reader.files()}


def places(database: Path, name: str) -> list[str]:
    with reading(database) as reader:
        return [f"{symbol.file.path}:{symbol.line} {symbol.qualified}" for symbol in reader.definitions(name)]


def test_definitions_calls_imports_words_and_texts_of_each_language_are_in_it(root: Path) -> None:
    database = build_index(root)
    assert set(paths(database)) == {*FILES, "analysis.ipynb"}, "what git ignores is not in it"
    assert places(database, "Server.start") == ["app/server.py:15 Server.start"]
    assert places(database, "app.store.load_rows") == ["app/store.py:9 load_rows"]
    assert places(database, "show") == ["web/view.ts:4 View.show"]
    assert places(database, "clean") == ["analysis.ipynb:3 clean"]
    assert places(database, "LIMIT") == ["app/server.py:5 LIMIT"]
    with reading(database) as reader:
        start = reader.definitions("start")[0]
        assert (start.signature, start.doc) == ("def start(self, port)", "Start to listen.")
        assert (start.cyclomatic, start.cognitive, start.nesting) == (3, 2, 1)
        calls = [(call.file.path, call.line) for call in reader.calls_of("load_rows")]
        assert calls == [("analysis.ipynb", 4), ("app/server.py", 20)]
        imports = [(each.module, each.names) for each in reader.imports_of("app/server.py")]
        assert imports == [("json", ""), ("app.store", "Store load_rows")]
        assert {file.path for file in reader.files_with_word("load_rows")} == {
            *("README.md", "analysis.ipynb", "app/server.py", "app/store.py", "tool.rb")
        }
        hits = reader.lexical("load the rows again after timeouts")
        assert (hits[0].file.path, hits[0].qualified, hits[0].score) == ("app/store.py", "load_rows", 1.0)
        assert not reader.lexical("whyever"), "a prompt is no code, though it has all the words of its question"
        common = reader.lexical("self timeouts")
        assert {hit.file.path for hit in common} == {"app/store.py", "app/server.py"}
        assert min(hit.score for hit in common) >= MIN_SCORE
    assert status_of(database).jobs == (IndexJob("definitions", "done", 8, 0), IndexJob("texts", "done", 8, 0))


def test_a_second_pass_reads_what_changed_and_nothing_else(root: Path) -> None:
    database = build_index(root)
    before = paths(database)
    (root / "app/store.py").write_text("def load_rows(): ...\ndef save_rows(): ...\n")
    (root / "tool.rb").unlink()
    (root / "new.go").write_text("package a\nfunc Push() {}\n")
    os.utime(root / "web/draw.ts", ns=(1, 1))
    after = paths(build_index(root))
    assert places(database, "save_rows") == ["app/store.py:2 save_rows"]
    assert places(database, "Push") == ["new.go:2 Push"]
    assert "tool.rb" not in after
    kept = {path for path, file_id in after.items() if before.get(path) == file_id}
    assert kept == {*before} - {"app/store.py", "tool.rb"}, "what was only touched is not read anew"
    with reading(database) as reader:
        assert not reader.lexical("fetch items"), "texts of what is gone are found no more"


def test_an_indexer_that_was_killed_is_gone_on_with(root: Path) -> None:
    for number in range(HELPED_FILES):
        (root / f"many_{number}.py").write_text(f"def function_{number}(): ...\n" * 5)
    database = index_path(root)
    process = start_indexer(root)
    eventually(lambda: status_of(database), lambda status: status.files or process.poll() is not None)
    process.kill()
    process.wait(60)
    assert not is_held(lock_path(database))
    before = paths(database)
    assert status_of(database).state == "idle", "nobody is at it any more"
    assert {job.state for job in status_of(database).jobs} <= {"waiting", "done"}
    after = paths(build_index(root))
    assert before.items() <= after.items(), "what was done is not done again"
    assert len(after) == HELPED_FILES + len(FILES) + 1
    assert places(database, f"function_{HELPED_FILES - 1}")
    assert status_of(database).complete


def test_two_processes_make_one_index(root: Path) -> None:
    processes = [start_indexer(root) for _ in range(2)]
    assert [process.wait(60) for process in processes] == [0, 0]
    database = build_index(root)
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT value FROM meta WHERE key = 'versions'").fetchone() == (len(FILES) + 1,)


def test_who_finds_another_at_work_leaves_it_to_that(root: Path) -> None:
    database = build_index(root)
    lease = acquire(lock_path(database), 0)
    assert lease is not None
    try:
        assert start_indexer(root, wait_seconds=0.0).wait(60) == BUSY
        assert places(database, "Server"), "who reads does not wait"
    finally:
        lease.release()


@pytest.mark.parametrize("damage", ["garbage", "empty", "version", "middle"])
def test_a_damaged_index_is_made_anew(root: Path, damage: str) -> None:
    database = build_index(root)
    data = database.read_bytes()
    match damage:
        case "garbage":
            database.write_bytes(b"no database " * 1_000)
        case "empty":
            database.write_bytes(b"")
        case "version":
            with sqlite3.connect(database) as connection:
                connection.execute("PRAGMA user_version = 999")
        case "middle":
            database.write_bytes(data[:8_192] + b"\xff" * (len(data) - 16_384) + data[-8_192:])
    build_index(root, check=damage == "middle")
    assert places(database, "Server.stop") == ["app/server.py:22 Server.stop"]
    assert status_of(database).texts_complete


def test_what_rules_keep_from_being_read_is_not_in_the_index(root: Path) -> None:
    secret = root / "secrets" / "keys.py"
    secret.parent.mkdir()
    secret.write_text("def xyzzy_name(): ...\n")
    database = build_index(root)
    assert places(database, "xyzzy_name")
    build_index(root, restrictions=(("Read(./secrets/**)", ""),))
    assert places(database, "xyzzy_name") == []
    with reading(database) as reader:
        assert reader.files_with_word("xyzzy_name") == reader.lexical("xyzzy_name") == []
    build_index(root)
    assert places(database, "xyzzy_name"), "rules that are gone keep nothing back"


def test_the_tables_of_words_are_made_anew_when_most_of_them_is_dead(root: Path) -> None:
    database = build_index(root)
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE meta SET value = 5000 WHERE key = 'versions'")
    build_index(root)
    with reading(database) as reader:
        assert len(reader.files_with_word("load_rows")) == 5
        assert reader.lexical("load rows")[0].qualified == "load_rows"
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT value FROM meta WHERE key = 'versions'").fetchone() == (len(FILES) + 1,)


def test_a_project_without_an_index_has_a_status(root: Path) -> None:
    assert status_of(root / "none.sqlite") == IndexStatus()
