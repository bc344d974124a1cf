"""A notebook on the screen, as the scenes use it: its cells, what runs, what is asked, what is saved."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import reel
from accessibility import check_ours
from lab_server import Lab
from lab_tab import DARK, LIGHT, LabTab, opened_page, wait_loaded
from PIL import Image
from playwright.sync_api import expect

from eventual import SECONDS, eventually

IMAGES = Path(__file__).parents[2] / "docs" / "images"
TAKE_PICTURES = os.environ.get("CELLWRIGHT_TAKE_PICTURES") == "1"
COUNTED = re.compile(r"\[\d+\]")
WATCH_PROMPT = """prompt => {
    delete prompt.dataset.changed;
    new MutationObserver((_, observer) => {
        observer.disconnect();
        prompt.dataset.changed = 'yes';
    }).observe(prompt, {childList: true});
}"""
# of the notebook in sight, and as the page itself knows it
KERNEL_IS_IDLE = """() => {
    const widget = window.jupyterapp?.shell.currentWidget;
    const kernel = widget?.context?.isReady && widget.sessionContext?.session?.kernel;
    return kernel && kernel.connectionStatus === 'connected' && kernel.status === 'idle';
}"""
# what is shown looks the same before
HOLDS_NO_WIDGET = """index => {
    const cell = window.jupyterapp.shell.currentWidget.content.model.cells.get(index);
    return !JSON.stringify(cell.toJSON().outputs).includes('application/vnd.jupyter.widget-view+json');
}"""
POLLING_MS = 50
# the active cell's, which lies on the words of a prompt
NO_TOOLBAR = ".jp-cell-toolbar { visibility: hidden !important }"


def in_dark(picture: Path) -> Path:
    """Where the picture in light has its twin in dark, which the documentation shows in dark."""
    return picture.with_stem(f"{picture.stem.removesuffix('-light')}-dark")


expect.set_options(timeout=SECONDS * 1_000)


def in_apps(*, on_older_lab: bool = False, always: bool = False) -> pytest.MarkDecorator:
    """`app` "lab" and "notebook": the second is played in Notebook 7's own leg, or `always`."""
    lab = pytest.param("lab", marks=[pytest.mark.lab_version] if on_older_lab else [])
    notebook = pytest.param("notebook", marks=[] if always else [pytest.mark.notebook7])
    return pytest.mark.parametrize("app", [lab, notebook])


def _without_edge(cell: bytes) -> bytes:
    """The picture of a cell without its last pixels, in which the frame of the cell below would be seen."""
    shot = Image.open(io.BytesIO(cell))
    shot.crop((0, 0, shot.width, shot.height - 5)).save(cut := io.BytesIO(), "png")
    return cut.getvalue()


