"""A real JupyterLab in a real Chromium, with a kernel whose model is the strict local server.

Page, server and kernel are never in step: a test waits for each fact (`expect(locator)…`, `eventually(look)`), and says
that something is missing only after what would have come behind it. Two variables of the environment help to find a
test that looks too early: `CELLWRIGHT_E2E_SLOW=4` has every page compute four times as long, and with
`CELLWRIGHT_E2E_PICTURES=DIR` the screens of failed tests are kept there instead of among the temporary files.
"""

import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat
import pytest
from nbformat.sign import NotebookNotary
from playwright.sync_api import Error as PageError
from playwright.sync_api import expect

from cellwright.testing import MessagesServer

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode leaves a test's own folder out

from eventual import SECONDS, eventually

TESTS = Path(__file__).parents[1]
# not by a cell: when `sys.path` changes, coverage takes modules away that another thread is importing
IN_KERNELS = (TESTS / "e2e", TESTS / "tools")
IMAGES = Path(__file__).parents[2] / "docs" / "images"
OLDER_LAB = bool(os.environ.get("CELLWRIGHT_EXPECT_LAB"))
ALONE = {"ServerApp": {"jpserver_extensions": {"jupyter_server_fileid": False, "jupyter_server_ydoc": False}}}
"""Nobody shares these notebooks; tests/server has some that are shared."""

TAKE_PICTURES = os.environ.get("CELLWRIGHT_TAKE_PICTURES") == "1"
SLOW = float(os.environ.get("CELLWRIGHT_E2E_SLOW", "1"))
FAILURES = Path(
    os.environ.get("CELLWRIGHT_E2E_PICTURES", tempfile.gettempdir())
)  # within a test it is not in `environ`

SHOWN_CHARS = 4_000
COUNTED = re.compile(r"\[\d+\]")
WATCH_PROMPT = """prompt => {
    delete prompt.dataset.changed;
    new MutationObserver((_, observer) => {
        observer.disconnect();
        prompt.dataset.changed = 'yes';
    }).observe(prompt, {childList: true});
}"""
WITH_KEYBOARD = "() => document.activeElement?.cloneNode(false).outerHTML ?? 'nothing'"

