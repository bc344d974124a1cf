"""Claude's answer as one document: streaming, when the run is over, and reopened without a kernel."""

import pytest
from playwright.sync_api import expect

from cellwright.testing import Gate, hold, say, think, turn, use

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


def test_nothing_moves_when_the_run_ends_and_everything_can_be_unfolded_when_reopened(notebook, model, lab):
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
    output.locator("img").wait_for()
    expect(output.locator("table.dataframe")).to_be_visible()
    thought = output.locator("details.thinking")
    thought.locator("summary").click()
    output.locator("details.fold summary").click()
    code = output.locator("details.fold pre.exact")
    expect(code).to_contain_text("pd.DataFrame")
    streaming = output.evaluate(BOXES)
    gate.open()
    book.wait_done(1)
    output.locator("footer[data-state=done]:visible").wait_for()
    assert output.evaluate(BOXES) == streaming
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
