"""`%%claude` in a page that treats widgets, updates, MIME types and `input()` as Visual Studio Code does."""

from __future__ import annotations

import re
from typing import Any

import pytest
from nbconvert.exporters import HTMLExporter
from playwright.sync_api import expect

from cellwright.server.exported_page import AnswerStyle
from cellwright.testing import Gate, MessagesServer, hold, say, turn, use

pytestmark = [pytest.mark.front_ends, pytest.mark.timeout(300)]

LOAD = "%load_ext cellwright"
HALF = "and the second.\n\n| hour | level |\n|---|---|\n| 1 | 3.5 |"
ACTIVE = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL)
GITHUB = (
    "body{max-width:800px;margin:24px auto;font:16px/1.5 -apple-system,'Segoe UI',sans-serif;color:#1f2328}"
    "pre{background:#f6f8fa;padding:12px;border-radius:6px}"
    "table{border-collapse:collapse}td,th{border:1px solid #d1d9e0;padding:6px 13px}"
    ".prompt,.anchor-link{display:none}"
)
TABLE = """
import matplotlib.pyplot as plt
import pandas as pd
levels = pd.Series([0.4, 2.5, 4.6, 2.5], index=[0, 3, 6, 9], name="level")
figure, axes = plt.subplots(figsize=(5, 1.8))
axes.plot(levels, marker="o")
display(levels.to_frame().T)
plt.show()
"""
PLOT = """
import base64
from IPython.display import Image, display
pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M/wHwAEBgIApD5fRAAAAABJRU5ErkJggg=="
display(Image(base64.b64decode(pixel)))
"""


def test_text_streams_in_place_and_what_is_saved_is_read_without_a_kernel(
    front_end: Any, model: MessagesServer
) -> None:
    gate = Gate()
    model.add(turn(say("The **first** half, "), hold(gate), say(HALF)))
    book = front_end("vscode", LOAD, "%%claude\nSay something in two halves")
    book.run_whole(0)
    book.run(1)
    widget = book.cell(1).locator('[data-type="application/vnd.jupyter.widget-view+json"]')
    expect(widget.locator("strong", has_text="first")).to_be_visible()
    expect(widget).not_to_contain_text("second")
    gate.open()
    book.wait_done(1)
    markdown = book.cell(1).locator('[data-type="text/markdown"]')
    expect(markdown.locator("td", has_text="3.5")).to_be_visible()
    expect(book.cell(1).locator(".output")).to_have_count(1)
    (output,) = book.saved().cells[1].outputs
    assert "The **first** half, and the second." in output.data["text/markdown"]
    assert "application/vnd.jupyter.widget-view+json" not in output.data
    book.reopen()
    expect(book.cell(1).locator("td", has_text="3.5")).to_be_visible()
    expect(book.cell(1)).not_to_contain_text("No renderer")


def test_a_question_is_answered_in_its_widget(front_end: Any, model: MessagesServer) -> None:
    model.add(
        turn(use("Write", file_path="harbours.csv", content="harbour,level\nEsbjerg,1.42\n")), say("It is written.")
    )
    book = front_end("vscode", LOAD, "%%claude\nBegin harbours.csv with the level of Esbjerg, 1.42 m.")
    book.run_whole(0)
    book.run(1)
    expect(book.cell(1).get_by_text("Press 1, 2").first).to_be_visible()  # the keys are off for a moment
    book.pictures("vscode-question")
    book.cell(1).get_by_role("button", name="Allow").first.click()
    book.wait_done(1)
    assert (book.path.parent / "harbours.csv").read_text() == "harbour,level\nEsbjerg,1.42\n"
    expect(book.cell(1)).to_contain_text("It is written.")


def test_a_plot_stays_between_the_parts_of_an_answer(front_end: Any, model: MessagesServer) -> None:
    model.add(
        turn(say("I plot it."), use("Python", code=PLOT)),
        turn(say("A second time."), use("Python", code=PLOT)),
        say("That is all."),
    )
    book = front_end("vscode", LOAD, "%%claude --mode bypassPermissions\nPlot it twice")
    book.run_whole(0)
    book.run_whole(1)
    texts = [output.data.get("text/markdown", "a picture") for output in book.saved().cells[1].outputs]
    assert len(texts) == 5, texts
    assert texts[1] == texts[3] == "a picture", texts
    assert not any("working" in text for text in texts)
    assert "That is all." in texts[4]


def test_where_no_widget_comes_the_answer_is_renewed_in_place(front_end: Any, model: MessagesServer) -> None:
    gate = Gate()
    model.add(turn(say("The **first** half, "), hold(gate), say("and the second.")))
    book = front_end("vscode", LOAD, "%%claude\nSay something in two halves", scripts=False)
    book.run_whole(0)
    book.run(1)
    markdown = book.cell(1).locator('[data-type="text/markdown"]')
    expect(markdown.locator("strong", has_text="first")).to_be_visible(timeout=60_000)
    expect(markdown).to_contain_text("Claude is working")
    gate.open()
    book.wait_done(1)
    expect(markdown).to_contain_text("and the second.")
    expect(book.cell(1).locator(".output")).to_have_count(1)


