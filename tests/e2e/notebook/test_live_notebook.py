"""Claude works on the notebook as its user sees it: the open document, unsaved changes included."""

import json
import re

import ipykernel
import nbformat
import pytest
from lab_notebook import in_apps
from nbformat.sign import NotebookNotary
from playwright.sync_api import expect

from cellwright.testing import say, turn, use
from eventual import eventually

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

LOAD = "%load_ext cellwright"
ASK = "%%claude --mode acceptEdits\nWork on it"
ACTIVE = re.compile(r"\bjp-mod-active\b")
NAMES = {"lab": "JupyterLab", "notebook": "Jupyter Notebook"}
WAYS = {
    "blocking": "print(live_cell.blocking(live_cell.conform()))",
    "awaited": "print(await live_cell.awaited(live_cell.conform()))",
}


def read(path="notebook.ipynb"):
    return turn(use("NotebookRead", notebook_path=path))


def edit(cell, source, path="notebook.ipynb"):
    return turn(use("NotebookEdit", notebook_path=path, cell_id=cell, new_source=source))


def results(model):
    """What Claude was told by the calls of the newest prompt, in order."""
    messages = model.requests[-1].body["messages"]
    start = max(at for at, message in enumerate(messages) if _is_prompt(message))
    blocks = [
        block for message in messages[start:] if isinstance(message["content"], list) for block in message["content"]
    ]
    return [_text(block["content"]) for block in blocks if block["type"] == "tool_result"]


def _is_prompt(message):
    content = message["content"]
    return message["role"] == "user" and (isinstance(content, str) or content[0]["type"] != "tool_result")


def _text(content):
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def other_notebook(*sources):
    """A notebook file of these code cells, with the ids `other-0`, `other-1`, …"""
    cells = [
        {
            "cell_type": "code",
            "id": f"other-{number}",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": text,
        }
        for number, text in enumerate(sources)
    ]
    kernelspec = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    return json.dumps({"cells": cells, "metadata": {"kernelspec": kernelspec}, "nbformat": 4, "nbformat_minor": 5})


def type_at_end(book, index, text):
    book.edit(index)
    book.page.keyboard.press("Control+End")
    book.page.keyboard.type(text)


def wait_source(book, index, source):
    book.page.wait_for_function(
        """([index, source]) => [...document.querySelectorAll('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell')][index]
            ?.querySelector('.cm-content')?.innerText === source""",
        arg=[index, source],
    )


def run(book, index):
    book.run(index)
    book.wait_done(index)


def show_tab(page, name):
    page.locator(".lm-TabBar-tab", has_text=name).click()
    page.locator(".lm-TabBar-tab.lm-mod-current", has_text=name).wait_for()


def go_to(book, index):
    """Make a cell the active one, in command mode."""
    book.cell(index).locator(".jp-InputPrompt").click()
    expect(book.cell(index)).to_have_class(ACTIVE)
    book.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook.jp-mod-commandMode").wait_for()


def shows_line(card, line):
    """Wait until a card shows the line, whose sign and code stand in places of their own."""
    eventually(lambda: card.inner_text().replace("\n", ""), lambda text: line in text)


def saved_sources(book):
    return ["".join(cell["source"]) for cell in book.on_disk()["cells"]]


@pytest.mark.parametrize("way", WAYS)
def test_the_open_document_conforms_while_a_cell_is_busy(notebook, way):
    if way == "blocking" and int(ipykernel.__version__.partition(".")[0]) < 7:
        pytest.skip("ipykernel 6 takes no message while a cell blocks")
    book = notebook(f"{LOAD}\nimport live_cell", WAYS[way])
    run(book, 0)
    book.run(1)
    cell = book.page.locator(".jp-Notebook .jp-Cell", has_text=WAYS[way])  # it is among others meanwhile
    expect(cell.locator(".jp-InputPrompt")).to_have_text(re.compile(r"\[\d+\]"), timeout=180_000)
    found = json.loads(cell.locator(".jp-OutputArea-output pre").inner_text())
    assert found.pop("where") == "JupyterLab"
    assert {name: said for name, said in found.items() if said != "ok"} == {}


@in_apps(on_older_lab=True, always=True)
def test_unsaved_typing_is_read_and_kept(notebook, model, page, app):
    book = notebook(LOAD, ASK, "x = 1", "y = 2", app=app)
    run(book, 0)
    type_at_end(book, 3, "  # mine")
    model.add(read(), edit("cell-2", "x = 2"), turn(say("Done.")))
    run(book, 1)
    seen, done = results(model)
    assert "y = 2  # mine" in seen
    assert f"Open in {NAMES[app]}" in seen
    assert f"Open in {NAMES[app]}" in done
    wait_source(book, 2, "x = 2")
    wait_source(book, 3, "y = 2  # mine")
    assert saved_sources(book)[2:] == ["x = 1", "y = 2"]
    # the user's own undo takes Claude's edit back, and leaves what was typed elsewhere
    content = book.cell(2).locator(".cm-content")
    content.click()
    expect(content).to_be_focused()
    page.keyboard.press("Control+z")
    wait_source(book, 2, "x = 1")
    wait_source(book, 3, "y = 2  # mine")
    book.save()
    assert saved_sources(book)[2:4] == ["x = 1", "y = 2  # mine"]


