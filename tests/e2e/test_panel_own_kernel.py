"""A kernel of the panel's own works on what is open in the page, and never behind an editor's back."""

import json

import pytest

from cellwright.testing import say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


def test_it_changes_the_notebook_that_is_open_and_not_a_file_with_unsaved_changes(notebook, model, page):
    book = notebook("x = 1")
    folder = (book.lab.root / book.path).parent
    (folder / "tides.py").write_text("level = 1\n")
    on_disk = (book.lab.root / book.path).read_text()
    page.locator(".jp-DirListing-item", has_text="tides.py").dblclick()
    editor = page.locator(".jp-FileEditor .cm-content")
    editor.click()
    page.keyboard.type("# typed, and not saved")
    page.get_by_role("tab", name=book.path.rpartition("/")[2]).click()

    page.keyboard.press("Control+Shift+Y")
    panel = page.locator(".cellwright-panel")
    panel.locator(".kernel[data-connection='connected']").wait_for(timeout=60_000)
    panel.locator(".kernel").click()
    page.get_by_role("menuitemradio", name="Start a kernel of its own").click()
    panel.locator(".kernel", has_text="Own kernel").wait_for(timeout=60_000)
    panel.locator(".kernel[data-connection='connected']").wait_for(timeout=60_000)
    name = book.path.rpartition("/")[2]
    cell = json.loads(on_disk)["cells"][0]["id"]
    model.add(
        turn(use("NotebookRead", notebook_path=name), use("Read", file_path="tides.py")),
        turn(use("NotebookEdit", notebook_path=name, cell_id=cell, new_source="x = 2")),
        turn(use("Edit", file_path="tides.py", old_string="level = 1", new_string="level = 2")),
        turn(say("Done.")),
    )
    panel.locator(".composer textarea").click()
    page.keyboard.type("Change both")
    page.keyboard.press("Enter")
    for answer in ("Accept", "Allow once"):
        panel.locator(".ask[data-ready]").get_by_role("button", name=answer).click(timeout=60_000)
    panel.locator(".run .transcript").get_by_text("Done.").wait_for(timeout=60_000)
    assert "x = 2" in book.cell(0).locator(".cm-content").inner_text()
    assert (book.lab.root / book.path).read_text() == on_disk
    assert (folder / "tides.py").read_text() == "level = 1\n"
    assert "unsaved" in json.dumps(model.requests[-1].body["messages"])
