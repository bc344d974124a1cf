"""The panel by keys from part to part, in forced colours, without motion, and while its window is not in front."""

import pytest
from playwright.sync_api import expect

from cellwright.testing import Gate, hold, say, turn, use
from eventual import eventually

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

WAIT_MS = 60_000
STILL = """() => [document, ...[...document.querySelectorAll('.cellwright-panel .answer')].map(node => node.shadowRoot)]
    .flatMap(root => root?.getAnimations() ?? [])
    .filter(({effect}) => effect.target.getRootNode().host || effect.target.closest('.cellwright-panel')).length === 0"""

AWAY = """() => {
    window.onDesktop = [];
    window.Notification = class {
        static permission = 'granted';
        constructor(title, {body}) { window.onDesktop.push([title, body]); window.lastOnDesktop = this; }
        close() {}
    };
    document.hasFocus = () => false;
}"""


def opened(page):
    """The panel, connected, and its composer, which has the keyboard."""
    page.keyboard.press("Control+Shift+Y")
    panel = page.locator(".cellwright-panel")
    composer = panel.locator(".cellwright-prompt")
    expect(composer).to_be_focused(timeout=WAIT_MS)
    expect(panel.locator(".kernel[data-connection='connected']")).to_be_visible(timeout=WAIT_MS)
    return panel, composer


def test_f6_goes_through_the_parts_and_what_goes_on_is_seen_in_forced_colors_without_motion(
    notebook, model, page, widen
):
    page.emulate_media(forced_colors="active", reduced_motion="reduce")
    gate = Gate()
    model.add(turn(say("The tide "), hold(gate), say("is high.")))
    notebook("height = 3")
    panel, composer = opened(page)
    widen(400)  # a narrow panel has no room for the cell's chip while Claude works
    composer.fill("How is the tide?")
    page.keyboard.press("Enter")
    expect(panel.locator(".run .prose")).to_contain_text("The tide", timeout=WAIT_MS)
    page.wait_for_function(STILL, timeout=WAIT_MS)

    # what goes along with words is seen before they are sent
    composer.fill("And this?")
    expect(panel.locator(".cellwright-send")).to_have_text("Send now")
    panel.locator(".cellwright-cell-chip").click()
    expect(panel.locator(".cellwright-send")).to_have_text("Send when done")
    expect(panel.locator(".cellwright-hint")).to_contain_text("sent when Claude is done")
    expect(panel.get_by_role("button", name="Stop", exact=True)).to_have_count(1)

    composer.focus()
    # a narrow panel has no room for the context while Claude works
    bar = [".bar button"] if panel.locator(".bar button").first.is_visible() else []
    for part in (".head .tools button", ".scroller", *bar, ".cellwright-prompt", ".head .tools button"):
        page.keyboard.press("F6")
        expect(panel.locator(f"{part}:focus")).to_have_count(1, timeout=WAIT_MS)
    page.keyboard.press("Shift+F6")
    expect(composer).to_be_focused(timeout=WAIT_MS)
    gate.open()
    expect(panel.locator(".run footer[data-state='done']")).to_be_visible(timeout=WAIT_MS)


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.usefixtures("own_page")
def test_who_is_away_is_told_on_the_desktop_of_a_question_and_of_the_end(notebook, model, page, choose, wanted):
    choose("cellwright:panel", desktopNotifications=wanted)
    page.add_init_script(f"({AWAY})()")
    model.add(turn(use("Write", file_path="tides.csv", content="hour,level\n")), turn(say("Written.")))
    notebook("height = 3")
    panel, composer = opened(page)
    composer.fill("Write the tides down")
    page.keyboard.press("Enter")
    question = panel.locator(".ask[data-ready]")
    expect(question).to_be_visible(timeout=WAIT_MS)
    waits, done = (["Claude waits for your answer", "Write the tides down"], ["Claude is done", "Write the tides down"])
    toast = page.locator(".Toastify__toast")

    def told(*news):
        """In one place: on the desktop, or in the page."""
        if wanted:
            eventually(lambda: page.evaluate("onDesktop"), lambda found: found == list(news))
            expect(toast).to_have_count(0)
        else:
            expect(toast.filter(has_text=news[-1][0])).to_be_visible(timeout=WAIT_MS)
            assert page.evaluate("onDesktop") == []

    told(waits)

    question.get_by_role("button", name="Allow once").click()
    expect(panel.locator(".run footer[data-state='done']")).to_be_visible(timeout=WAIT_MS)
    told(waits, done)
    if wanted:  # a click there brings the panel back
        page.get_by_role("tab", name="notebook.ipynb").click()
        expect(composer).not_to_be_focused()
        page.evaluate("lastOnDesktop.onclick()")
        expect(panel.locator(":focus")).to_have_count(1)
