"""A `%%claude` cell as a place to write prose in: its editor, what it completes, and how code becomes a prompt and back."""

import pytest
import reel
from accessibility import check_accessible
from lab_notebook import in_apps
from lab_tab import DARK
from playwright.sync_api import expect

from cellwright.testing import say
from eventual import eventually

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

TIDES = """import pandas as pd

times = pd.date_range("2026-11-21", periods=144, freq="10min")
tides = pd.DataFrame({"time": times, "level_m": 1.4, "comment": "calm"})
harbour = "Esbjerg"
"""


def sources(book):
    return ["".join(cell["source"]) for cell in book.save()["cells"]]


def rows(page):
    return page.locator(".cellwright-prompt-list .cellwright-palette-label")


def mime_types(page):
    return page.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets.map(({model}) => model.mimeType)")


@in_apps(on_older_lab=True)
def test_a_prompt_is_inserted_written_with_completions_and_run(notebook, model, page, app):
    book = notebook(TIDES, app=app)
    book.run(0)
    book.wait_done(0)
    if reel.FOLDER:  # an earlier scene may have asked, which ends the hint
        page.evaluate("() => document.querySelector('.jp-Notebook').classList.add('cellwright-first-hint')")
        book.reel("empty-cell")
    book.cell(0).locator(".jp-InputPrompt").click()
    page.keyboard.press("p")
    prompt = book.cell(1).locator(".cellwright-prompt-cell .cm-content")
    expect(prompt).to_be_focused()
    expect(prompt).to_have_attribute("spellcheck", "true")
    expect(prompt).to_have_attribute("data-language", "prompt")
    # the kernel has not loaded the package: what is typed has it do that
    page.keyboard.type("Plot the levels of $ti")
    rows(page).first.wait_for()
    expect(rows(page).first).to_have_text("$tides")
    expect(prompt).to_have_attribute("aria-activedescendant", rows(page).first.locator("..").get_attribute("id"))
    book.screenshot("prompt-cell-completion", book.cell(0), page.locator(".cellwright-prompt-list"), width=1000)
    check_accessible(book.cell(1), "cm-content")
    check_accessible(page.locator(".cellwright-prompt-list"), "cellwright-palette")
    page.keyboard.press("Tab")
    page.keyboard.type(", see @cell:")
    rows(page).filter(has_text="cell:[1]").wait_for()
    expect(rows(page).filter(has_text="cell:2")).to_have_count(0)  # the prompt itself
    page.keyboard.press("Enter")
    page.keyboard.type("and @")
    rows(page).first.wait_for()
    page.keyboard.press("Escape")
    expect(rows(page)).to_have_count(0)
    page.keyboard.press("Backspace")
    expect(prompt).to_be_focused()
    expect(prompt.locator(".cellwright-prompt-mention")).to_have_text(["$tides", "@cell:cell-0"])
    expect(prompt.locator("[class*='ͼ']")).to_have_count(0)
    model.add(say("It is 3.5 m."))
    page.keyboard.press("Shift+Enter")
    book.output(1).get_by_text("It is 3.5 m.").wait_for()
    book.wait_done(1)
    assert sources(book)[1].rstrip() == "%%claude\nPlot the levels of $tides , see @cell:cell-0 and"
    assert all(set(cell["metadata"]) <= {"execution"} for cell in book.on_disk()["cells"])


def convert(page, command):
    """Choose a conversion in the menu of the active cell."""
    page.locator(".jp-cell-toolbar [data-command='cellwright:cell-menu']").click()
    page.locator(f".cellwright-cell-menu [data-command='cellwright:{command}']").click()


def test_commands_options_and_a_click_complete_and_code_becomes_a_prompt_and_back(notebook, page, tab):
    book = notebook("def f(x):\n    return x")
    book.edit(0)
    before = mime_types(page)
    convert(page, "make-prompt")
    prompt = book.cell(0).locator(".cellwright-prompt-cell .cm-content")
    expect(prompt).to_be_focused()
    assert mime_types(page)[0] == "text/plain"
    convert(page, "make-code")
    expect(book.cell(0).locator(".cellwright-prompt-cell")).to_have_count(0)
    eventually(lambda: mime_types(page), before.__eq__)
    assert sources(book)[0] == "def f(x):\n    return x"
    page.locator(".jp-NotebookPanel-toolbar [data-command='cellwright:insert-prompt']").click()
    second = book.cell(1).locator(".cm-content")
    expect(second).to_be_focused()
    page.keyboard.type("/")
    rows(page).filter(has_text="help").first.wait_for()
    page.keyboard.type("comp")
    expect(rows(page).first).to_contain_text("compact")
    page.keyboard.press("Enter")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("End")
    page.keyboard.type(" --mod")
    rows(page).filter(has_text="model").first.click()
    expect(second).to_be_focused()
    tab.choose_theme(DARK)
    assert sources(book)[1] == "%%claude --model \n/compact "