expect.set_options(timeout=SECONDS * 1_000)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Show what the screen looked like when a browser test failed."""
    report = yield
    page = getattr(item, "funcargs", {}).get("page")
    if call.when == "call" and report.failed and page is not None:
        report.sections.append(("Console", "\n".join(page.complaints)))
        with contextlib.suppress(PageError):  # a page that has crashed shows nothing
            picture = FAILURES / f"{item.name}.png"
            page.screenshot(path=picture, full_page=True)
            report.sections.append(("Screen", str(picture)))
            report.sections.append(("Has the keyboard", page.evaluate(WITH_KEYBOARD)))
            # where the picture cannot be had, this tells most of it
            shown = [page.locator("body").inner_text(), *page.locator(".transcript").all_inner_texts()]
            report.sections.append(("Text on the screen", "\n--\n".join(text[-SHOWN_CHARS:] for text in shown)))
    return report


@dataclass
class Lab:
    """A running JupyterLab."""

    url: str
    root: Path
    home: Path
    process: subprocess.Popen[bytes]

    def api(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=SECONDS) as reply:
            text = reply.read()
        return json.loads(text) if text else None


@pytest.fixture(scope="session")
def model() -> Iterator[MessagesServer]:
    """The model of every kernel; a test adds the turns that it needs."""
    with MessagesServer(seconds_between_deltas=0.004) as server:
        yield server


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, model: MessagesServer) -> Iterator[Lab]:
    root = tmp_path_factory.mktemp("lab")
    home = tmp_path_factory.mktemp("home")
    environ = {
        **os.environ,
        "HOME": str(home),
        "CELLWRIGHT_HOME": str(home / "state"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": model.api_key,
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "PYTHONPATH": os.pathsep.join([*map(str, IN_KERNELS), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    environ.pop("JUPYTER_DATA_DIR", None)
    notifications = home / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    notifications.parent.mkdir(parents=True)
    notifications.write_text('{"fetchNews": "false", "checkForUpdates": false}')  # their toasts cover what is clicked
    (home / "config").mkdir()
    (home / "config" / "jupyter_server_config.json").write_text(json.dumps(ALONE))
    log = (home / "lab.log").open("wb")
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--allow-root",
        "--ServerApp.port=0",
        "--IdentityProvider.token=",
        "--ServerApp.disable_check_xsrf=True",
        f"--ServerApp.root_dir={root}",
    ]
    process = subprocess.Popen(command, cwd=root, env=environ, stdout=log, stderr=log, start_new_session=True)
    try:
        yield Lab(_wait_for_url(home / "runtime", process, home / "lab.log"), root, home, process)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(SECONDS)


def _wait_for_url(runtime: Path, process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + 2 * SECONDS
    while time.monotonic() < deadline:
        for info in runtime.glob("jpserver-*.json"):
            try:
                url = str(json.loads(info.read_text())["url"]).rstrip("/")
                urllib.request.urlopen(f"{url}/api/status", timeout=5).close()
            except (OSError, ValueError):
                continue
            return url
        if process.poll() is not None:
            break
        time.sleep(0.1)  # another process: there is nothing to wait on but its file
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")


def opened_page(context: Any) -> Any:
    """A page in which everything may take its time."""
    page = context.new_page()
    page.set_default_timeout(SECONDS * 1_000)
    if SLOW > 1:
        context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOW})
    return page


@pytest.fixture
def page(browser: Any, lab: Lab, model: MessagesServer) -> Iterator[Any]:
    model.clear()
    context = browser.new_context(viewport={"width": 1180, "height": 900}, device_scale_factor=1.5)
    page = opened_page(context)
    page.complaints = complaints = []
    page.on(
        "console",
        lambda said: complaints.append(said.text[:500]) if said.type in ("error", "warning", "debug") else None,
    )
    page.on("pageerror", lambda error: complaints.append((error.stack or str(error))[:1_000]))
    yield page
    context.close()
    for session in lab.api("GET", "api/sessions"):
        with contextlib.suppress(urllib.error.HTTPError):  # it may have ended by itself
            lab.api("DELETE", f"api/sessions/{session['id']}")


class NotebookPage:
    """The notebook `path`, open in JupyterLab (`app` "lab") or in Jupyter Notebook 7 ("notebook")."""

    def __init__(self, page: Any, lab: Lab, path: str, app: str = "lab") -> None:
        self.page = page
        self.lab = lab
        self.path = path
        self.app = app

    def open(self) -> "NotebookPage":
        self._go("?reset")
        self.wait_idle()
        return self

    def reload(self) -> "NotebookPage":
        self._go("")
        return self

    def _go(self, query: str) -> None:
        place = f"lab/tree/{self.path}{query}" if self.app == "lab" else f"notebooks/{self.path}"
        self.page.goto(f"{self.lab.url}/{place}", wait_until="domcontentloaded")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        expect(self.page.locator("#jupyterlab-splash")).to_have_count(0)  # before, keys may do nothing

    def in_second_tab(self) -> "NotebookPage":
        """The same notebook in another page of the same browser."""
        page = opened_page(self.page.context)
        return NotebookPage(page, self.lab, self.path, self.app).reload()

    def wait_kernel_idle(self, seconds: float = SECONDS) -> None:
        """Wait until the server says that the notebook's kernel has nothing to do."""

        def states() -> list[str]:
            sessions = self.lab.api("GET", "api/sessions")
            return [found["kernel"]["execution_state"] for found in sessions if found["path"] == self.path]

        eventually(states, lambda found: found == ["idle"], seconds)

    def wait_idle(self) -> None:
        if self.app == "notebook":  # it has no status bar
            self.wait_kernel_idle()
            self.page.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']").wait_for()
            return
        # the indicator in the toolbar says "idle" before there is a kernel; the status bar does not
        self.page.locator("#jp-bottom-panel, #jp-main-statusbar").get_by_text("| Idle").first.wait_for()

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
        """The question in a cell, when it takes an answer by mouse."""
        card = self.output(index).locator(".ask[data-ready]")
        card.wait_for()
        return card

    def asked_by_keys(self, index: int) -> Any:
        """The question in a cell, when it has the keyboard as well."""
        card = self.asked(index)
        expect(card).to_be_focused()
        return card

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

    def screenshot(self, name: str, target: Any = None) -> None:
        """Take a picture; it is kept in docs/images where `make pictures` asks for it."""
        picture = (target or self.page).screenshot()
        if TAKE_PICTURES:
            (IMAGES / f"{name}.png").write_bytes(picture)


@pytest.fixture
def notebook_at(page: Any, lab: Lab) -> Any:
    """`notebook_at(path)`: the notebook that is there, which the test opens itself."""
    return lambda path: NotebookPage(page, lab, path)


@pytest.fixture
def notebook(page: Any, lab: Lab, request: pytest.FixtureRequest) -> Any:
    """`notebook(*sources)`: a notebook of these code cells (in a folder of its own), open and with an idle kernel."""

    def make(
        *sources: str, files: dict[str, str] | None = None, foreign: bool = False, app: str = "lab"
    ) -> NotebookPage:
        if app == "notebook" and importlib.util.find_spec("notebook") is None:
            pytest.skip("Jupyter Notebook 7 is not installed")
        if app == "notebook" and OLDER_LAB:
            pytest.skip("Jupyter Notebook 7 goes with the JupyterLab of its time")
        # the name is seen in the pictures
        folder = lab.root / request.node.name.replace("[", "-").rstrip("]") / "tides"
        folder.mkdir(parents=True)
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
        kernelspec = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
        content = {"cells": cells, "metadata": {"kernelspec": kernelspec}, "nbformat": 4, "nbformat_minor": 5}
        path = folder / "notebook.ipynb"
        path.write_text(json.dumps(content, indent=1), "utf-8")
        if not foreign:
            # as if the user had written it in JupyterLab
            NotebookNotary(data_dir=str(lab.home / ".local/share/jupyter")).sign(nbformat.read(path, 4))
        return NotebookPage(page, lab, str(path.relative_to(lab.root)), app).open()

    return make
