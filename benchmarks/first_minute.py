"""A first-time user's way from `pip install` to the first answer, step by step with seconds.

`python -m benchmarks.first_minute [--write]` builds the wheel, installs it with JupyterLab into an environment of its own,
by pip and from the index that pip is set to, and plays the first minute in Chromium: no key, the card, a key entered there,
the first answers in the panel and in a cell; then the demo. Nothing is kept: home, settings and environment are temporary.
The model is the local Messages API server, which answers at once, so what is left is installing, JupyterLab and we.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.rows.browser import CHROMIUMS
from cellwright.testing import MessagesServer, say

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- first minute -->", "<!-- /first minute -->"
LONG_MS = 120_000
ADDRESS = re.compile(r"http://(?:127\.0\.0\.1|localhost):\d+/lab\S*token=\w+")
CARD = ".cellwright-panel .key-card"


class Steps:
    """What has been done and how long each took, by the clock."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float | None]] = []

    def heading(self, name: str) -> None:
        self.rows.append((name, None))
        print(f"-- {name}")

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        yield
        self.total(name, begun)

    def total(self, name: str, begun: float) -> None:
        seconds = time.monotonic() - begun
        self.rows.append((name, seconds))
        print(f"{seconds:8.1f} s  {name}", flush=True)

    def table(self) -> str:
        lines = ["| step | seconds |", "|---|--:|"]
        for name, seconds in self.rows:
            lines.append(f"| **{name}** | |" if seconds is None else f"| {name} | {seconds:.1f} |")
        return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_minute", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="keep a picture of each step in this folder")
    options = parser.parse_args()
    steps = Steps()
    with tempfile.TemporaryDirectory(prefix="first-minute-") as name:
        play(Path(name), steps, options.pictures)
    if options.write:
        text = PAGE.read_text("utf-8")
        before, _, rest = text.partition(BEGIN)
        about = (
            f"{datetime.date.today():%-d %B %Y}, {os.cpu_count()} cores with a load of {os.getloadavg()[2]:.0f}, "
            f"Python {sys.version.split()[0]}"
        )
        PAGE.write_text(f"{before}{BEGIN}\n{about}\n\n{steps.table()}\n{END}{rest.partition(END)[2]}", "utf-8")
    return 0


def play(folder: Path, steps: Steps, pictures: Path | None) -> None:
    """Play all steps below `folder`, which is empty."""
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    programs = folder / "venv" / "bin"
    steps.heading("Install")
    with steps.step("`python -m venv`"):
        subprocess.run([os.path.realpath(sys.executable), "-m", "venv", str(folder / "venv")], check=True)
    with steps.step("`pip install jupyterlab`, where there is none yet"):
        subprocess.run([programs / "pip", "install", "-qq", "jupyterlab"], check=True)
    with steps.step("`pip install cellwright`"):
        subprocess.run([programs / "pip", "install", "-qq", str(wheel)], check=True)
    with _pages(folder, pictures) as browser, MessagesServer() as model:
        steps.heading("With a key")
        _from_no_key(folder / "key", steps, browser, programs, model)
        steps.heading("Without a key")
        _demo(folder / "demo", steps, browser, programs)


class _Pages:
    """Pages of one browser, and pictures of them where these are asked for."""

    def __init__(self, browser: Any, pictures: Path | None) -> None:
        self._browser = browser
        self._pictures = pictures

    def open(self, address: str) -> Any:
        page = self._browser.new_page()
        page.set_default_timeout(LONG_MS)
        page.goto(address)
        return page

    def picture(self, page: Any, name: str) -> None:
        if self._pictures:
            self._pictures.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=self._pictures / f"{name}.png")


