"""A file that is open in JupyterLab's editor with unsaved changes is not written behind the editor's back."""

import re

import pytest
from playwright.sync_api import expect

from cellwright.testing import say, turn, use

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

REFUSED = "is open in the user's editor with unsaved changes"


def write_script():
    return [
        turn(use("Read", file_path="notes.txt")),
        turn(use("Write", file_path="notes.txt", content="Claude's notes\n")),
        turn(say("Done.")),
    ]


def results(model):
    """What Claude was told by the last Write."""
    [result] = [block for block in model.requests[-1].body["messages"][-1]["content"] if block["type"] == "tool_result"]
    return result


def open_in_editor(page, name):
    page.locator(".jp-DirListing-item", has_text=name).dblclick()
    page.locator(".jp-FileEditor .cm-content").wait_for()


def type_into_editor(page, text):
    editor = page.locator(".jp-FileEditor .cm-content")
    editor.click()
    expect(editor).to_be_focused()
    page.keyboard.type(text)
    page.locator(".lm-TabBar-tab.jp-mod-dirty", has_text="notes.txt").wait_for()


def run_in_notebook(book, index):
    book.page.locator(".lm-TabBar-tab", has_text="notebook.ipynb").click()
    book.run(index)
    book.wait_done(index)


@pytest.mark.parametrize("reloaded", [pytest.param(False, marks=pytest.mark.lab_version), True])
def test_an_unsaved_file_is_not_written_to_until_it_is_saved(notebook, model, page, reloaded):
    ask = "%%claude --mode acceptEdits\nWrite the notes"
    book = notebook("%load_ext cellwright", ask, ask, "", files={"notes.txt": "first\n"})
    book.run(0)
    book.wait_done(0)
    if reloaded:
        book.reload()  # the page finds the kernel's comm, which was opened before it came
        book.wait_idle()
    file = book.lab.root / book.path
    file = file.with_name("notes.txt")
    open_in_editor(page, "notes.txt")
    type_into_editor(page, "mine ")

    model.add(*write_script())
    run_in_notebook(book, 1)
    assert results(model)["is_error"]
    assert REFUSED in str(results(model)["content"])
    assert file.read_text("utf-8") == "first\n"

    page.locator(".lm-TabBar-tab", has_text="notes.txt").click()
    editor = page.locator(".jp-FileEditor .cm-content")
    editor.click()
    expect(editor).to_be_focused()
    with page.expect_response(lambda reply: reply.request.method == "PUT" and "notes.txt" in reply.url):
        page.keyboard.press("Control+s")
    page.locator(".lm-TabBar-tab:not(.jp-mod-dirty)", has_text="notes.txt").wait_for()
    assert re.fullmatch(r"mine first\n|first\nmine ", file.read_text("utf-8"))

    model.add(*write_script())
    run_in_notebook(book, 2)
    assert "is_error" not in results(model)
    assert file.read_text("utf-8") == "Claude's notes\n"
