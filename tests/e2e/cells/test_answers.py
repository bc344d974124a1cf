"""Claude's answer as one document: streaming, when the run is over, and reopened without a kernel."""

import io

import pytest
from lab_tab import VIEWPORT
from PIL import Image, ImageChops, ImageFilter
from playwright.sync_api import expect

from cellwright.testing import Gate, hold, say, think, turn, use
from eventual import eventually

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

LOAD = "%load_ext cellwright"
TRANSCRIPT = "application/vnd.cellwright.transcript+json"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

PLOTS = """\
# Tides by the hour
import matplotlib.pyplot as plt
import pandas as pd
print("thirty-six values")
plt.plot([1, 4, 2])
plt.show()
pd.DataFrame({"hour": [1, 2], "tide": [0.5, 1.25]})
"""

BOXES = """node => {
    const boxes = [];
    const look = (root) => {
        for (const each of root.querySelectorAll('.items > *, img, table, pre')) {
            const {x, y, width, height} = each.getBoundingClientRect();
            boxes.push([each.localName, Math.round(x), Math.round(y), Math.round(width), Math.round(height)].join(' '));
        }
        for (const each of root.querySelectorAll('*')) if (each.shadowRoot) look(each.shadowRoot);
    };
    look(node);
    return boxes;
}"""
"""The places of all that an answer shows, in order."""


def look(book):
    """What is seen of the answer, from its first line to its last one."""
    items = book.output(1).locator(".items")
    book.page.mouse.move(0, 0)
    book.go_to_top()
    first, last = items.first.bounding_box(), items.last.bounding_box()
    width, height = first["width"] + 8, last["y"] + last["height"] - first["y"]
    area = {"x": first["x"] - 4, "y": first["y"], "width": width, "height": height}
    return Image.open(io.BytesIO(book.page.screenshot(clip=area, caret="hide"))).convert("RGB")


def changed(before, after):
    """The part of a picture that is another one now, or None. Edges may be smoothed by a shade more or less."""
    assert before.size == after.size
    difference = ImageChops.difference(before, after).filter(ImageFilter.BoxBlur(1))
    return difference.point(lambda shade: shade if shade > 64 else 0).getbbox()


def test_nothing_moves_when_the_run_ends_and_everything_can_be_unfolded_when_reopened(notebook, model, lab, page):
    page.set_viewport_size({"width": 900, "height": 1500})
    gate = Gate()
    model.add(
        turn(think("What is there to see?"), say("I look at the **tides**.\n"), use("Python", code=PLOTS)),
        turn(say("The tide rises, `1.25` at most.\n\n```python\ntides.max()\n```\n"), hold(gate)),
    )
    book = notebook(LOAD, "%%claude --mode bypassPermissions\nShow me the tides", "")
    book.run(0)
    book.wait_done(0)
    book.run(1)
    output = book.output(1)
    output.locator("text=at most").wait_for()
    # the last that comes before the gate
    output.locator("pre", has_text="tides.max()").wait_for()
    output.locator("img").wait_for()
    expect(output.locator("table.dataframe")).to_be_visible()
    thought = output.locator("details.thinking")
    thought.locator("summary").click()
    output.locator("details.fold summary").click()
    code = output.locator("details.fold pre.exact")
    expect(code).to_contain_text("pd.DataFrame")
    streaming = output.evaluate(BOXES)
    as_streaming = look(book)
    gate.open()
    book.wait_done(1)
    output.locator("footer[data-state=done]:visible").wait_for()
    assert output.evaluate(BOXES) == streaming
    as_finished = look(book)
    saved = book.save()["cells"][1]["outputs"]
    kinds = [sorted(each["data"]) for each in saved]
    assert kinds == [
        [TRANSCRIPT, "text/markdown", "text/plain"],
        ["image/png", "text/plain"],
        ["text/html", "text/plain"],
        [TRANSCRIPT, "text/markdown", "text/plain"],
    ]
    assert output.evaluate(BOXES) == streaming
    lab.end_sessions()
    book.open()
    output = book.output(1)
    output.locator("text=at most").wait_for()
    expect(output.locator("footer:visible")).to_have_count(1)
    output.locator("details.thinking summary").click()
    expect(output.locator("details.thinking")).to_contain_text("What is there to see?")
    output.locator("details.fold summary").click()
    expect(output.locator("details.fold pre.exact")).to_contain_text("pd.DataFrame")
    expect(output.locator("details.fold pre.output")).to_contain_text("thirty-six values")
    assert output.evaluate(BOXES) == streaming
    as_reopened = look(book)
    # not one pixel is another
    assert as_streaming.size == as_finished.size == as_reopened.size
    assert changed(as_streaming, as_finished) is None
    assert changed(as_finished, as_reopened) is None
    page.set_viewport_size(VIEWPORT)


FOUND = """name => [...CSS.highlights.get(name) ?? []]
    .filter(range => range.getBoundingClientRect().height > 0).map(String)"""
SELECT = """node => {
    const root = node.getRootNode();
    getSelection().setBaseAndExtent(node, 0, node, 1);
}"""
NEXT_COPY = """() => { window.copied = new Promise(done => {
    addEventListener('copy', ({clipboardData}) => done(clipboardData.getData('text/plain')), {once: true});
}); }"""


