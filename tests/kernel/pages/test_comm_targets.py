"""What pages say of unsaved documents, and what becomes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cellwright.kernel.pages.comm_targets import FORGOTTEN_SECONDS, OpenDocuments
from row_tables import for_each_row


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def documents(clock: Clock) -> OpenDocuments:
    return OpenDocuments(clock)


def message(root: Path | str, *paths: Any, page: str = "one") -> dict[str, Any]:
    return {"type": "unsaved", "page": page, "root": str(root), "paths": list(paths)}


def test_a_document_is_unsaved_until_its_page_says_otherwise(documents: OpenDocuments, tmp_path: Path) -> None:
    documents.on_message(message(tmp_path, "src/a.py", "b.ipynb"))
    assert documents.is_unsaved(tmp_path / "src" / "a.py")
    assert documents.is_unsaved(tmp_path / "b.ipynb")
    assert not documents.is_unsaved(tmp_path / "a.py")
    documents.on_message(message(tmp_path, "b.ipynb"))
    assert not documents.is_unsaved(tmp_path / "src" / "a.py")


def test_each_page_speaks_for_itself(documents: OpenDocuments, tmp_path: Path) -> None:
    documents.on_message(message(tmp_path, "a.py", page="one"))
    documents.on_message(message(tmp_path, page="two"))
    assert documents.is_unsaved(tmp_path / "a.py")


def test_a_page_that_says_nothing_more_is_forgotten(documents: OpenDocuments, clock: Clock, tmp_path: Path) -> None:
    documents.on_message(message(tmp_path, "a.py"))
    clock.now = FORGOTTEN_SECONDS
    assert documents.is_unsaved(tmp_path / "a.py")
    clock.now += 1
    assert not documents.is_unsaved(tmp_path / "a.py")


def test_paths_are_the_files_they_lead_to(
    documents: OpenDocuments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    documents.on_message(message(tmp_path, "link/a.py", "RTC:real/c.py"))
    assert documents.is_unsaved(tmp_path / "real" / "a.py")
    assert documents.is_unsaved(tmp_path / "real" / "c.py")
    monkeypatch.setenv("HOME", str(tmp_path))
    documents.on_message(message("~/real", "d.py"))
    assert documents.is_unsaved(tmp_path / "real" / "d.py")
    monkeypatch.chdir(tmp_path)
    documents.on_message(message("", "only-here.py"))
    assert documents.is_unsaved(tmp_path / "only-here.py")


@for_each_row(
    "nonsense",
    [
        *(None, "x", [], {}, {"type": "other"}, {"type": "unsaved"}),
        {"type": "unsaved", "page": 1, "root": "/", "paths": ["a"]},
        {"type": "unsaved", "page": "p", "root": "/", "paths": "a"},
        {"type": "unsaved", "page": "p", "root": "/", "paths": [1, None, "a\0b"]},
    ],
)
def test_what_makes_no_sense_is_passed_over(documents: OpenDocuments, nonsense: object) -> None:
    documents.on_message(nonsense)
    assert not documents.is_unsaved(Path("/a"))
