"""The panel at twice the zoom, and a narrow one: a card's answers stay in view, and nothing is cut without a sign."""

import pytest
from lab_tab import VIEWPORT
from playwright.sync_api import expect

from cellwright.testing import say, turn, use
from eventual import eventually

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

ZOOMED = {"width": 720, "height": 450}  # 1440 x 900 at 200 %
QUESTION = {
    "question": "How should the levels be kept for the next run?",
    "header": "Storage",
    "options": [
        {"label": f"Way {number}", "description": "Small and typed; reads back in a blink."} for number in range(1, 5)
    ],
}


def opened(notebook, page):
    notebook("1 + 1")
    page.keyboard.press("Control+Shift+Y")
    panel = page.locator(".cellwright-panel")
    page.locator(".cellwright-panel .kernel[data-connection='connected']").wait_for()
    return panel


def ask(panel, words):
    panel.locator(".cellwright-prompt").fill(words)
    panel.locator(".cellwright-send").click()


def in_view(panel, button):
    """Whether all of a button lies in the conversation's box, with nothing over it."""
    return button.evaluate(
        """node => {
            const box = node.getBoundingClientRect();
            const {top, bottom} = document.querySelector('.cellwright-panel .scroller').getBoundingClientRect();
            let at = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
            while (at?.shadowRoot?.elementFromPoint) {
                const inner = at.shadowRoot.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
                if (!inner || inner === at) break;
                at = inner;
            }
            return box.top >= top - 1 && box.bottom <= bottom + 1 && node.contains(at);
        }"""
    )


def test_a_card_can_be_answered_at_twice_the_zoom_and_in_a_narrow_panel(notebook, model, page, widen):
    model.add(
        turn(say("I will run the tests."), use("Bash", command="python -m pytest tests -q > tests.log")),
        turn(say("They pass, all 12 of them.")),
    )
    panel = opened(notebook, page)
    ask(panel, "Do the tests pass?")
    once = panel.get_by_role("button", name="Allow once")
    deny = panel.get_by_role("button", name="Deny")
    once.wait_for()
    more = panel.locator(".of-call").get_by_role("button", name="More")
    for name, size, width in (("wide", VIEWPORT, 600), ("narrow", VIEWPORT, 250), ("zoomed", ZOOMED, 300)):
        widen(width)
        page.set_viewport_size(size)
        eventually(lambda: in_view(panel, once) and in_view(panel, deny))
        expect(panel.locator(".newest")).to_be_hidden()
        expect(more).to_be_visible(visible=name != "wide")
    more.click()
    expect(panel.get_by_role("button", name="Edit first")).to_be_visible()
    once.click()
    panel.get_by_text("They pass, all 12").wait_for()
    page.set_viewport_size(VIEWPORT)
    widen(250)
    footer = panel.locator("footer .facts")
    footer.get_by_role("button", name="More").click()
    expect(footer).to_contain_text("Context sent")
    expect(footer).not_to_contain_text("with a source")  # nothing is known of the number: nothing is said


def test_options_that_are_cut_off_are_counted(notebook, model, page):
    model.add(turn(use("AskUserQuestion", questions=[QUESTION])), turn(say("Good.")))
    panel = opened(notebook, page)
    ask(panel, "Keep the levels.")
    panel.get_by_text("Way 1").wait_for()
    below = panel.locator(".questionnaire .below")
    expect(below).to_be_hidden()
    page.set_viewport_size(ZOOMED)
    expect(below).to_contain_text("more below")
    eventually(lambda: in_view(panel, panel.locator(".questionnaire").get_by_role("button", name="Send")))
    panel.locator(".questionnaire .ask-content").evaluate("node => { node.scrollTop = node.scrollHeight }")
    expect(below).to_be_hidden()
    page.set_viewport_size(VIEWPORT)


def test_the_panel_has_its_width_again_when_the_window_has_grown(notebook, page, widen):
    panel = opened(notebook, page)
    widen(400)
    # beside the file browser of a small window it leaves half to the notebook
    page.set_viewport_size(ZOOMED)
    eventually(lambda: panel.evaluate("node => node.clientWidth") < 260)
    assert page.locator(".jp-NotebookPanel").evaluate("node => node.clientWidth") > 120
    page.set_viewport_size({"width": 480, "height": 450})
    eventually(lambda: panel.evaluate("node => node.clientWidth") < 350)
    page.set_viewport_size(VIEWPORT)
    eventually(lambda: abs(panel.evaluate("node => node.clientWidth") - 400) < 20)


def test_in_a_window_that_has_become_small_the_notebook_keeps_its_room(notebook, page, widen):
    panel = opened(notebook, page)
    widen(420)
    page.set_viewport_size(ZOOMED)
    documents = page.locator("#jp-main-dock-panel")
    eventually(lambda: documents.evaluate("node => node.clientWidth") >= 150)
    assert panel.evaluate("node => node.clientWidth") >= 230
    page.set_viewport_size(VIEWPORT)
    eventually(lambda: abs(panel.evaluate("node => node.clientWidth") - 420) < 20)