@contextlib.contextmanager
def _pages(folder: Path, pictures: Path | None) -> Iterator[_Pages]:
    from playwright.sync_api import sync_playwright  # only the tests' environment has it

    program = next(path for name in CHROMIUMS if (path := shutil.which(name)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            folder / "profile", executable_path=program, args=["--no-sandbox"], viewport={"width": 1280, "height": 860}
        )
        yield _Pages(browser, pictures)
        browser.close()


@contextlib.contextmanager
def _running(command: list[str], folder: Path, environ: dict[str, str]) -> Iterator[str]:
    """Run a command that starts JupyterLab; the address that it prints."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            said = []
            for line in process.stdout:
                said.append(line)
                if found := ADDRESS.search(line):
                    break
            else:
                raise RuntimeError("".join(said))
            yield found[0]
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.stdout.read()  # to its end


def _environ(home: Path, programs: Path, **more: str) -> dict[str, str]:
    """Of somebody who has just installed: an empty home, no key, no keyring, no browser that opens by itself."""
    hidden = ("ANTHROPIC_", "CELLWRIGHT_", "JUPYTER", "PYTHON", "DISPLAY", "BROWSER")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    (home / "tmp").mkdir(parents=True)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "HOME": str(home), "TMPDIR": str(home / "tmp"), "PATH": path, **more}


def _from_no_key(home: Path, steps: Steps, browser: _Pages, programs: Path, model: MessagesServer) -> None:
    model.add(say("The tide is **high** at six."), say("It is low at *twelve*."))
    environ = _environ(home, programs, ANTHROPIC_BASE_URL=model.url)
    command = [str(programs / "jupyter"), "lab", "--no-browser", "--allow-root", "--ServerApp.port=0"]
    begun = time.monotonic()
    with contextlib.ExitStack() as running:
        with steps.step("`jupyter lab` prints its address"):
            address = running.enter_context(_running(command, home, environ))
        with steps.step("the page shows its launcher"):
            page = browser.open(address)
            page.locator(".jp-LauncherCard").first.wait_for()
        with steps.step("a new notebook has its kernel"):
            page.locator(".jp-LauncherCard[data-category=Notebook]").first.click()
            page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for()
        with steps.step("`Ctrl Shift Y` opens the panel with the card"):
            page.keyboard.press("Control+Shift+Y")
            page.locator(CARD).wait_for()
        browser.picture(page, "card")
        with steps.step("the key is tested and kept"):
            page.locator(CARD).get_by_label("API key").fill(model.api_key)
            page.keyboard.press("Enter")
            page.locator(".cellwright-panel .key-done").wait_for()
        with steps.step("the panel answers the first prompt"):
            page.locator(".cellwright-panel .cellwright-prompt").fill("When is high tide?")
            page.keyboard.press("Enter")
            page.locator(".cellwright-panel strong", has_text="high").wait_for()
        browser.picture(page, "panel-answer")
        with steps.step("a first `%%claude` cell answers"):
            page.locator(".jp-Notebook .cm-content").first.click()
            page.keyboard.insert_text("%%claude\nAnd low tide?")
            page.keyboard.press("Shift+Enter")
            page.locator(".jp-Notebook .jp-OutputArea em", has_text="twelve").wait_for()
        browser.picture(page, "cell-answer")
        steps.total("from `jupyter lab` to here", begun)
        page.close()


def _demo(home: Path, steps: Steps, browser: _Pages, programs: Path) -> None:
    environ = _environ(home, programs)
    command = [str(programs / "cellwright"), "demo", "--lab"]
    begun = time.monotonic()
    with contextlib.ExitStack() as running:
        with steps.step("`cellwright demo --lab` prints its address"):
            address = running.enter_context(_running(command, home, environ))
        with steps.step("the page shows the demo's notebook and its kernel"):
            page = browser.open(address)
            page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for()
        with steps.step("the status bar says *Scripted model*"):
            page.locator(".cellwright-status", has_text="Scripted model").wait_for()
        browser.picture(page, "demo")
        with steps.step("the first prompt is answered, its test fixed"):
            page.locator(".jp-Notebook .cm-content", has_text="The tests of this project fail").click()
            page.keyboard.press("Shift+Enter")
            page.locator(".jp-Notebook .jp-OutputArea", has_text="The tests pass now").wait_for()
        browser.picture(page, "demo-answer")
        steps.total("from `cellwright demo --lab` to here", begun)
        page.close()


if __name__ == "__main__":
    sys.exit(main())
