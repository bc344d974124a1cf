"""A `%%claude` cell as its user meets it: streaming, questions, Stop, reload, and what is left in the notebook."""

import json
import os
import re
import signal
from pathlib import Path

import pytest
from lab_notebook import in_apps
from lab_tab import DARK, LIGHT
from playwright.sync_api import expect

from cellwright.testing import Gate, fault, hold, say, think, turn, use
from eventual import eventually

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

LOAD = "%load_ext cellwright"
DOCS = Path(__file__).parents[3] / "docs"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

TIDES = """\
def rolling_mean(values, window):
    means = []
    for start in range(len(values) - window):
        means.append(sum(values[start : start + window]) / window)
    return means
"""

EDIT = {
    "old_string": "range(len(values) - window)",
    "new_string": "range(len(values) - window + 1)",
}

ANSWER = """\
`rolling_mean` made one window too few: *n* values have **n − window + 1** windows.

| values | window | before | now |
|---|--:|--:|--:|
| 4 | 2 | 2 | 3 |
| 36 | 3 | 33 | 34 |

```python
for start in range(len(values) - window + 1):
    means.append(sum(values[start : start + window]) / window)
```

The last window, where high tide is, is looked at now.
"""


def fix_script():
    return [
        turn(
            think("Read the file before changing it."),
            say("I read the code first.\n"),
            use("Read", file_path="tides.py"),
        ),
        turn(say("The loop stops one window too early.\n"), use("Edit", file_path="tides.py", **EDIT)),
        turn(say(ANSWER)),
    ]


FOUND = """\
`data/tides.csv` holds **four readings** of a harbour, ten minutes apart:

- `time` from 06:00 to 06:30
- `level` from 3.1 to 3.6
- `comment`, empty in two rows

One thing is wrong: at **06:20** there is no level. Its comment says why: the gauge was stuck."""
CLEANED = """\
import pandas as pd

tides = pd.read_csv("data/tides.csv")
clean = tides.dropna(subset=["level"])
clean.to_csv("data/clean.csv", index=False)"""
PLOTTED = """\
import matplotlib.pyplot as plt

# all four times, so that the gap is seen
plt.figure(figsize=(6, 1.8))
plt.plot(tides["time"], tides["level"], "o-")
plt.ylabel("level, m");"""


def loaded(notebook, *cells, files=None):
    # Shift+Enter in the last cell would open a new one and take the focus there
    book = notebook(LOAD, *cells, "", files=files)
    book.run(0)
    book.wait_done(0)
    return book


@pytest.mark.lab_version
def test_text_streams_into_the_cell_while_it_runs(notebook, model):
    gate = Gate()
    model.add(turn(think("What is asked?"), say("The **first** half, "), hold(gate), say("and the second.")))
    book = loaded(notebook, "%%claude\nSay something in two halves")
    book.run(1)
    book.output(1).locator("text=first").wait_for()
    expect(book.output(1)).to_contain_text("half,")  # all that was said before the gate
    expect(book.cell(1).locator(".jp-InputPrompt")).to_have_text("[*]:")
    expect(book.output(1)).not_to_contain_text("second")
    gate.open()
    book.wait_done(1)
    book.output(1).locator("text=and the second.").wait_for()


