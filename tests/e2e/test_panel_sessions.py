"""Sessions, code of answers and the context bar in the panel, as their user meets them."""

import re
from pathlib import Path

import pytest

from cellwright.testing import say, turn

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

AXE = Path(__file__).parents[2] / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
PANEL = ".cellwright-panel"


def opened(book):
    """The panel, connected to the notebook's kernel, its composer with the keyboard."""
    page = book.page
    page.locator(".jp-Notebook").first.click()
    page.keyboard.press("Control+Shift+y")
    page.locator(f"{PANEL} .cellwright-prompt").wait_for()
    page.locator(f"{PANEL} .kernel[data-connection=connected]").wait_for(timeout=60_000)
    return page.locator(PANEL)


def ask(panel, words):
    """Type a prompt, and wait until it is answered."""
    runs = panel.locator("li.run")
    before = runs.count()
    panel.locator(".cellwright-prompt").fill(words)
    panel.page.keyboard.press("Enter")
    run = runs.nth(before)
    run.wait_for()
    panel.locator(f"li.run[data-state=done] >> nth={before}").wait_for()
    return run


def check_accessible(panel):
    """No serious violation of WCAG in the panel, as axe-core sees it."""
    panel.page.add_script_tag(path=AXE)
    found = panel.page.evaluate(
        """async target => {
            const {violations} = await axe.run(target);
            return violations.filter(({impact}) => ["serious", "critical"].includes(impact))
                .map(({id, help, nodes}) => [id, help, nodes.map(({html}) => html)]);
        }""",
        panel.element_handle(),
    )
    assert found == []


def test_a_session_is_found_by_its_words_and_resumed_after_a_restart_of_the_kernel(notebook, model):
    model.add(turn(say("Spring tides come at full moon.")), turn(say("Basalt is a lava rock.")))
    book = notebook("%load_ext cellwright")
    book.run(0)
    book.wait_done(0)
    panel = opened(book)
    ask(panel, "When are the tides highest?")
    panel.get_by_role("button", name="New session").click()
    panel.locator("li.run").first.wait_for(state="detached")
    ask(panel, "What is basalt?")
    book.page.get_by_role("button", name="Restart the kernel").first.click()
    book.page.locator(".jp-Dialog .jp-mod-accept").click()
    panel.locator("li.run").first.wait_for(state="detached")
    panel.locator(".kernel[data-connection=connected]").wait_for(timeout=60_000)
    panel.get_by_role("button", name="Sessions", exact=True).click()
    panel.locator(".cw-sessions .session").nth(1).wait_for()
    book.page.keyboard.type("full moon")
    panel.locator("mark", has_text="moon").first.wait_for()
    found = panel.locator(".cw-sessions .session")
    assert found.count() == 1
    check_accessible(panel)
    book.screenshot("panel-sessions", panel)
    book.page.keyboard.press("ArrowDown")
    book.page.keyboard.press("F2")
    book.page.keyboard.type("Of moons and tides")
    book.page.keyboard.press("Enter")
    panel.locator("[role=option] .title", has_text="Of moons and tides").wait_for()
    book.page.keyboard.press("Enter")
    panel.locator("li.run", has_text="When are the tides highest?").wait_for()
    panel.locator("li.run .answer", has_text="Spring tides come at full moon.").wait_for()
    panel.locator("header .title", has_text="Of moons and tides").wait_for()
    model.add(turn(say("Twice a month.")))
    ask(panel, "How often?")
    said = [message["content"] for message in model.requests[-1].body["messages"]]
    assert "When are the tides highest?" in str(said)
    assert "basalt" not in str(said)


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
    block = run.locator("figure", has_text="heights")
    block.get_by_role("button", name="Insert").click()
    cells.nth(2).wait_for()
    assert "heights = [1, 2, 3]" in cells.nth(2).inner_text()
    undo(book)
    cells.nth(2).wait_for(state="detached")
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
    book.page.keyboard.press("Enter")
    shown = panel.get_by_role("dialog", name="What fills the context")
    shown.get_by_role("row", name="System prompt").wait_for()
    shown.get_by_role("row", name="Free").wait_for()
    check_accessible(panel)
    book.page.keyboard.press("Escape")
    shown.wait_for(state="hidden")
    panel.get_by_role("button", name="Help and keys").click()
    panel.get_by_role("row", name="/context").wait_for()
    check_accessible(panel)
    book.page.keyboard.press("Escape")
    panel.locator(".cellwright-prompt").wait_for()


def test_code_of_an_answer_runs_in_a_console_of_the_notebooks_kernel(notebook, model):
    model.add(turn(say(CODE)))
    book = notebook("%load_ext cellwright", "sum(heights)")
    book.run(0)
    book.wait_done(0)
    panel = opened(book)
    run = ask(panel, "Give me code")
    run.locator("figure", has_text="heights").get_by_role("button", name="Console").click()
    cell = book.page.locator(".jp-CodeConsole-content .jp-Cell", has_text="heights = [1, 2, 3]")
    cell.locator(".jp-InputPrompt", has_text=re.compile(r"\[\d+\]")).wait_for(timeout=60_000)  # it has run
    book.run(1)
    book.wait_done(1)
    assert "6" in book.output(1).inner_text()
