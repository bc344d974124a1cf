"""The panel in the sidebar: one conversation with the kernel, whatever that does, and however the page comes and goes."""

import json
import re
import shutil
import sys
from pathlib import Path

import ipykernel
import pytest
import reel
from lab_tab import DARK, LIGHT, wait_loaded
from playwright.sync_api import expect

from cellwright.testing import Gate, hold, say, turn, use
from eventual import eventually

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

LOAD = "%load_ext cellwright"
PICTURED = "/opt/tides/bin/python -m pip install cellwright"
DOCS = Path(__file__).parents[3] / "docs"
READINGS = "time,level,comment\n06:00,3.1,calm\n06:10,3.3,\n06:20,,gauge stuck\n06:30,3.6,\n"
CLEANED = """\
import pandas as pd

tides = pd.read_csv("data/tides.csv")
clean = tides.dropna(subset=["level"])
clean.to_csv("data/clean.csv", index=False)"""
PLOTTED = """\
import matplotlib.pyplot as plt

# all four times, so that the gap is seen
plt.figure(figsize=(5, 1.4))
plt.plot(tides["time"], tides["level"], "o-")
plt.ylabel("level, m");"""
PLOT = {"notebook_path": "notebook.ipynb", "edit_mode": "insert", "cell_id": "cell-1", "new_source": PLOTTED}
HOURLY = """\
def high_tide(levels):
    hourly = levels.set_index("time").level.rolling(6, center=True).mean()
    return hourly.idxmax()
"""
ANSWER = """Four readings are too few: the level **still rises** in the last one. With a whole day of them:

1. Take the mean of each hour, which is six readings.
2. High tide is where that mean is highest.

```python
hourly = tides.level.rolling(6, center=True).mean()
hourly.idxmax()
```

I'll write it as a function:"""
PHONE = 400
"""As wide as the panel is in the picture for phones, in pixels."""
BUSY = "import pathlib, time\nwhile not pathlib.Path('enough').exists():\n    time.sleep(0.05)"
OPEN = "Control+Shift+Y"
SUBSHELLS = pytest.mark.skipif(
    int(ipykernel.__version__.partition(".")[0]) < 7, reason="this ipykernel has no subshells"
)
# a Python that has no Cellwright, whichever others it has
LACKING = """
import sys
class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] == 'cellwright':
            raise ModuleNotFoundError("No module named 'cellwright'", name='cellwright')
sys.meta_path.insert(0, Lacking())
from ipykernel.kernelapp import launch_new_instance
launch_new_instance()
"""


class Panel:
    """The panel of a page."""

    def __init__(self, page):
        self.page = page
        self.node = page.locator(".cellwright-panel")
        self.area = self.node.locator(".cellwright-prompt")

    def wait(self, connection):
        self.page.locator(f".cellwright-panel .kernel[data-connection='{connection}']").wait_for()

    def open(self):
        self.page.keyboard.press(OPEN)
        expect(self.area).to_be_focused()
        return self

    def wait_kept(self, lab):
        """Wait until JupyterLab knows that the panel is open: a page that is reloaded has it open again then."""

        def shown():
            layout = lab.api("GET", "lab/api/workspaces/default")["data"].get("layout-restorer:data") or {}
            return (layout.get("right") or {}).get("current")

        eventually(shown, "cellwright-panel".__eq__)

    def ask(self, text):
        self.area.click()
        self.type(text)

    def type(self, text):
        """Write and send a prompt with the keyboard, which is where the panel has put it."""
        expect(self.area).to_be_focused()
        self.page.keyboard.type(text)
        expect(self.area).to_have_value(text)
        self.page.keyboard.press("Enter")

    def answer(self, index):
        """The transcript of the run at `index`."""
        return self.node.locator(".run").nth(index).locator(".transcript")

    def card(self):
        return self.node.locator(".ask[data-ready]")

    def widen(self, width):
        """Drag the edge of the sidebar."""
        self.page.locator("#jp-main-split-panel > .lm-SplitPanel-handle:visible").last.hover()  # it stands still then
        self.page.mouse.down()
        box = self.node.bounding_box()
        self.page.mouse.move(box["x"] + box["width"] - width, 400, steps=5)
        self.page.mouse.up()
        self.page.wait_for_function(
            "width => Math.abs(document.querySelector('.cellwright-panel').clientWidth - width) < 20", arg=width
        )

    def wait_whole_card(self):
        """Wait until the lower end of the card is in sight: that is where the answers are."""
        self.page.wait_for_function(
            """() => {
                const scroller = document.querySelector('.cellwright-panel .scroller').getBoundingClientRect();
                const roots = [...document.querySelectorAll('.cellwright-panel .answer')].map(node => node.shadowRoot);
                const card = roots.map(root => root?.querySelector('.ask[data-ready]')).find(Boolean);
                return card.getBoundingClientRect().bottom <= scroller.bottom + 1;
            }"""
        )


