"""`cellwright.marimo.ask` in a real marimo and a real browser: the answer as it comes, questions, what stays."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from cellwright.testing import Gate, MessagesServer, hold, say, turn, use
from eventual import SECONDS, eventually

pytestmark = [pytest.mark.marimo, pytest.mark.timeout(300)]

IMAGES = Path(__file__).parents[3] / "docs" / "images"
TAKES_PICTURES = os.environ.get("CELLWRIGHT_TAKE_PICTURES") == "1"
NOTEBOOK = """
import marimo

app = marimo.App()


@app.cell
def _():
    import cellwright.marimo

    result = cellwright.marimo.ask("Which columns of tides.csv have gaps? Note them in gaps.txt.")
    return (result,)


@app.cell
def _(result):
    print(f"{len(result.text)} characters")
    return


if __name__ == "__main__":
    app.run()
"""

TIDES = "time,level,comment\n06:00,3.1,calm\n06:10,3.3,\n06:20,,gauge stuck\n06:30,3.6,\n"
GAPS = "**level** and comment.\n\n| column | no value at |\n|---|---|\n| level | 06:20 |\n| comment | 06:10, 06:30 |\n"


@pytest.fixture
def model() -> Iterator[MessagesServer]:
    with MessagesServer() as server:
        yield server
        assert [request.error for request in server.rejected] == []
        assert server.remaining_turns == 0


@pytest.fixture
def environ(model: MessagesServer, own_place: Path) -> dict[str, str]:
    return {**os.environ, "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": model.api_key}


@pytest.fixture
def notebook(own_place: Path) -> Path:
    path = own_place / "tides" / "tides.py"
    path.parent.mkdir()
    path.write_text(NOTEBOOK)
    path.with_name("tides.csv").write_text(TIDES)
    if TAKES_PICTURES:  # in the theme of the page
        (own_place / ".marimo.toml").write_text('[display]\ntheme = "system"\n')
    return path


@contextlib.contextmanager
def running_marimo(notebook: Path, environ: dict[str, str]) -> Iterator[str]:
    """The address of a marimo in which `notebook` is edited."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "marimo", "edit", str(notebook), "--headless", "--no-token", "--port", str(port)]
    log = notebook.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=notebook.parent, env=environ, stdout=output, stderr=output)
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=60).close()
            return True
        return False

    try:
        eventually(answers)
        yield url
    finally:
        process.terminate()
        process.wait(SECONDS)


def take_pictures(page: Any) -> None:
    """The two cells, in both themes: above them marimo shows a path of this machine."""
    cells = page.locator(".marimo-cell")
    page.set_viewport_size({"width": 900, "height": 900})
    for scheme, ending in (("dark", "-dark"), ("light", "")):
        page.emulate_media(color_scheme=scheme)
        page.locator(f"body.{scheme}, html.{scheme}").first.wait_for(state="attached")
        first, last = cells.first.bounding_box(), cells.last.bounding_box()
        height = last["y"] + last["height"] - first["y"]
        page.screenshot(
            path=IMAGES / f"marimo-answer{ending}.png",
            clip={"x": first["x"] - 12, "y": first["y"] - 12, "width": first["width"] + 24, "height": height + 24},
        )


def _bytes(frame: str | bytes) -> bytes:
    return frame.encode() if isinstance(frame, str) else frame


def test_the_answer_comes_into_the_cell_and_questions_into_its_console(
    notebook: Path, environ: dict[str, str], model: MessagesServer, browser: Any
) -> None:
    written = notebook.parent / "gaps.txt"
    gate = Gate()
    model.add(
        turn(use("Read", file_path=str(notebook.parent / "tides.csv"))),
        turn(use("Write", file_path=str(written), content="level, comment")),
        turn(say("Two columns have gaps: "), hold(gate), say(GAPS)),
    )
    with running_marimo(notebook, environ) as url:
        page = browser.new_page()
        # what is clicked before the kernel is there is lost
        with page.expect_event("websocket") as websocket:
            page.goto(url)
        websocket.value.wait_for_event("framereceived", lambda frame: b"kernel-ready" in _bytes(frame))
        page.get_by_test_id("run-button").last.click()  # the notebook's own, below its cells
        page.get_by_text("Claude is working").wait_for(timeout=60_000)
        field = page.get_by_placeholder("stdin")
        field.wait_for(timeout=60_000)
        field.fill("1")
        field.press("Enter")
        page.get_by_text("Two columns have gaps").wait_for()
        gate.open()
        expect(page.locator("strong", has_text="level")).to_be_visible()
        expect(page.locator("td", has_text="06:20")).to_be_visible()
        expect(page.get_by_text("Claude is working")).to_have_count(0)
        page.get_by_text(re.compile(r"\d+ characters")).wait_for()
        if TAKES_PICTURES:
            take_pictures(page)
        page.close()
    assert written.read_text() == "level, comment"


def test_an_export_holds_the_answer(notebook: Path, environ: dict[str, str], model: MessagesServer) -> None:
    model.add(say("The tide is **high**."))
    exported = notebook.with_suffix(".html")
    command = [sys.executable, "-m", "marimo", "export", "html", str(notebook), "-o", str(exported)]
    done = subprocess.run(command, env=environ, cwd=notebook.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "strong\\u003Ehigh" in exported.read_text()