def test_a_widget_that_comes_late_takes_over(front_end: Any, model: MessagesServer) -> None:
    gate = Gate()
    model.add(turn(say("The **first** half, "), hold(gate), say("and the second.")))
    book = front_end("vscode", LOAD, "%%claude\nSay something in two halves", asks=True)
    book.run_whole(0)
    book.run(1)
    markdown = book.cell(1).locator('[data-type="text/markdown"]')
    expect(markdown.locator("strong", has_text="first")).to_be_visible(timeout=60_000)
    book.page.evaluate("() => book.allowScripts()")
    widget = book.cell(1).locator('[data-type="application/vnd.jupyter.widget-view+json"]')
    expect(widget.locator("strong", has_text="first")).to_be_visible()
    expect(markdown).to_have_count(0)
    gate.open()
    book.wait_done(1)
    expect(markdown).to_contain_text("and the second.")


def test_where_no_widget_comes_the_input_box_asks_and_escape_is_a_no(front_end: Any, model: MessagesServer) -> None:
    model.add(
        turn(use("Write", file_path="one.txt", content="1")),
        say("It stays."),
        turn(use("Write", file_path="two.txt", content="2")),
        say("It is there."),
    )
    book = front_end("vscode", LOAD, "%%claude\nWrite one.txt", "%%claude\nWrite two.txt", scripts=False)
    book.run_whole(0)
    for index, key, text in ((1, "Escape", ""), (2, "Enter", "1")):
        book.run(index)
        field = book.page.locator("#input-box input")
        field.wait_for()
        if text:
            field.fill(text)
            book.picture("vscode-input")
        field.press(key)
        book.wait_done(index)
    assert not (book.path.parent / "one.txt").exists()
    assert (book.path.parent / "two.txt").read_text() == "2"


@pytest.mark.parametrize("how", ["the widget's button", "the editor's button"])
def test_a_run_is_stopped(front_end: Any, model: MessagesServer, how: str) -> None:
    gate = Gate()
    model.add(turn(say("It begins, "), hold(gate), say("and goes on.")))
    book = front_end("vscode", LOAD, "%%claude\nTell me", "print(1 + 1)")
    book.run_whole(0)
    book.run(1)
    expect(book.cell(1)).to_contain_text("It begins,")
    if how == "the editor's button":
        book.interrupt()
    else:
        book.cell(1).get_by_role("button", name="Stop").click()
    expect(book.cell(1)).to_have_attribute("data-state", "error", timeout=60_000)
    gate.open()
    expect(book.cell(1)).to_contain_text("Stopped")
    book.run_whole(2)
    expect(book.cell(2)).to_contain_text("2")


def test_what_a_restricted_workspace_leaves_out_is_not_needed(front_end: Any, model: MessagesServer) -> None:
    model.add(
        turn(say("I compare the **levels**."), use("Python", code=TABLE)),
        turn(use("Write", file_path="tides.py", content="def mean(values):\n    return sum(values) / len(values)\n")),
        say(
            "High tide is at 6 h; the mean is 2.5 m.\n\n| hour | level |\n|---|--:|\n| 0 | 0.4 |\n| 6 | 4.6 |\n\n"
            "```python\nmean(levels)\n```"
        ),
    )
    book = front_end(
        "vscode",
        LOAD,
        "%%claude --mode acceptEdits --allow Python\nWhen is high tide? Plot the levels, and write mean() into tides.py.",
    )
    book.run_whole(0)
    book.run_whole(1)
    shown = book.cell(1).locator(".preview")
    expect(shown.locator("details").first).to_be_visible()
    book.pictures("vscode-finished")
    book.reopen(trusted=False)
    expect(shown.locator("details").first).to_be_visible()
    # also where nothing is trusted
    for text in ("I compare the levels.", "Changes: Wrote tides.py", "High tide is at 6 h", "4.6", "mean(levels)"):
        expect(shown.get_by_text(text).last).to_be_visible()
    for template in ("lab", "basic"):
        is_read_in_order(book, template)


def is_read_in_order(book: Any, template: str) -> None:
    """The saved notebook as JupyterLab exports it, and as GitHub: by the plain template, without styles and scripts."""
    styles = [AnswerStyle] if template == "lab" else []
    html, _ = HTMLExporter(template_name=template, preprocessors=styles).from_filename(str(book.path))
    if template == "basic":
        html = f"<style>{GITHUB}</style>{ACTIVE.sub('', html)}"
    page = book.path.with_name(f"{template}.html")
    page.write_text(html, "utf-8")
    book.page.goto(page.as_uri())
    body = book.page.locator("body")
    places = [
        body.locator(selector).first.bounding_box()["y"]
        for selector in (
            "text=I compare the",
            "td:has-text('2.5')",
            "img",
            "text=Changes: Wrote tides.py",
            "text=High tide is at",
        )
    ]
    assert places == sorted(places)
    book.picture({"lab": "nbconvert-html", "basic": "github-like"}[template])