def test_search_finds_what_answers_say_and_what_is_copied_of_one_is_markdown(notebook, model, page):
    text = "The **highest** tide is at *six*.\n\n```python\nimport tides\ntides.highest()\n```\n\n- one `tide`\n"
    long = "\n\n".join(f"Paragraph {number}." for number in range(60))
    model.add(turn(say(text)), turn(say(long), use("Read", file_path="tides.txt")), turn(say("It is low.")))
    prompts = ("%%claude\nWhen is high tide?", "%%claude\nAnd low tide?")
    book = notebook(LOAD, *prompts, files={"tides.txt": "six o'clock\n"})
    book.run(0)
    book.wait_done(0)
    for number in (1, 2):
        book.run(number)
        book.wait_done(number)
        book.wait_kept(number)
    page.keyboard.press("Escape")
    page.keyboard.press("Control+f")
    search = page.locator(".jp-DocumentSearch-overlay")
    search.get_by_title("Show Search Filters").click()
    search.get_by_text("Search Cell Outputs").click()
    words = search.locator(".jp-DocumentSearch-input").first

    def hits(kind):
        return lambda: page.evaluate(FOUND, f"cellwright-{kind}")

    # across bold and other words
    words.fill("highest tide is at six")
    eventually(hits("current"), lambda found: found == ["highest tide is at six"])
    # what is far out of sight is scrolled to
    words.fill("paragraph 57")
    eventually(hits("current"), lambda found: found == ["Paragraph 57"])
    hit = book.output(2).locator("p", has_text="Paragraph 57.")
    expect(hit).to_be_in_viewport()
    book.reel("find", hit)
    # of several one after the other, in the order of the page
    words.fill("tides.")
    eventually(lambda: len(hits("found")()) + len(hits("current")()), lambda count: count == 3)
    expect(search.locator(".jp-DocumentSearch-index-counter")).to_have_text("1/3")
    page.keyboard.press("Enter")
    eventually(hits("current"), lambda found: found == ["tides."])
    # in the result of a step, whose fold was never opened
    words.fill("six o'clock")
    eventually(hits("current"), lambda found: found == ["six o'clock"])
    expect(book.output(2).locator(".fold .output", has_text="six o'clock")).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(page.locator(".cellwright-searched")).to_have_count(0)
    assert hits("found")() == hits("current")() == []

    prose = book.output(1).locator(".prose")
    prose.locator("p").first.evaluate(SELECT)
    for keys, copied in (("", "The"), ("Control+a", text.strip())):
        if keys:
            page.keyboard.press(keys)
        page.evaluate(NEXT_COPY)
        page.keyboard.press("Control+c")
        assert copied in page.evaluate("() => window.copied")


IS_AT_END = """index => {
    const cell = document.querySelectorAll('.jp-Notebook .jp-Cell')[index];
    const end = cell.querySelector('.jp-Cell-outputArea').getBoundingClientRect().bottom;
    const seen = cell.closest('.jp-WindowedPanel-outer, .jp-Notebook').getBoundingClientRect().bottom;
    return end <= seen + 4 ? 'yes' : `${end - seen} below`;
}"""


def test_the_notebook_follows_what_streams_and_the_status_bar_leads_to_it(notebook, model, page):
    def lines(name):
        return "".join(f"{name} {number}.\n\n" for number in range(40))

    first, second, third = Gate(), Gate(), Gate()
    model.add(
        turn(
            say(lines("Ebb")), hold(first), say(lines("Flow")), hold(second), say(lines("Tide")), hold(third),
            use("Bash", command="touch low"), delta_chars=200,
        ),
        turn(say("Done.")),
    )  # fmt: skip
    book = notebook(LOAD, "%%claude\nTell me of the tides")
    book.run(0)
    book.wait_done(0)
    book.run(1)
    output = book.output(1)

    def shown(text):
        output.locator("p", has_text=f"{text}.").wait_for(state="attached")

    def at_end():
        return page.evaluate(IS_AT_END, 1)

    shown("Ebb 39")
    eventually(at_end, lambda found: found == "yes")
    status = page.locator(".cellwright-status:not(.cellwright-elsewhere)").first
    expect(status).to_have_text("Claude is working · cell [2]")
    expect(page.locator(".cellwright-status-stop")).to_be_visible()
    book.reel("status-working")
    # who reads further up is left there
    page.mouse.move(600, 400)
    page.mouse.wheel(0, -500)
    eventually(at_end, lambda found: found != "yes")
    first.open()
    shown("Flow 39")
    assert at_end() != "yes"
    status.click()
    eventually(at_end, lambda found: found == "yes")
    second.open()
    shown("Tide 39")
    eventually(at_end, lambda found: found == "yes")
    page.mouse.wheel(0, -3_000)
    third.open()
    expect(status).to_have_text("Claude is waiting for you · cell [2]")
    book.screenshot("status-bar")
    status.click()
    card = output.locator(".ask[data-ready]")
    expect(card).to_be_focused()
    expect(card).to_be_in_viewport()
    page.keyboard.press("4")
    book.wait_done(1)
    expect(status).to_have_text("Claude: idle")
