"""Several people have one notebook open: what Claude writes stands in it once, in every page and in the file."""

import pytest
from playwright.sync_api import expect

from cellwright.testing import Gate, hold, say, turn, use
from eventual import eventually

pytestmark = [pytest.mark.collaboration, pytest.mark.timeout(300)]

LOAD = "%load_ext cellwright"
ASK = "%%claude --mode bypassPermissions\nWork on it"
OUTPUTS = """index => window.jupyterapp.shell.currentWidget.content.model.cells.get(index).toJSON().outputs"""
SOURCES = """() => [...window.jupyterapp.shell.currentWidget.content.model.cells].map(cell => cell.toJSON().source)"""
KERNEL_HAS_ANSWERED = """() =>
    window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.requestKernelInfo().then(() => null)"""
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
DRAWS = """
from IPython.display import Image, display
display(Image(bytes.fromhex("89504e470d0a1a0a") + bytes(40), format="png"))
"""


def text(value):
    return value if isinstance(value, str) else "".join(value)


def outline(outputs):
    """What a cell shows, in order."""
    return [_of(output) for output in outputs]


def _of(output):
    if "data" not in output:
        return text(output.get("text", output.get("evalue", "")))
    data = output["data"]
    if WIDGET_VIEW in data:
        return "working"
    return "picture" if "image/png" in data else text(data.get("text/markdown", data.get("text/plain", "")))


def holds_once(notebook, index, *parts, books):
    """Wait until the cell has these outputs in all pages and in the file; then nothing comes after them any more."""

    def everywhere():
        pages = [book.page.evaluate(OUTPUTS, index) for book in books]
        return [outline(each) for each in (*pages, notebook.on_disk()["cells"][index]["outputs"])]

    def is_so(found):
        return all(len(each) == len(parts) and all(map(str.__contains__, each, parts)) for each in found)

    eventually(everywhere, is_so)
    for book in books:
        book.page.evaluate(KERNEL_HAS_ANSWERED)
    assert is_so(everywhere())


def loaded(shared, *sources):
    """The notebook in two people's pages, with the extension loaded."""
    notebook = shared(LOAD, *sources)
    one, two = notebook.open(), notebook.open()
    run(one, 0)
    return notebook, one, two


def run(book, index):
    book.run(index)
    book.wait_done(index)


def test_an_answer(shared, model):
    model.add(say("There **it** is."))
    notebook, one, two = loaded(shared, ASK)
    run(one, 1)
    holds_once(notebook, 1, "There **it** is.", books=(one, two))


def test_an_answer_with_what_its_code_displays(shared, model):
    model.add(turn(say("I draw. "), use("Python", code=DRAWS)), turn(use("Python", code=DRAWS)), say("There."))
    notebook, one, two = loaded(shared, ASK)
    run(one, 1)
    holds_once(notebook, 1, "I draw.", "picture", "display(", "picture", "There.", books=(one, two))


def streaming(gate):
    """A turn that waits for `gate` in the middle of its words."""
    return turn(say("Before, "), hold(gate), say("and after."))


def waits_in(book, words):
    book.output(1).locator(".cellwright-answer", has_text=words).wait_for()


def falls_asleep(book):
    """Stop all that the page computes, as a computer does that sleeps; what is returned lets it go on."""
    session = book.page.context.new_cdp_session(book.page)
    session.send("Debugger.enable")
    session.send("Debugger.pause")
    return lambda: session.send("Debugger.resume")


def test_the_page_that_asked_is_closed_while_claude_answers(shared, model):
    gate = Gate()
    model.add(turn(use("Python", code=DRAWS)), streaming(gate))
    notebook, one, two = loaded(shared, ASK)
    one.run(1)
    waits_in(two, "Before,")
    one.page.close()
    gate.open()
    holds_once(notebook, 1, "display(", "picture", "Before, and after.", books=[two])


def test_the_page_that_asked_sleeps_while_claude_answers(shared, model):
    gate = Gate()
    model.add(turn(use("Python", code=DRAWS)), streaming(gate))
    notebook, one, two = loaded(shared, ASK)
    one.run(1)
    waits_in(two, "Before,")
    wakes = falls_asleep(one)
    gate.open()
    parts = ("display(", "picture", "Before, and after.")
    holds_once(notebook, 1, *parts, books=[two])
    wakes()
    holds_once(notebook, 1, *parts, books=(one, two))


def test_it_goes_before_code_displays_something(shared, model):
    gate = Gate()
    model.add(turn(say("Look. "), hold(gate), use("Python", code=DRAWS)), say("There."))
    notebook, one, two = loaded(shared, ASK)
    one.run(1)
    waits_in(two, "Look.")
    three = notebook.open()
    one.page.close()
    gate.open()
    holds_once(notebook, 1, "Look.", "picture", "There.", books=(two, three))


def test_a_page_that_is_opened_while_claude_answers(shared, model):
    gate = Gate()
    model.add(turn(use("Python", code=DRAWS)), streaming(gate))
    notebook, one, two = loaded(shared, ASK)
    one.run(1)
    waits_in(two, "Before,")
    three = notebook.open()
    waits_in(three, "Before,")
    gate.open()
    holds_once(notebook, 1, "display(", "picture", "Before, and after.", books=(one, two, three))


