"""A real JupyterLab in a real Chromium, with a kernel whose model is the strict local server.

Page, server and kernel are never in step: a test waits for each fact (`expect(locator)…`, `eventually(look)`), and says
that something is missing only after what would have come behind it. A worker's scenes share one server, one model and one
tab of JupyterLab, which is cleaned between them (lab_tab); each has a kernel and a folder of its own. Two variables of the
environment help to find a test that looks too early: `CELLWRIGHT_E2E_SLOW=4` has every page compute four times as long,
and with `CELLWRIGHT_E2E_PICTURES=DIR` what failed scenes saw is kept there instead of in `.failed-scenes`.
"""

import importlib.util
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from cellwright.testing import MessagesServer

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode leaves a test's own folder out

from accessibility import check_ours
from failure_report import PAGE, add_what_was_seen
from lab_notebook import TAKE_PICTURES, NotebookPage
from lab_server import Lab, running_lab
from lab_tab import LabTab

OLDER_LAB = bool(os.environ.get("CELLWRIGHT_EXPECT_LAB"))
HAS_FAILED = pytest.StashKey[bool]()
NEXT = pytest.StashKey[pytest.Item | None]()
FOLDER = pytest.StashKey[Path]()
COASTS = ("atlantic", "baltic", "biscay", "channel", "celtic", "irish", "north", "solent", "tagus", "wadden")
PLACES = ("bay", "coast", "gauge", "harbour", "levels", "pier", "port", "shore", "survey")
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[Any]:
    item.stash[NEXT] = nextitem
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Show what the scene saw when it failed."""
    report = yield
    if report.when == "setup":
        item.stash[HAS_FAILED] = False
    if report.failed:
        item.stash[HAS_FAILED] = True
        scene = getattr(item, "funcargs", None) or {}
        if call.when == "call" and PAGE in scene:
            add_what_was_seen(report, item.name, scene)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Look at what a scene ends with, in the theme that it has chosen."""
    yield
    page = getattr(item, "funcargs", {}).get("page")
    if page is not None and not page.is_closed():
        check_ours(page)


@pytest.fixture(scope="session")
def model() -> Iterator[MessagesServer]:
    """The model of every kernel; a test adds the turns that it needs."""
    with MessagesServer(seconds_between_deltas=0.004) as server:
        yield server


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, model: MessagesServer) -> Iterator[Lab]:
    root = tmp_path_factory.mktemp("lab")
    home = tmp_path_factory.mktemp("home")
    if TAKE_PICTURES:
        # as many tools are sent as at Anthropic's own address, so that the costs are those of most readers
        os.environ["ENABLE_TOOL_SEARCH"] = "true"
    with running_lab(root, home, model.url, model.api_key) as lab:
        yield lab


@pytest.fixture(scope="session")
def tab(browser: Any, lab: Lab) -> Iterator[LabTab]:
    tab = LabTab(browser, lab)
    yield tab
    tab.close()


@pytest.fixture
def own_page() -> None:
    """For a scene that needs a page in which JupyterLab has not been loaded, or changes what only a load brings back."""


@pytest.fixture
def page(tab: LabTab, model: MessagesServer, request: pytest.FixtureRequest) -> Iterator[Any]:
    model.clear()
    take_spare(tab.lab, request.node)
    own = "own_page" in request.fixturenames
    yield tab.take(own=own)
    tab.give_back(spent=own or request.node.stash[HAS_FAILED])
    del request.node.stash[FOLDER]


@pytest.fixture
def choose(page: Any, tab: LabTab) -> Any:
    """`choose(plugin, name=value, …)`: settings of the user's, for this scene."""
    return tab.choose


@pytest.fixture
def notebook_at(page: Any, tab: LabTab) -> Any:
    """`notebook_at(path)`: the notebook that is there, which the test opens itself."""
    return lambda path: NotebookPage(page, tab, path)


