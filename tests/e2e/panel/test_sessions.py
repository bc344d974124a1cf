"""Sessions, code of answers and the context bar in the panel, as their user meets them."""

import re

import pytest
from accessibility import check_accessible
from playwright.sync_api import expect

from cellwright.testing import say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

PANEL = ".cellwright-panel"


def opened(book):
    """The panel, connected to the notebook's kernel, its composer with the keyboard."""
    page = book.page
    page.keyboard.press("Control+Shift+y")
    page.locator(f"{PANEL} .kernel[data-connection=connected]").wait_for()
    expect(page.locator(f"{PANEL} .cellwright-prompt")).to_be_focused()
    return page.locator(PANEL)


def ask(panel, words):
    """Type a prompt, and wait until it is answered."""
    prompt = panel.locator(".cellwright-prompt")
    expect(prompt).to_be_editable()
    prompt.fill(words)
    prompt.press("Enter")
    run = panel.locator("li.run", has_text=words)
    expect(run).to_have_attribute("data-state", "done")
    return run


def test_a_session_is_found_by_its_words_and_resumed_after_a_restart_of_the_kernel(notebook, model):
    model.add(turn(say("Spring tides come at full moon.")), turn(say("Basalt is a lava rock.")))
    book = notebook("%load_ext cellwright")
    book.run(0)
    book.wait_done(0)
    panel = opened(book)
    ask(panel, "When are the tides highest?")
    panel.get_by_role("button", name="New session").click()
    expect(panel.locator("li.run")).to_have_count(0)
    ask(panel, "What is basalt?")
    book.page.get_by_role("button", name="Restart the kernel").first.click()
    book.page.locator(".jp-Dialog .jp-mod-accept").click()
    panel.locator(".restarted:visible", has_text="its variables are gone").wait_for()
    panel.locator(".kernel[data-connection=connected]").wait_for()
    panel.locator("li.run .answer", has_text="Basalt is a lava rock.").wait_for()
    panel.get_by_role("button", name="Sessions", exact=True).click()
    found = panel.locator(".cw-sessions .session")
    found.nth(1).wait_for()
    search = panel.get_by_role("searchbox")
    expect(search).to_be_focused()
    book.page.keyboard.type("full moon")
    expect(found).to_have_count(1)
    panel.locator("mark", has_text="moon").first.wait_for()
    check_accessible(panel)
    book.screenshot("panel-sessions", panel, height=560)
    book.page.keyboard.press("ArrowDown")
    rows = panel.get_by_role("listbox", name="Sessions")
    expect(rows).to_be_focused()
    book.page.keyboard.press("F2")
    expect(panel.locator(".row-form input")).to_be_focused()
    book.page.keyboard.type("Of moons and tides")
    book.page.keyboard.press("Enter")
    panel.locator("[role=option] .title", has_text="Of moons and tides").wait_for()
    expect(rows).to_be_focused()
    book.page.keyboard.press("Enter")
    panel.locator("li.run", has_text="When are the tides highest?").wait_for()
    panel.locator("li.run .answer", has_text="Spring tides come at full moon.").wait_for()
    panel.get_by_role("heading", name="Of moons and tides").wait_for()
    model.add(turn(say("Twice a month.")))
    ask(panel, "How often?")
    said = [message["content"] for message in model.requests[-1].body["messages"]]
    assert "When are the tides highest?" in str(said)
    assert "basalt" not in str(said)


def test_a_prompt_that_is_edited_is_a_branch_and_an_edit_is_edited_as_text(notebook, model):
    model.add(
        turn(say("At noon.")),
        turn(say("At midnight.")),
        turn(use("Read", file_path="tides.py")),
        turn(use("Edit", file_path="tides.py", old_string="WINDOW = 6", new_string="WINDOW = 7")),
        turn(say("Seven.")),
    )
    book = notebook("x = 1", files={"tides.py": "import os\n\nWINDOW = 6\n"})
    panel = opened(book)
    page = book.page
    run = ask(panel, "When is high tide")
    run.hover()
    run.get_by_role("button", name="Edit", exact=True).click()
    expect(panel.get_by_label("Edit the prompt")).to_be_focused()  # a moment later
    page.keyboard.type(", today?")
    page.keyboard.press("Enter")
    panel.locator("li.run .answer", has_text="At midnight.").wait_for()
    panel.get_by_role("group", name="Branch 2 of 2").wait_for()
    book.reel("panel-branches", panel)
    panel.get_by_role("button", name="Previous branch").press("ArrowLeft")
    panel.locator("li.run .answer", has_text="At noon.").wait_for()
    expect(panel.get_by_role("group", name="Branch 1 of 2").get_by_role("button", name="Next branch")).to_be_focused()

    prompt = panel.locator(".cellwright-prompt")
    prompt.fill("Widen it")
    prompt.press("Enter")
    card = panel.locator(".ask[data-ready]")
    card.press("e")
    field = card.get_by_label("New text")
    expect(field).to_be_focused()
    field.press("End")
    page.keyboard.type("2\nDEPTH = 3")
    card.locator(".renewed .added", has_text="DEPTH = 3").wait_for()
    check_accessible(panel)
    book.reel("panel-edit-first", panel)
    page.keyboard.press("Control+Enter")
    panel.locator("li.run .answer", has_text="Seven.").wait_for()
    assert (book.lab.root / book.path).with_name("tides.py").read_text() == "import os\n\nWINDOW = 72\nDEPTH = 3\n"


