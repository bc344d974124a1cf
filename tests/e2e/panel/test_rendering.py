"""What stands in an answer: code in colours, formulas typeset, changed words marked, pictures that open large."""

import pytest
from accessibility import check_accessible
from lab_tab import DARK, LIGHT
from playwright.sync_api import expect

from cellwright.testing import Gate, hold, say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

LOAD = "%load_ext cellwright"
TIDES = """\
def rolling_mean(values, window):
    # a window for each value
    for start in range(len(values) - window):
        yield sum(values[start : start + window]) / window
"""
PLOT = """\
# Draw the tide
import base64, zlib, struct
from IPython.display import Image, display
def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
rows = b''.join(b'\\0' + bytes([40 * row % 256, 90, 160]) * 300 for row in range(200))
png = b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 300, 200, 8, 2, 0, 0, 0))
display(Image(data=png + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')))
"""
FIRST = r"""The mean of $n$ values is $\bar{x} = \frac{1}{n}\sum_i x_i$, and it costs $5 and $6 to ask.

$$
\sigma^2
= \frac{1}{n - 1} \sum_{i=1}^{n} (x_i - \bar{x})^2
$$

```python
def mean(values: list[float]) -> float:
    \"\"\"The mean.\"\"\"
    return sum(values) / len(values)  # of all
```

And so \(a_1 * b_2 * c_3\) stays
""".replace('\\"', '"')
REST = r""" whole, and $\href{https://example.org}{x}$ is text.

```js
const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length; // the same
```
"""


# each frame in which the source of a formula is seen, in whatever answer there is
WATCH_SOURCES = r"""() => {
    window.sourcesSeen = [];
    const look = () => {
        for (const {shadowRoot} of document.querySelectorAll('.cellwright-answer > div')) {
            for (const prose of shadowRoot?.querySelectorAll('.prose') ?? []) {
                const seen = prose.innerText.match(/\\(?:frac|bar|sum|sigma)|a_1|\$n/g);
                if (seen) window.sourcesSeen.push(seen);
            }
        }
        requestAnimationFrame(look);
    };
    look();
}"""


def script(gate, end):
    return [
        turn(
            use("Read", file_path="tides.py"),
            use("Grep", pattern="window"),
            use("Read", file_path="tides.py", offset=2),
        ),
        turn(
            use(
                "Edit",
                file_path="tides.py",
                old_string="range(len(values) - window)",
                new_string="range(len(values) - window + 1)",
            )
        ),
        turn(use("Python", code="# Look the height up\nheights = {'a': 1}\nheights['b']")),
        turn(use("Python", code=PLOT)),
        turn(use("Bash", command="ls *.py", description="List the code")),
        turn(say(FIRST), hold(gate), say(REST), hold(end), say("\nDone.")),
    ]


def check(view, gate):
    """The answer in `view` while it streams and when all of it is there."""
    prose = view.locator(".prose").last
    expect(prose.locator("mjx-container")).to_have_count(4)
    expect(prose.locator(".tok-keyword").first).to_have_text("def")
    expect(prose).to_contain_text("it costs $5 and $6 to ask")
    kept = prose.locator("mjx-container").nth(1).element_handle()
    gate.open()
    expect(prose.locator("mjx-container")).to_have_count(4)
    expect(prose).to_contain_text(r"$\href{https://example.org}{x}$ is text")
    expect(prose.locator(".tok-comment").last).to_have_text("// the same")
    assert kept.evaluate("node => node.isConnected")  # what is finished is not drawn again
    wide = prose.locator("mjx-container[display='true']")
    box = wide.bounding_box()
    assert box["height"] > 30, box  # a fraction: MathJax's styles are in force


def enlarged(page, opener):
    """A picture opens large by the keyboard, and closes again."""
    expect(opener).to_have_attribute("aria-haspopup", "dialog")
    opener.focus()
    page.keyboard.press("Enter")
    dialog = page.locator("dialog.large-picture")
    expect(dialog.locator("img")).to_be_visible()
    assert dialog.bounding_box()["width"] > 0.9 * page.viewport_size["width"]
    check_accessible(dialog, "picture-field")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(opener).to_be_focused()


def test_code_formulas_and_changes(notebook, model, tab, page):
    gate, end = Gate(), Gate()
    model.add(*script(gate, end))
    book = notebook(LOAD, "%%claude\nMend the mean", "", files={"tides.py": TIDES})
    book.run(0)
    book.wait_done(0)
    book.run(1)
    card = book.asked_by_keys(1)
    expect(card.locator(".added ins")).to_have_text(" + 1")
    expect(card.locator(".tok-keyword").first).to_have_text("def")
    for theme in (DARK, LIGHT):
        tab.choose_theme(theme)
        check_accessible(card, "diff")
    book.asked_by_keys(1)
    page.keyboard.press("1")
    card = book.output(1).locator(".ask[data-kind='permission']").filter(has_text="Run Python")
    expect(card.locator(".tok-comment")).to_have_text("# Look the height up")
    book.asked_by_keys(1)
    page.evaluate(WATCH_SOURCES)
    page.keyboard.press("2")
    check(book.output(1), gate)
    assert page.evaluate("() => window.sourcesSeen") == []
    steps = book.output(1).locator(".items")
    expect(steps.locator(".group > summary .call")).to_have_text("Read a file, searched")
    failed = steps.locator(".tool[data-status='error']")
    expect(failed.locator(".call")).to_have_text("Ran heights = {'a': 1} … Look the height up")
    expect(failed.locator(".error")).to_have_text("KeyError: 'b'")
    expect(steps.locator(".tool .call").filter(has_text="List the code")).to_have_text("Ran ls *.py List the code")
    for theme in (DARK, LIGHT):
        tab.choose_theme(theme)
        check_accessible(book.output(1).locator(".prose").last, "figure")
    end.open()
    book.wait_done(1)
    page.keyboard.press("Control+Shift+Y")
    panel = page.locator(".cellwright-panel")
    expect(panel.locator(".run mjx-container")).to_have_count(4)
    expect(panel.locator(".run .group .call").first).to_have_text("Read a file, searched")
    enlarged(page, panel.locator("button.picture"))
    enlarged(page, book.output(1).locator(".jp-RenderedImage img"))