@pytest.fixture
def notebook(page: Any, tab: LabTab, request: pytest.FixtureRequest) -> Any:
    """`notebook(*sources)`: a notebook of these code cells (in a folder of its own), open and with an idle kernel."""

    node = request.node

    def make(
        *sources: str, files: dict[str, str] | None = None, foreign: bool = False, app: str = "lab"
    ) -> NotebookPage:
        if app == "notebook" and importlib.util.find_spec("notebook") is None:
            pytest.skip("Jupyter Notebook 7 is not installed")
        if app == "notebook" and OLDER_LAB:
            pytest.skip("Jupyter Notebook 7 goes with the JupyterLab of its time")
        folder = folder_of(tab.lab, node)
        for name, text in (files or {}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, "utf-8")
        cells = [
            {
                "cell_type": "code",
                "id": f"cell-{number}",
                "metadata": {},
                "execution_count": None,
                "outputs": [],
                "source": source.splitlines(keepends=True),
            }
            for number, source in enumerate(sources)
        ]
        content = {"cells": cells, "metadata": {"kernelspec": KERNELSPEC}, "nbformat": 4, "nbformat_minor": 5}
        path = folder / "notebook.ipynb"
        path.write_text(json.dumps(content, indent=1), "utf-8")
        if not foreign:
            # as if the user had written it in JupyterLab
            NotebookNotary(data_dir=str(tab.lab.home / ".local/share/jupyter")).sign(nbformat.read(path, 4))
        book = NotebookPage(page, tab, str(path.relative_to(tab.lab.root)), app).open()
        start_spare(tab.lab, node.stash[NEXT])
        return book

    return make


@pytest.fixture
def widen(page: Any) -> Callable[[int], None]:
    """`widen(width)`: drags the edge of the sidebar."""

    def drag(width: int) -> None:
        panel = page.locator(".cellwright-panel")
        page.locator("#jp-main-split-panel > .lm-SplitPanel-handle:visible").last.hover()  # it stands still then
        page.mouse.down()
        box = panel.bounding_box()
        page.mouse.move(box["x"] + box["width"] - width, 400, steps=5)
        page.mouse.up()
        page.wait_for_function(
            "width => Math.abs(document.querySelector('.cellwright-panel').clientWidth - width) < 20", arg=width
        )

    return drag


def folder_of(lab: Lab, item: pytest.Item) -> Path:
    """The folder of a scene, empty at first; its name is seen in the pictures."""
    if FOLDER not in item.stash:
        number = zlib.crc32(item.name.encode())
        name = f"{COASTS[number % len(COASTS)]}-{PLACES[number // len(COASTS) % len(PLACES)]}"
        taken = len(list(lab.root.glob(f"{name}*")))  # a scene may be played again
        # pictures show the last two names
        home = "ada" if TAKE_PICTURES else ""
        item.stash[FOLDER] = lab.root / (f"{name}-{taken + 1}" if taken else name) / home / "tides"
        item.stash[FOLDER].mkdir(parents=True)
    return item.stash[FOLDER]


def start_spare(lab: Lab, following: pytest.Item | None) -> None:
    """Start the kernel of the notebook that the next scene opens: it takes a while that has not to be waited for."""
    if following is None or "notebook" not in getattr(following, "fixturenames", ()):
        return
    path = folder_of(lab, following) / "notebook.ipynb"
    lab.spare = str(path.relative_to(lab.root))
    kernel = {"path": lab.spare, "name": path.name, "type": "notebook", "kernel": {"name": KERNELSPEC["name"]}}
    lab.api("POST", "api/sessions", kernel)


def take_spare(lab: Lab, item: pytest.Item) -> None:
    """What waits is the scene's now; where it waits for another one, which is played elsewhere, it is ended."""
    own = str((folder_of(lab, item) / "notebook.ipynb").relative_to(lab.root))
    waits_for_other, lab.spare = lab.spare not in (None, own), None
    if waits_for_other:
        lab.end_sessions()