@pytest.mark.lab_version
def test_cells_come_and_go_and_the_notebooks_own_undo_takes_that_back(notebook, model, page):
    book = notebook(LOAD, ASK, "x = 1", "y = 2")
    run(book, 0)
    new = {"edit_mode": "insert", "cell_type": "code", "new_source": "# new", "cell_id": "cell-2"}
    gone = {"edit_mode": "delete", "cell_id": "cell-3"}
    model.add(
        read(),
        turn(use("NotebookEdit", notebook_path="notebook.ipynb", **new)),
        turn(use("NotebookEdit", notebook_path="notebook.ipynb", **gone)),
        turn(say("Done.")),
    )
    run(book, 1)
    assert "(index 3)" in results(model)[1]
    wait_source(book, 3, "# new")
    expect(page.locator(".jp-Notebook .jp-Cell")).to_have_count(4)
    go_to(book, 2)
    page.keyboard.press("z")
    wait_source(book, 4, "y = 2")
    page.keyboard.press("z")
    wait_source(book, 3, "y = 2")
    saved = book.save()
    assert [cell["id"] for cell in saved["cells"]] == ["cell-0", "cell-1", "cell-2", "cell-3"]


@in_apps()
def test_what_changes_while_the_question_waits_is_not_overwritten(notebook, model, app):
    book = notebook(LOAD, "%%claude\nWork on it", "x = 1", app=app)
    run(book, 0)
    model.add(read(), edit("cell-2", "x = 2"), turn(say("I see.")))
    book.run(1)
    card = book.asked(1)
    shows_line(card, "+x = 2")
    type_at_end(book, 2, "  # mine")
    book.output(1).get_by_role("button", name="Accept").first.click()
    book.wait_done(1)
    told = results(model)[-1]
    assert "Nothing was changed" in told
    assert "x = 1\n" in told
    assert "x = 1  # mine" in told
    wait_source(book, 2, "x = 1  # mine")

    # what changed before the question is shown with it: what it was, what it is, what Claude would make of it
    type_at_end(book, 2, ", too")
    model.add(edit("cell-2", "x = 2  # mine"), turn(say("I see.")))
    book.run(1)
    card = book.asked(1)
    expect(card).to_contain_text("Somebody changed this cell")
    expect(card.get_by_role("button", name="Let Claude adapt it")).to_be_visible()
    expect(card.get_by_role("button", name="Accept and run")).to_have_count(0)
    for line in ("\N{MINUS SIGN}x = 1  # mine", "+x = 1  # mine, too", "+x = 2  # mine"):
        shows_line(card, line)
    book.page.evaluate("document.activeElement.blur()")
    if app == "lab":
        book.screenshot("cell-conflict", book.cell(1))
    book.output(1).get_by_role("button", name="Reject").first.click()
    book.wait_done(1)
    wait_source(book, 2, "x = 1  # mine, too")


def test_of_two_tabs_the_one_that_asked_is_worked_on(notebook, model):
    book = notebook(LOAD, ASK, "x = 1")
    run(book, 0)
    other = book.in_second_tab()
    other.wait_idle()
    type_at_end(book, 2, "  # first")
    type_at_end(other, 2, "  # second")
    model.add(read(), edit("cell-2", "x = 2  # second"), turn(say("Done.")))
    run(other, 1)
    wait_source(other, 2, "x = 2  # second")
    wait_source(book, 2, "x = 1  # first")
    book.page.bring_to_front()
    model.add(read(), edit("cell-2", "x = 3  # first"), turn(say("Done.")))
    run(book, 1)
    wait_source(book, 2, "x = 3  # first")
    wait_source(other, 2, "x = 2  # second")


def rename(book, name):
    page = book.page
    if book.app == "notebook":
        page.get_by_role("menuitem", name="File", exact=True).click()
        page.get_by_role("menuitem", name="Rename").click()
        page.locator(".jp-Dialog input").fill(name)
        page.locator(".jp-Dialog .jp-mod-accept").click()
        page.locator(".jp-Dialog").wait_for(state="detached")
        page.wait_for_function("name => location.href.endsWith(name)", arg=name)
        return
    page.locator(".jp-DirListing-item", has_text="notebook.ipynb").click()
    page.keyboard.press("F2")
    page.locator("input.jp-DirListing-editor").fill(name)
    page.keyboard.press("Enter")
    page.locator(".lm-TabBar-tab.lm-mod-current", has_text=name).wait_for()
    page.locator(".jp-DirListing-item", has_text=name).wait_for()


