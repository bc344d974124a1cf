"""Another agent works on the notebook as its user sees it, through the server's route for MCP."""

import asyncio
import threading

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

FIGURE = "import matplotlib.pyplot as plt; plt.plot([1, 3, 2]);"


class OtherAgent:
    """A client of the SDK's own, which says yes to every question; each call is a connection."""

    def __init__(self, url):
        self.url = f"{url}/cellwright/mcp"
        self.asked = []

    def call(self, name, *, asks=True, **given):
        results = []

        async def scene():
            async with Client(
                streamable_http_client(self.url), elicitation_callback=self._yes if asks else None
            ) as client:
                results.append(await client.call_tool(name, given))

        # the browser's own loop is on this thread
        thread = threading.Thread(target=lambda: asyncio.run(scene()))
        thread.start()
        thread.join()
        return results[0]

    async def _yes(self, _context, params):
        self.asked.append(params.message)
        return ElicitResult(action="accept", content={"answer": "Allow once"})


def text_of(result):
    return "\n".join(part.text for part in result.content if part.type == "text")


def test_it_edits_the_open_document_runs_a_cell_and_sees_variables_and_figures(notebook, page):
    book = notebook("x = 20 + 1", "x")
    before = book.on_disk()
    book.edit(0)
    page.keyboard.press("Control+End")
    page.keyboard.type("0")
    page.locator(".lm-TabBar-tab.jp-mod-dirty", has_text="notebook.ipynb").wait_for()
    agent = OtherAgent(book.lab.url)
    read = agent.call("NotebookRead", notebook_path=book.path)
    assert "x = 20 + 10" in text_of(read)
    edited = agent.call("NotebookEdit", notebook_path=book.path, cell_id="cell-1", new_source="x * 2")
    assert not edited.is_error, text_of(edited)
    assert edited.structured_content["open_in"] == "JupyterLab"
    expect(book.cell(1).locator(".cm-content")).to_have_text("x * 2")
    assert book.on_disk() == before
    ran = agent.call("NotebookRun", notebook_path=book.path, which="all")
    assert "60" in text_of(ran)
    expect(book.output(1)).to_contain_text("60")
    assert "x" in agent.call("Variables", notebook_path=book.path).structured_content["names"]
    drawn = agent.call("Python", notebook_path=book.path, code=FIGURE)
    assert [part.mime_type for part in drawn.content if part.type == "image"] == ["image/png"]
    assert len(agent.asked) == 3


def test_where_the_client_cannot_ask_the_panel_does(notebook, page):
    book = notebook("%load_ext cellwright", "x = 1")
    book.run(0)
    page.keyboard.press("Control+Shift+Y")
    page.locator(".cellwright-panel .kernel[data-connection='connected']").wait_for()
    agent, results = OtherAgent(book.lab.url), []
    calling = threading.Thread(
        target=lambda: results.append(agent.call("Python", asks=False, notebook_path=book.path, code="y = 41 + 1; y"))
    )
    calling.start()
    page.locator(".cellwright-panel .ask[data-ready]").get_by_role("button", name="Allow once").click()
    calling.join()
    assert "42" in text_of(results[0])
    expect(page.locator(".cellwright-panel .run").last).to_contain_text("Python")


def test_what_is_unsaved_in_an_editor_is_not_written(notebook, page):
    book = notebook("x = 1", files={"notes.txt": "The user's notes\n"})
    page.locator(".jp-DirListing-item", has_text="notes.txt").dblclick()
    editor = page.locator(".jp-FileEditor .cm-content")
    editor.click()
    expect(editor).to_be_focused()
    with page.expect_response(lambda reply: reply.url.endswith("/cellwright/mcp/documents")) as told:
        page.keyboard.type("more ")
    assert told.value.ok
    agent, path = OtherAgent(book.lab.url), book.path.replace("notebook.ipynb", "notes.txt")
    agent.call("Read", file_path=path)
    written = agent.call("Write", file_path=path, content="The agent's notes\n")
    assert written.is_error
    assert "unsaved changes" in text_of(written)
    assert (book.lab.root / path).read_text("utf-8") == "The user's notes\n"
