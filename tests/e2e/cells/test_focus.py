"""The keyboard stays where the user writes, also when JupyterLab's notebook takes it once a cell has stopped growing."""

import pytest
from playwright.sync_api import expect

from cellwright.testing import Gate, hold, say, turn

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

WORDS = "dd, ad infinitum"  # to a notebook in command mode: delete this cell, insert one, …
FIELDS = {"panel": ".cellwright-panel .cellwright-prompt", "cell": ".jp-Cell .steer textarea"}
TAKEN_WITHIN_MS = 500  # it waits for 100 ms without a change of size


@pytest.mark.parametrize("place", FIELDS)
@pytest.mark.lab_version
def test_what_is_written_while_an_answer_streams_goes_to_no_notebook(notebook, model, page, place):
    book = notebook("%load_ext cellwright", "%%claude\nTell me a long story", "x = 1", "y = 2")
    book.run(0)
    book.wait_done(0)
    if place == "panel":
        page.keyboard.press("Control+Shift+Y")
        page.locator(".cellwright-panel .kernel[data-connection='connected']").wait_for()
    gate = Gate()
    model.add(turn(say("Begun,"), hold(gate), say(" and done.")))
    book.run(1)
    book.output(1).get_by_text("Begun,").wait_for()
    field = page.locator(FIELDS[place])
    field.click()
    page.keyboard.type(WORDS)
    page.wait_for_timeout(TAKEN_WITHIN_MS)
    expect(field).to_be_focused()
    page.keyboard.type(", etc.")
    expect(field).to_have_value(f"{WORDS}, etc.")
    expect(page.locator(".jp-Notebook .jp-Cell")).to_have_count(4)
    gate.open()
    book.wait_done(1)


def test_a_screen_reader_may_take_the_keyboard_elsewhere_without_a_key(notebook, page):
    book = notebook("x = 1")
    page.keyboard.press("Control+Shift+Y")
    field = page.locator(FIELDS["panel"])
    expect(field).to_be_focused()
    page.keyboard.type("What is")
    browser = page.context.new_cdp_session(page)
    document = browser.send("DOM.getDocument")["root"]["nodeId"]
    cell = browser.send("DOM.querySelector", {"nodeId": document, "selector": ".jp-Notebook .jp-Cell"})
    browser.send("DOM.focus", cell)
    expect(book.cell(0)).to_be_focused()
    page.evaluate("document.querySelector('.cellwright-prompt').focus()")
    page.evaluate("document.querySelector('.jp-Notebook .jp-Cell').focus()")
    expect(field).to_be_focused()
