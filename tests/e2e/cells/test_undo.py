"""A turn is taken back under its answer, by a button: files and cells, what the user typed since left alone."""

import pytest
from lab_notebook import in_apps
from playwright.sync_api import expect

from cellwright.testing import say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

ASK = (
    "%%claude --mode acceptEdits\n"
    "The gauge was changed on Monday: it is B now, and high tide is 4.5 m. Put that right, and note it in notes.txt."
)
SCRIPT = [
    turn(use("NotebookRead", notebook_path="notebook.ipynb")),
    turn(use("NotebookEdit", notebook_path="notebook.ipynb", cell_id="cell-2", new_source="tide = 4.5")),
    turn(use("NotebookEdit", notebook_path="notebook.ipynb", cell_id="cell-3", new_source="gauge = 'B'")),
    turn(use("Write", file_path="notes.txt", content="Gauge B since Monday.\n")),
    turn(say("Both cells have the new gauge and its high tide, and `notes.txt` says since when.")),
]


def sources(book):
    return ["".join(cell["source"]) for cell in book.save()["cells"]]


def undo_button(book):
    """In the footer of the answer."""
    return book.output(1).locator("footer").get_by_role("button", name="Undo", exact=True)


def asked_again(book, under):
    """Press the button once more where the page, just loaded, has lost its first connection meanwhile."""
    for _ in range(3):
        undo_button(book).click()
        expect(under.get_by_role("group").or_(under.get_by_role("status"))).to_be_visible()
        if under.get_by_role("group").is_visible():
            return


@in_apps(on_older_lab=True)
def test_the_button_shows_first_then_takes_back_files_and_cells(notebook, model, page, app):
    book = notebook("%load_ext cellwright", ASK, "tide = 3.5", "gauge = 'A'", app=app)
    notes = (book.lab.root / book.path).with_name("notes.txt")
    book.run(0)
    book.wait_done(0)
    model.add(*SCRIPT)
    book.run(1)
    book.wait_done(1)
    assert notes.exists()
    under = book.cell(1).locator(".cellwright-undo")
    undo_button(book).click()
    card = under.get_by_role("group")
    expect(card).to_contain_text("notes.txt will be deleted")
    expect(card).to_contain_text("cell “tide = 4.5” will be restored · +1 −1")
    assert notes.exists()
    book.screenshot("undo-turn", book.cell(1))
    expect(card.get_by_role("button", name="Undo", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    expect(undo_button(book)).to_be_focused()
    book.save()
    book.reload()
    book.wait_idle()
    asked_again(book, under)
    card.get_by_role("button", name="Undo", exact=True).click()
    under.get_by_role("status").get_by_text("Undone: “The gauge was changed on Monday").wait_for()
    assert not notes.exists()
    assert sources(book)[2:] == ["tide = 3.5", "gauge = 'A'"]


def test_what_the_user_typed_since_stays_and_claude_is_told(notebook, model, page):
    book = notebook("%load_ext cellwright", ASK, "tide = 3.5", "gauge = 'A'", "%%claude\nAnd now?")
    book.run(0)
    book.wait_done(0)
    model.add(*SCRIPT)
    book.run(1)
    book.wait_done(1)
    content = book.cell(2).locator(".cm-content")
    content.click()
    expect(content).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.type("  # mine")
    expect(content).to_have_text("tide = 4.5  # mine")
    under = book.cell(1).locator(".cellwright-undo")
    undo_button(book).click()
    card = under.get_by_role("group")
    card.get_by_text("it has changed since then").wait_for()
    book.screenshot("undo-conflict")
    card.get_by_role("button", name="Undo", exact=True).click()
    under.get_by_role("status").wait_for()
    assert sources(book)[2:4] == ["tide = 4.5  # mine", "gauge = 'A'"]
    model.add(say("I see."))
    book.run(4)
    book.wait_done(4)
    assert "The user has undone turn 1" in str(model.requests[-1].body["messages"][-1])