def test_the_page_that_asked_is_loaded_again(shared, model):
    gate = Gate()
    model.add(turn(use("Python", code=DRAWS)), streaming(gate))
    notebook, one, two = loaded(shared, ASK)
    one.run(1)
    waits_in(two, "Before,")
    one.page.reload()
    waits_in(one, "Before,")
    gate.open()
    holds_once(notebook, 1, "display(", "picture", "Before, and after.", books=(one, two))


COUNTS = """\
import pathlib, time
for number in range(3):
    print(number)
while not pathlib.Path('go').exists():
    time.sleep(0.02)
print('last')
'value'"""
RUNS = "%%claude --mode bypassPermissions\nRun it"


def run_cells(*ids):
    return turn(use("NotebookRun", cell_ids=list(ids)))


def begins_to_count(book):
    book.output(2).locator("text=2").first.wait_for()


def test_the_outputs_of_cells_that_claude_runs(shared, model):
    model.add(run_cells("cell-2"), say("It ran."))
    notebook, one, two = loaded(shared, RUNS, COUNTS)
    one.run(1)
    begins_to_count(two)
    notebook.file.with_name("go").touch()
    one.wait_done(1)
    holds_once(notebook, 2, "0\n1\n2\nlast\n", "'value'", books=(one, two))
    holds_once(notebook, 1, "It ran.", books=(one, two))


@pytest.mark.parametrize("how", ["closed", "asleep"])
def test_the_page_that_asked_goes_while_a_cell_runs_for_claude(shared, model, how):
    model.add(run_cells("cell-2"), say("It ran."))
    notebook, one, two = loaded(shared, RUNS, COUNTS)
    one.run(1)
    begins_to_count(two)
    wakes = one.page.close() if how == "closed" else falls_asleep(one)
    notebook.file.with_name("go").touch()
    holds_once(notebook, 2, "0\n1\n2\nlast\n", "'value'", books=[two])
    holds_once(notebook, 1, "It ran.", books=[two])
    if wakes:
        wakes()
        holds_once(notebook, 2, "0\n1\n2\nlast\n", "'value'", books=(one, two))
        holds_once(notebook, 1, "It ran.", books=(one, two))


def edit(**change):
    return use("NotebookEdit", notebook_path="notebook.ipynb", **change)


def sources_are(notebook, *sources, books):
    """Wait until the cells below the first two have these sources in all pages and in the file."""

    def everywhere():
        pages = [book.page.evaluate(SOURCES) for book in books]
        file = [text(cell["source"]) for cell in notebook.on_disk()["cells"]]
        return [each[2:] for each in (*pages, file)]

    def is_so(found):
        return all(each == list(sources) for each in found)

    eventually(everywhere, is_so)
    for book in books:
        book.page.evaluate(KERNEL_HAS_ANSWERED)
    assert is_so(everywhere())


def test_proposed_changes_answered_in_the_other_page(shared, model):
    insertion = edit(edit_mode="insert", cell_id="cell-2", cell_type="code", new_source="radius")
    model.add(
        turn(use("NotebookRead", notebook_path="notebook.ipynb")),
        turn(edit(cell_id="cell-2", new_source="radius = 3"), insertion, edit(cell_id="cell-3", edit_mode="delete")),
        say("Done."),
    )
    notebook, one, two = loaded(shared, "%%claude\nImprove it", "radius = 2", "2 * radius", "")
    one.run(1)
    cards = two.page.locator(".cellwright-proposal .ask[data-ready]")
    expect(cards).to_have_count(3)
    for left in (2, 1, 0):
        cards.first.get_by_role("button", name="Accept", exact=True).click()
        expect(cards).to_have_count(left)
    one.wait_done(1)
    expect(one.page.locator(".cellwright-proposal")).to_have_count(0)
    sources_are(notebook, "radius = 3", "radius", "", books=(one, two))
    holds_once(notebook, 1, "Done.", books=(one, two))
    # by the button of the other page as well
    under = two.cell(1).locator(".cellwright-undo")
    expect(under).to_have_count(1)
    two.output(1).locator("footer").get_by_role("button", name="Undo", exact=True).click()
    under.get_by_role("group").get_by_role("button", name="Undo", exact=True).click()
    under.get_by_role("status").get_by_text("Undone: “").wait_for()
    sources_are(notebook, "radius = 2", "2 * radius", "", books=(one, two))


def test_an_edit_is_taken_back_by_the_pages_own_undo(shared, model):
    model.add(
        turn(use("NotebookRead", notebook_path="notebook.ipynb")),
        turn(edit(cell_id="cell-2", new_source="radius = 3")),
        say("Done."),
    )
    notebook, one, two = loaded(shared, "%%claude --mode acceptEdits\nImprove it", "radius = 2")
    run(one, 1)
    sources_are(notebook, "radius = 3", books=(one, two))
    one.edit(2)
    one.page.keyboard.press("Control+z")
    sources_are(notebook, "radius = 2", books=(one, two))


def test_a_prompt_cell(shared, model):
    notebook, one, two = loaded(shared, "'code'")
    one.cell(1).locator(".jp-InputPrompt").click()
    one.page.keyboard.press("p")
    expect(one.cell(2).locator(".cellwright-prompt-cell .cm-content")).to_be_focused()
    one.page.keyboard.type("Say it")
    sources_are(notebook, "%%claude\nSay it", books=(one, two))
    two.cell(2).locator(".cellwright-prompt-cell").wait_for()
    model.add(say("Said."))
    run(two, 2)
    holds_once(notebook, 2, "Said.", books=(one, two))
