"""Claude runs cells of the notebook while its own cell is running: seen as they run, saved with it."""

import pytest
from lab_notebook import in_apps
from playwright.sync_api import expect

from cellwright.testing import Gate, hold, say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

LOAD = "%load_ext cellwright"
COUNT = """\
import time, pathlib
print('counting')
while not pathlib.Path('go').exists():
    time.sleep(0.02)
total = sum(range(10))
total"""


def loaded(notebook, *cells, app="lab"):
    book = notebook(LOAD, *cells, "", app=app)
    book.run(0)
    book.wait_done(0)
    return book


def prompt(book, index):
    return book.cell(index).locator(".jp-InputPrompt")


def outputs_of(cell):
    found = []
    for output in cell["outputs"]:
        text = output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"]
        found.append("".join(text).strip())
    return found


def told(model):
    """What Claude was told by the last call."""
    [result] = [block for block in model.requests[-1].body["messages"][-1]["content"] if block["type"] == "tool_result"]
    return result


@in_apps(on_older_lab=True)
def test_cells_run_while_the_one_that_asked_does(notebook, model, app):
    gate = Gate()
    model.add(
        turn(say("I run the two.\n"), use("NotebookRun", cell_ids=["cell-1", "cell-3"])),
        turn(hold(gate), say("The total is 45.")),
    )
    book = loaded(
        notebook, COUNT, "%%claude\nRun the counting and what doubles it", "total * 2", "'not asked for'", app=app
    )
    page = book.page
    book.run(2)
    card = book.asked_by_keys(2)
    card.get_by_text("Run 2 cells of notebook.ipynb in its kernel").wait_for()
    expect(card).to_contain_text("total = sum(range(10))")
    expect(card).to_contain_text("# cell 4")
    page.keyboard.press("1")

    # while the first one runs, what it has printed stands under it, and it is marked as running
    book.output(1).get_by_text("counting").wait_for()
    expect(prompt(book, 1)).to_have_text("[*]:")
    expect(prompt(book, 2)).to_have_text("[*]:")
    (book.lab.root / book.path).with_name("go").touch()

    # both have run, and the cell that asked still runs
    book.wait_done(3)
    book.output(3).get_by_text("90").wait_for()
    expect(prompt(book, 2)).to_have_text("[*]:")
    if app == "lab":
        book.screenshot("notebook-run")
    gate.open()
    book.wait_done(2)

    for index, count in enumerate(("[3]:", "[2]:", "[4]:"), 1):
        expect(prompt(book, index)).to_have_text(count)
    assert outputs_of(book.save()["cells"][1]) == ["counting", "45"]
    cells = book.on_disk()["cells"]
    assert outputs_of(cells[3]) == ["90"]
    assert [cell["execution_count"] for cell in cells[:5]] == [1, 3, 2, 4, None]
    assert cells[4]["outputs"] == []
    text = str(told(model)["content"])
    assert '<cell id="cell-1" number="2" execution_count="3"' in text
    assert "counting\\n45" in text or "counting\n45" in text

    # the user goes on where the cells have left off
    book.run(4)
    book.wait_done(4)
    expect(prompt(book, 4)).to_have_text("[5]:")


def test_a_failure_and_stop_while_cells_run(notebook, model):
    model.add(
        turn(use("NotebookRun", which="below")),
        turn(say("It failed."), use("NotebookRun", cell_ids=["cell-1"])),
    )
    endless = "print('endless')\nwhile True: pass"
    book = loaded(notebook, endless, "%%claude\nRun what is below", "1 / 0", "'after'")
    page = book.page
    book.run(2)
    book.output(2).locator(".ask[data-ready]").get_by_text("Run 2 cells").wait_for()
    book.asked_by_keys(2)
    page.keyboard.press("1")
    book.output(3).get_by_text("ZeroDivisionError: division by zero").wait_for()
    book.output(2).locator(".ask[data-ready]").get_by_text("Run cell “").wait_for()
    assert "Cell cell-3 failed" in str(told(model)["content"])
    assert "did not run: cell-4" in str(told(model)["content"])
    book.asked_by_keys(2)
    page.keyboard.press("1")
    book.output(1).get_by_text("endless").wait_for()

    prompt(book, 2).click()
    page.locator(".jp-Notebook.jp-mod-commandMode").wait_for()
    page.keyboard.press("i")
    page.keyboard.press("i")
    book.wait_done(2)
    book.wait_done(1)
    book.output(1).get_by_text("KeyboardInterrupt").first.wait_for()
    cells = book.save()["cells"]
    assert "".join(cells[1]["outputs"][0]["text"]) == "endless\n"
    assert cells[1]["outputs"][1]["ename"] == "KeyboardInterrupt"
    assert cells[3]["outputs"][0]["ename"] == "ZeroDivisionError"
    assert cells[4]["execution_count"] is None


@pytest.mark.lab_version
def test_a_page_that_is_reloaded_meanwhile_gets_the_outputs(notebook, model):
    model.add(turn(use("NotebookRun", cell_ids=["cell-1"])), turn(say("Done.")))
    book = loaded(notebook, COUNT, "%%claude\nRun the counting")
    book.run(2)
    book.output(2).locator(".ask[data-ready]").get_by_text("Run cell “").wait_for()
    book.asked_by_keys(2)
    book.page.keyboard.press("1")
    book.output(1).get_by_text("counting").wait_for()
    book.reload()
    (book.lab.root / book.path).with_name("go").touch()
    # the saved answer stands until the live one takes its place: then it is there once
    expect(book.output(2).get_by_text("Done.")).to_have_count(1)
    book.output(1).get_by_text("45").first.wait_for()
    book.wait_done(1)
    assert outputs_of(book.save()["cells"][1]) == ["counting", "45"]
    assert "are not in the notebook" not in str(told(model)["content"])
