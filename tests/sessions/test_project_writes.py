"""Writes below a project: no link of its own is followed, whatever lies behind it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cellwright.sessions import project_writes
from cellwright.sessions.project_writes import LinkOnTheWay, check_way, make_folders, open_to_append, write_file
from row_tables import for_each_row


def made_folder(top, path):
    make_folders(top, path)


def written(top, path):
    write_file(path, b"ours", 0o644, top=top, make=True)


def appended(top, path):
    os.close(open_to_append(path, 0o600, top=top))


def checked(top, path):
    check_way(top, path)


WAYS = [made_folder, written, appended, checked]
LINKS = {
    "the first folder": ("a", "a/b/c"),
    "a folder below": ("a/b", "a/b/c"),
    "its own place": ("a/b/c", "a/b/c"),
    "a folder, spelled with dots": ("a", "x/../a/b/c"),
}


@for_each_row("way", WAYS, ids=[way.__name__ for way in WAYS])
@for_each_row("place", LINKS)
@for_each_row("target", ["outside", "outside/missing", "project/inside", "project/a"])
@for_each_row("by_descriptor", [True, False])
def test_a_link_of_the_project_is_refused_in_words(tmp_path, monkeypatch, way, place, target, by_descriptor):
    monkeypatch.setattr(project_writes, "BY_DESCRIPTOR", by_descriptor)
    top, outside = _hostile(tmp_path)
    link, path = LINKS[place]
    (top / link).parent.mkdir(parents=True, exist_ok=True)
    (top / link).symlink_to(tmp_path / target)
    before = _tree(tmp_path)
    with pytest.raises(LinkOnTheWay, match="is a symbolic link"):
        way(top, top / path)
    assert _tree(tmp_path) == before
    assert list(outside.iterdir()) == []


@for_each_row("way", WAYS, ids=[way.__name__ for way in WAYS])
@for_each_row("by_descriptor", [True, False])
def test_links_above_the_project_are_the_users(tmp_path, monkeypatch, way, by_descriptor):
    monkeypatch.setattr(project_writes, "BY_DESCRIPTOR", by_descriptor)
    top, _ = _hostile(tmp_path)
    (tmp_path / "mine").symlink_to(top)
    way(tmp_path / "mine", tmp_path / "mine" / "a" / "b")
    way(tmp_path / "mine", top / "a" / "c")
    assert (top / "a" / "b").exists() is (way is not checked)
    assert (top / "a" / "c").exists() is (way is not checked)


@for_each_row("way", WAYS, ids=[way.__name__ for way in WAYS])
def test_the_projects_links_are_refused_by_whatever_name_the_project_has(tmp_path, way):
    top, outside = _hostile(tmp_path)
    (top / "docs").symlink_to(outside)
    (tmp_path / "mine").symlink_to(top)
    for start, path in ((top, tmp_path / "mine"), (tmp_path / "mine", top), (tmp_path / "mine", tmp_path / "mine")):
        with pytest.raises(LinkOnTheWay):
            way(start, path / "docs" / "a")
    assert list(outside.iterdir()) == []


@for_each_row("way", [written, appended], ids=["written", "appended"])
def test_a_place_outside_of_the_project_is_the_users(tmp_path, way):
    top, outside = _hostile(tmp_path)
    (tmp_path / "link").symlink_to(outside)
    way(top, tmp_path / "link" / "file")
    way(top, top / ".." / "link" / "file-2")
    assert sorted(path.name for path in outside.iterdir()) == ["file", "file-2"]


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path):
    top, _ = _hostile(tmp_path)
    write_file(top / "a", b"one", 0o640, top=top)
    write_file(top / "a", b"two", 0o640, top=top)
    assert (top / "a").read_bytes() == b"two"
    assert (top / "a").stat().st_mode & 0o777 == 0o640
    (top / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_file(top / "folder", b"x", 0o640, top=top)
    assert sorted(path.name for path in top.iterdir()) == ["a", "folder", "inside"]


def _hostile(tmp_path: Path) -> tuple[Path, Path]:
    top, outside = tmp_path / "project", tmp_path / "outside"
    (top / "inside").mkdir(parents=True)
    outside.mkdir()
    return top, outside


def _tree(folder: Path) -> list[str]:
    return sorted(str(path) for path in folder.rglob("*"))
