"""A notebook that was answered before, after its kernel was restarted: played, kept or asked again, as its user says."""

import re

import pytest
from playwright.sync_api import expect

from cellwright.testing import say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

LOAD = "%load_ext cellwright\n%config Claude.record = 'auto'\n%config Claude.allow = ['Python', 'Bash(ls)']"
ASK = "%%claude\nHow many levels are there?"
AGAIN = "%%claude\nAnd the highest?"


def answered(notebook, model, page):
    """A notebook whose two prompts were answered and recorded; it is saved, and its kernel restarted."""
    book = notebook(LOAD, ASK, AGAIN, "")
    book.run(0)
    book.wait_done(0)
    model.add(turn(say("I count.\n"), use("Python", code="levels = [1, 3, 2]\nlen(levels)")), use("Bash", command="ls"))
    model.add(say("There are **three** levels."))
    model.add(say("It is **3**."))
    for index, text in ((1, "There are three levels."), (2, "It is 3.")):
        book.run(index)
        book.output(index).get_by_text(text).wait_for()
        book.wait_done(index)
    outputs = book.save()["cells"][1]["outputs"]
    assert outputs[0]["metadata"]["cellwright"]["turn"] == 1
    assert outputs[0]["metadata"]["cellwright"]["recording"] == "notebook.cellwright.jsonl"
    (session,) = [found for found in book.lab.sessions() if found["path"] == book.path]
    book.lab.api("POST", f"api/kernels/{session['kernel']['id']}/restart", {})
    book.reload()
    book.wait_idle()
    return book


def test_an_answered_cell_offers_its_recording_and_becomes_ordinary_cells(notebook, model, page):
    book = answered(notebook, model, page)
    asked_before = len(model.requests)
    book.run(0)
    book.wait_done(0)
    book.run(1)
    card = book.asked_by_keys(1)
    for label in ("Play the recording", "Run again (this and all others)", "Keep the answers as they are"):
        expect(card).to_contain_text(label)
    book.screenshot("replay-card", book.output(1))
    page.keyboard.press("1")
    book.output(1).get_by_text("There are three levels.").wait_for()
    book.wait_done(1)
    # asked once: the next one is played without a word
    book.run(2)
    book.output(2).get_by_text("It is 3.").wait_for()
    book.wait_done(2)
    expect(book.output(2).locator(".ask")).to_have_count(0)
    assert len(model.requests) == asked_before

    content = book.cell(3).locator(".cm-content")
    content.click()
    expect(content).to_be_focused()
    page.keyboard.type("%claude /cells all")
    book.run(3)
    asked = page.locator(".jp-Notebook .jp-Cell", has_text="%claude /cells all")  # it is further down now
    expect(asked.locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]"))
    sources = ["".join(cell["source"]) for cell in book.save()["cells"]]
    assert sources[:5] == [LOAD, ASK, "levels = [1, 3, 2]\nlen(levels)", "!ls", AGAIN]


def test_answers_are_kept_where_the_user_says_so(notebook, model, page):
    book = answered(notebook, model, page)
    asked_before = len(model.requests)
    before = [cell["outputs"] for cell in book.on_disk()["cells"]]
    book.run(0)
    book.wait_done(0)
    book.run(1)
    book.asked_by_keys(1)
    page.keyboard.press("Escape")
    book.output(1).get_by_text("There are three levels.").wait_for()
    book.wait_done(1)
    book.run(2)
    book.output(2).get_by_text("It is 3.").wait_for()
    book.wait_done(2)
    assert [cell["outputs"] for cell in book.save()["cells"]][1:3] == before[1:3]
    assert len(model.requests) == asked_before
