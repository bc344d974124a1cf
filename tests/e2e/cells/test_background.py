"""A turn in the background as its user meets it: other cells are used, words reach Claude, the answer stays in its cell."""

import json

import pytest
from accessibility import check_accessible
from lab_tab import DARK, LIGHT
from playwright.sync_api import expect

from cellwright.testing import Gate, hold, say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def opened(notebook, *cells):
    book = notebook("%load_ext cellwright", *cells, "")
    book.run(0)
    book.wait_done(0)
    return book


def script(gate):
    return [
        turn(
            say("I look at what there is first, then I write the report.\n"),
            hold(gate),
            use("Bash", command="ls"),
        ),
        turn(say("In tabs, as you said.")),
        turn(say("And the tests pass.")),
    ]


def test_other_cells_are_used_and_words_are_typed_while_claude_works(notebook, model, tab):
    gate = Gate()
    model.add(*script(gate))
    book = opened(notebook, "%%claude --background\nWrite the report of the tides", "6 * 7")
    book.run(1)
    book.wait_done(1)  # the cell is done, the run is not
    book.output(1).locator("text=I look at what there is").wait_for()
    book.run(2)
    book.wait_done(2)
    expect(book.output(2)).to_contain_text("42")
    field = book.output(1).get_by_label("Add a message")
    field.focus()
    expect(field).to_be_focused()
    book.page.keyboard.type("Use tabs,")
    book.page.keyboard.press("Shift+Enter")  # to the notebook: run the cell again
    book.page.keyboard.type("not spaces.")
    expect(field).to_have_value("Use tabs,\nnot spaces.")
    book.page.keyboard.press("Enter")
    book.output(1).locator(".steer li", has_text="Next step").wait_for()
    book.page.keyboard.type("Then run the tests.")
    book.page.keyboard.press("Alt+Enter")
    book.output(1).locator(".steer li", has_text="When done").wait_for()
    book.page.keyboard.type("Delete the data.")
    book.page.keyboard.press("Enter")
    row = book.output(1).locator(".steer li", has_text="Delete the data.")
    row.locator(".chip", has_text="Next step").wait_for()
    book.page.keyboard.press("Shift+Tab")
    expect(row.get_by_role("button")).to_be_focused()
    book.page.keyboard.press("Enter")
    expect(row).to_have_count(0)
    field.focus()
    expect(field).to_be_focused()
    book.page.keyboard.type("And one more th")
    for theme in (DARK, LIGHT):
        tab.choose_theme(theme)
        check_accessible(book.output(1), "textarea")
        book.screenshot(f"background-{'dark' if theme == DARK else 'light'}", book.cell(1))
    gate.open()
    answer = book.output(1).locator(".cellwright-answer", has_text="And the tests pass.")
    for words in ("Use tabs,", "not spaces.", "Then run the tests."):
        expect(answer).to_contain_text(words)
    assert "Delete the data." not in json.dumps(model.requests[-1].body)
    expect(book.output(2)).to_contain_text("42")
    # what was being written is there in the next run
    gate = Gate()
    model.add(turn(say("Yes? "), hold(gate), say("Done.")))
    book.run(1)
    field = book.output(1).get_by_label("Add a message")
    expect(field).to_have_value("And one more th")
    gate.open()
    book.output(1).locator(".cellwright-answer", has_text="Done.").wait_for()


def test_the_answer_comes_while_another_cell_runs_and_after_a_reload(notebook, model):
    gate = Gate()
    model.add(turn(say("Before, "), hold(gate), say("and after.")))
    busy = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.02)\n'user is done'"
    book = opened(notebook, "%%claude --background\nTell me", busy)
    book.save()
    book.run(1)
    book.output(1).locator("text=Before").wait_for()
    book.save()
    book.reload()
    book.wait_idle()
    book.output(1).locator("text=Before").wait_for()
    book.run(2)
    gate.open()
    book.output(1).locator(".cellwright-answer", has_text="Before, and after.").wait_for()
    ((book.lab.root / book.path).parent / "go").touch()
    book.wait_done(2)
    expect(book.output(2)).to_contain_text("user is done")
    expect(book.output(2)).not_to_contain_text("Before")  # what was printed there is there before the cell is done
    book.wait_kept(1)
    assert "Before, and after." in json.dumps(book.save()["cells"][1]["outputs"])
