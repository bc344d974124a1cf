"""Fix, Edit and Explain with Claude, from the cell's own toolbar, by mouse and by keyboard."""

import pytest
from lab_notebook import in_apps
from playwright.sync_api import expect

from cellwright.testing import Gate, hold, say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

FAILING = "tide = {'harbour': 'Esbjerg', 'level_m': 1.42}\nprint('high tide:', tide['level'])"
FIXED = FAILING.replace("'level'", "'level_m'")


def menu_item(book, command):
    """An item of the menu that the star in the active cell's toolbar opens."""
    book.page.locator(".jp-cell-toolbar [data-command='cellwright:cell-menu']").click()
    return book.page.locator(f".cellwright-cell-menu [data-command='cellwright:{command}']")


def strip(book, index):
    return book.cell(index).locator(".cellwright-strip")


def sources(book):
    return ["".join(cell["source"]) for cell in book.save()["cells"]]


def is_dirty(book):
    return book.page.evaluate("window.jupyterapp.shell.currentWidget.context.model.dirty")


def edit_of_first_cell(source, *first):
    return [
        turn(*first, use("NotebookRead", notebook_path="notebook.ipynb")),
        turn(use("NotebookEdit", notebook_path="notebook.ipynb", cell_id="cell-0", new_source=source)),
        turn(say("The level has its unit in its name.")),
    ]


def words(model):
    """What the newest prompt says, with what was told besides."""
    prompts = [message for message in model.requests[-1].body["messages"] if message["role"] == "user"]
    return str(
        next(message["content"] for message in reversed(prompts) if "tool_result" not in str(message["content"]))
    )


@pytest.mark.lab_version
def test_fix_proposes_a_change_of_the_cell_that_failed_and_nothing_else_stays(notebook, model, page):
    book = notebook(FAILING, "print('below')")
    book.run(0)
    book.wait_done(0)
    expect(book.cell(0).get_by_role("button", name="Fix with Claude")).to_contain_text("Alt+F")
    gate = Gate()
    model.add(*edit_of_first_cell(FIXED, hold(gate)))
    # the active cell is the one below by now
    page.keyboard.press("Alt+f")
    expect(strip(book, 0)).to_contain_text("Fix the KeyError in cell [1]")
    book.reel("fix-waits")
    gate.open()
    proposal = book.cell(0).locator(".cellwright-proposal .ask[data-ready]")
    proposal.wait_for()
    # the second of two keys
    expect(proposal).to_be_focused()
    book.screenshot("fix-in-two-keys", book.cell(0))
    book.screenshot("fix-in-two-keys-phone", book.cell(0), width=740)  # the file browser takes half of it
    page.keyboard.press("Enter")
    expect(book.cell(0).locator(".jp-InputPrompt")).to_have_text("[2]:")
    expect(book.cell(0).get_by_role("button", name="Fix with Claude")).to_have_count(0)
    expect(strip(book, 0)).to_have_count(0)
    saved = book.save()["cells"]
    assert ["".join(cell["source"]) for cell in saved] == [FIXED, "print('below')"]
    assert saved[0]["metadata"]["cellwright"]["asked"] == "Fix the KeyError in cell [1]"
    assert "KeyError: 'level'" in words(model)


@in_apps()
def test_the_button_under_a_failed_cell_needs_no_loaded_kernel(notebook, model, page, app):
    book = notebook(FAILING, app=app)
    book.run(0)
    book.wait_done(0)
    model.add(say("The tide has no such key."))
    button = book.cell(0).get_by_role("button", name="Fix with Claude")
    button.focus()
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    answer = strip(book, 0)
    answer.get_by_text("The tide has no such key.").wait_for()
    assert sources(book)[:1] == [FAILING]
    answer.get_by_role("button", name="Dismiss").focus()
    page.keyboard.press("Enter")
    expect(answer).to_have_count(0)
    button.wait_for()


@in_apps(on_older_lab=True)
def test_explain_answers_below_the_cell_and_keeps_it_if_it_is_told_to(notebook, model, page, app):
    book = notebook("tide = 3.5", "print('below')", app=app)
    book.save()
    book.cell(0).locator(".cm-content").click()
    model.add(say("It sets the **tide**."), say("It sets the tide, again."))
    item = menu_item(book, "explain-cell")
    item.wait_for()
    book.reel("star-menu")
    item.click()
    answer = strip(book, 0)
    answer.get_by_text("It sets the tide.").wait_for()
    answer.get_by_role("button", name="Dismiss").wait_for()
    assert "tide = 3.5" in words(model)
    if app == "lab":
        assert not is_dirty(book)
    book.reel("explain-strip")
    # from the notebook to the answer by the same key, and away
    page.keyboard.press("Alt+e")
    expect(answer).to_be_focused()
    page.keyboard.press("Escape")
    expect(answer).to_have_count(0)
    page.keyboard.press("Alt+e")
    answer.get_by_text("It sets the tide, again.").wait_for()
    answer.get_by_role("button", name="Keep as cell").click()
    expect(answer).to_have_count(0)
    kept = book.save()["cells"][1]
    assert (kept["cell_type"], "".join(kept["source"])) == ("markdown", "It sets the tide, again.")
    assert kept["metadata"]["cellwright"]["asked"] == "Explain this cell"
    assert "execution_count" not in kept


@pytest.mark.lab_version
def test_edit_takes_an_instruction_at_the_cell(notebook, model, page):
    book = notebook("tide = 3.5", "active = True")
    book.cell(1).locator(".cm-content").click()
    book.cell(0).locator(".cm-content").click(button="right")
    page.locator(".lm-Menu-item[data-command='cellwright:edit-cell']").click()
    line = book.cell(0).get_by_label("What should Claude change in this cell?")
    line.wait_for()
    expect(line).to_be_focused()
    page.keyboard.press("Escape")
    expect(line).to_have_count(0)
    page.keyboard.press("Alt+k")
    expect(line).to_be_focused()
    model.add(*edit_of_first_cell("tide_m = 3.5"))
    page.keyboard.type("name the unit")
    book.reel("edit-line")
    page.keyboard.press("Enter")
    proposal = book.cell(0).locator(".cellwright-proposal .ask[data-ready]")
    expect(proposal).to_be_focused()
    page.keyboard.press("Enter")
    expect(book.cell(0).locator(".jp-InputPrompt")).to_have_text("[1]:")
    expect(strip(book, 0)).to_have_count(0)
    saved = book.save()["cells"]
    assert "".join(saved[0]["source"]) == "tide_m = 3.5"
    assert saved[0]["metadata"]["cellwright"]["asked"] == "Edit this cell: name the unit"
    assert "tide = 3.5" in words(model)
