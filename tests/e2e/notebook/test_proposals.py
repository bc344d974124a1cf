"""Changes that Claude proposes for cells: at the cells, in the turn's card, accepted, edited or rejected in either place."""

import re

import pytest
from lab_notebook import in_apps
from lab_tab import VIEWPORT
from playwright.sync_api import expect

from cellwright.testing import say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

LOAD = "%load_ext cellwright"
ASK = "%%claude\nFix points 1 and 3. Add a sentence that says what the mean stands for."
MEAN = "mean = sum(levels) / 3"
MENDED = "mean = sum(levels) / len(levels)"
SENTENCE = "The mean of the readings of one hour, in metres above chart datum."
LEFT_OVER = "levels_old.describe()"


def three_changes():
    """Claude reads the notebook, changes a cell, adds one, and takes one away, all in one message."""
    return [
        turn(use("NotebookRead", notebook_path="notebook.ipynb")),
        turn(
            use("NotebookEdit", notebook_path="notebook.ipynb", cell_id="cell-2", new_source=MENDED),
            use(
                "NotebookEdit",
                notebook_path="notebook.ipynb",
                edit_mode="insert",
                cell_id="cell-2",
                cell_type="markdown",
                new_source=SENTENCE,
            ),
            use("NotebookEdit", notebook_path="notebook.ipynb", cell_id="cell-3", edit_mode="delete"),
        ),
        turn(say("Done.")),
    ]


@pytest.fixture
def proposed(notebook, model, page):
    def make(app):
        book = notebook(LOAD, ASK, MEAN, LEFT_OVER, "", app=app)
        book.run(0)
        book.wait_done(0)
        model.add(*three_changes())
        book.run(1)
        for index in (2, 3):
            book.cell(index).locator(".cellwright-proposal .ask[data-ready]").first.wait_for()
        expect(book.cell(2).locator(".cellwright-proposal .ask")).to_have_count(2)
        return book

    return make


FAILING = "rates = {'de': 1.0}\nrates['dk']"
FIXED = "rates = {'de': 1.0}\nrates.get('dk', 1.0)"


def fix_of(cell):
    return [
        turn(use("NotebookRead", notebook_path="notebook.ipynb")),
        turn(use("NotebookEdit", notebook_path="notebook.ipynb", cell_id=cell, new_source=FIXED)),
        turn(say("Denmark had no rate.")),
    ]


def button(card, name):
    """A button of a card by its words; its key stands before them."""
    return card.get_by_role("button", name=re.compile(rf"^\w{{0,5}}\s?{name}$"))


@pytest.mark.lab_version
def test_a_change_that_waits_alone_has_the_keys_and_enter_runs_the_changed_cell(notebook, model, page):
    book = notebook(LOAD, FAILING, "%%claude\nFix the cell above")
    for index in (0, 1):
        book.run(index)
        book.wait_done(index)
    model.add(*fix_of("cell-1"))
    book.run(2)
    card = book.cell(1).locator(".cellwright-proposal .ask[data-ready]")
    expect(card).to_be_focused()
    page.keyboard.press("Enter")
    book.wait_done(2)
    book.cell(1).locator(".jp-OutputArea-executeResult").get_by_text("1.0").wait_for()
    book.wait_done(1)
    expect(book.cell(1).locator(".jp-RenderedText[data-mime-type*=error]")).to_have_count(0)
    expect(book.cell(1).locator(".cm-content")).to_contain_text("rates.get")
    expect(page.locator(".cellwright-proposal, .cellwright-run-note")).to_have_count(0)


def test_a_change_out_of_sight_is_asked_about_where_it_was_asked_for(notebook, model, page):
    far = [f"far = {number}\n" + "# \n" * 8 for number in range(6)]
    book = notebook(LOAD, FAILING, *far, "%%claude\nFix the second cell", "")
    asking = len(far) + 2
    book.run(0)
    book.wait_done(0)
    model.add(*fix_of("cell-1"))
    book.run(asking)
    card = book.output(asking).locator(".ask[data-ready]")
    card.get_by_text("rates.get").wait_for()
    expect(card).to_be_in_viewport()
    book.reel("change-out-of-sight")
    button(card, "Review at the cell").click()
    at_cell = book.cell(1).locator(".cellwright-proposal .ask")
    expect(at_cell).to_be_focused()
    expect(at_cell).to_be_in_viewport(ratio=1)
    button(book.output(asking), "Review here").click()
    expect(book.output(asking).locator(".ask")).to_be_focused()
    page.keyboard.press("F8")
    expect(at_cell).to_be_focused()
    expect(at_cell).to_have_attribute("data-ready", "")
    page.keyboard.press("4")
    book.wait_done(asking)
    expect(book.cell(1).locator(".cm-content")).to_contain_text("rates['dk']")