def test_the_prompts_of_get_started(notebook, model):
    gate = Gate()
    model.add(turn(say("I'll read the file.\n"), use("Read", file_path="data/tides.csv")))
    half = FOUND.index("One thing")
    model.add(turn(say(FOUND[:half]), hold(gate), say(FOUND[half:])))
    plot = {"notebook_path": "notebook.ipynb", "edit_mode": "insert", "cell_id": "cell-3", "new_source": PLOTTED}
    model.add(
        turn(use("Python", code=CLEANED)),
        turn(use("NotebookRead", notebook_path="notebook.ipynb")),
        turn(use("NotebookEdit", **plot, cell_type="code")),
        turn(say("Three rows have a level; they are in `data/clean.csv`. The plot leaves a gap at 06:20.")),
    )
    page = (DOCS / "get-started.md").read_text("utf-8")
    data, first, second = re.search(
        r"```python\n(.*?)```.*?```\n(%%claude\n.*?)\n```.*?```\n(%%claude\n.*?)\n```", page, re.DOTALL
    ).groups()
    book = loaded(notebook, data, first, second)
    book.run(1)
    book.wait_done(1)
    book.run(2)
    book.output(2).locator("text=empty in two rows").wait_for()
    book.screenshot("streaming-cell", book.cell(2), width=920)
    gate.open()
    book.wait_done(2)
    book.run(3)
    card = book.asked_by_keys(3)
    expect(card).to_contain_text("to_csv")
    book.screenshot("permission-card", book.cell(3), width=920)
    book.asked_by_keys(3)
    book.page.keyboard.press("1")
    # where one change waits and its place is out of sight, the question is in the cell that asked
    expect(book.cell(3).locator(".ask[data-ready]", has_text="plt.plot")).to_be_focused()
    book.page.keyboard.press("Enter")
    book.wait_done(3)
    expect(book.output(3)).to_contain_text("Three rows have a level")
    book.wait_done(4)
    expect(book.output(4).locator("img")).to_be_visible()
    book.page.mouse.move(0, 0)  # the buttons of an output would cover its corner

    def show_plot():
        book.cell(4).evaluate("node => node.scrollIntoView({block: 'end'})")

    book.screenshot("first-plot", book.cell(3), book.cell(4), width=920, height=1100, again=show_plot)
    book.output(3).locator("footer").get_by_role("button", name="Undo", exact=True).click()
    undo = book.cell(3).locator(".cellwright-undo").get_by_role("group")
    expect(undo).to_contain_text("cell [5] will be deleted")
    book.screenshot("undo-first", book.cell(3), width=920, height=1100)
    undo.get_by_role("button", name="Undo", exact=True).click()
    book.cell(3).locator(".cellwright-undo").get_by_role("status").wait_for()
    assert not any("plt.plot" in "".join(cell["source"]) for cell in book.save()["cells"])
    folder = (book.lab.root / book.path).parent
    assert folder.joinpath("data/clean.csv").read_text().splitlines()[1:] == [
        "06:00,3.1,calm",
        "06:10,3.3,",
        "06:30,3.6,",
    ]


def test_an_edit_is_shown_as_a_diff_and_allowed_by_key(notebook, model, tab):
    gate = Gate()
    script = fix_script()
    script[2] = turn(say(ANSWER[:330]), hold(gate), say(ANSWER[330:]))
    model.add(*script)
    book = loaded(
        notebook, "%%claude\nThe rolling mean misses high tide. Find out why and fix it.", files={"tides.py": TIDES}
    )
    book.run(1)
    card = book.asked_by_keys(1)
    expect(card.locator(".ask-title")).to_contain_text("tides.py")
    expect(card).to_contain_text("window + 1")
    for theme, name in ((DARK, "dark-theme"), (LIGHT, "edit-card")):
        tab.choose_theme(theme)
        book.screenshot(name, book.cell(1))
    book.asked_by_keys(1)
    assert (book.lab.root / book.path).parent.joinpath("tides.py").read_text() == TIDES
    book.page.keyboard.press("1")
    book.output(1).locator("text=before").first.wait_for()
    book.screenshot("streaming-edit", book.cell(1))
    gate.open()
    book.wait_done(1)
    book.output(1).locator("text=The last window").wait_for()
    book.screenshot("finished-cell", book.cell(1))
    assert "window + 1" in (book.lab.root / book.path).parent.joinpath("tides.py").read_text()


def test_allowed_by_click(notebook, model):
    model.add(turn(use("Bash", command="echo from-the-shell > made.txt")), say("Made it."))
    book = loaded(notebook, "%%claude\nMake a file")
    book.run(1)
    card = book.asked(1)
    expect(card).to_contain_text("echo from-the-shell > made.txt")
    card.get_by_role("button").filter(has_text="once").first.click()
    book.wait_done(1)
    made = (book.lab.root / book.path).parent / "made.txt"
    assert made.read_text() == "from-the-shell\n"


def test_denied_with_a_reason_that_claude_is_told(notebook, model):
    model.add(turn(use("Bash", command="rm -r data")), say("Then I leave it."))
    book = loaded(notebook, "%%claude\nClean up")
    book.run(1)
    card = book.asked(1)
    card.locator("input[type=text]").fill("the data is needed")
    card.get_by_role("button").filter(has_text="Deny").first.click()
    book.wait_done(1)
    (result,) = model.requests[-1].body["messages"][-1]["content"]
    assert result["is_error"]
    assert "the data is needed" in result["content"]
    book.output(1).locator("text=Then I leave it.").wait_for()


