"""A kernel of the panel's own works on what is open in the page, and never behind an editor's back."""

import json

import pytest
from playwright.sync_api import expect

from cellwright.testing import say, turn, use
from eventual import SECONDS, eventually

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def test_it_changes_the_notebook_that_is_open_and_not_a_file_with_unsaved_changes(notebook, model, page):
    book = notebook("x = 1", files={"tides.py": "level = 1\n"})
    folder = (book.lab.root / book.path).parent
    on_disk = (book.lab.root / book.path).read_text()
    page.locator(".jp-DirListing-item", has_text="tides.py").dblclick()
    editor = page.locator(".jp-FileEditor .cm-content")
    editor.click()
    expect(editor).to_be_focused()
    page.keyboard.type("# typed, and not saved")
    page.locator(".lm-TabBar-tab.jp-mod-dirty", has_text="tides.py").wait_for()
    page.get_by_role("tab", name=book.path.rpartition("/")[2]).click()
    expect(editor).to_be_hidden()

    page.keyboard.press("Control+Shift+Y")
    panel = page.locator(".cellwright-panel")
    panel.locator(".kernel[data-connection='connected']").wait_for()
    panel.locator(".kernel").click()
    page.get_by_role("menuitemradio", name="Start a separate kernel").click()
    panel.locator(".kernel", has_text="Own kernel").wait_for()
    panel.locator(".kernel[data-connection='connected']").wait_for()
    name = book.path.rpartition("/")[2]
    cell = json.loads(on_disk)["cells"][0]["id"]
    model.add(
        turn(use("NotebookRead", notebook_path=name), use("Read", file_path="tides.py")),
        turn(use("NotebookEdit", notebook_path=name, cell_id=cell, new_source="x = 2")),
        turn(use("Edit", file_path="tides.py", old_string="level = 1", new_string="level = 2")),
        turn(say("Done.")),
    )
    area = panel.locator(".cellwright-prompt")
    area.click()
    expect(area).to_be_focused()
    page.keyboard.type("Change both")
    page.keyboard.press("Enter")
    for answer in ("Accept", "Allow once"):
        page.locator(".ask[data-ready]").get_by_role("button", name=answer).first.click()  # or beside the cell
    panel.locator(".run .transcript").get_by_text("Done.").wait_for()
    expect(book.cell(0).locator(".cm-content")).to_contain_text("x = 2")
    assert (book.lab.root / book.path).read_text() == on_disk
    assert (folder / "tides.py").read_text() == "level = 1\n"
    assert "unsaved" in json.dumps(model.requests[-1].body["messages"])


def ask_in_new_tab(lab, context, prompt):
    """A page of JupyterLab without a notebook, in which `prompt` is answered."""
    page = context.new_page()
    page.set_default_timeout(SECONDS * 1_000)
    page.goto(f"{lab.url}/lab?reset", wait_until="domcontentloaded")
    expect(page.locator("#jupyterlab-splash")).to_have_count(0)
    page.locator(".jp-LauncherCard", has_text="Ask Claude").click()
    panel = page.locator(".cellwright-panel")
    panel.locator(".cellwright-prompt").fill(prompt)
    expect(panel.locator(".cellwright-send")).to_be_enabled()
    panel.locator(".cellwright-send").click()
    expect(panel.locator(".run", has_text=prompt).locator("footer[data-state='done']")).to_be_visible()
    return page


@pytest.mark.usefixtures("own_page")
def test_it_stays_when_its_tab_is_closed_and_is_taken_up_in_the_same_folder(lab, model, page):
    model.add(turn(say("Low.")), turn(say("High.")))
    first = ask_in_new_tab(lab, page.context, "How is the tide?")
    [session] = lab.sessions()
    first.close()

    def connections():
        return [found["kernel"]["connections"] for found in lab.sessions()]

    eventually(connections, lambda found: found == [0])
    second = ask_in_new_tab(lab, page.context, "And now?")
    expect(second.locator(".cellwright-panel .run", has_text="How is the tide?")).to_be_visible()
    assert [found["kernel"]["id"] for found in lab.sessions()] == [session["kernel"]["id"]]