class NotebookPage:
    """The notebook `path`, open in JupyterLab (`app` "lab") or in Jupyter Notebook 7 ("notebook")."""

    def __init__(self, page: Any, tab: LabTab, path: str, app: str = "lab") -> None:
        self.page = page
        self.tab = tab
        self.lab: Lab = tab.lab
        self.path = path
        self.app = app

    def open(self) -> NotebookPage:
        """Open it in the tab; at the second time that loads JupyterLab anew, with nothing else in it."""
        if self.app == "lab":
            self.tab.open(self.path)
            self._wait_shown()
        else:
            self._go()
        self.wait_idle()
        return self

    def reload(self) -> NotebookPage:
        """Load the page again, once JupyterLab knows that this notebook is open in it, and no other scene's."""
        if self.app == "lab":
            eventually(self._is_kept)
        self._go()
        return self

    def _is_kept(self) -> bool:
        kept = self.lab.api("GET", "lab/api/workspaces/default")["data"]
        open_there = {key for key, value in kept.items() if value and key.startswith("notebook:")}
        folder = self.path.rpartition("/")[0]
        return f"notebook:{self.path}" in open_there and all(f":{folder}/" in key for key in open_there)

    def _go(self) -> None:
        place = "lab/tree" if self.app == "lab" else "notebooks"
        self.page.goto(f"{self.lab.url}/{place}/{self.path}", wait_until="domcontentloaded")
        self._wait_shown()

    def _wait_shown(self) -> None:
        self.cell(0).wait_for()
        if self.app == "lab":
            wait_loaded(self.page)

    def in_second_tab(self) -> NotebookPage:
        """The same notebook in another page of the same browser."""
        second = NotebookPage(opened_page(self.page.context), self.tab, self.path, self.app)
        second._go()
        return second

    def wait_kernel_idle(self, seconds: float = SECONDS) -> None:
        """Wait until the server says that the notebook's kernel has nothing to do."""

        def states() -> list[str]:
            return [found["kernel"]["execution_state"] for found in self.lab.sessions() if found["path"] == self.path]

        eventually(states, lambda found: found == ["idle"], seconds)

    def wait_idle(self) -> None:
        if self.app == "notebook":  # it has no status bar
            self.wait_kernel_idle()
            self.page.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']").wait_for()
            return
        self.page.wait_for_function(KERNEL_IS_IDLE, polling=POLLING_MS)

    def cell(self, index: int) -> Any:
        """A cell of the notebook that is in sight."""
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell").nth(index)

    def output(self, index: int) -> Any:
        return self.cell(index).locator(".jp-Cell-outputArea")

    def edit(self, index: int) -> Any:
        """Click into a cell's editor until it has the keyboard: JupyterLab takes it away late, after a rename."""
        content = self.cell(index).locator(".cm-content")

        def clicked() -> bool:
            content.click()
            return bool(content.evaluate("node => node === document.activeElement"))

        eventually(clicked)
        return content

    def run(self, index: int) -> None:
        """Run a cell as a user does: click into it, Shift+Enter; when this returns, the notebook has begun with it."""
        # the node itself, since the cell may stand elsewhere soon; its text may be the same again, of a new kernel
        prompt = self.cell(index).locator(".jp-InputPrompt").element_handle()
        prompt.evaluate(WATCH_PROMPT)
        self.edit(index)
        self.page.keyboard.press("Shift+Enter")
        self.page.wait_for_function("prompt => prompt.dataset.changed", arg=prompt)

    def wait_done(self, index: int) -> None:
        """Wait until the cell has its execution count back."""
        prompt = self.cell(index).locator(".jp-InputPrompt")

        def shown() -> list[str]:
            if not prompt.count():
                self.go_to_top()
            return prompt.all_inner_texts()

        eventually(shown, lambda texts: any(COUNTED.search(text) for text in texts))

    def go_to_top(self) -> None:
        """Scroll there: a notebook whose cards are gone may be out of sight as a whole, and JupyterLab 4.4 leaves it out."""
        outer = self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-WindowedPanel-outer")
        outer.evaluate("node => { node.scrollTop = 0 }")

    def asked(self, index: int) -> Any:
        """The question in a cell, when it takes an answer by mouse; asked for there, where it stands elsewhere first."""
        card = self.output(index).locator(".ask[data-ready]")
        here = self.output(index).get_by_role("button", name="Review here")

        def asks() -> bool:
            if here.is_visible():
                here.click()
            return bool(card.count())

        eventually(asks)
        card.wait_for()
        return card

    def asked_by_keys(self, index: int) -> Any:
        """The question in a cell, when it has the keyboard as well."""
        card = self.asked(index)
        expect(card).to_be_focused()
        return card

    def wait_kept(self, index: int) -> None:
        """Wait until the notebook holds what is left of a run in the place of its widgets."""
        self.page.wait_for_function(HOLDS_NO_WIDGET, arg=index, polling=POLLING_MS)

    def save(self) -> dict[str, Any]:
        """Save with Ctrl-S; the notebook as the server has written it."""
        with self.page.expect_response(self._is_save):
            self.page.keyboard.press("Control+s")
        return self.on_disk()

    def _is_save(self, reply: Any) -> bool:
        address = unquote(reply.url.partition("?")[0])
        return reply.request.method == "PUT" and address.endswith(f"/api/contents/{self.path}")

    def on_disk(self) -> dict[str, Any]:
        return json.loads((self.lab.root / self.path).read_text("utf-8"))

    def screenshot(
        self,
        name: str,
        *targets: Any,
        width: int | None = None,
        height: int | None = None,
        again: Callable[[], object] | None = None,
    ) -> None:
        """As `reel`, and take a picture of docs/images anew, in both themes, if `make pictures` asks for it.

        The picture holds the `targets`, or the whole page. `width` and `height` of the page, in pixels: a narrow one has
        words that can be read on a phone, too. `again` shows what another theme closes.
        """
        picture = IMAGES / f"{name}.png"
        # the others are for the reel alone, or are taken with the light ones
        if TAKE_PICTURES and self.app == "lab" and picture.exists() and not name.endswith("-dark"):
            size = self.page.viewport_size
            self.page.set_viewport_size({"width": width or size["width"], "height": height or size["height"]})
            bare = self.page.add_style_tag(content=NO_TOOLBAR)
            for theme, path in ((DARK, in_dark(picture)), (LIGHT, picture)):
                self.tab.choose_theme(theme)
                if again:
                    again()
                self.page.wait_for_function(reel.IS_STILL)
                path.write_bytes(self._picture_of(targets))
            bare.evaluate("node => node.remove()")
            self.page.set_viewport_size(size)
        self.reel(name, *targets[:1])

    def _picture_of(self, targets: Sequence[Any]) -> bytes:
        """The picture of one part of the page, of a rectangle around several, or of the whole page."""
        if len(targets) < 2:
            shot = (targets[0] if targets else self.page).screenshot()
        else:
            boxes = [target.bounding_box() for target in targets]
            left, top = (min(box[side] for box in boxes) for side in "xy")
            right = max(box["x"] + box["width"] for box in boxes)
            bottom = max(box["y"] + box["height"] for box in boxes) + 2  # with its border, where it lies on the grid
            shot = self.page.screenshot(clip={"x": left, "y": top, "width": right - left, "height": bottom - top})
        if targets and targets[-1].evaluate("node => node.matches('.jp-Cell')"):
            return _without_edge(shot)
        return shot

    def reel(self, name: str, target: Any = None) -> None:
        """Take what is shown for `make reel`, and look for violations of WCAG; other runs look at a scene's end alone."""
        if reel.FOLDER or TAKE_PICTURES:
            check_ours(self.page)
        if self.app == "lab":
            reel.take(self.tab, name, target)