@in_apps(on_older_lab=True, always=True)
def test_each_cell_has_its_own_answer(proposed, model, page, app):
    book = proposed(app)
    if app == "lab":
        page.set_viewport_size({**VIEWPORT, "height": 1200})  # all three changes, from the prompt on
        book.cell(1).evaluate("node => node.scrollIntoView({block: 'start'})")
        for index in (2, 3):
            for proposal in book.cell(index).locator(".cellwright-proposal").all():
                expect(proposal).to_be_in_viewport(ratio=1)
        book.screenshot("proposals", book.cell(1), book.cell(3), width=1100, height=1200)
        page.set_viewport_size(VIEWPORT)
    cards = book.cell(2).locator(".cellwright-proposal .ask")
    change, insertion = cards.filter(has_text="len(levels)"), cards.filter(has_text=SENTENCE)
    deletion = book.cell(3).locator(".cellwright-proposal")
    button(deletion, "Reject").click()
    expect(deletion).to_have_count(0)
    button(insertion, "Accept").click()
    page.locator(".jp-Notebook .jp-MarkdownCell").wait_for()
    button(change, "Accept").click()
    book.wait_done(1)
    told = model.requests[-1].body["messages"][-1]["content"]
    assert [bool(result.get("is_error")) for result in told if result["type"] == "tool_result"] == [False, False, True]
    saved = [(cell["cell_type"], "".join(cell["source"])) for cell in book.save()["cells"]]
    assert saved[2:5] == [("code", MENDED), ("markdown", SENTENCE), ("code", LEFT_OVER)]
    expect(page.locator(".cellwright-proposal")).to_have_count(0)


@in_apps()
def test_all_are_accepted_at_once_in_the_turns_card(proposed, page, app):
    book = proposed(app)
    bar = book.output(1).locator(".cell-changes:not([disabled])")
    expect(bar).to_contain_text("3 cell changes")
    bar.get_by_role("button", name="Accept all").click()
    book.wait_done(1)
    saved = ["".join(cell["source"]) for cell in book.save()["cells"]]
    assert saved[2:] == [MENDED, SENTENCE, ""]
    expect(page.locator(".cellwright-proposal")).to_have_count(0)


def test_a_proposal_is_edited_at_its_cell_by_keyboard(proposed, model, page):
    book = proposed("lab")
    cards = book.cell(2).locator(".cellwright-proposal .ask")
    card, insertion = cards.filter(has_text="len(levels)"), cards.filter(has_text=SENTENCE)
    deletion = book.cell(3).locator(".cellwright-proposal .ask")
    book.cell(0).locator(".jp-InputPrompt").click()
    steps = [("F8", card), ("F8", insertion), ("F8", deletion), ("F8", card), ("Shift+F8", deletion), ("F8", card)]
    for key, reached in steps:
        page.keyboard.press(key)
        expect(reached).to_be_focused()
        expect(reached).to_be_in_viewport()
    page.keyboard.press("e")
    area = card.locator("textarea")
    expect(area).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.type("mean = max(levels)")
    expect(area).to_have_value("mean = max(levels)")
    book.reel("proposal-edit-first")
    page.keyboard.press("Control+Enter")
    expect(book.cell(2).locator(".cm-content")).to_have_text("mean = max(levels)")
    bar = book.output(1).locator(".cell-changes:not([disabled])")
    expect(bar).to_contain_text("2 cell changes")
    bar.get_by_role("button", name="Reject all").click()
    book.wait_done(1)
    told = str(model.requests[-1].body["messages"][-1]["content"])
    assert "mean = max(levels)" in told
    assert ["".join(cell["source"]) for cell in book.save()["cells"]][2:] == ["mean = max(levels)", LEFT_OVER, ""]


def test_a_page_that_is_reloaded_shows_what_waits_and_can_answer(proposed, model, page):
    book = proposed("lab")
    book.reload()
    proposals = page.locator(".cellwright-proposal")
    for index, left in ((3, 2), (2, 1), (2, 0)):
        button(book.cell(index).locator(".cellwright-proposal .ask[data-ready]").first, "Reject").click()
        expect(proposals).to_have_count(left)  # else the same card would be clicked again
    # a notebook can be scrolled past its end, and the cards stood far below
    expect(book.cell(4)).to_be_in_viewport(ratio=1)
    book.go_to_top()
    book.output(1).get_by_text("Done.").wait_for()
    told = model.requests[-1].body["messages"][-1]["content"]
    assert all(result["is_error"] for result in told if result["type"] == "tool_result")
    assert ["".join(cell["source"]) for cell in book.save()["cells"]][2:4] == [MEAN, LEFT_OVER]


@pytest.mark.lab_version
def test_what_is_undone_with_the_editors_own_keys_was_claudes_edit(proposed, page):
    book = proposed("lab")
    bar = book.output(1).locator(".cell-changes:not([disabled])")
    bar.get_by_role("button", name="Accept all").click()
    book.wait_done(1)
    content = book.cell(2).locator(".cm-content")
    content.click()
    expect(content).to_be_focused()
    expect(content).to_have_text(MENDED)
    page.keyboard.press("Control+z")
    expect(content).to_have_text(MEAN)
