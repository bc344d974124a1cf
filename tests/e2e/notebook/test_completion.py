"""Ghost text in a real JupyterLab: it comes after a pause, Tab takes it, typing along asks nobody, and off means off."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from lab_notebook import in_apps
from playwright.sync_api import TimeoutError as NotYet
from playwright.sync_api import expect

from cellwright.testing import MessagesServer, say, turn
from eventual import SECONDS

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

GHOST = ".jp-GhostText"
# without its page a kernel is asked for nothing
CONNECTED = """\
import live_cell
await live_cell.awaited(live_cell.own_notebook())
"""


def toggle(page: Any) -> None:
    """The command of the palette, as its user finds it; when this returns, the setting is saved."""
    page.keyboard.press("Control+Shift+c")
    search = page.locator(".lm-CommandPalette-input, .jp-ModalCommandPalette input").last
    search.fill("Inline Completion by Claude")
    with page.expect_response(lambda reply: reply.request.method == "PUT" and "completion" in reply.url):
        page.locator(".lm-CommandPalette-item", has_text="Inline Completion by Claude").first.click()


def type_at_end(notebook: Any, index: int, text: str) -> None:
    content = notebook.cell(index).locator(".cm-content")
    content.click()
    expect(content).to_be_focused()
    notebook.page.keyboard.press("Control+End")
    notebook.page.keyboard.insert_text(text)  # at once: a machine that pauses between keys would ask in between


@in_apps(on_older_lab=True)
def test_a_suggestion_is_shown_and_taken(
    notebook: Callable[..., Any],
    model: MessagesServer,
    app: str,
    record_property: Callable[[str, object], None],
) -> None:
    before = len(model.requests)
    book = notebook("%load_ext cellwright\nheights = [1, 2]", "", CONNECTED, app=app)
    page = book.page
    for index in (0, 2):
        book.run(index)
        book.wait_done(index)
    type_at_end(book, 1, "x = 1\n")
    page.keyboard.press("Alt+Backslash")  # asked for by hand it would come at once; nobody has switched it on

    toggle(page)
    page.get_by_text("$1 a day at most").first.wait_for()
    model.add(turn(say("<insert>(heights)")))
    type_at_end(book, 1, "total = sum")
    page.locator(GHOST, has_text="(heights)").wait_for()
    request = model.requests[before]
    told = "\n".join(block["text"] for block in request.body["messages"][0]["content"])
    assert "total = sum⟦cursor⟧" in told
    assert "heights: list" in told
    measured = "() => performance.getEntriesByName('cellwright:completion').map(entry => entry.duration)"
    record_property("milliseconds_to_suggestion", page.evaluate(measured))

    page.keyboard.insert_text("(h")
    page.locator(GHOST, has_text=re.compile(r"^eights\)$")).wait_for()
    model.add(turn(say("<insert></insert>")))
    page.keyboard.press("Tab")
    expect(book.cell(1).locator(".cm-content")).to_contain_text("total = sum(heights)")
    # one for what was typed, none for typing along or while it was off, one for what follows what was taken
    requests = model.wait_for_requests(before + 2, SECONDS)[before:]
    assert [asked(request) for request in requests] == ["total = sum", "total = sum(heights)"]
    assert model.rejected == []


def asked(request: Any) -> str:
    """The line of the cursor."""
    cell = request.body["messages"][0]["content"][1]["text"]
    return str(cell.partition("⟦cursor⟧")[0].rpartition("\n")[2])


def test_a_kernel_that_has_not_loaded_us_does_where_its_user_allows_that(
    choose: Callable[..., None], notebook: Callable[..., Any], model: MessagesServer
) -> None:
    choose("cellwright:completion", enabled=True, loadExtension=True)
    book = notebook("heights = [1, 2]", "")
    model.add(*(turn(say("<insert>(heights)")) for _ in range(200)))
    type_at_end(book, 1, "total = sum")
    ghost = book.page.locator(GHOST, has_text="(heights)")
    for seconds in (1, 2, 4, 8, 16, 32):  # nothing of the loading shows in the page; who asks again, waits anew
        book.page.keyboard.press("Alt+Backslash")
        with contextlib.suppress(NotYet):
            ghost.wait_for(timeout=seconds * 1_000)
            break
    expect(ghost).to_be_visible()
    assert "load_ext" not in json.dumps(book.save())
