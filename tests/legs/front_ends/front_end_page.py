"""A notebook in a page of `page/`, as its user meets it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from lab_server import Lab
from playwright.sync_api import expect

IMAGES = Path(__file__).parents[3] / "docs" / "images"
TAKES_PICTURES = os.environ.get("CELLWRIGHT_TAKE_PICTURES") == "1"


class FrontEndPage:
    """One page: `url` is the one that behaves as a front end, `folder` where its notebook lies."""

    def __init__(self, page: Any, server: Lab, url: str, folder: Path) -> None:
        self.page = page
        self.path = folder / "notebook.ipynb"
        self._folder = str(folder.relative_to(server.root))
        page.goto(url)
        page.wait_for_function("() => window.openNotebook")

    def open(self, sources: Sequence[str], kernel: str, how: dict[str, bool]) -> FrontEndPage:
        """Open a new notebook with these code cells, and start its kernel."""
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
        nbformat.write(book, self.path)
        self._show(kernel, how)
        return self

    def reopen(self, *, trusted: bool = False) -> FrontEndPage:
        """Save, and open the file anew without a kernel."""
        nbformat.write(self.saved(), self.path)
        self.page.reload()
        self.page.wait_for_function("() => window.openNotebook")
        self._show(None, {"trusted": trusted})
        return self

    def _show(self, kernel: str | None, how: dict[str, bool]) -> None:
        content = json.loads(self.path.read_text("utf-8"))
        content["metadata"]["file"] = str(self.path)
        self.page.evaluate("async (given) => openNotebook(...given)", [content, kernel, self._folder, how])

    def saved(self) -> Any:
        """The notebook as the front end writes it."""
        content = self.page.evaluate("() => book.saved()")
        del content["metadata"]["file"]
        book = nbformat.from_dict(content)
        nbformat.validate(book)
        return book

    def cell(self, index: int) -> Any:
        return self.page.locator(".cell").nth(index)

    def run(self, index: int) -> None:
        self.page.evaluate("(index) => void book.run(index)", index)

    def wait_done(self, index: int, state: str = "ok") -> None:
        expect(self.cell(index)).to_have_attribute("data-state", state, timeout=60_000)

    def run_whole(self, index: int) -> None:
        self.run(index)
        self.wait_done(index)

    def interrupt(self) -> None:
        self.page.evaluate("() => book.interrupt()")

    def theme(self, name: str) -> None:
        """Have the front end change its theme to "dark" or "light", as its user does."""
        self.page.evaluate("(dark) => setTheme(dark)", name == "dark")

    def picture(self, name: str) -> None:
        """Take a picture of the documents anew, where that is asked for."""
        if TAKES_PICTURES and (IMAGES / f"{name}.png").exists():
            self.page.set_viewport_size({"width": 800, "height": 420})
            self.page.add_style_tag(content="body { padding: 0 24px !important; box-sizing: border-box }")
            self.page.screenshot(path=IMAGES / f"{name}.png", full_page=True)

    def pictures(self, name: str) -> None:
        """The same in both themes."""
        for theme, ending in (("dark", "-dark"), ("light", "")):
            self.theme(theme)
            self.picture(f"{name}{ending}")
