"""The height of a finished answer in JupyterLab; with `-s` it is printed for each scene."""

import pytest

from cellwright.testing import Gate, hold, say, turn, use
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
LAST_WORDS = ("tide counts again.", "see the last day.")
"""One of them ends every scene: what is drawn before them still grows, and the notebook moves with it."""

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
    turn(
        use(
            "Python", code="# Means of a day\nfrom tides import rolling_mean\nprint(len(rolling_mean(list(range(36)))))"
        )
    ),
    turn(use("Write", file_path="NOTES.md", content="# Tides\n\nThe last window counts since today.\n")),
    turn(use("Bash", command="mkdir -p out && cp NOTES.md out/", description="Keep a copy of the notes")),
    say(REPORT),
]
SCENES = {
    "ten calls": TEN_CALLS,
    "short fix": [turn(READ), turn(EDIT), say("The range ends one window later now, so the last tide counts again.")],
    "text alone": [say(REPORT)],
}
BEFORE = {"ten calls": 1155, "short fix": 397, "text alone": 200}
"""The heights of these scenes when steps did not fold, in the same JupyterLab at 1440×900."""

MOST = {"ten calls": 0.45, "short fix": 0.45, "text alone": 1.0}
"""The part of that which an answer may have now."""

HEIGHT = """cell => {
    const shown = [...cell.querySelectorAll(':scope > .jp-Cell-outputWrapper, :scope > .cellwright-undo')];
    return Math.round(shown.reduce((sum, node) => sum + node.getBoundingClientRect().height, 0));
}"""
ABOVE = "cell => cell.getBoundingClientRect().top + cell.closest('.jp-WindowedPanel-outer').scrollTop"
"""The height of what is above the cell in the notebook."""

IS_AT_END = "node => node.scrollTop + node.clientHeight >= node.scrollHeight - 1"
TWO_FRAMES = "() => new Promise(done => { requestAnimationFrame(() => requestAnimationFrame(done)) })"
TO_MIDDLE = "node => { node.scrollIntoView({block: 'center'}) }"


def played(book, index):
    """Run a cell and allow once whatever is asked there, until its last words are shown."""
    book.run(index)
    output = book.output(index)
    card = output.locator(".ask[data-ready]")
    last = output.locator(".items > .prose").last

    def is_said():
        if card.count():
            card.first.focus()
            book.page.keyboard.press("1")
        return last.is_visible() and last.inner_text().rstrip().endswith(LAST_WORDS)

    eventually(is_said)
    return last


def test_a_finished_answer_is_short_and_its_words_stay_where_they_are_read(notebook, model, page):
    page.set_viewport_size({"width": 1440, "height": 900})
    cells = (f"%%claude --new\n{name}" for name in SCENES)
    # with an output: of a cell without one that is out of sight, JupyterLab guesses the height, and moves what is below
    book = notebook(f"{LOAD}\nprint('ready')", *cells, "", files={"tides.py": TIDES, "check.py": CHECK})
    folder = (book.lab.root / book.path).parent
    book.run(0)
    book.wait_done(0)
    heights = {}
    for index, (name, script) in enumerate(SCENES.items(), 1):
        folder.joinpath("tides.py").write_text(TIDES, "utf-8")
        folder.joinpath("check.py").write_text(CHECK, "utf-8")
        gate = Gate()
        model.add(*script[:-1], turn(*script[-1:], hold(gate)))
        last = played(book, index)
        scroller = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-WindowedPanel-outer")
        book.output(index).get_by_label("Add a message").wait_for()  # it comes a moment later, and the notebook follows
        last.evaluate(TO_MIDDLE)
        page.evaluate(TWO_FRAMES)
        top = last.bounding_box()["y"]
        scrolled = scroller.evaluate("node => node.scrollTop")
        before, above = book.cell(index).evaluate(HEIGHT), book.cell(index).evaluate(ABOVE)
        gate.open()
        book.wait_done(index)
        book.output(index).locator("footer[data-state=done]:visible").wait_for()
        if len(script) > 1:
            book.output(index).get_by_role("button", name="Undo", exact=True).wait_for()
        heights[name] = book.cell(index).evaluate(HEIGHT)
        # above a notebook's beginning and below its end there is nothing
        gone = before - heights[name]
        may_move = gone if scroller.evaluate(IS_AT_END) else max(0, gone - scrolled)
        # JupyterLab measures cells out of sight when it lays them out: what these gain or lose is not the answer's doing
        others = abs(book.cell(index).evaluate(ABOVE) - above)
        assert abs(last.bounding_box()["y"] - top) <= may_move + others + 8, (name, others, scrolled)
        book.reel(f"finished-{name.replace(' ', '-')}", book.cell(index))
    print(
        "\n"
        + "\n".join(f"{name}: {BEFORE[name]} px, now {px} px ({px / BEFORE[name]:.0%})" for name, px in heights.items())
    )
    assert [name for name, px in heights.items() if px > MOST[name] * BEFORE[name]] == []