@in_apps(on_older_lab=True)
def test_a_renamed_notebook_is_found_under_its_new_name(notebook, model, app):
    book = notebook(LOAD, ASK, "x = 1", app=app)
    run(book, 0)
    type_at_end(book, 2, "  # mine")
    book.save()
    rename(book, "renamed.ipynb")
    type_at_end(book, 2, ", unsaved")
    model.add(read("renamed.ipynb"), edit("cell-2", "x = 2", "renamed.ipynb"), read(), turn(say("Done.")))
    run(book, 1)
    seen, done, gone = results(model)
    assert "x = 1  # mine, unsaved" in seen
    assert f"Open in {NAMES[app]}" in done
    assert "does not exist" in gone
    wait_source(book, 2, "x = 2")


@pytest.mark.lab_version
def test_a_notebook_that_is_closed_is_its_file_again(notebook, model, page):
    book = notebook(LOAD, ASK, files={"other.ipynb": other_notebook("z = 1")})
    run(book, 0)
    file = (book.lab.root / book.path).with_name("other.ipynb")
    page.locator(".jp-DirListing-item", has_text="other.ipynb").dblclick()
    tab = page.locator(".lm-TabBar-tab.lm-mod-current", has_text="other.ipynb")
    tab.wait_for()
    content = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .cm-content", has_text="z = 1")
    content.click()
    expect(content).to_be_focused()
    page.keyboard.press("Control+End")
    page.keyboard.type("  # unsaved")
    expect(content).to_have_text("z = 1  # unsaved")
    show_tab(page, "notebook.ipynb")
    model.add(read("other.ipynb"), edit("other-0", "z = 2", "other.ipynb"), turn(say("Done.")))
    run(book, 1)
    seen, done = results(model)
    assert "z = 1  # unsaved" in seen
    assert "Open in JupyterLab" in done
    assert "z = 1" in file.read_text("utf-8")

    page.locator(".lm-TabBar-tab", has_text="other.ipynb").locator(
        ".jp-icon-hover, .lm-TabBar-tabCloseIcon"
    ).first.click()
    page.locator(".jp-Dialog button", has_text="Discard").click()
    page.locator(".lm-TabBar-tab", has_text="other.ipynb").wait_for(state="detached")
    model.add(read("other.ipynb"), edit("other-0", "z = 3", "other.ipynb"), turn(say("Done.")))
    run(book, 1)
    seen, done = results(model)
    assert "z = 1" in seen
    assert "unsaved" not in seen
    assert "Open in" not in done
    assert "z = 3" in file.read_text("utf-8")


@pytest.mark.lab_version
def test_a_restarted_kernel_finds_the_page_again(notebook, model, page):
    book = notebook(LOAD, ASK, "x = 1")
    run(book, 0)
    go_to(book, 2)
    page.keyboard.press("0")
    page.keyboard.press("0")
    with page.expect_response(lambda reply: reply.url.partition("?")[0].endswith("/restart")):
        page.locator(".jp-Dialog button.jp-mod-accept", has_text="Restart").click()
    page.locator(".jp-Dialog").wait_for(state="detached")
    book.wait_idle()
    type_at_end(book, 2, "  # mine")
    run(book, 0)
    model.add(read(), edit("cell-2", "x = 2"), turn(say("Done.")))
    run(book, 1)
    assert "x = 1  # mine" in results(model)[0]
    wait_source(book, 2, "x = 2")


@in_apps()
def test_the_page_is_reloaded_while_an_edit_waits_for_its_answer(notebook, model, app):
    book = notebook(LOAD, "%%claude\nWork on it", "x = 1", app=app)
    run(book, 0)
    model.add(read(), edit("cell-2", "x = 2"), turn(say("Done.")))
    book.run(1)
    book.asked(1)
    book.save()
    book.reload()
    book.asked(1)
    book.output(1).get_by_role("button", name="Accept").first.click()
    wait_source(book, 2, "x = 2")
    book.output(1).locator("text=Done.").first.wait_for()
    assert f"Open in {NAMES[app]}" in results(model)[-1]
    assert saved_sources(book)[2] == "x = 1"


def test_two_agents_on_one_notebook_do_not_overwrite_one_another(notebook, model, page):
    book = notebook(LOAD, ASK, "x = 1", files={"second.ipynb": other_notebook(LOAD, ASK)})
    second = (book.lab.root / book.path).with_name("second.ipynb")
    NotebookNotary(data_dir=str(book.lab.home / ".local/share/jupyter")).sign(nbformat.read(second, 4))
    run(book, 0)
    page.locator(".jp-DirListing-item", has_text="second.ipynb").dblclick()
    page.locator(".lm-TabBar-tab.lm-mod-current", has_text="second.ipynb").wait_for()
    expect(book.cell(0)).to_contain_text(LOAD)
    book.wait_idle()
    run(book, 0)
    model.add(read(), turn(say("I know it.")))
    run(book, 1)
    show_tab(page, "notebook.ipynb")
    model.add(read(), edit("cell-2", "x = 2"), turn(say("Done.")))
    run(book, 1)
    wait_source(book, 2, "x = 2")
    show_tab(page, "second.ipynb")
    model.add(edit("cell-2", "x = 99"), turn(say("I see.")))
    run(book, 1)
    told = results(model)[-1]
    assert "Nothing was changed" in told
    assert "x = 2" in told
    show_tab(page, "notebook.ipynb")
    wait_source(book, 2, "x = 2")
