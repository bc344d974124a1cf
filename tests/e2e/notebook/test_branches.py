"""Claude explores a large frame unasked while the user's cells run, in one branch for each agent; variables come back.

`CELLWRIGHT_SCENE_GB` is the size of the frame; the leg soak-browser takes 2.
"""

import os
import sys

import pytest
from accessibility import check_accessible
from lab_tab import DARK, LIGHT
from playwright.sync_api import expect

from cellwright.kernel.branches.bounds import branches_enforced
from cellwright.testing import Gate, hold, say, turn, use

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        sys.platform != "linux" or branches_enforced() is not None, reason="this system confines no branch"
    ),
]

ROWS = int(float(os.environ.get("CELLWRIGHT_SCENE_GB", "0.2")) * 1e9 / 9)
FRAME = f"""\
import numpy as np, pandas as pd
hours = np.arange({ROWS:_})
gauge = pd.Categorical.from_codes(hours % 3, ["Esbjerg", "Ribe", "Fanø"])
tides = pd.DataFrame({{"level": 2 + np.sin(hours / 12.4) - hours % 3 / 10, "gauge": gauge}})
del hours, gauge"""


def begun(notebook, *cells):
    book = notebook("%load_ext cellwright", *cells)
    for index in (0, 1):
        book.run(index)
        book.wait_done(index)
    return book


def take_in_both(book, tab, name, index, checked, **size):
    """A picture in light, which a page of the documents shows, and one in dark; each without a fault for axe."""
    for theme in (DARK, LIGHT):
        tab.choose_theme(theme)
        check_accessible(book.output(index), checked)
        book.screenshot(name if theme == LIGHT else f"{name}-dark", book.cell(index), **size)


def test_three_questions_on_a_large_frame_are_answered_while_the_user_goes_on(notebook, model, tab):
    second, third, before = Gate(), Gate(), len(model.requests)
    model.add(
        turn(say("I'll try it in a copy.\n"), use("Branch", code="tides.level.max().round(2)")),
        turn(hold(second), use("Branch", code="tides.groupby('gauge', observed=True)['level'].mean().idxmax()")),
        turn(hold(third), use("Branch", code="int((tides.level < 0).sum())")),
        turn(say("They rise to **3.0 m**. **Esbjerg** reads highest, and no level is below zero.")),
    )
    book = begun(
        notebook,
        FRAME,
        "%%claude --background\nHow high do the tides rise, which gauge reads highest, and is a level below zero?",
        "tides.loc[0, 'level'] = -1.0\nlen(tides)",
        "tides.level.min()",
    )
    book.run(2)
    for gate, cell, shown in ((second, 3, f"{ROWS}"), (third, 4, "-1.0")):
        gate.wait_until_reached()
        book.run(cell)
        book.wait_done(cell)
        expect(book.output(cell)).to_contain_text(shown)
        expect(book.page.locator(".ask")).to_have_count(0)
        gate.open()
    expect(book.output(2)).to_contain_text("no level is below zero")
    # Claude's copy is from before the user's cell
    said = [str(request.body["messages"][-1]) for request in model.requests[before + 1 : before + 4]]
    assert not any("is_error" in each for each in said)
    assert "3.0" in said[0]
    assert "New branch: your variables as of" in said[0]
    assert "New branch" not in said[1] + said[2]
    assert said[2].endswith("\\n0'}]}"), said[2]
    book.wait_kept(2)
    book.output(2).locator("summary", has_text="3 steps").click()
    book.output(2).locator("details.fold summary", has_text="idxmax").click()
    take_in_both(book, tab, "branch-questions", 2, ".fold", width=920, height=1300)


def test_two_agents_explore_at_the_same_time_each_in_a_branch_of_its_own(notebook, model, tab):
    first, second = Gate(), Gate()

    def hand(prompt):
        return use("Agent", description=prompt.capitalize(), prompt=prompt, subagent_type="general-purpose")

    model.add(
        turn(say("Both can be tried at once."), hand("fill the gaps"), hand("drop the gaps")),
        turn(use("Branch", code="levels[levels.index(None)] = 2.1\nlevels"), when="fill the gaps"),
        turn(use("Branch", code="levels.remove(None)\nlevels"), when="drop the gaps"),
        turn(hold(first), say("Filled, the mean is 1.9."), when="2.1"),
        turn(hold(second), say("Dropped, it is 1.8."), when="[1.2, 2.4]"),
        turn(say("Filling changes the mean by 0.1.")),
    )
    book = begun(
        notebook,
        "levels = [1.2, None, 2.4]",
        "%%claude --background\nFill the gaps, or drop them?",
        "%claude /branches",
        "levels",
    )
    book.run(2)
    first.wait_until_reached()
    second.wait_until_reached()
    book.run(3)
    book.wait_done(3)
    for task in ("Fill the gaps", "Drop the gaps"):
        expect(book.output(3).get_by_role("row", name=task)).to_contain_text("MB")
    for theme in (DARK, LIGHT):
        tab.choose_theme(theme)
        name = "branch-agents" if theme == LIGHT else "branch-agents-dark"
        book.screenshot(name, book.cell(2), book.cell(3), width=1000, height=960)
    first.open()
    second.open()
    expect(book.output(2)).to_contain_text("Filling changes the mean by 0.1.")
    book.run(4)
    book.wait_done(4)
    expect(book.output(4)).to_contain_text("[1.2, None, 2.4]")


def test_a_turn_that_changed_three_variables_is_undone(notebook, model, tab):
    model.add(
        turn(
            use("Python", code="tides.drop(columns='gauge', inplace=True)\nunits.append('m')\ntop = tides.level.max()")
        ),
        turn(say("The gauge is gone, `units` has metres, and `top` is the highest level.")),
    )
    book = begun(
        notebook,
        FRAME + "\nunits = ['cm']",
        "%%claude --allow Python\nDrop the gauge, add metres to the units, keep the top level.",
        "%claude /undo",
        "list(tides), units, 'top' in globals()",
    )
    book.run(2)
    book.wait_done(2)
    expect(book.output(2).locator("footer").get_by_role("button", name="Undo", exact=True)).to_be_visible()
    book.run(3)
    card = book.asked_by_keys(3)
    for text in ("1 column → 2 as before", "2 items → 1 as before", "new, will be removed"):
        expect(card).to_contain_text(text)
    take_in_both(book, tab, "undo-variables", 3, ".ask")
    card.focus()
    book.page.keyboard.press("1")
    book.wait_done(3)
    book.run(4)
    book.wait_done(4)
    expect(book.output(4)).to_contain_text("(['level', 'gauge'], ['cm'], False)")
