"""The panel by keys from part to part, in forced colours, without motion."""

import pytest
from playwright.sync_api import expect

from cellwright.testing import Gate, hold, say, turn

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

WAIT_MS = 60_000
STILL = """() => [document, ...[...document.querySelectorAll('.cellwright-panel .answer')].map(node => node.shadowRoot)]
    .flatMap(root => root?.getAnimations() ?? [])
    .filter(({effect}) => effect.target.getRootNode().host || effect.target.closest('.cellwright-panel')).length === 0"""


def test_f6_goes_through_the_parts_and_what_goes_on_is_seen_in_forced_colors_without_motion(notebook, model, page):
    page.emulate_media(forced_colors="active", reduced_motion="reduce")
    gate = Gate()
    model.add(turn(say("The tide "), hold(gate), say("is high.")))
    notebook("height = 3")
    page.keyboard.press("Control+Shift+Y")
    panel = page.locator(".cellwright-panel")
    composer = panel.locator(".composer textarea")
    expect(composer).to_be_focused(timeout=WAIT_MS)
    expect(panel.locator(".kernel[data-connection='connected']")).to_be_visible(timeout=WAIT_MS)
    composer.fill("How is the tide?")
    page.keyboard.press("Enter")
    expect(panel.locator(".run .prose")).to_contain_text("The tide", timeout=WAIT_MS)
    page.wait_for_function(STILL, timeout=WAIT_MS)

    # what goes along with words is seen before they are sent
    composer.fill("And this?")
    expect(panel.locator(".cellwright-send")).to_have_text("Steer")
    panel.locator(".cellwright-cell-chip").click()
    expect(panel.locator(".cellwright-send")).to_have_text("Queue")
    expect(panel.locator(".cellwright-hint")).to_contain_text("words alone steer")
    expect(panel.get_by_role("button", name="Stop", exact=True)).to_have_count(1)

    composer.focus()
    for part in (".head .tools button", ".scroller", ".bar button", ".composer textarea", ".head .tools button"):
        page.keyboard.press("F6")
        expect(panel.locator(f"{part}:focus")).to_have_count(1, timeout=WAIT_MS)
    page.keyboard.press("Shift+F6")
    expect(composer).to_be_focused(timeout=WAIT_MS)
    gate.open()
    expect(panel.locator(".run footer[data-state='done']")).to_be_visible(timeout=WAIT_MS)
