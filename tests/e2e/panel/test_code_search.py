"""Code that Claude looks for, in a cell and in the panel: what it found is on the card, and what went with the prompt."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from cellwright.testing import Gate, hold, say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

UPLOAD = '''"""Uploads of parcels."""

from time import sleep


def send(parcel, connection):
    """Send one parcel; a timeout is tried again."""
    for seconds in (1, 2, 4):
        try:
            return connection.put(parcel)
        except TimeoutError:
            sleep(seconds)
    raise TimeoutError(parcel)
'''
QUEUE = '''"""A queue of parcels."""

from upload import send


def drain(parcels, connection):
    return [send(parcel, connection) for parcel in parcels]
'''


def test_a_search_in_the_cell_and_code_that_goes_with_a_prompt_of_the_panel(notebook, model, page):
    gate = Gate()
    model.add(
        turn(use("SemanticSearch", query="send parcel again after timeout"), use("FindReferences", name="send")),
        turn(
            say("Uploads are retried in `send`, three times (upload.py:6). `drain` "), hold(gate), say("relies on it.")
        ),
        turn(say("`drain` gives up with the parcel that failed three times; the ones after it are not sent.")),
    )
    book = notebook(
        "%load_ext cellwright",
        "%%claude\nWhere are uploads tried again, and who relies on it?",
        "",
        files={"upload.py": UPLOAD, "parcel_queue.py": QUEUE},
    )
    book.run(0)
    book.wait_done(0)
    book.run(1)
    output = book.output(1)
    card = output.locator(".tool").first
    output.locator("text=Uploads are retried").wait_for()
    output.locator("details.group > summary").first.click()  # searches of one step are a line
    card.locator("summary").first.click()
    expect(card).to_contain_text("function send")
    expect(card).to_contain_text("upload.py:6")
    book.screenshot("code-search", output)
    gate.open()
    book.wait_done(1)
    page.keyboard.press("Control+Shift+Y")
    panel = page.locator(".cellwright-panel")
    panel.locator(".kernel[data-connection='connected']").wait_for()
    panel.get_by_role("button", name="Options: ").click()
    panel.locator("select[data-setting='context']").select_option("code")
    page.keyboard.press("Escape")
    area = panel.locator(".cellwright-prompt")
    area.click()
    page.keyboard.type("What happens to a parcel that send cannot deliver?")
    page.keyboard.press("Enter")
    run = panel.locator(".run").nth(1).locator(".transcript")  # there is one from the cell
    run.locator("footer[data-state='done']").wait_for()
    run.locator("footer").get_by_role("button", name="More").click()
    run.get_by_role("button", name="Context sent").click()
    fold = run.get_by_role("list", name="Context sent")
    found = fold.locator("li", has_text="Code that fits")
    found.locator("summary").click()
    expect(found).to_contain_text("def send(parcel, connection):")
    book.screenshot("code-context-panel", panel)
    assert "def send(parcel" in str(model.requests[-1].body["messages"][-1])
