"""What Claude writes from a cell appears in the page at once, in one whose panel nobody has opened as well."""

import pytest
from playwright.sync_api import expect

from cellwright.testing import say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.mark.lab_version
def test_a_new_file_is_in_the_file_browser_and_a_changed_one_in_its_open_editor(notebook, model, page):
    ask = "%%claude --mode acceptEdits\nSort the tides"
    book = notebook("%load_ext cellwright", ask, files={"tides.py": "level = 1\n"})
    listing = page.locator(".jp-DirListing-item")
    listing.filter(has_text="tides.py").dblclick()
    editor = page.locator(".jp-FileEditor .cm-content")
    expect(editor).to_contain_text("level = 1")
    page.locator(".lm-TabBar-tab", has_text="notebook.ipynb").click()
    expect(editor).to_be_hidden()
    book.run(0)
    book.wait_done(0)

    model.add(
        turn(use("Read", file_path="tides.py")),
        turn(use("Edit", file_path="tides.py", old_string="level = 1", new_string="level = 2")),
        turn(use("Write", file_path="sorted.csv", content="hour,level\n")),
        turn(say("Done.")),
    )
    book.run(1)
    expect(listing.filter(has_text="sorted.csv")).to_be_visible()
    book.wait_done(1)
    page.locator(".lm-TabBar-tab", has_text="tides.py").click()
    expect(editor).to_contain_text("level = 2")
    expect(page.locator(".cellwright-panel .run")).to_have_count(0)  # nobody has opened it
