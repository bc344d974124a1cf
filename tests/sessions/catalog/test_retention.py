"""Old sessions go by themselves: announced, a day later, never what is tagged or in use."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest
from tests.sessions.catalog.conftest import Held, begun, say

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.catalog.catalog import Catalog, delete_session
from cellwright.sessions.catalog.metadata import about_path, write_tags, write_title
from cellwright.sessions.catalog.retention import Retention, clean_up
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import journal_path, state_folder
from cellwright.sessions.transcripts.transcript_lock import lease_path

DAY = 86_400


def aged(path: Path, days: float) -> Path:
    for file in (path, about_path(path), lease_path(path)):
        if file.exists():
            at = time.time() - days * DAY
            os.utime(file, (at, at))
    return path


def told(days_ago: float) -> None:
    state_folder().mkdir(parents=True, exist_ok=True)
    (state_folder() / "cleanup.json").write_text(json.dumps({"announced": 1, "told": time.time() - days_ago * DAY}))


def clean(days: int = 30) -> list[str]:
    return clean_up(state_folder(), days, time.time())


def test_nothing_is_deleted_before_the_user_was_told_a_day_ago(held: Held) -> None:
    path = aged(held("old"), 31)
    assert clean() == []
    assert clean() == []
    told(0.9)
    assert clean() == []
    assert path.exists()
    told(1.1)
    assert clean() == [path.stem]
    assert not path.exists()


def test_the_user_is_told_once_in_the_next_run(held: Held, project: Path) -> None:
    aged(held("old"), 31)
    clean()
    retention = Retention(lambda: 30)
    session = begun(project)
    (notice,) = retention.at_run(session)
    assert "for 30 days" in notice
    assert "cellwright sessions tag" in notice
    for thread in threading.enumerate():
        if thread.name == "cellwright-old-sessions":
            thread.join(60)
    assert Retention(lambda: 30).at_run(session) == []


def test_a_session_in_memory_has_nothing_deleted(tmp_path: Path) -> None:
    told(2)
    assert Retention(lambda: 30).at_run(Session.create(tmp_path, None)) == []


def test_where_nothing_is_old_nothing_is_written(held: Held) -> None:
    held("new")
    assert clean() == []
    assert not (state_folder() / "cleanup.json").exists()


def test_what_is_new_tagged_renamed_lately_or_in_use_stays(held: Held, project: Path) -> None:
    told(2)
    gone, new, tagged, renamed = aged(held("old"), 31), aged(held("new"), 29), held("tagged"), aged(held("named"), 31)
    write_tags(tagged, ["keep"])
    aged(tagged, 400)
    write_title(renamed, "Named now")
    used = begun(project)
    say(used, "in use")
    assert used.path is not None
    aged(used.path, 31)
    Catalog().entries()
    assert clean() == [gone.stem]
    assert [path.exists() for path in (gone, new, tagged, renamed, used.path)] == [False, True, True, True, True]
    assert Catalog().search("old") == []


def test_at_most_once_a_day(held: Held) -> None:
    told(2)
    first, second = aged(held("one"), 31), held("two")
    assert clean() == [first.stem]
    aged(second, 31)
    assert clean() == []
    assert second.exists()


def test_no_setting_deletes_what_is_of_today(held: Held) -> None:
    told(2)
    today, yesterday = aged(held("today"), 0.9), aged(held("yesterday"), 1.1)
    assert clean(days=0) == [yesterday.stem]
    assert today.exists()


def test_what_a_crash_left_of_a_deletion_is_swept(held: Held) -> None:
    told(2)
    path = held("old")
    write_title(path, "Old")
    journal_path(path.stem).parent.mkdir(parents=True)
    journal_path(path.stem).write_text("{}\n")
    aged(path, 31)
    path.unlink()
    assert clean() == []
    assert not about_path(path).exists()
    assert not lease_path(path).exists()
    assert not journal_path(path.stem).exists()


@pytest.mark.parametrize("content", ["", "[]", '{"told": "x"}', "{"])
def test_a_note_that_cannot_be_read_is_as_none(content: str, held: Held) -> None:
    path = aged(held("old"), 31)
    (state_folder() / "cleanup.json").write_text(content)
    assert clean() == []
    assert path.exists()


def test_deleting_takes_all_that_belongs_to_a_session(held: Held, catalog: Catalog) -> None:
    path, other = held("zanzibar"), held("other")
    write_title(path, "Zanzibar")
    journal_path(path.stem).parent.mkdir(parents=True)
    for session in (path, other):
        journal_path(session.stem).write_text("{}\n")
    assert catalog.delete(path.stem).title == "Zanzibar"
    left = [file.name for folder in (path.parent, journal_path("x").parent) for file in folder.iterdir()]
    assert [name for name in left if path.stem in name] == []
    assert [entry.id for entry in catalog.entries()] == [other.stem]
    assert journal_path(other.stem).exists()


def test_a_session_that_is_in_use_is_not_deleted(catalog: Catalog, project: Path) -> None:
    session = begun(project)
    say(session, "in use")
    with pytest.raises(CellwrightError, match=f"in use by process {os.getpid()}") as caught:
        catalog.delete(session.id)
    assert caught.value.code == ErrorCode.EXECUTION_ERROR
    say(session, "still there")
    session.close()
    catalog.delete(session.id)
    with pytest.raises(CellwrightError) as gone:
        Session.load(session.path)  # type: ignore[arg-type]
    assert gone.value.code == ErrorCode.SESSION_NOT_FOUND
    with pytest.raises(CellwrightError) as again:
        delete_session(session.path)  # type: ignore[arg-type]
    assert again.value.code == ErrorCode.SESSION_NOT_FOUND