def test_stop_ends_the_run_and_the_next_cell_goes_on(notebook, model):
    gate = Gate()
    model.add(turn(say("This takes "), hold(gate), say("for ever")))
    book = loaded(notebook, "%%claude\nTake long", "%%claude\nAnd now?")
    book.run(1)
    book.output(1).locator("text=This takes").wait_for()
    book.output(1).locator("button.stop").focus()
    book.page.keyboard.press("Enter")
    book.wait_done(1)
    gate.open()
    expect(book.output(1)).to_contain_text("Stopped")
    expect(book.output(1)).not_to_contain_text("KeyboardInterrupt")
    expect(book.cell(1)).to_be_focused()  # the button is gone
    model.add(say("Not so long this time."))
    book.output(1).get_by_role("button", name="Try again").focus()
    book.page.keyboard.press("Enter")
    book.output(1).locator("text=Not so long this time.").wait_for()
    expect(book.cell(1)).to_be_focused()
    book.wait_done(1)
    model.add(say("Here I am again."))
    book.run(2)
    book.wait_done(2)
    book.output(2).locator("text=Here I am again.").wait_for()


@pytest.mark.lab_version
def test_jupyter_s_own_stop_button(notebook, model):
    gate = Gate()
    model.add(turn(say("This takes "), hold(gate), say("for ever")))
    book = loaded(notebook, "%%claude\nTake long")
    book.run(1)
    book.output(1).locator("text=This takes").wait_for()
    book.page.locator('[data-command="notebook:interrupt-kernel"]').first.click()
    book.wait_done(1)
    gate.open()
    expect(book.output(1)).to_contain_text("Stopped")
    expect(book.output(1)).not_to_contain_text("KeyboardInterrupt")


def saved_text(book, index):
    """The Markdown of a cell as the notebook on disk has it, which has no widget anywhere."""
    book.wait_kept(index)
    bundles = [output["data"] for output in book.save()["cells"][index]["outputs"] if "data" in output]
    assert all(WIDGET_VIEW not in bundle for bundle in bundles)
    return "".join("".join(bundle.get("text/markdown", "")) for bundle in bundles)


def answer_of(book, index, text):
    """The whole answer in a cell, when it has come."""
    answer = book.output(index).locator(".cellwright-answer", has_text=text)
    answer.locator("footer[data-state=done]").wait_for()
    return answer


@pytest.mark.parametrize(
    "is_saved", [pytest.param(True, marks=pytest.mark.lab_version), False], ids=["saved", "never saved"]
)
def test_a_question_survives_a_reload_of_the_page_and_the_answer_is_kept(notebook, model, lab, is_saved):
    model.add(turn(say("I need a file.\n"), use("Bash", command="touch after-reload.txt")), say("There it is."))
    book = loaded(notebook, "%%claude\nMake a file")
    book.save()  # JupyterLab then trusts the notebook: it shows no widget in others
    book.run(1)
    book.asked(1)
    if is_saved:
        assert WIDGET_VIEW in json.dumps(book.save())
    book.reload()
    card = book.asked(1)
    card.get_by_role("button").filter(has_text="once").first.click()
    answer_of(book, 1, "There it is.")
    assert (book.lab.root / book.path).parent.joinpath("after-reload.txt").exists()
    assert "There it is." in saved_text(book, 1)
    lab.end_sessions()
    book.open()
    answer_of(book, 1, "There it is.")
    expect(book.output(1)).not_to_contain_text("model not found")


