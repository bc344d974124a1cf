"""A turn in the background as its user meets it: other cells are used, words reach Claude, the answer stays in its cell."""

import json
from pathlib import Path

import pytest

from cellwright.testing import Gate, hold, say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

AXE = Path(__file__).parents[2] / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
THEMES = "lab/api/settings/@jupyterlab/apputils-extension:themes"


def opened(notebook, *cells):
    book = notebook("%load_ext cellwright", *cells, "")
    book.run(0)
    book.wait_done(0)
    return book


def check_accessible(book, index=1):
    """No serious violation of WCAG in what the cell shows, as axe-core sees it, the field for words among it."""
    book.page.add_script_tag(path=AXE)
    found = book.page.evaluate(
        """async target => {
            const {violations, passes} = await axe.run(target);
            const serious = violations.filter(({impact}) => ["serious", "critical"].includes(impact));
            const seen = passes.flatMap(({nodes}) => nodes).map(({html}) => html);
            return {
                looked: seen.filter((html) => html.includes("textarea")).length,
                violations: serious.map(({id, help, nodes}) => [id, help, nodes.map(({html}) => html)]),
            };
        }""",
        book.output(index).element_handle(),
    )
    assert found["violations"] == []
    assert found["looked"] > 0


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


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"], ids=["light", "dark"])
def test_other_cells_are_used_and_words_are_typed_while_claude_works(notebook, model, lab, theme):
    gate = Gate()
    model.add(*script(gate))
    lab.api("PUT", THEMES, {"raw": json.dumps({"theme": theme})})
    try:
        book = opened(notebook, "%%claude --background\nWrite the report of the tides", "6 * 7")
        book.run(1)
        book.wait_done(1)  # the cell is done, the run is not
        book.output(1).locator("text=I look at what there is").wait_for()
        book.run(2)
        book.wait_done(2)
        assert "42" in book.output(2).inner_text()
        field = book.output(1).get_by_label("Tell Claude while it works")
        field.focus()
        book.page.keyboard.type("Use tabs,")
        book.page.keyboard.press("Shift+Enter")  # to the notebook: run the cell again
        book.page.keyboard.type("not spaces.")
        assert field.input_value() == "Use tabs,\nnot spaces."
        book.page.keyboard.press("Enter")
        book.output(1).locator(".steer li", has_text="with the next step").wait_for()
        book.page.keyboard.type("Then run the tests.")
        book.page.keyboard.press("Alt+Enter")
        book.output(1).locator(".steer li", has_text="after this turn").wait_for()
        book.page.keyboard.type("Delete the data.")
        book.page.keyboard.press("Enter")
        row = book.output(1).locator(".steer li", has_text="Delete the data.")
        row.locator(".chip", has_text="with the next step").wait_for()
        book.page.keyboard.press("Shift+Tab")
        book.page.keyboard.press("Enter")
        row.wait_for(state="detached")
        field.focus()
        book.page.keyboard.type("And one more th")
        check_accessible(book)
        book.screenshot(f"background-{'dark' if 'Dark' in theme else 'light'}", book.cell(1))
        gate.open()
        answer = book.output(1).locator(".jp-RenderedMarkdown", has_text="And the tests pass.")
        answer.wait_for()
        assert "Use tabs," in answer.inner_text()
        assert "not spaces." in answer.inner_text()
        assert "Then run the tests." in answer.inner_text()
        assert "Delete the data." not in json.dumps(model.requests[-1].body)
        assert "42" in book.output(2).inner_text()
        # what was being written is there in the next run
        gate = Gate()
        model.add(turn(say("Yes? "), hold(gate), say("Done.")))
        book.cell(1).locator(".cm-content").click()
        book.page.keyboard.press("Shift+Enter")
        field = book.output(1).get_by_label("Tell Claude while it works")
        field.wait_for()
        assert field.input_value() == "And one more th"
        gate.open()
        book.output(1).locator(".jp-RenderedMarkdown", has_text="Done.").wait_for()
    finally:
        lab.api("PUT", THEMES, {"raw": "{}"})


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
    book.output(1).locator("text=Before").wait_for()
    book.run(2)
    gate.open()
    book.output(1).locator(".jp-RenderedMarkdown", has_text="Before, and after.").wait_for()
    assert "Before" not in book.output(2).inner_text()
    ((book.lab.root / book.path).parent / "go").touch()
    book.wait_done(2)
    assert "user is done" in book.output(2).inner_text()
    assert "Before, and after." in json.dumps(book.save()["cells"][1]["outputs"])
