"""Outputs have actions, and what only the page draws reaches Claude as the page draws it, once the user has allowed that."""

import base64
import io
import json

import pytest
from PIL import Image
from playwright.sync_api import expect

from cellwright.testing import say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

CHART = """from IPython.display import display
levels = {"Esbjerg": 1.42, "Hvide Sande": 0.77, "Hirtshals": 0.38}
chart = {
    "data": {"values": [{"harbour": each, "level_m": levels[each]} for each in levels]},
    "mark": {"type": "bar", "color": "#aa0022"},
    "encoding": {
        "x": {"field": "level_m", "type": "quantitative"},
        "y": {"field": "harbour", "type": "nominal"},
    },
}
display({"application/vnd.vegalite.v5+json": chart, "text/plain": "a chart"}, raw=True)"""
STYLED = """import pandas as pd
ranges = pd.DataFrame({"range_m": {"Esbjerg": 1.5, "Hvide Sande": 0.8, "Hirtshals": 0.3}})
ranges.style.set_properties(width="16em").bar(color="#00aa44").format("{:.1f}")"""
FAILING = "print(ranges.size)\nranges.loc['Hirtshal']"


def pictures(model):
    """The pictures of the newest request, in order."""

    def found(value):
        if isinstance(value, dict):
            if value.get("type") == "image":
                yield Image.open(io.BytesIO(base64.b64decode(value["source"]["data"]))).convert("RGB")
            value = list(value.values())
        if isinstance(value, list):
            for each in value:
                yield from found(each)

    return list(found(model.requests[-1].body["messages"]))


def shows(picture, colour):
    """Whether a good part of a picture has about this colour."""
    counted = picture.getcolors(picture.width * picture.height)
    near = sum(count for count, pixel in counted if all(abs(a - b) < 12 for a, b in zip(pixel, colour, strict=True)))
    return near > picture.width * picture.height / 50


def words(model):
    return json.dumps(model.requests[-1].body["messages"][-1], ensure_ascii=False)


RED, GREEN = (0xAA, 0x00, 0x22), (0x00, 0xAA, 0x44)


def output_tool(book, cell, name):
    tools = book.output(cell).locator(".cellwright-output-tools")
    return tools.first.get_by_role("button", name=name)


def test_outputs_are_marked_with_remarks_and_sent_together_with_their_pictures(notebook, model, page):
    book = notebook(CHART, STYLED, FAILING, "x = 1")
    for index in range(3):
        book.run(index)
        book.wait_done(index)
    expect(page.locator(".cellwright-output-tools")).to_have_count(0)
    before = book.output(0).locator(".jp-OutputArea-output").bounding_box()
    book.output(0).hover()
    output_tool(book, 0, "Ask about this output").wait_for()
    assert book.output(0).locator(".jp-OutputArea-output").bounding_box() == before
    book.reel("output-actions")
    book.output(0).hover()
    output_tool(book, 0, "Ask about this output").click()
    chips = page.locator(".cellwright-attached li")
    expect(chips).to_have_text(["Output of cell [1]×"])
    expect(page.locator(".cellwright-prompt")).to_be_focused()
    # by keys alone; it has no picture of its own, so that is asked for once
    book.cell(1).locator(".jp-InputPrompt").click()
    page.keyboard.press("Alt+Shift+M")
    page.locator(".jp-Dialog").get_by_role("button", name="Allow", exact=True).wait_for()
    book.reel("picture-consent")
    page.keyboard.press("Tab")  # it begins at "Don't allow"
    page.keyboard.press("Enter")
    remark = book.cell(1).get_by_label("Remark about: Output of cell [2]")
    expect(remark).to_be_focused()
    page.keyboard.type("Why is Hirtshals so low?")
    panel = page.locator(".cellwright-panel")
    shown = page.locator(".jp-NotebookPanel-notebook")
    book.screenshot("marked-outputs", shown, panel, width=1440, height=790)
    page.keyboard.press("Enter")
    expect(page.locator(".cellwright-prompt")).to_be_focused()
    expect(chips).to_have_count(2)
    model.add(say("The chart has three bars."))
    page.keyboard.type("Compare these.")
    page.keyboard.press("Enter")
    page.locator(".cellwright-panel").get_by_text("The chart has three bars.").wait_for()
    chart, table = pictures(model)
    assert shows(chart, RED)
    assert shows(table, GREEN)
    said = words(model)
    assert "<remark>\\nWhy is Hirtshals so low?\\n</remark>" in said
    assert "#00aa44" in said
    expect(chips).to_have_count(0)
    expect(page.locator(".cellwright-marks")).to_have_count(0)
    assert all(set(cell["metadata"]) <= {"trusted"} for cell in book.save()["cells"])
    model.add(say("There is no such harbour."))
    book.output(2).hover()
    book.output(2).locator(".cellwright-output-tools").nth(1).get_by_role("button", name="Explain this output").click()
    page.locator(".cellwright-panel").get_by_text("There is no such harbour.").wait_for()
    assert "KeyError: 'Hirtshal'" in words(model)
    assert "Explain the error in cell [3]" in words(model)


def test_claude_sees_what_the_page_draws_when_it_reads_runs_and_displays(notebook, model, page):
    book = notebook(STYLED, CHART, "%%claude --mode acceptEdits --allow Python --allow NotebookRun\nLook at it")
    book.run(0)
    book.wait_done(0)
    model.add(
        turn(use("NotebookRead", notebook_path="notebook.ipynb", cell_ids=["cell-0"], outputs="full")),
        turn(use("NotebookRun", cell_ids=["cell-1"])),
        turn(use("Python", code=CHART.replace("aa0022", "00aa44"))),
        turn(say("I see it.")),
    )
    book.run(2)
    page.locator(".Toastify__toast").get_by_role("button", name="Allow", exact=True).click()
    book.output(2).get_by_text("I see it.").wait_for()
    book.wait_done(2)
    table, chart, shown = pictures(model)
    assert shows(table, GREEN)
    assert shows(chart, RED)
    assert shows(shown, GREEN)
    expect(page.locator(".Toastify__toast")).to_have_count(0)