CODE = "Take this:\n\n```python\nheights = [1, 2, 3]\n```\n\nand look:\n\n```bash\nls -l\n```\n"


def undo(book):
    """Ctrl-Z, once the notebook has the keyboard, which is given to it as soon as it is changed."""
    book.page.wait_for_function("() => document.activeElement.closest('.jp-Notebook')")
    book.page.keyboard.press("Control+z")


def test_code_of_an_answer_goes_into_the_notebook_and_ctrl_z_takes_it_out(notebook, model):
    model.add(turn(say(CODE)))
    book = notebook("%load_ext cellwright", "old = 1")
    book.run(0)
    book.wait_done(0)
    panel = opened(book)
    run = ask(panel, "Give me code")
    cells = book.page.locator(".jp-Notebook .jp-Cell")
    block = run.locator("figure", has_text="heights = [1, 2, 3]")  # all of it: its last words are drawn a frame later
    block.get_by_role("button", name="Insert").click()
    expect(cells.nth(2)).to_contain_text("heights = [1, 2, 3]")
    undo(book)
    expect(cells).to_have_count(2)
    cells.nth(1).locator(".cm-content").click()
    run.locator("figure", has_text="ls -l").get_by_role("button", name="Replace").click()
    cells.nth(1).locator(".cm-content", has_text="%%bash").wait_for()
    undo(book)
    cells.nth(1).locator(".cm-content", has_text="old = 1").wait_for()


def test_the_context_bar_tells_what_fills_the_context(notebook, model):
    model.add(turn(say("The moon pulls.")))
    book = notebook("%load_ext cellwright")
    book.run(0)
    book.wait_done(0)
    panel = opened(book)
    ask(panel, "Why?")
    bar = panel.get_by_role("button", name="What fills it?")
    bar.focus()
    expect(bar).to_be_focused()
    book.page.keyboard.press("Enter")
    shown = panel.get_by_role("dialog", name="Context used")
    shown.get_by_role("row", name="System prompt").wait_for()
    shown.get_by_role("row", name="Free").wait_for()
    check_accessible(panel)
    book.reel("context-bar", panel)
    book.page.keyboard.press("Escape")
    shown.wait_for(state="hidden")
    panel.get_by_role("button", name="Help and keys").click()
    panel.get_by_role("row", name="/context").wait_for()
    check_accessible(panel)
    book.reel("help", panel)
    book.page.keyboard.press("Escape")
    panel.locator(".cellwright-prompt").wait_for()
    book.page.set_viewport_size({"width": 1280, "height": 560})
    run = ask(panel, "/context")
    run.get_by_role("cell", name="System prompt").wait_for()
    run.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert run.evaluate("node => node.offsetHeight > node.closest('.scroller').clientHeight")
    expect(run.locator(".words")).to_be_in_viewport()  # a page is read from its beginning
    panel.locator(".scroller").evaluate("node => { node.scrollTop = node.scrollHeight }")
    expect(run.locator(".words")).not_to_be_in_viewport()
    panel.locator(".cellwright-prompt").fill("one\ntwo\nthree\nfour\nfive")  # takes room from the page
    run.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    expect(run.locator(".words")).not_to_be_in_viewport()


def test_code_of_an_answer_runs_in_a_console_of_the_notebooks_kernel(notebook, model):
    model.add(turn(say(CODE)))
    book = notebook("%load_ext cellwright", "sum(heights)")
    book.run(0)
    book.wait_done(0)
    panel = opened(book)
    run = ask(panel, "Give me code")
    run.locator("figure", has_text="heights").get_by_role("button", name="Console").click()
    cell = book.page.locator(".jp-CodeConsole-content .jp-Cell", has_text="heights = [1, 2, 3]")
    cell.locator(".jp-InputPrompt", has_text=re.compile(r"\[\d+\]")).wait_for()  # it has run
    book.run(1)
    book.wait_done(1)
    expect(book.output(1)).to_contain_text("6")
