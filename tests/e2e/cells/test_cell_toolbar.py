"""Fix, Edit and Explain with Claude, from the cell's own toolbar, by mouse and by keyboard."""

import pytest
from apps import in_apps
from playwright.sync_api import expect

from cellwright.testing import say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

FAILING = "rates = {'de': 1.0}\nrates['dk']"
FIXED = "rates = {'de': 1.0}\nrates.get('dk', 1.0)"


def tool(book, action):
    return book.page.locator(f".jp-cell-toolbar [data-command='cellwright:{action}-cell']")


def sources(book):
    return ["".join(cell["source"]) for cell in book.save()["cells"]]


def edit_of_first_cell(source):
    return [
        turn(use("NotebookRead", notebook_path="notebook.ipynb")),
        turn(use("NotebookEdit", notebook_path="notebook.ipynb", cell_id="cell-0", new_source=source)),
        turn(say("Denmark had no rate.")),
    ]


def words(model):
    """What the newest prompt says, with what was told besides."""
    prompts = [message for message in model.requests[-1].body["messages"] if message["role"] == "user"]
    return str(
        next(message["content"] for message in reversed(prompts) if "tool_result" not in str(message["content"]))
    )


@pytest.mark.lab_version
def test_fix_proposes_a_change_of_the_failed_cell_and_a_key_accepts_it(notebook, model, page):
    book = notebook(FAILING, "print('below')")
    book.cell(0).locator(".cm-content").click()
    tool(book, "explain").wait_for()
    expect(tool(book, "fix")).to_be_hidden()
    book.run(0)
    book.wait_done(0)
    book.cell(0).get_by_role("button", name="Fix with Claude").wait_for()
    book.cell(0).locator(".cm-content").click()
    tool(book, "fix").wait_for()
    model.add(*edit_of_first_cell(FIXED))
    tool(book, "fix").click()
    proposal = book.cell(0).locator(".cellwright-proposal .ask[data-ready]")
    proposal.wait_for()
    proposal.focus()
    expect(proposal).to_be_focused()
    page.keyboard.press("1")
    book.wait_done(1)
    assert sources(book) == [FIXED, "# Fix with Claude: the cell above", "print('below')"]
    assert "KeyError: 'dk'" in words(model)
    book.run(0)
    book.wait_done(0)
    expect(book.cell(0).get_by_role("button", name="Fix with Claude")).to_have_count(0)


@in_apps()
def test_the_button_under_a_failed_cell_needs_no_loaded_kernel(notebook, model, page, app):
    book = notebook(FAILING, app=app)
    book.run(0)
    book.wait_done(0)
    model.add(say("It lacks a rate for dk."))
    button = book.cell(0).get_by_role("button", name="Fix with Claude")
    button.focus()
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    book.output(1).get_by_text("It lacks a rate for dk.").wait_for()
    book.wait_done(1)
    assert sources(book)[:2] == [FAILING, "# Fix with Claude: the cell above"]


@in_apps(on_older_lab=True)
def test_explain_attaches_the_cell_and_can_be_asked_again(notebook, model, page, app):
    book = notebook("tide = 3.5", "print('below')", app=app)
    book.cell(0).locator(".cm-content").click()
    model.add(say("It sets the tide."), say("It sets the tide, again."))
    tool(book, "explain").click()
    book.output(1).get_by_text("It sets the tide.").wait_for()
    book.wait_done(1)
    assert "tide = 3.5" in words(model)
    book.cell(0).locator(".cm-content").click()
    tool(book, "explain").click()
    book.output(1).get_by_text("It sets the tide, again.").wait_for()
    book.wait_done(1)
    assert len(sources(book)) == 3


@pytest.mark.lab_version
def test_edit_takes_an_instruction_at_the_cell_from_the_context_menu(notebook, model, page):
    book = notebook("tide = 3.5", "active = True")
    book.cell(1).locator(".cm-content").click()
    book.cell(0).locator(".cm-content").click(button="right")
    page.locator(".lm-Menu-item[data-command='cellwright:edit-cell']").click()
    line = book.cell(0).get_by_label("What should Claude change in this cell?")
    line.wait_for()
    expect(line).to_be_focused()
    page.keyboard.press("Escape")
    expect(line).to_have_count(0)
    tool(book, "edit").click()
    expect(line).to_be_focused()
    model.add(*edit_of_first_cell("tide_m = 3.5"))
    page.keyboard.type("name the unit")
    page.keyboard.press("Enter")
    proposal = book.cell(0).locator(".cellwright-proposal .ask[data-ready]")
    proposal.wait_for()
    proposal.get_by_role("button", name="Accept").click()
    book.wait_done(1)
    assert sources(book)[:2] == ["tide_m = 3.5", "# Edit with Claude: the cell above: name the unit"]
    assert "tide = 3.5" in words(model)
