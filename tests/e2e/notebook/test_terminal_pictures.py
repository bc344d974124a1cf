"""The terminal and IPython in JupyterLab's own terminal: their cards in its colours, as the guide's pictures show them."""

from __future__ import annotations

import io
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_notebook import IMAGES, TAKE_PICTURES
from lab_server import Lab, running_lab
from lab_tab import DARK, LIGHT
from PIL import Image, ImageOps

from cellwright.testing import MessagesServer, say, think, turn, use
from eventual import eventually
from processes.marked_processes import wait_until_gone

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

TIDES = """def high_tide(levels):
    return min(levels)


def low_tide(levels):
    return min(levels)
"""
SHOWN = """() => {
    const buffer = window.terminal.content._term.buffer.active;
    return Array.from({length: buffer.length}, (_, row) => buffer.getLine(row)?.translateToString(true) ?? "").join("\\n");
}"""

COLUMNS = 96
COLUMNS_OF_PHONE = 56
FONT_PIXELS = 26
"""Twice as large as a terminal's, so that its pictures are sharp."""
MARGIN_PIXELS = 24
WRITTEN = """() => {
    const {element, rows, buffer} = window.terminal.content._term;
    const screen = element.querySelector('.xterm-screen');
    for (let node = screen; node; node = node.parentElement) node.scrollTo(0, 0);
    const {x, y, width, height} = screen.getBoundingClientRect();
    const first = buffer.active.viewportY;
    const lines = Array.from({length: rows}, (_, row) => buffer.active.getLine(first + row).translateToString(true));
    const last = lines.findLastIndex((line) => line.trim());
    return {x, y, width, height: (last + 1) * height / rows};
}"""
OPEN = """async () => {
    window.jupyterapp.shell.collapseLeft();
    window.terminal = await window.jupyterapp.commands.execute('terminal:create-new');
}"""


