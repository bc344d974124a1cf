"""The first minute of somebody who has no key: the card, a key that counts at once, the field in a cell, the demo."""

import json
import re

import nbformat
import pytest
from accessibility import check_accessible
from lab_notebook import NotebookPage
from lab_server import running_lab
from lab_tab import VIEWPORT, LabTab
from nbformat.sign import NotebookNotary
from playwright.sync_api import expect

from cellwright.testing import say
from eventual import eventually

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

OPEN = "Control+Shift+Y"
REJECTED = re.compile("rejected this key. Check that you copied all of it; nothing was saved")


def rejected(field):
    """Wait until the key in `field` was rejected: what is wrong is its description, and it keeps the keyboard."""
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_focused()
    expect(field).to_have_accessible_description(REJECTED)


def right_of(box):
    return box["x"] + box["width"]


@pytest.fixture
def keyless(browser, model, tmp_path, monkeypatch):
    """A page of a JupyterLab whose kernels have no key, and whose keys go to a file."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    home = tmp_path / "ada"
    root = home / "tides"
    root.mkdir(parents=True)
    model.clear()
    cell = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    cells = [
        {**cell, "id": "prompt", "source": "%%claude\nHow is the tide?"},
        {**cell, "id": "fails", "source": "{'a': 1}['b']"},
    ]
    spec = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    content = {"cells": cells, "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}
    (root / "tides.ipynb").write_text(json.dumps(content))
    (home / ".local/share/jupyter").mkdir(parents=True)
    NotebookNotary(data_dir=str(home / ".local/share/jupyter")).sign(nbformat.read(root / "tides.ipynb", 4))
    with running_lab(root, home, model.url, "") as lab:
        tab = LabTab(browser, lab)
        page = tab.take(own=True)
        yield NotebookPage(page, tab, "tides.ipynb")
        tab.close()


def test_from_no_key_to_an_answer_and_to_the_demo(keyless, model):
    book, page, lab = keyless, keyless.page, keyless.lab
    book.open()
    page.keyboard.press(OPEN)
    panel = page.locator(".cellwright-panel")
    card = panel.locator(".key-card")
    expect(card).to_contain_text("Claude needs a key")
    width = panel.evaluate("node => node.clientWidth")
    assert 385 <= width <= 415, "wide enough to read"
    check_accessible(card, "Enter a key")
    book.screenshot("panel-no-key", panel, height=660)
    # in a window of half the size, or at twice the zoom, the card scrolls, and the prompt stays in sight
    page.set_viewport_size({"width": VIEWPORT["width"], "height": 400})
    prompt = panel.locator(".cellwright-prompt")
    expect(prompt).to_be_in_viewport(ratio=1)
    expect(card.get_by_role("button", name="Save key")).to_be_visible()
    card.get_by_role("button", name="Try the demo").scroll_into_view_if_needed()
    expect(card.get_by_role("button", name="Try the demo")).to_be_in_viewport(ratio=1)
    expect(prompt).to_be_in_viewport(ratio=1)
    page.set_viewport_size(VIEWPORT)
    # a toast, such as that in which JupyterLab asks about its news, covers nothing of the panel
    show = {"message": "Would you like to get news?", "type": "info", "options": {"autoClose": False}}
    toast_id = page.evaluate("show => window.jupyterapp.commands.execute('apputils:notify', show)", show)
    toast = page.locator(".Toastify__toast", has_text="Would you like to get news?")
    eventually(lambda: right_of(toast.bounding_box()) <= panel.bounding_box()["x"])
    page.evaluate("id => window.jupyterapp.commands.execute('apputils:dismiss-notification', {id})", toast_id)
    # a cloud is asked for what it needs, and says what is missing here
    card.get_by_role("button", name="Use a cloud").click()
    card.get_by_label("Provider").select_option(label="A gateway or a server of your own")
    card.get_by_label("Address").fill("https://gateway.example.org")
    card.get_by_label("Key", exact=True).fill("sk-ant-wrong-key")
    check_accessible(card, "Test and save")
    book.screenshot("panel-use-a-cloud", panel, height=860)
    for where in card.get_by_label("Provider").locator("option").all_inner_texts():
        card.get_by_label("Provider").select_option(label=where)
        check_accessible(card, "Test and save")
    card.get_by_label("Provider").select_option(label="A gateway or a server of your own")
    card.get_by_label("Address").fill(model.url)
    card.get_by_label("Key", exact=True).fill("sk-ant-wrong-key")
    card.get_by_role("button", name="Test and save").click()
    # what is wrong stands at the field that it is about, which has the keyboard
    rejected(card.get_by_label("Key", exact=True))
    card.get_by_role("button", name="Enter a key").click()
    # by keys alone, and a wrong one first
    field = card.get_by_label("API key")
    field.focus()
    page.keyboard.type("sk-ant-wrong-key")
    page.keyboard.press("Enter")
    rejected(field)
    # the first cell has a card of its own, with the field in it
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:enter-command-mode')")
    book.run(0)
    in_cell = book.cell(0).get_by_label("API key")
    expect(in_cell).to_be_focused()
    expect(book.cell(0).locator(".jp-Stdin-input")).to_have_count(0)
    book.screenshot("no-key-cell", book.cell(0))
    in_cell.focus()
    page.keyboard.type("sk-ant-wrong-key")
    page.keyboard.press("Enter")
    rejected(in_cell)
    expect(book.cell(0).get_by_role("link", name="Get a key")).to_be_visible()
    check_accessible(book.cell(0).locator(".jp-OutputArea"), "Not now")
    # one card at a time: the panel's says where the other one is
    expect(card.get_by_label("API key")).to_be_hidden()
    card.get_by_role("button", name="Go to the cell").click()
    expect(in_cell).to_be_focused()
    book.cell(0).get_by_role("button", name="Not now").click()
    expect(book.cell(0)).to_contain_text("There is none yet.")
    book.cell(0).get_by_role("button", name="Use a cloud").click()
    expect(card.get_by_label("Provider")).to_be_focused()
    book.cell(0).get_by_role("button", name="Enter a key").click()
    expect(field).to_be_focused()
    # a key that the panel gives to the server counts in the kernel that runs
    field.fill(model.api_key)
    model.add(say("The tide is high."))
    book.run(0)
    expect(in_cell).to_be_visible()
    card.get_by_role("button", name="Save key").click()
    expect(card).to_be_hidden()
    expect(panel.locator(".key-done")).to_contain_text("Key saved in")
    expect(book.cell(0)).to_contain_text("The tide is high.")
    assert model.api_key not in json.dumps(book.save())
    assert (lab.state / "api-key.json").stat().st_mode & 0o777 == 0o600
    assert model.api_key not in lab.log.read_text()
    # a new session begins with what the notebook calls for, and with what was held in it
    book.run(1)
    panel.get_by_role("button", name="New session").click()
    first = panel.locator(".first")
    expect(panel.locator(".key-done")).to_be_hidden()
    expect(first.locator(".examples button").first).to_have_text("Fix the KeyError in cell [3]")
    expect(first.locator(".about").first).to_contain_text("tides.ipynb (2 cells)")
    book.screenshot("first-start-light")
    check_accessible(panel, "examples")
    first.locator(".continue").click()
    expect(panel.locator("li.run .words")).to_have_text("How is the tide?")
    # the card is there for who asks for it, with the demo
    page.evaluate("() => window.jupyterapp.commands.execute('cellwright:enter-key')")
    expect(card.get_by_label("API key")).to_be_focused()
    card.get_by_role("button", name="Try the demo").click()
    demo = NotebookPage(page, book.tab, "cellwright-demo/01-first-cell.ipynb")
    expect(demo.cell(2)).to_contain_text("%%claude --mode acceptEdits")
    expect(panel.locator(".key-card")).to_be_hidden()


def test_a_first_cell_that_is_run_at_once_gets_the_card_and_the_demo_needs_no_setup(keyless):
    book, page = keyless, keyless.page
    book.open()
    book.run(0)
    expect(book.cell(0).get_by_label("API key")).to_be_focused()
    expect(book.cell(0).locator(".jp-Stdin-input")).to_have_count(0)
    # commands of the page count in the field
    page.keyboard.press(OPEN)
    panel = page.locator(".cellwright-panel")
    expect(panel.locator(".key-card").get_by_role("button", name="Go to the cell")).to_be_visible()
    book.reel("first-cell-at-once")
    book.cell(0).get_by_role("button", name="Try the demo").click()
    demo = NotebookPage(page, book.tab, "cellwright-demo/01-first-cell.ipynb")
    expect(demo.cell(0)).to_contain_text("Nothing needs to be set up.")
    demo.wait_idle()
    # the panel offers what the script knows
    expect(panel).to_contain_text("Scripted model")
    expect(panel.locator(".examples button").first).to_contain_text("The tests of this project fail.")
    demo.run(2)
    expect(demo.cell(2)).to_contain_text("Scripted model.")
    expect(demo.cell(2)).to_contain_text("tests pass now.")
    book.reel("demo-first-answer")
