"""The height of a finished answer in JupyterLab: `python -m pytest tests/e2e/cells/test_heights.py -s` prints it for each scene."""

import pytest

from cellwright.testing import say, turn, use
from eventual import eventually

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

LOAD = "%load_ext cellwright"
TIDES = '''\
"""Means of tides."""

WINDOW = 3


def rolling_mean(values, window=WINDOW):
    """The means of all windows."""
    means = []
    for start in range(len(values) - window):
        means.append(sum(values[start : start + window]) / window)
    return means


def highest(values):
    return max(rolling_mean(values))
'''
CHECK = """\
from tides import rolling_mean


def check():
    assert rolling_mean([1, 2, 3, 4], 2)

check()
print("checked")
"""
EDIT = use(
    "Edit",
    file_path="tides.py",
    old_string="range(len(values) - window)",
    new_string="range(len(values) - window + 1)",
)
READ = use("Read", file_path="tides.py")
FOUND = "`rolling_mean` stops one window too early, so the last tide is lost.\n"
REPORT = """\
The last tide is there again. `rolling_mean` stopped one window too early: with 36 values and a window of 3 it gave 33 \
means, and it gives 34 now.

- `tides.py`: the range ends at `len(values) - window + 1`
- `check.py`: a check with two values and a window of two, which failed before

The check passes. The plot above is not drawn anew; run its cell to see the last day.
"""
TEN_CALLS = [
    turn(
        say("I read the code first.\n"),
        READ,
        use("Read", file_path="check.py"),
        use("Grep", pattern="rolling_mean"),
        use("LS", path="."),
    ),
    turn(say(FOUND), EDIT),
    turn(
        use(
            "Edit",
            file_path="check.py",
            old_string="    assert rolling_mean([1, 2, 3, 4], 2)\n",
            new_string="    assert len(rolling_mean([1, 2, 3, 4], 2)) == 3\n    assert rolling_mean([1, 3], 2) == [2]\n",
        )
    ),
    turn(say("Now the check.\n"), use("Bash", command="python check.py", description="Run the check")),
    turn(use("Python", code="# Means of a day\nfrom tides import rolling_mean\nprint(len(rolling_mean(list(range(36)))))")),
    turn(use("Write", file_path="NOTES.md", content="# Tides\n\nThe last window counts since today.\n")),
    turn(use("Bash", command="mkdir -p out && cp NOTES.md out/", description="Keep a copy of the notes")),
    turn(say(REPORT)),
]
SCENES = {
    "ten calls": TEN_CALLS,
    "short fix": [turn(READ), turn(EDIT), turn(say("The range ends one window later now, so the last tide counts."))],
    "text alone": [turn(say(REPORT))],
}
HEIGHT = """cell => {
    const shown = [...cell.querySelectorAll(':scope > .jp-Cell-outputWrapper, :scope > .cellwright-undo')];
    return Math.round(shown.reduce((sum, node) => sum + node.getBoundingClientRect().height, 0));
}"""


def played(book, index):
    """Run a cell and allow once whatever is asked there."""
    book.run(index)
    card = book.output(index).locator(".ask[data-ready]")
    prompt = book.cell(index).locator(".jp-InputPrompt")

    def is_done():
        if card.count():
            card.first.focus()
            book.page.keyboard.press("1")
        return "*" not in prompt.inner_text()

    eventually(is_done)
    book.output(index).locator("footer[data-state=done]:visible").wait_for()


def test_a_finished_answer_is_short(notebook, model, page):
    page.set_viewport_size({"width": 1440, "height": 900})
    book = notebook(LOAD, *(f"%%claude --new\n{name}" for name in SCENES), "", files={"tides.py": TIDES, "check.py": CHECK})
    book.run(0)
    book.wait_done(0)
    heights = {}
    for index, (name, script) in enumerate(SCENES.items(), 1):
        (folder := (book.lab.root / book.path).parent).joinpath("tides.py").write_text(TIDES, "utf-8")
        folder.joinpath("check.py").write_text(CHECK, "utf-8")
        model.add(*script)
        played(book, index)
        book.page.wait_for_timeout(1500)
        heights[name] = book.cell(index).evaluate(HEIGHT)
        book.cell(index).screenshot(path=f"/tmp/short-shots/{name.replace(' ', '-')}.png")
    print(heights)
