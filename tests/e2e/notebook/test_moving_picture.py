"""The picture at the top of the README: a cell has failed, Alt-F, Claude's change waits at the cell, Enter, and it runs."""

import pytest
from lab_notebook import IMAGES, TAKE_PICTURES
from lab_tab import DARK, LIGHT
from moving_picture import MovingPicture
from playwright.sync_api import expect

from cellwright.testing import say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

TIDES = """tides = {
    "port": ["Esbjerg", "Ribe", "Fanø"],
    "level_m": [1.42, 0.77, 0.38],
}"""
FAILING = """import matplotlib.pyplot as plt
levels = tides["level"]
plt.figure(figsize=(7.5, 1.9))
plt.barh(tides["port"], levels)
plt.title("High tide, m");"""
FIXED = FAILING.replace('"level"', '"level_m"')
SIZES = {"error-fix-run": (1000, 590), "error-fix-run-phone": (460, 640)}
"""The width of the page and the height of the picture, in pixels; a phone shows the narrow one as large as it is."""


@pytest.mark.parametrize("name", SIZES if TAKE_PICTURES else ["error-fix-run"])
@pytest.mark.parametrize("theme", [LIGHT, DARK] if TAKE_PICTURES else [LIGHT])
def test_an_error_is_fixed_with_two_keys(notebook, model, page, tab, theme, name):
    book = notebook(TIDES, FAILING)
    if theme != LIGHT:
        tab.choose_theme(theme)
    width, height = SIZES[name]
    page.set_viewport_size({"width": width, "height": height + 130})
    page.keyboard.press("Control+b")  # the file browser makes room
    book.run(0)
    book.wait_done(0)
    book.edit(1)
    place = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-WindowedPanel-outer").bounding_box()
    # it begins with the error: a first frame that is half empty says nothing
    page.keyboard.press("Shift+Enter")
    fix = book.cell(1).get_by_role("button", name="Fix with Claude")
    fix.wait_for()
    book.wait_done(1)
    film = MovingPicture(page, {**place, "height": min(place["height"], height)})
    model.add(
        turn(use("NotebookRead", notebook_path="notebook.ipynb")),
        turn(
            say("The key is called `level_m`, not `level`."),
            use("NotebookEdit", notebook_path="notebook.ipynb", cell_id="cell-1", new_source=FIXED),
        ),
        turn(say("The levels are in `level_m`.")),
    )
    film.hold(3_200)
    film.press("Alt F", "Alt+f")
    card = book.cell(1).locator(".cellwright-proposal .ask[data-ready]")
    film.until(lambda: card.count() > 0)
    expect(card).to_be_focused()
    film.hold_still(4_200)
    film.press("Enter", "Enter")
    strip = book.cell(1).locator(".cellwright-strip")
    film.until(lambda: strip.count() == 0 and fix.count() == 0)
    expect(book.output(1).locator("img")).to_be_visible()
    expect(fix).to_have_count(0)
    expect(strip).to_have_count(0)
    film.hold(5_000)
    film.save(IMAGES / f"{name}-{theme.split()[-1].lower()}.webp")
    assert "".join(book.save()["cells"][1]["source"]) == FIXED