@pytest.fixture
def lab_with_terminal(model: MessagesServer, tmp_path: Path) -> Iterator[Lab]:
    """A JupyterLab with terminals, in the home of somebody who has a folder `tides`."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "ada"
        if TAKE_PICTURES:  # the path is seen in them
            home = Path(tempfile.gettempdir()) / "ada"
            shutil.rmtree(home, ignore_errors=True)
        (home / "tides").mkdir(parents=True)
        (home / "tides" / "tides.py").write_text(TIDES)
        model.clear()
        with running_lab(home / "tides", home, model.url, model.api_key) as lab:
            config = home / "config" / "labconfig" / "page_config.json"
            content = json.loads(config.read_text())
            del content["disabledExtensions"]["@jupyterlab/terminal-extension"]
            config.write_text(json.dumps(content))
            yield lab
        # what ran in a terminal hears that it is gone, and ends by itself: until then it writes into this home
        wait_until_gone(f"HOME={home}")


class ShownTerminal:
    """A terminal of JupyterLab: what is typed, and what is on its screen."""

    def __init__(self, page: Any, lab: Lab, theme: str, rows: int, columns: int = COLUMNS) -> None:
        self.page = page
        page.set_viewport_size({"width": 1700, "height": rows * 36 + 200})
        page.goto(f"{lab.url}/lab")
        page.wait_for_function("() => window.jupyterapp?.restored")
        page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
        page.wait_for_function("theme => document.body.dataset.jpThemeName === theme", arg=theme)
        page.evaluate(OPEN)
        page.wait_for_function("() => window.terminal.content._term")
        page.evaluate("size => { window.terminal.content._term.options.fontSize = size }", FONT_PIXELS)
        # a size of our own: what JupyterLab measures before its font is there is too large
        page.evaluate("size => window.terminal.content._term.resize(...size)", [columns, rows])
        background = "15;0" if theme == DARK else "0;15"
        path = Path(sys.executable).parent
        self.type(f"PATH={path}:$PATH PS1='$ ' COLORTERM=truecolor COLORFGBG='{background}' exec bash --norc")
        self.wait("$ ")
        self.type(f"cd ~/tides; stty cols {columns} rows {rows}; clear")

    def type(self, words: str) -> None:
        """Type a line and Enter."""
        self.page.locator(".jp-Terminal .xterm-helper-textarea").focus()
        self.page.keyboard.type(words)
        self.page.keyboard.press("Enter")

    def wait(self, words: str) -> str:
        """Wait until the screen has these words; gives the whole screen."""
        return eventually(lambda: self.page.evaluate(SHOWN), lambda screen: words in screen)

    def picture(self, name: str) -> None:
        """Take a picture of docs/images anew if `make pictures` asks for it."""
        if TAKE_PICTURES:
            area = self.page.evaluate(WRITTEN)
            shot = Image.open(io.BytesIO(self.page.screenshot(clip=area))).convert("RGB")
            background = shot.getpixel((shot.width - 1, 0))
            ImageOps.expand(shot, MARGIN_PIXELS, background).save(IMAGES / f"{name}.png", optimize=True)


def fix(path: Path) -> tuple[Any, ...]:
    """The turns in which Claude reads the code and asks to mend it."""
    better = "    # the highest level\n    return max(levels)"
    edit = use(
        "Edit",
        file_path=str(path),
        old_string="high_tide(levels):\n    return min(levels)",
        new_string=f"high_tide(levels):\n{better}",
    )
    return (
        turn(
            think("The tests say that high tide is too low."),
            say("I read the code first."),
            use("Read", file_path=str(path)),
        ),
        turn(use("Grep", pattern="high_tide")),
        turn(say("`high_tide` takes the minimum."), edit),
    )


@pytest.mark.parametrize(
    ("theme", "name", "columns"),
    [
        (DARK, "terminal-dark", COLUMNS),
        (LIGHT, "terminal", COLUMNS),
        (DARK, "terminal-phone-dark", COLUMNS_OF_PHONE),
        (LIGHT, "terminal-phone", COLUMNS_OF_PHONE),
    ],
)
def test_the_card_of_an_edit(
    browser: Any, lab_with_terminal: Lab, model: MessagesServer, theme: str, name: str, columns: int
) -> None:
    model.add(*fix(lab_with_terminal.root / "tides.py"))
    page = browser.browser.new_page(device_scale_factor=1)  # of other scales xterm draws a part
    terminal = ShownTerminal(page, lab_with_terminal, theme, rows=38 if columns == COLUMNS else 46, columns=columns)
    terminal.type("cellwright")
    greeting = terminal.wait("What should Claude do?")
    assert "~/tides · /help · Ctrl-D leave" in greeting
    terminal.type("The tests fail: fix high tide")
    shown = terminal.wait("Escape denies.")
    for gone in ("Thought for 0", "Edits tides.py.", "@@", "--- a/"):
        assert gone not in shown
    terminal.picture(name)
    page.close()


@pytest.mark.parametrize("theme", [DARK, LIGHT] if TAKE_PICTURES else [DARK])
def test_of_many_calls_that_wait_their_number_is_shown(
    browser: Any, lab_with_terminal: Lab, model: MessagesServer, theme: str
) -> None:
    root = lab_with_terminal.root
    ports = ("brest", "saint-malo", "dover", "cork", "bilbao")
    notes = [use("Write", file_path=str(root / f"{port}.md"), content=f"# {port}\n") for port in ports]
    model.add(
        turn(
            say("First the tests, then a page for each port."),
            use("Bash", command="python -m pytest -q > tests.log"),
            *notes,
        )
    )
    page = browser.browser.new_page(device_scale_factor=1)  # of other scales xterm draws a part
    terminal = ShownTerminal(page, lab_with_terminal, theme, rows=32)
    terminal.type("cellwright")
    terminal.wait("What should Claude do?")
    terminal.type("Run the tests and write a page for each port")
    shown = terminal.wait("Escape denies.")
    assert "5 more wait · a reviews all 6" in shown
    assert "Running python needs your approval. Writes tests.log." in shown
    terminal.picture("terminal-more" if theme == LIGHT else "terminal-more-dark")
    page.close()


@pytest.mark.parametrize("theme", [DARK, LIGHT] if TAKE_PICTURES else [DARK])
def test_ipython_in_a_terminal_shows_the_same_card(
    browser: Any, lab_with_terminal: Lab, model: MessagesServer, theme: str
) -> None:
    path = lab_with_terminal.root / "tides.py"
    model.add(
        *fix(path),
        say(
            "Fixed. High tide is now the *highest* level:\n\n"
            "| tide | is the |\n|---|---|\n| high | `max` |\n| low | `min` |\n"
        ),
    )
    page = browser.browser.new_page(device_scale_factor=1)  # of other scales xterm draws a part
    terminal = ShownTerminal(page, lab_with_terminal, theme, rows=52)
    terminal.type("ipython --no-banner")
    terminal.wait("In [1]:")
    terminal.type("%load_ext cellwright")
    terminal.wait("In [2]:")
    terminal.type("%claude Why is high tide wrong? Fix it.")
    terminal.wait("(empty: no)")
    terminal.type("1")
    shown = terminal.wait("In [3]:")
    for gone in ("Told:", "your settings ask", "takes it back", "@@", "--- a/", "Edits tides.py."):
        assert gone not in shown
    assert "max(levels)" in path.read_text()
    terminal.picture("ipython-terminal" if theme == LIGHT else "ipython-terminal-dark")
    page.close()
