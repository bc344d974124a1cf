"""What pages say to the server of their unsaved documents."""

from __future__ import annotations

from pathlib import Path

from cellwright.server.runs.kernel_calls import FORGOTTEN_SECONDS, MAX_PAGES, MAX_PATH_CHARS, UnsavedDocuments


def test_the_newest_word_of_each_page_counts_for_a_while(tmp_path: Path) -> None:
    now = 0.0
    documents = UnsavedDocuments(tmp_path.resolve(), clock=lambda: now)
    notes, plot = tmp_path.resolve() / "notes.txt", tmp_path.resolve() / "plots" / "a.ipynb"
    documents.take("ada", "one", ["notes.txt", "RTC:plots/a.ipynb", "nothing\0"])
    documents.take("ada", "two", ["notes.txt"])
    assert documents.is_unsaved(notes)
    assert documents.is_unsaved(plot)
    documents.take("ada", "one", [])
    assert documents.is_unsaved(notes)
    assert not documents.is_unsaved(plot)
    now = FORGOTTEN_SECONDS + 1
    assert not documents.is_unsaved(notes)


def test_no_user_takes_the_room_of_others_or_much_of_it(tmp_path: Path) -> None:
    documents = UnsavedDocuments(tmp_path.resolve())
    documents.take("ada", "one", ["notes.txt"])
    for number in range(3_000):
        documents.take("mallory", f"page {number}", [f"{number}.txt"])
    documents.take("bob", "two", ["plan.txt"])
    assert documents.is_unsaved(tmp_path.resolve() / "notes.txt")
    assert documents.is_unsaved(tmp_path.resolve() / "plan.txt")
    assert documents.is_unsaved(tmp_path.resolve() / "2999.txt"), "the newest page of a user counts"
    assert sum(documents.is_unsaved(tmp_path.resolve() / f"{number}.txt") for number in range(3_000)) == MAX_PAGES
    long = ["x" * 4_000 + f"/{number}" for number in range(1_000)]
    documents.take("bob", "two", ["plan.txt", *long])
    assert documents.is_unsaved(tmp_path.resolve() / "plan.txt")
    assert sum(documents.is_unsaved(tmp_path.resolve() / each) for each in long) <= MAX_PATH_CHARS // 4_000
