"""Each scene's end, and each picture, is searched for violations of WCAG in what is ours: this search finds them."""

import pytest
from accessibility import check_ours, violations_in_ours
from lab_tab import DARK, HIGH_CONTRAST, LIGHT

from cellwright.testing import say
from eventual import eventually

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

PLANT = """(node, html) => {
    const planted = document.createElement('div');
    planted.innerHTML = html;
    node.append(planted);
    window.unplant = () => planted.remove();
}"""
NAMELESS = "<button type='button'></button>"
PALE = "<p style='color: #bbb; background: #fff'>Hardly to be read</p>"

CARD = "color-mix(in srgb, var(--{0}accent) 5%, transparent)"
"""The ground of what asks."""
CODE = "color-mix(in srgb, currentColor 8%, transparent)"


def texts(prefix: str, *grounds: str) -> str:
    """HTML of a word in each of our colours on each of the grounds; `prefix` is that of the variables' names."""
    colours = [f"var(--{prefix}{name})" for name in ("muted", "blue", "orange", "red", "green")]
    words = [
        f"<p style='color: {colour}; background: {ground}'>The tide is high</p>"
        for colour in colours
        for ground in (*grounds, CARD.format(prefix))
    ]
    name = f"<p style='color: {colours[0]}'><code style='background: {CODE}; color: {colours[0]}'>tides.py</code></p>"
    return "".join(words) + name


PRIMARY = "<button type='button' style='color: #fff; background: {0}'>Allow once</button>"


@pytest.fixture
def answered(notebook, model):
    """A notebook with an answer in its second cell."""
    book = notebook("%load_ext cellwright", "%%claude\nHow is the tide?")
    book.run(0)
    book.wait_done(0)
    model.add(say("The tide is high."))
    book.run(1)
    book.wait_done(1)
    book.wait_kept(1)
    return book


def test_a_fault_of_ours_is_found_in_a_cell_and_in_the_panel_and_one_of_jupyterlabs_is_not(answered, page):
    page.keyboard.press("Control+Shift+Y")
    panel = page.locator(".cellwright-panel")
    panel.locator(".kernel[data-connection='connected']").wait_for()
    page.locator("#jp-top-panel").evaluate(PLANT, NAMELESS)
    check_ours(page)
    page.evaluate("() => unplant()")
    for place in (answered.output(1).locator(".prose").last, panel):
        for rule, html in (("button-name", NAMELESS), ("color-contrast", PALE)):
            place.evaluate(PLANT, html)
            eventually(lambda: [found[0] for found in violations_in_ours(page)], [rule].__eq__, 10)
            page.evaluate("() => unplant()")
            check_ours(page)


def test_each_colour_of_a_text_is_readable_on_each_ground_in_each_theme(answered, page, tab):
    page.keyboard.press("Control+Shift+Y")
    panel = page.locator(".cellwright-panel")
    panel.locator(".kernel[data-connection='connected']").wait_for()
    ours = PRIMARY.format("var(--cw-primary)") + texts(
        "cw-", "var(--jp-layout-color0)", "var(--jp-layout-color1)", "var(--cw-wash)"
    )
    answers = "<button type='button' class='primary'>Allow once</button>" + texts("", "none", "var(--wash)")
    pale = PRIMARY.format("color-mix(in srgb, var(--cw-accent) 82%, #000)")
    for theme in (LIGHT, DARK, HIGH_CONTRAST):
        tab.choose_theme(theme)
        for place, html in ((panel, ours), (answered.output(1).locator(".prose").last, answers)):
            place.evaluate(PLANT, html)
            check_ours(page)
            page.evaluate("() => unplant()")
        if theme != LIGHT:
            panel.evaluate(PLANT, pale)
            eventually(lambda: [found[0] for found in violations_in_ours(page)], ["color-contrast"].__eq__, 10)
            page.evaluate("() => unplant()")
    tab.choose_theme(LIGHT)