@SUBSHELLS
def test_from_the_notebook_to_an_answer_by_keys_alone_while_a_cell_runs(notebook, model, page):
    book = notebook(BUSY, "")
    model.add(turn(use("Bash", command="echo high > tide.txt")), turn(say("The tide is **high**.")))
    book.run(0)
    book.cell(0).locator(".jp-InputPrompt", has_text="[*]").wait_for()
    panel = Panel(page).open()  # one keystroke
    panel.wait("connected")
    panel.type("How is the tide?")  # and another
    panel.card().wait_for()
    page.wait_for_function("() => document.activeElement.matches('.cellwright-panel .answer')")
    page.keyboard.press("1")
    panel.answer(0).locator("strong", has_text="high").wait_for()
    panel.answer(0).locator("footer[data-state='done']").wait_for()
    assert (book.lab.root / book.path).with_name("tide.txt").read_text() == "high\n"
    expect(book.cell(0).locator(".jp-InputPrompt")).to_have_text("[*]:")
    # what the tool wrote is in the file browser at once
    page.locator(".jp-DirListing-item", has_text="tide.txt").wait_for()
    expect(panel.node.get_by_role("button", name="Stop")).to_be_hidden()  # while a run goes on, Escape is about that
    panel.area.click()
    expect(panel.area).to_be_focused()
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.activeElement.closest('.jp-NotebookPanel') !== null")
    (book.lab.root / book.path).with_name("enough").touch()
    book.wait_done(0)


def test_one_question_in_both_places_then_a_reload_in_the_middle_and_a_restart(notebook, model, page):
    gate = Gate()
    words = [f"word{number} " for number in range(60)]
    model.add(
        turn(use("Bash", command="echo 1 > one.txt")),
        turn(say("First answer.")),
        turn(say("".join(words[:30])), hold(gate), say("".join(words[30:]))),
    )
    book = notebook(LOAD, "%%claude\nAsk me", "")
    book.run(0)
    book.wait_done(0)
    panel = Panel(page).open()
    panel.wait("connected")
    book.run(1)
    in_cell = book.output(1).locator(".ask[data-ready]")
    in_cell.wait_for()  # who has run the cell is there: in the panel it is a line
    panel.node.get_by_role("button", name="Review here").click()
    in_cell.wait_for(state="detached")
    panel.card().get_by_role("button", name="Allow once").click()
    book.wait_done(1)
    expect(panel.node.locator(".run .place").first).to_have_text("[2]")

    panel.ask("Count")
    panel.answer(1).get_by_text("word29").wait_for()
    panel.wait_kept(book.lab)
    book.reload()
    panel.wait("connected")
    panel.answer(1).get_by_text("word29").wait_for()
    gate.open()
    panel.answer(1).locator("footer[data-state='done']").wait_for()
    expect(panel.answer(1).locator(".prose")).to_have_text("".join(words).strip())
    expect(panel.answer(0).locator(".prose")).to_have_text("First answer.")

    kernel = book.lab.sessions()[0]["kernel"]["id"]
    book.lab.api("POST", f"api/kernels/{kernel}/restart")
    model.add(turn(say("After the restart.")))
    panel.node.locator(".restarted:visible", has_text="its variables are gone").wait_for()
    panel.wait("connected")
    expect(panel.answer(0).locator(".prose")).to_have_text("First answer.")
    panel.ask("Are you there?")
    panel.answer(2).get_by_text("After the restart.").wait_for()
    expect(panel.node.locator(".run")).to_have_count(3)
    assert "Count" in json.dumps(model.requests[-1].body["messages"])  # it goes on with what is on the screen