@pytest.mark.parametrize(
    "is_saved", [pytest.param(True, marks=pytest.mark.lab_version), False], ids=["saved", "never saved"]
)
def test_a_run_that_ends_while_the_page_reloads_keeps_its_answer(notebook, model, is_saved):
    gate = Gate()
    model.add(turn(say("Before the reload, "), hold(gate), say("and after it.")))
    book = loaded(notebook, "%%claude\nSay something in two halves", "open('over', 'w').close()")
    over = (book.lab.root / book.path).with_name("over")
    book.save()
    book.run(1)
    book.output(1).locator("text=Before the reload").wait_for()
    book.run(2)  # it waits for the run
    if is_saved:
        book.save()

    def come_late(route):
        gate.open()
        eventually(over.exists)
        route.continue_()

    # a reload that is slow: nothing of JupyterLab comes before the run is over
    book.page.route("**/static/lab/*.js*", come_late)
    book.reload()
    answer_of(book, 1, "and after it.")
    assert "Before the reload, and after it." in saved_text(book, 1)


def test_a_kernel_that_dies_ends_the_answer_that_it_was_giving(notebook, model):
    gate = Gate()
    model.add(turn(say("Before it died, "), hold(gate), say("and never after.")))
    book = loaded(
        notebook, "import os\nopen('pid', 'w').write(str(os.getpid()))", "%%claude\nSay something in two halves"
    )
    book.run(1)
    book.wait_done(1)
    book.run(2)
    book.output(2).locator("text=Before it died").wait_for()
    status = book.page.get_by_text("Claude is working")
    status.first.wait_for()
    os.kill(int((book.lab.root / book.path).with_name("pid").read_text("ascii")), signal.SIGKILL)
    expect(book.output(2).locator(".failure")).to_contain_text("The kernel ended while Claude worked")
    expect(book.output(2).locator(".prose")).to_contain_text("Before it died")
    expect(book.output(2).get_by_role("button", name="Stop", exact=True)).to_be_hidden()
    expect(status).to_have_count(0)
    book.page.get_by_role("button", name="Ok", exact=True).click()
    gate.open()


@pytest.mark.lab_version
def test_a_second_tab_shows_the_run_and_its_answers(notebook, model):
    model.add(turn(say("I need a file.\n"), use("Bash", command="touch two-tabs.txt")), say("There it is."))
    book = loaded(notebook, "%%claude\nMake a file")
    book.run(1)
    book.asked(1)
    book.save()
    second = book.in_second_tab()
    card = second.asked(1)
    card.get_by_role("button").filter(has_text="once").first.click()
    expect(book.output(1).locator(".ask")).to_have_count(0)
    answer_of(book, 1, "There it is.")
    answer_of(second, 1, "There it is.")
    assert "There it is." in saved_text(second, 1)


def test_a_second_tab_asks_as_well_if_nobody_has_saved_the_notebook(notebook, model):
    model.add(turn(use("Bash", command="touch two-tabs.txt")), say("There it is."))
    book = loaded(notebook, "%%claude\nMake a file")
    book.run(1)
    book.asked(1)
    second = book.in_second_tab()
    status = second.page.locator(".cellwright-status-item")
    expect(status).to_contain_text("Claude is waiting for you · cell [2]")
    second.asked(1).get_by_role("button").filter(has_text="once").first.click()
    answer_of(second, 1, "There it is.")
    answer_of(book, 1, "There it is.")


DEPARTURES = "minutes_late\n" + "12\n" * 440 + "0\n" * 764
COUNTED_LATE = """\
import pandas as pd
departures = pd.read_csv("departures.csv")
print("departures", len(departures))
print("late", round((departures.minutes_late > 5).mean(), 4))"""
NUMBERS = "There were 1,204 departures in May. Of these, 36.5 % were late, by 48.25 minutes on average."
FIRST_CHECK = "print('check', 1, 193 / 4)"


def source_of(book, index, number):
    """The number of an answer, a button, and the source that it shows when it is pressed."""
    return book.output(index).get_by_role("button", name=f"{number}, "), book.output(index).locator(".claim-source")


