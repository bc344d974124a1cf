"""The composer, as its user meets it: what it completes, what goes along with a prompt, what is said while Claude works."""

import base64
import io
import json
from pathlib import Path

import pytest
from PIL import Image

from cellwright.testing import Gate, hold, say, turn

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

AXE = Path(__file__).parents[2] / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
THEMES = "lab/api/settings/@jupyterlab/apputils-extension:themes"

SECONDS_TO_LIST = 1.0
"""A tenth of it is promised, and measured on a machine that does nothing else."""

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
        self.page.wait_for_function("() => document.activeElement.matches('.cellwright-prompt')")
        self.page.locator(".cellwright-panel .kernel[data-connection='connected']").wait_for(timeout=60_000)
        return self

    def mode(self):
        return self.node.locator("select[data-setting=mode]").input_value()

    def wait_done(self, index):
        self.runs.nth(index).locator("footer[data-state='done']").wait_for(timeout=60_000)


def content(model, request=-1):
    """The content of the prompt that was sent with a request."""
    return model.requests[request].body["messages"][-1]["content"]


def check_accessible(composer):
    """No serious violation of WCAG, as axe-core sees it."""
    composer.page.add_script_tag(path=AXE)
    violations = composer.page.evaluate(
        """async target => (await axe.run(target)).violations
            .filter(({impact}) => ["serious", "critical"].includes(impact))
            .map(({id, help, nodes}) => [id, help, nodes.map(({html}) => html)])""",
        composer.node.element_handle(),
    )
    assert violations == []


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"], ids=["light", "dark"])
def test_commands_files_cells_and_variables_by_a_few_letters(notebook, model, lab, theme):
    lab.api("PUT", THEMES, {"raw": json.dumps({"theme": theme})})
    try:
        files = {"data/two words.csv": "a,b\n1,2\n", "rules.md": "No discounts.\n"}
        book = notebook("%load_ext cellwright", "prices = [3, 4, 5]", "", files=files)
        for index in (0, 1):
            book.run(index)
            book.wait_done(index)
        composer = Composer(book).open()
        book.page.wait_for_function("() => document.querySelector('select[data-setting=mode]').value !== ''")
        composer.page.evaluate(WATCH)
        book.page.keyboard.press("/")
        composer.rows.first.wait_for()
        assert composer.page.evaluate("() => window.listed") < SECONDS_TO_LIST * 1_000
        check_accessible(composer)
        book.screenshot(
            "panel-palette" if "Light" in theme else "panel-palette-dark", book.page.locator(".cellwright-panel")
        )
        book.page.keyboard.type("stat")
        book.page.keyboard.press("Tab")
        assert composer.area.input_value() == "/status"
        book.page.keyboard.press("Control+z")
        assert composer.area.input_value() == "/stat"
        book.page.keyboard.press("Control+A")
        book.page.keyboard.type("Explain @rul")
        composer.rows.filter(has_text="rules.md").wait_for()
        book.page.keyboard.press("Enter")
        book.page.keyboard.type("and @two")
        composer.rows.filter(has_text="two words.csv").wait_for()
        book.page.keyboard.press("Tab")
        book.page.keyboard.type("for @cell:2")
        composer.rows.filter(has_text="prices = [3, 4, 5]").wait_for()
        book.page.keyboard.press("Tab")
        book.page.keyboard.type("with $pri")
        composer.rows.filter(has_text="list of 3").wait_for()
        book.page.keyboard.press("Tab")
        words = 'Explain @rules.md and @"data/two words.csv" for @cell:cell-1 with $prices '
        assert composer.area.input_value() == words
        model.add(turn(say("They are prices.")))
        book.page.keyboard.press("Enter")
        composer.wait_done(0)
        sent = "\n".join(block["text"] for block in content(model))
        for told in ("No discounts.", "1,2", "prices: list", 'mention="@cell:cell-1"'):
            assert told in sent
        # what was sent is in the history
        book.page.keyboard.press("ArrowUp")
        assert composer.area.input_value() == words
        assert composer.area.evaluate("area => document.activeElement === area")
    finally:
        lab.api("PUT", THEMES, {"raw": json.dumps({"theme": "JupyterLab Light"})})


