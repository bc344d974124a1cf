"""The composer, as its user meets it: what it completes, what goes along with a prompt, what is said while Claude works."""

import base64
import io
import json

import pytest
from accessibility import check_accessible
from lab_tab import DARK, LIGHT
from PIL import Image
from playwright.sync_api import expect

from cellwright.testing import Gate, hold, say, turn
from eventual import eventually

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

LIST_TIMEOUT_SECONDS = 1.0
"""Of the quickest of some: a tenth of it is promised, and measured on a machine that does nothing else."""

WATCH = """() => {
    // from the key to the list in the page, by the page's own clock
    const area = document.querySelector('.cellwright-prompt');
    const palette = document.querySelector('.cellwright-palette');
    window.listed = new Promise((resolve) => {
        area.addEventListener('keydown', () => {
            const pressed = performance.now();
            new MutationObserver((_, observer) => {
                if (palette.hidden) return;
                observer.disconnect();
                resolve(performance.now() - pressed);
            }).observe(palette, {attributes: true});
        }, {once: true});
    });
}"""

PASTE = """async () => {
    // noise does not compress: five megabytes
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = 1300;
    const context = canvas.getContext('2d');
    const image = context.createImageData(1300, 1300);
    for (let at = 0; at < image.data.length; at += 1) image.data[at] = at % 4 === 3 ? 255 : Math.random() * 256;
    context.putImageData(image, 0, 0);
    const blob = await new Promise((resolve) => canvas.toBlob(resolve, 'image/png'));
    const clipboardData = new DataTransfer();
    clipboardData.items.add(new File([blob], 'noise.png', {type: 'image/png'}));
    const area = document.querySelector('.cellwright-prompt');
    area.dispatchEvent(new ClipboardEvent('paste', {clipboardData, bubbles: true, cancelable: true}));
    return blob.size;
}"""


class Composer:
    """The composer in the panel of a page."""

    def __init__(self, book):
        self.book = book
        self.page = book.page
        self.node = self.page.locator(".cellwright-composer")
        self.area = self.node.locator(".cellwright-prompt")
        self.rows = self.node.locator("[role=option]")
        self.runs = self.page.locator(".cellwright-panel .run")

    def open(self):
        self.page.keyboard.press("Control+Shift+Y")
        self.page.locator(".cellwright-panel .kernel[data-connection='connected']").wait_for()
        expect(self.node).to_have_attribute("data-mode", "default")  # the kernel's state has come
        expect(self.area).to_be_focused()
        return self

    def type(self, words):
        """Type into the prompt, which takes no keys while the prompt before is on its way."""
        expect(self.area).to_have_value("")
        expect(self.area).to_be_editable()
        expect(self.area).to_be_focused()
        self.page.keyboard.type(words)

    def list_anew(self):
        """Have the list again, which a change of the theme closes."""
        self.area.press("Backspace")
        self.type("/")
        self.rows.first.wait_for()

    def choose(self, row, key="Tab"):
        """Take what the list has chosen for the word at the caret."""
        expect(self.node.locator("[role=option][aria-selected=true]")).to_contain_text(row)
        self.page.keyboard.press(key)

    def wait_done(self, index):
        self.runs.nth(index).locator("footer[data-state='done']").wait_for()


def milliseconds_to_list(composer):
    """From the key to the list; the prompt is empty again afterwards."""
    composer.page.evaluate(WATCH)
    composer.type("/")
    composer.rows.first.wait_for()
    milliseconds = composer.page.evaluate("() => window.listed")
    composer.page.keyboard.press("Backspace")
    expect(composer.node.locator(".cellwright-palette")).to_be_hidden()
    return milliseconds


def content(model, request=-1):
    """The content of the prompt that was sent with a request."""
    return model.requests[request].body["messages"][-1]["content"]


def test_commands_files_cells_and_variables_by_a_few_letters(notebook, model, tab):
    files = {"data/two words.csv": "a,b\n1,2\n", "rules.md": "No discounts.\n"}
    book = notebook("%load_ext cellwright", "prices = [3, 4, 5]", "", files=files)
    for index in (0, 1):
        book.run(index)
        book.wait_done(index)
    composer = Composer(book).open()
    assert min(milliseconds_to_list(composer) for _ in range(5)) < LIST_TIMEOUT_SECONDS * 1_000
    composer.type("/")
    composer.rows.first.wait_for()
    for theme, name in ((DARK, "panel-palette-dark"), (LIGHT, "panel-palette")):
        tab.choose_theme(theme)
        check_accessible(composer.node)
        book.screenshot(name, book.page.locator(".cellwright-panel"), height=660, again=composer.list_anew)
    book.page.keyboard.type("stat")
    composer.choose("/status")
    expect(composer.area).to_have_value("/status")
    book.page.keyboard.press("Control+z")
    expect(composer.area).to_have_value("/stat")
    book.page.keyboard.press("Control+A")
    book.page.keyboard.type("Explain @rul")
    composer.choose("rules.md", "Enter")
    book.page.keyboard.type("and @two")
    composer.choose("two words.csv")
    book.page.keyboard.type("for @cell:2")
    composer.choose("prices = [3, 4, 5]")
    book.page.keyboard.type("with $pri")
    composer.choose("list of 3")
    words = 'Explain @rules.md and @"data/two words.csv" for @cell:cell-1 with $prices '
    expect(composer.area).to_have_value(words)
    model.add(turn(say("They are prices.")))
    book.page.keyboard.press("Enter")
    composer.wait_done(0)
    sent = "\n".join(block["text"] for block in content(model))
    for told in ("No discounts.", "1,2", "prices: list", 'mention="@cell:cell-1"'):
        assert told in sent
    # what was sent is in the history
    expect(composer.area).to_have_value("")
    book.page.keyboard.press("ArrowUp")
    expect(composer.area).to_have_value(words)
    expect(composer.area).to_be_focused()