def test_beside_the_notebook_an_answer_with_code_and_a_question_that_waits(notebook, model, tab, page):
    model.add(
        turn(use("Read", file_path="data/tides.csv")),
        turn(say("Four readings, ten minutes apart. At **06:20** there is no level: the gauge was stuck.")),
        turn(use("Python", code=CLEANED)),
        turn(use("NotebookRead", notebook_path="notebook.ipynb")),
        turn(use("NotebookEdit", **PLOT, cell_type="code")),
        turn(say("Three rows have a level; they are in `data/clean.csv`.")),
        turn(say(ANSWER), use("Write", file_path="hourly.py", content=HOURLY)),
        turn(say("It is written.")),
    )
    prompts = re.findall(r"```\n(%%claude\n.*?)\n```", (DOCS / "get-started.md").read_text("utf-8"), re.DOTALL)
    book = notebook(*prompts[:2], "", files={"data/tides.csv": READINGS})
    book.run(0)
    book.wait_done(0)
    book.run(1)
    book.asked_by_keys(1)
    page.keyboard.press("1")
    expect(book.cell(1).locator(".ask[data-ready]", has_text="plt.plot")).to_be_focused()
    page.keyboard.press("Enter")
    book.wait_done(1)
    book.wait_done(2)
    expect(book.output(2).locator("img")).to_be_visible()
    page.set_viewport_size({"width": 1200, "height": 900})
    page.keyboard.press("Control+b")  # the file browser gives its place to the notebook
    expect(page.locator(".jp-DirListing")).to_be_hidden()
    panel = Panel(page).open()
    panel.wait("connected")
    panel.widen(600)
    panel.ask("When is high tide? Write a function that finds it.")
    panel.card().wait_for()
    panel.wait_whole_card()
    for theme, name in ((DARK, "panel-dark"), (LIGHT, "panel")):
        tab.choose_theme(theme)
        book.screenshot(name, page.locator(".jp-NotebookPanel-notebook"), panel.node)
    expect(panel.answer(2).locator(".prose").last).to_be_in_viewport()  # the reason for what is asked
    panel.widen(250)
    panel.wait_whole_card()
    panel.node.locator(".scroller").evaluate("node => { node.scrollTop -= 1 }")
    panel.node.locator(".scroller").evaluate("node => new Promise(done => requestAnimationFrame(done))")
    expect(panel.node.locator(".newest")).to_be_hidden()  # it would cover the card
    eventually(lambda: panel.node.evaluate("node => node.scrollWidth <= node.clientWidth"))
    book.screenshot("panel-narrow", panel.node)
    panel.widen(PHONE)
    panel.wait_whole_card()
    book.screenshot("panel-phone", panel.node)
    panel.card().get_by_role("button", name="Allow once").click()
    panel.answer(2).get_by_text("It is written.").wait_for()
    expect(panel.node.locator(".newest")).to_be_hidden()  # it goes on to follow what comes


@pytest.mark.lab_version
def test_without_a_notebook_a_kernel_of_its_own_begins_with_the_first_prompt(tab, lab, model, page):
    model.add(turn(say("In a kernel of my own.")), turn(say("Still here.")))
    tab.open_nothing()
    panel = Panel(page).open()
    panel.node.get_by_text("No notebook with a Python kernel is open").wait_for()
    assert lab.sessions() == []
    panel.type("Hello?")
    panel.node.get_by_text("In a kernel of my own.").wait_for()
    expect(panel.node.locator(".kernel")).to_contain_text("Own kernel")
    panel.wait_kept(lab)
    page.reload(wait_until="domcontentloaded")
    wait_loaded(page)
    page.locator(".jp-Launcher").wait_for()
    reel.take(tab, "launcher")
    panel.wait("connected")
    panel.node.get_by_text("In a kernel of my own.").wait_for()
    assert len(lab.sessions()) == 1
    shut_down = page.get_by_role("menuitem", name="Shut down own kernel")

    def offered():
        # the launcher may take the keyboard late, and a menu closes then
        if not shut_down.is_visible():
            panel.node.get_by_title("More commands").click()
        return shut_down.is_visible()

    eventually(offered)
    shut_down.click()
    panel.wait("none")
    eventually(lab.sessions, [].__eq__)


@pytest.fixture
def lacking(lab):
    """The name of a kernel without the package, which the server has for this test alone."""
    spec = lab.home / ".local/share/jupyter/kernels/lacking"
    spec.mkdir(parents=True)
    argv = [sys.executable, "-c", LACKING, "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Lacking", "language": "python"}))
    lab.api("GET", "api/kernelspecs")
    yield spec.name
    shutil.rmtree(spec)  # or it would be offered to the tests that come after
    lab.api("GET", "api/kernelspecs")


def test_a_kernel_without_the_package_gets_the_command_for_its_own_python(notebook, lab, lacking, page):
    book = notebook("x = 1")
    session = lab.sessions()[0]
    lab.api("PATCH", f"api/sessions/{session['id']}", {"kernel": {"name": lacking}})
    book.reload()
    book.wait_idle()  # a notebook that is being opened takes the keyboard when it is there
    panel = Panel(page).open()
    panel.wait("missing")
    command = panel.node.locator(".note code")
    expect(command).to_contain_text(f"{sys.executable} -m pip install cellwright")
    page.set_viewport_size({"width": 1180, "height": 600})
    # the picture shows nobody's own path; the command itself was looked at above
    command.evaluate("(node, path) => { node.textContent = path }", PICTURED)
    book.screenshot("panel-missing", panel.node)
    panel.node.get_by_role("button", name="Try again").click()
    expect(command).to_contain_text(sys.executable)  # it was looked at anew
    panel.wait("missing")


def test_in_notebook_7(notebook, model, page):
    model.add(turn(say("Hello, Notebook.")))
    book = notebook("x = 41", app="notebook")
    page.locator(".jp-Notebook .jp-Cell .cm-content").first.click()
    panel = Panel(page).open()
    panel.wait("connected")
    panel.type("Hello?")
    panel.answer(0).get_by_text("Hello, Notebook.").wait_for()
    page.set_viewport_size({"width": 1180, "height": 640})
    book.screenshot("panel-notebook7")