def test_a_pasted_picture_and_the_cell_go_along_in_the_mode_that_was_chosen(notebook, model):
    files = {"rules.md": "No discounts.\n"}
    book = notebook("%load_ext cellwright", "prices = [3, 4, 5]", "", files=files)
    book.run(0)
    book.wait_done(0)
    book.cell(1).locator(".cm-content").click()
    composer = Composer(book).open()
    book.page.wait_for_function("() => document.querySelector('select[data-setting=mode]').value === 'default'")
    assert composer.page.evaluate(PASTE) > 5_000_000
    composer.node.locator(".cellwright-attached img").wait_for(timeout=60_000)
    composer.node.locator(".cellwright-cell-chip").click()
    for mode in ("acceptEdits", "plan"):
        book.page.keyboard.press("Shift+Tab")
        book.page.wait_for_function(
            "mode => document.querySelector('.cellwright-composer').dataset.mode === mode", arg=mode
        )
        assert composer.mode() == mode
    # a file of the file browser is mentioned, as the kernel knows it
    box = composer.area.bounding_box()
    book.page.locator(".jp-DirListing-item", has_text="rules.md").hover()
    book.page.mouse.down()
    book.page.mouse.move(box["x"] + 40, box["y"] + 10, steps=8)
    book.page.locator(".cellwright-composer.cellwright-mod-dragging").wait_for()
    book.page.mouse.up()
    book.page.wait_for_function("() => document.querySelector('.cellwright-prompt').value === '@rules.md '")
    composer.area.click()
    book.page.keyboard.type("What is this?")
    model.add(turn(say("Noise.")))
    book.page.keyboard.press("Enter")
    composer.runs.first.get_by_text("Noise.").wait_for(timeout=60_000)
    blocks = content(model)
    (picture,) = [block for block in blocks if block["type"] == "image"]
    assert Image.open(io.BytesIO(base64.b64decode(picture["source"]["data"]))).size == (1300, 1300)
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    assert any("prices = [3, 4, 5]" in text and 'what="cell cell-1, number 2' in text for text in texts)
    assert any(text.startswith("Plan mode") for text in texts)
    assert any("No discounts." in text for text in texts)
    assert composer.node.locator(".cellwright-attached li").count() == 0


def test_what_is_said_while_claude_works_is_told_queued_or_taken_back(notebook, model):
    gate = Gate()
    book = notebook("%load_ext cellwright", "%%claude\nCount to three", "")
    book.run(0)
    book.wait_done(0)
    composer = Composer(book).open()
    model.add(turn(say("One,"), hold(gate), say(" two, three.")), turn(say("In words, then.")), turn(say("Backwards.")))
    book.run(1)
    composer.runs.first.get_by_text("One,").wait_for(timeout=60_000)
    composer.area.click()
    waiting = composer.node.locator(".cellwright-waiting li")
    height = composer.node.locator(".cellwright-box").bounding_box()["height"]
    book.page.keyboard.type("Write them as words")
    assert composer.node.locator(".cellwright-send").inner_text() == "Steer"
    book.page.keyboard.press("Enter")
    waiting.filter(has_text="with the next step").wait_for()
    assert composer.area.input_value() == ""
    for words in ("And then backwards", "And never this"):
        book.page.keyboard.type(words)
        book.page.keyboard.press("Alt+Enter")
        composer.runs.filter(has_text=words).filter(has_text="Waits for its turn").wait_for()
    book.screenshot("panel-while-claude-works", book.page.locator(".cellwright-panel"))
    composer.runs.filter(has_text="never this").get_by_role("button", name="Take back").click()
    composer.page.locator(".cellwright-panel .run[data-state='interrupted']", has_text="never this").wait_for()
    assert composer.node.locator(".cellwright-box").bounding_box()["height"] == height
    gate.open()
    book.wait_done(1)
    composer.runs.get_by_text("Backwards.").wait_for(timeout=60_000)
    waiting.first.wait_for(state="detached")
    said = [json.dumps(request.body["messages"][-1]["content"]) for request in model.requests[-2:]]
    assert "Write them as words" in said[0]
    assert "And then backwards" in said[1]
    assert not any("never this" in json.dumps(request.body) for request in model.requests)
