"""One notebook that several people have open, each in a browser of their own, and one kernel behind it."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.sign import NotebookNotary

sys.path.insert(0, str(Path(__file__).parents[2] / "e2e"))  # importlib mode leaves it out

from lab_notebook import NotebookPage
from lab_server import Lab, running_lab
from lab_tab import LabTab

from cellwright.testing import MessagesServer
from eventual import eventually

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
VIEWPORT = {"width": 1180, "height": 900}


@pytest.fixture(scope="session")
def running_model() -> Iterator[MessagesServer]:
    with MessagesServer(seconds_between_deltas=0.004) as server:
        yield server


@pytest.fixture
def model(running_model: MessagesServer) -> Iterator[MessagesServer]:
    running_model.clear()
    yield running_model
    assert [request.error for request in running_model.rejected] == []
    assert running_model.remaining_turns == 0


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, running_model: MessagesServer) -> Iterator[Lab]:
    root, home = tmp_path_factory.mktemp("lab"), tmp_path_factory.mktemp("home")
    with running_lab(root, home, running_model.url, running_model.api_key, shared=True) as lab:
        yield lab


class SharedNotebook:
    """A notebook of a scene, and the people who have it open."""

    def __init__(self, chromium: Any, lab: Lab, path: Path) -> None:
        self.lab = lab
        self.file = path
        self._path = str(path.relative_to(lab.root))
        self._chromium = chromium
        self._contexts: list[Any] = []

    def open(self) -> NotebookPage:
        """Somebody opens it."""
        context = self._chromium.new_context(viewport=VIEWPORT)
        self._contexts.append(context)
        tab = LabTab(context, self.lab)
        book = NotebookPage(tab.take(own=True), tab, self._path)
        return book.open()

    def on_disk(self) -> Any:
        """The file's notebook; the server, which saves it a second after each change, may be writing it just now."""

        def read() -> Any:
            with contextlib.suppress(ValueError):
                return json.loads(self.file.read_text("utf-8"))

        return eventually(read)

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def shared(browser: Any, lab: Lab, request: pytest.FixtureRequest) -> Iterator[Callable[..., SharedNotebook]]:
    """`shared(*sources)`: a notebook of these code cells."""
    made: list[SharedNotebook] = []

    def make(*sources: str) -> SharedNotebook:
        name = request.node.name.replace("[", "-").rstrip("]")
        folder = lab.root / f"{name}-{len(list(lab.root.glob(f'{name}*')))}"
        folder.mkdir()
        cells = [nbformat.v4.new_code_cell(source, id=f"cell-{number}") for number, source in enumerate(sources)]
        content = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC})
        NotebookNotary(data_dir=str(lab.home / ".local/share/jupyter")).sign(content)
        nbformat.write(content, folder / "notebook.ipynb")
        made.append(SharedNotebook(browser.browser, lab, folder / "notebook.ipynb"))
        return made[-1]

    yield make
    for each in made:
        each.close()
    lab.end_sessions()
    lab.forget()
