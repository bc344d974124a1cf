"""The context sent with a prompt: a button in the footer, worked by keyboard, opens each part with its text."""

import json
import re

import pytest
from lab_tab import DARK, LIGHT
from playwright.sync_api import expect

from cellwright.testing import Gate, hold, say, turn

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def test_the_fold_says_what_claude_was_told(notebook, model, tab):
    gate = Gate()
    model.add(turn(say("The price went up in **March**."), hold(gate), say("\n\nThat is all.")))
    book = notebook(
        "%load_ext cellwright",
        "prices = {'pears': [3, 4, 5], 'apples': [2, 2, 3]}\ntax = 0.08",
        "prices['figs'][0]",
        "%%claude\nWhy is $prices higher in @rules.md? And @cell:2?",
        "",
        files={"rules.md": "# Rules\n\nNo discounts on pears.\n"},
    )
    for index in (0, 1, 2):
        book.run(index)
        book.wait_done(index)
    book.run(3)
    output = book.output(3)
    button = output.get_by_role("button", name="Context sent")
    expect(button).to_contain_text("tokens)")
    expect(button).to_have_attribute("aria-expanded", "false")
    output.locator("text=The price went up").wait_for()
    button.press("Enter")
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(button).to_be_focused()
    fold = output.get_by_role("list", name="Context sent")
    expect(fold.locator("li summary > b")).to_have_text(
        ["Where Claude works", "The notebook so far", "rules.md", re.compile("^cell "), "$prices"]
    )
    fold.locator("li summary").nth(1).press("Enter")
    context = fold.locator("li pre").first
    context.wait_for()
    for told in (
        "KeyError: 'figs'",
        "tax: float = 0.08",
        "This prompt is in the cell",
        "number 4 of 5",
    ):
        expect(context).to_contain_text(told)
    # the notebook's own keys did nothing: the cell is still selected, and no cell was made
    expect(book.page.locator(".jp-Notebook .jp-Cell")).to_have_count(5)
    for theme in (DARK, LIGHT):
        tab.choose_theme(theme)
        book.screenshot(f"told-{theme.split()[-1].lower()}", output)
    gate.open()
    book.wait_done(3)
    assert "No discounts on pears" in json.dumps(model.requests[-1].body["messages"])
