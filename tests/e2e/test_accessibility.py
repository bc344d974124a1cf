"""Each scene's end, and each picture, is searched for violations of WCAG in what is ours: this search finds them."""

import pytest
from accessibility import check_ours, violations_in_ours

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
