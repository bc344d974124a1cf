"""`%%claude` with the versions that Google Colab pins, in a page that shows outputs and asks as Colab does."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from cellwright.testing import Gate, MessagesServer, hold, say, turn, use

pytestmark = [pytest.mark.front_ends, pytest.mark.timeout(300)]

LOAD = "%load_ext cellwright"
HALF = "and the second.\n\n| hour | level |\n|---|---|\n| 1 | 3.5 |"


def output(book: Any, index: int, number: int = -1) -> Any:
    """What stands in an output of a cell."""
    return book.cell(index).locator("iframe").nth(number).content_frame.locator("body")


def test_text_is_renewed_in_place_and_what_is_saved_is_read_without_a_kernel(
    front_end: Any, model: MessagesServer
) -> None:
    gate = Gate()
    model.add(turn(say("The **first** half, "), hold(gate), say(HALF)))
    book = front_end("colab", LOAD, "%%claude\nSay something in two halves", kernel="colab")
    book.run_whole(0)
    book.run(1)
    expect(output(book, 1).locator("strong", has_text="first")).to_be_visible(timeout=60_000)
    expect(output(book, 1)).to_contain_text("Claude is working")
    expect(output(book, 1)).not_to_contain_text("second")
    gate.open()
    book.wait_done(1)
    expect(output(book, 1).locator("td", has_text="3.5")).to_be_visible()
    expect(output(book, 1)).not_to_contain_text("Claude is working")
    saved = book.saved().cells[1].outputs[-1]
    assert "The **first** half, and the second." in saved.data["text/markdown"]
    book.reopen()
    expect(output(book, 1).locator("td", has_text="3.5")).to_be_visible()


def test_questions_come_as_input_fields_and_an_empty_one_is_a_no(front_end: Any, model: MessagesServer) -> None:
    model.add(
        turn(use("Write", file_path="esbjerg.txt", content="1.42 m")),
        say("It is in `esbjerg.txt`."),
        turn(use("Write", file_path="hirtshals.txt", content="0.38 m")),
        say("It is there, too."),
        turn(use("Write", file_path="ribe.txt", content="0 m")),
        say("I leave it."),
    )
    prompts = ("Note the level of Esbjerg, 1.42 m.", "And that of Hirtshals, 0.38 m.", "And that of Ribe.")
    book = front_end("colab", LOAD, *(f"%%claude\n{prompt}" for prompt in prompts), kernel="colab")
    book.run_whole(0)
    for index, typed in ((1, "1"), (2, "1"), (3, "")):
        book.run(index)
        field = book.cell(index).locator(".input input")
        field.wait_for()
        field.fill(typed)
        if index == 2:
            book.pictures("colab-question")
        field.press("Enter")
        book.wait_done(index)
    assert (book.path.parent / "esbjerg.txt").read_text() == "1.42 m"
    assert not (book.path.parent / "ribe.txt").exists()
    assert (book.path.parent / "hirtshals.txt").read_text() == "0.38 m"


def test_a_table_stands_where_it_was_displayed_and_a_run_is_interrupted(front_end: Any, model: MessagesServer) -> None:
    table = "from IPython.display import HTML, display\ndisplay(HTML('<table><tr><td>3.5</td></tr></table>'))"
    gate = Gate()
    model.add(
        turn(say("I show it."), use("Python", code=table)),
        say("That is **all**."),
        turn(say("It begins, "), hold(gate), say("and goes on.")),
    )
    prompt = "%%claude --mode bypassPermissions\nShow it"
    book = front_end("colab", LOAD, prompt, "%%claude\nTell me", "print(1 + 1)", kernel="colab")
    book.run_whole(0)
    book.run_whole(1)
    expect(output(book, 1).locator("strong", has_text="all")).to_be_visible()
    data = [each.get("data", {}) for each in book.saved().cells[1].outputs]
    shown = [each.get("text/markdown") or each.get("text/html") for each in data]
    before, between, after = (each for each in shown if each)
    assert "I show it." in before
    assert "3.5" in between
    assert "That is **all**." in after
    book.run(2)
    expect(output(book, 2)).to_contain_text("It begins,", timeout=60_000)
    book.interrupt()
    expect(book.cell(2)).to_have_attribute("data-state", "error", timeout=60_000)
    gate.open()
    book.run_whole(3)
    expect(output(book, 3)).to_contain_text("2")