def test_a_pasted_picture_and_the_cell_go_along_in_the_mode_that_was_chosen(notebook, model):
    files = {"rules.md": "No discounts.\n"}
    book = notebook("%load_ext cellwright", "prices = [3, 4, 5]", "", files=files)
    book.run(0)
    book.wait_done(0)
    book.cell(1).locator(".cm-content").click()
    composer = Composer(book).open()
    assert composer.page.evaluate(PASTE) > 5_000_000
    composer.node.locator(".cellwright-attached img").wait_for()
    chip = composer.node.locator(".cellwright-cell-chip")
    chip.click()
    expect(chip).to_have_attribute("aria-pressed", "true")
    expect(composer.area).to_be_focused()
    for mode in ("acceptEdits", "plan"):
        book.page.keyboard.press("Shift+Tab")
        expect(composer.node).to_have_attribute("data-mode", mode)  # as the kernel says it
        expect(composer.node.locator("select[data-setting=mode]")).to_have_value(mode)
    # a file of the file browser is mentioned, as the kernel knows it
    book.page.locator(".jp-DirListing-item", has_text="rules.md").hover()
    book.page.mouse.down()
    box = composer.area.bounding_box()
    book.page.mouse.move(box["x"] + 40, box["y"] + 10, steps=8)
    book.page.locator(".cellwright-composer.cellwright-mod-dragging").wait_for()
    book.page.mouse.up()
    expect(composer.area).to_have_value("@rules.md ")
    composer.area.click()
    expect(composer.area).to_be_focused()
    book.page.keyboard.type("What is this?")
    model.add(turn(say("Noise.")))
    book.page.keyboard.press("Enter")
    composer.runs.first.get_by_text("Noise.").wait_for()
    blocks = content(model)
    (picture,) = [block for block in blocks if block["type"] == "image"]
    assert Image.open(io.BytesIO(base64.b64decode(picture["source"]["data"]))).size == (1300, 1300)
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    assert any("prices = [3, 4, 5]" in text and "id cell-1" in text for text in texts)
    assert any(text.startswith("Plan mode") for text in texts)
    assert any("No discounts." in text for text in texts)
    expect(composer.node.locator(".cellwright-attached li")).to_have_count(0)


def test_the_composer_is_low_and_as_high_in_every_state_and_width(notebook, model, widen):
    gate = Gate()
    model.add(turn(say("One,"), hold(gate), say(" two.")))
    book = notebook("x = 1")
    composer = Composer(book).open()
    place = book.page.locator(".cellwright-panel .composer")

    def heights():
        for width in (700, 400, 320):
            widen(width)
            yield place.bounding_box()["height"]
            composer.area.fill("And")
            book.reel(f"composer-{width}")
            yield place.bounding_box()["height"]
            composer.area.fill("")

    rest = {*heights()}
    composer.area.focus()
    composer.type("Count")
    book.page.keyboard.press("Enter")
    expect(composer.node.locator(".cellwright-stop")).to_be_visible()
    composer.runs.first.get_by_text("One,").wait_for()
    expect(composer.area).to_have_value("")
    (height,) = rest | {*heights()}
    assert height <= 80
    # what the narrow one has no room for is behind its button
    composer.node.get_by_role("button", name="Options: Ask").click()
    expect(composer.node.locator("select[data-setting=model]")).to_be_focused()
    composer.node.get_by_text("More options").click()
    composer.node.get_by_label("Budget (US$)").fill("0.5")
    check_accessible(composer.node)
    book.reel("panel-options", book.page.locator(".cellwright-panel"))
    book.page.keyboard.press("Escape")
    expect(composer.node.get_by_role("button", name="Options: Ask Opus 5.5 +1 more set")).to_be_focused()
    gate.open()
    composer.wait_done(0)


def test_what_is_said_while_claude_works_is_told_queued_or_taken_back(notebook, model):
    gate = Gate()
    book = notebook("%load_ext cellwright", "%%claude\nCount to three", "")
    book.run(0)
    book.wait_done(0)
    composer = Composer(book).open()
    model.add(turn(say("One,"), hold(gate), say(" two, three.")), turn(say("In words, then.")), turn(say("Backwards.")))
    book.run(1)
    composer.runs.first.get_by_text("One,").wait_for()
    composer.area.click()
    waiting = composer.node.locator(".cellwright-waiting li")
    box = composer.node.locator(".cellwright-box")
    height = box.bounding_box()["height"]
    composer.type("Write them as words")
    expect(composer.node.locator(".cellwright-send")).to_have_text("Send now")
    book.page.keyboard.press("Enter")
    waiting.filter(has_text="Next step").wait_for()
    for words in ("And then backwards", "And never this"):
        composer.type(words)
        book.page.keyboard.press("Alt+Enter")
        composer.runs.filter(has_text=words).filter(has_text="Queued").wait_for()
    book.screenshot("panel-while-claude-works", book.page.locator(".cellwright-panel"))
    composer.runs.filter(has_text="never this").get_by_role("button", name="Cancel").click()
    composer.page.locator(".cellwright-panel .run[data-state='interrupted']", has_text="never this").wait_for()
    eventually(lambda: box.bounding_box()["height"], height.__eq__)
    gate.open()
    book.wait_done(1)
    composer.runs.get_by_text("Backwards.").wait_for()
    expect(waiting).to_have_count(0)
    said = [json.dumps(request.body["messages"][-1]["content"]) for request in model.requests[-2:]]
    assert "Write them as words" in said[0]
    assert "And then backwards" in said[1]
    assert not any("never this" in json.dumps(request.body) for request in model.requests)
