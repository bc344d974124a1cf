"""Numbers of an answer whose cell has another value now: marked in the open notebook and when it is opened again."""

import json

import pytest
from playwright.sync_api import expect

from cellwright.testing import fault, say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

LOAD = "%load_ext cellwright"
PRINTED = "waits = [2.1, 2.5, 2.6369]\nprint('visits', 812)\nprint(f'mean wait {sum(waits) / 3:.4f}')"
AGAIN = PRINTED.replace("2.5,", "3.1567,")
READ = use("NotebookRead", notebook_path="notebook.ipynb", cell_ids=["cell-1"])
ANSWER = "The mean wait is 2.41 minutes, over 812 visits."


def asked(notebook, model):
    """A notebook whose cell 2 holds an answer with two numbers of cell 1."""
    model.add(turn(say("I read the cell.\n"), READ), turn(say(ANSWER)))
    book = notebook(LOAD, PRINTED, "%%claude\nHow long do they wait?", "")
    for index in range(3):
        book.run(index)
        book.wait_done(index)
    return book


def edit(book, index, source):
    book.edit(index)
    book.page.keyboard.press("Control+a")
    book.page.keyboard.insert_text(source)


@pytest.mark.lab_version
def test_a_cell_that_ran_again_marks_the_answer_until_it_is_refreshed(notebook, model):
    book = asked(notebook, model)
    output = book.output(2)
    expect(output).to_contain_text("2 of 2 numbers traced")
    expect(output.get_by_role("button", name="Refresh")).to_be_hidden()
    edit(book, 1, AGAIN)
    book.run(1)
    book.wait_done(1)
    expect(output.locator(".claim.stale")).to_have_text("2.41")
    expect(output).to_contain_text("1 of 2 numbers traced, 1 stale")
    # by keyboard, and as a screen reader has it
    number = output.get_by_role("button", name="2.41, stale: cell [4] gave 2.4123 then, 2.6312 now")
    number.focus()
    number.press("Enter")
    expect(output.locator(".claim-source")).to_contain_text("stale: cell [4] gave 2.4123 then, 2.6312 now")
    book.screenshot("stale-number", book.cell(2))
    output.locator(".claim-source").get_by_role("button", name="Go to cell").press("Enter")
    expect(book.page.locator(".jp-Cell.jp-mod-active")).to_contain_text("2.6312")
    model.add(
        turn(READ),
        turn(say("The mean wait is 2.63 minutes, over 812 visits.")),
    )
    output.get_by_role("button", name="Refresh").click()
    expect(output).to_contain_text("The mean wait is 2.63 minutes")
    book.wait_done(2)
    expect(output).to_contain_text("2 of 2 numbers traced")
    expect(output.locator(".claim.stale")).to_have_count(0)
    prompt = json.dumps(model.requests[-1].body["messages"])
    assert "2.41" in prompt
    assert "cell [4] gave 2.4123 then, 2.6312 now" in prompt
    # people see a few words, here in the panel
    book.page.keyboard.press("Control+Shift+Y")
    said = book.page.locator(".cellwright-panel .run").last.locator(".said")
    expect(said).to_contain_text("Refresh 1 number")
    expect(said).not_to_contain_text("out of date")
    # the prompt of the cell stays its user's
    assert "".join(book.save()["cells"][2]["source"]) == "%%claude\nHow long do they wait?"


def test_a_notebook_that_is_opened_again_has_its_marks_without_a_kernel(notebook, model, lab):
    book = asked(notebook, model)
    edit(book, 1, AGAIN)
    book.run(1)
    book.wait_done(1)
    expect(book.output(2).locator(".claim.stale")).to_have_text("2.41")
    saved = book.save()
    record = saved["cells"][2]["outputs"][0]["metadata"]["cellwright"]["numbers"]
    assert [number["text"] for number in record["n"]] == ["2.41", "812"]
    assert "mean wait" not in json.dumps(record)
    lab.end_sessions()
    book.open()
    expect(book.output(2).locator(".claim.stale")).to_have_text("2.41")
    expect(book.output(2)).to_contain_text("1 stale")
    edit(book, 1, PRINTED)
    book.run(1)
    book.wait_done(1)
    expect(book.output(2).locator(".claim.stale")).to_have_count(0)


def test_an_answer_that_could_not_be_written_anew_stays(notebook, model):
    book = asked(notebook, model)
    edit(book, 1, AGAIN)
    book.run(1)
    book.wait_done(1)
    model.add(fault("status", status=400, error_type="invalid_request_error", message="No such thing."))
    book.output(2).get_by_role("button", name="Refresh").click()
    expect(book.output(2)).to_contain_text("No such thing.")
    expect(book.output(2)).to_contain_text("The mean wait is 2.41 minutes")


def test_the_panel_marks_the_answer_too_and_refreshes_it_in_its_cell(notebook, model):
    book = asked(notebook, model)
    edit(book, 1, AGAIN)
    book.run(1)
    book.wait_done(1)
    book.page.keyboard.press("Control+Shift+Y")
    run = book.page.locator(".cellwright-panel .run")
    expect(run.locator(".claim.stale")).to_have_text("2.41")
    model.add(turn(READ), turn(say("The mean wait is 2.63 minutes, over 812 visits.")))
    run.get_by_role("button", name="Refresh").click()
    expect(book.output(2)).to_contain_text("The mean wait is 2.63 minutes")


def test_an_answer_that_only_the_panel_has_is_marked_and_refreshed_there(notebook, model):
    model.add(turn(READ), turn(say(ANSWER)))
    book = notebook(LOAD, PRINTED, "")
    for index in range(2):
        book.run(index)
        book.wait_done(index)
    book.page.keyboard.press("Control+Shift+Y")
    panel = book.page.locator(".cellwright-panel")
    panel.get_by_role("textbox", name="Prompt").fill("How long do they wait?")
    panel.get_by_role("textbox", name="Prompt").press("Enter")
    expect(panel.locator(".run")).to_contain_text("2 of 2 numbers traced")
    edit(book, 1, AGAIN)
    book.run(1)
    book.wait_done(1)
    run = panel.locator(".run").first
    expect(run.locator(".claim.stale")).to_have_text("2.41")
    expect(run.get_by_role("button", name="2.41, stale: cell [3] gave 2.4123 then, 2.6312 now")).to_be_visible()
    model.add(turn(READ), turn(say("The mean wait is 2.63 minutes, over 812 visits.")))
    run.get_by_role("button", name="Refresh").click()
    expect(panel.locator(".run")).to_have_count(2)
    expect(panel.locator(".run").last).to_contain_text("The mean wait is 2.63 minutes")
    expect(panel.locator(".run").last.locator(".said")).to_contain_text("Refresh 1 number")
    assert "cell [3] gave 2.4123 then, 2.6312 now" in json.dumps(model.requests[-1].body["messages"])