def check_numbers(book, model):
    """Asks for the numbers of an answer, goes to the source of one by keys, and has the one without a source computed."""
    model.add(turn(use("Python", code=COUNTED_LATE)), turn(say(NUMBERS)))
    book.run(2)
    book.wait_done(2)
    expect(book.output(2)).to_contain_text("2 of 3 numbers traced")
    expect(book.output(2).locator(".unsourced")).to_have_text("48.25")
    number, source = source_of(book, 2, "48.25")
    number.focus()
    number.press("ArrowLeft")
    book.output(2).locator(".claim:focus").press("Enter")
    expect(source).to_contain_text("from Python, call 3, line 2")
    book.screenshot("numbers", book.cell(2))
    source.get_by_role("button", name="Go to call").press("Enter")
    expect(book.output(2).locator("details.fold[open]")).to_contain_text("late 0.3654")
    model.add(turn(use("Python", code=FIRST_CHECK)), turn(say("It is 48.25 minutes.")))
    book.output(2).get_by_role("button", name="2 of 3 numbers traced").click()
    book.output(2).get_by_role("button", name="Check these").click()
    expect(book.cell(3).locator(".cm-content")).to_contain_text("Check 1 number")
    book.asked_by_keys(3)
    book.page.keyboard.press("1")
    book.wait_done(3)
    expect(book.output(2)).to_contain_text("3 of 3 numbers traced")
    expect(book.output(2).locator(".unsourced")).to_have_count(0)


def test_a_failed_request_and_code_in_a_copy_of_the_kernel_say_what_to_do_next(notebook, model):
    book = loaded(notebook, "%%claude\nHow high is it?", "%%claude --mode bypassPermissions\nTry it.")
    model.add(fault("status", status=401, error_type="authentication_error", message="invalid x-api-key"))
    book.run(1)
    book.wait_done(1)
    expect(book.output(1)).to_contain_text("The API rejected your key")
    book.reel("error-card", book.cell(1))
    model.add(turn(say("I try it first."), use("Branch", code="level = 3.5\nprint(level)")), turn(say("It is 3.5 m.")))
    book.run(2)
    book.wait_done(2)
    call = book.output(2).locator("details.fold").first
    call.locator("summary").first.click()
    run = book.output(2).get_by_role("button", name="Run in my kernel")
    call.locator("..").get_by_text("3.5").first.wait_for()
    book.reel("branch-card", run if run.count() else call)
    if run.count():  # a copy cannot be made everywhere
        run.click()
        expect(book.page.locator(".cellwright-panel .cellwright-prompt")).to_have_value(re.compile("^/branches run "))


@pytest.mark.lab_version
def test_the_saved_notebook_reads_well_without_a_kernel(notebook, model, lab):
    model.add(*fix_script())
    book = loaded(
        notebook,
        "%%claude --mode acceptEdits\nThe rolling mean misses high tide. Find out why and fix it.",
        "%%claude --allow Python\nHow many departures are in departures.csv, and how many were late?",
        files={"tides.py": TIDES, "departures.csv": DEPARTURES},
    )
    book.run(1)
    book.wait_done(1)
    check_numbers(book, model)
    saved = book.save()
    outputs = saved["cells"][1]["outputs"]
    assert outputs
    assert all(WIDGET_VIEW not in output.get("data", {}) for output in outputs)
    text = "".join("".join(output["data"]["text/markdown"]) for output in outputs if "data" in output)
    assert "windows" in text
    assert "Edit" in text
    assert "```diff" in text
    lab.end_sessions()
    book.open()
    book.output(1).locator("text=The last window").wait_for()
    expect(book.output(1)).not_to_contain_text("model not found")
    book.screenshot("saved-notebook", book.cell(1))
    number, source = source_of(book, 2, "1,204")
    number.click()
    expect(source).to_contain_text("from Python, call 3, line 1")
    expect(book.output(2)).to_contain_text("3 of 3 numbers traced")


@in_apps(on_older_lab=True)
def test_a_cell_asks_claude_without_load_ext_also_after_a_restart(notebook, model, app):
    model.add(turn(say("The tide is high.")), turn(say("The tide is low.")))
    book = notebook("%%claude\nHow is the tide?", "1 + 1", "", app=app)
    book.run(0)
    book.wait_done(0)
    expect(book.output(0)).to_contain_text("The tide is high.")
    expect(book.cell(0).locator(".jp-InputPrompt")).to_have_text("[1]:")
    session = next(each for each in book.lab.api("GET", "api/sessions") if each["path"] == book.path)
    book.lab.api("POST", f"api/kernels/{session['kernel']['id']}/restart", {})
    book.run(0)
    expect(book.output(0)).to_contain_text("The tide is low.")
    book.wait_done(0)
    assert "load_ext" not in json.dumps([cell["source"] for cell in book.save()["cells"]])
