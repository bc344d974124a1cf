"""Rows of what the browser does: 500 answers in a notebook, JupyterLab's start, keys that are typed while an answer streams.

A real JupyterLab in a real Chromium, one of each for all rows. Where it can be, the time is of the processor, of the
page's main thread, so that what the machine does besides is not counted.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbformat.sign import NotebookNotary

from benchmarks.rows.row import Row
from cellwright.testing import Gate, MessagesServer, hold, say, turn

ANSWERS = 500
DELTAS = 5_000
DELTA_CHARS = 12
SECONDS_BETWEEN_DELTAS = 0.004
STARTS = 8
LONG_MS = 120_000
TRANSCRIPT = "application/vnd.cellwright.transcript+json"
CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking"]
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}

OPEN = """async path => {
    const {shell, commands} = window.jupyterapp;
    for (const widget of [...shell.widgets('main')]) widget.dispose();
    await commands.execute('filebrowser:open-path', {path});
}"""
# every output stands there, and two frames have been drawn since
ALL_DRAWN = """async count => {
    const isDrawn = ({shadowRoot}) => shadowRoot?.querySelector('.prose');
    const drawn = () => document.querySelectorAll('.jp-RenderedMarkdown > *:first-child').length
        + [...document.querySelectorAll('.cellwright-answer > div')].filter(isDrawn).length;
    while (drawn() < count) await new Promise(requestAnimationFrame);
    for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
}"""
SCROLLED = """async () => {
    const scroller = document.querySelector('.jp-WindowedPanel-outer');
    const frames = [];
    let last = await new Promise(requestAnimationFrame);
    for (let step = 0; step < 240; step++) {
        scroller.scrollTop += step < 120 ? 400 : -400;
        const now = await new Promise(requestAnimationFrame);
        frames.push(now - last);
        last = now;
    }
    return frames;
}"""
# from the time of the event to the end of the frame that shows it, as the trace's clock has them
WATCH_KEYS = """() => {
    let keys = 0;
    document.addEventListener('keydown', event => {
        requestAnimationFrame(() => setTimeout(() => {
            performance.measure(`typed key ${++keys}`, {start: event.timeStamp, end: performance.now()});
        }));
    }, true);
}"""
IDLE = """() => {
    const widget = window.jupyterapp?.shell.currentWidget;
    const kernel = widget?.context?.isReady && widget.sessionContext?.session?.kernel;
    return kernel && kernel.connectionStatus === 'connected' && kernel.status === 'idle';
}"""
RUN = """async index => {
    const {shell, commands} = window.jupyterapp;
    shell.currentWidget.content.activeCellIndex = index;
    commands.execute('notebook:run-cell');
}"""
KEYS = "how high is the tide at noon and at six " * 3
# keys are typed while the answer is this long: what a piece costs may grow with what stands there
TYPED_AFTER = 0.4


class Page:
    """JupyterLab in a page; with `ours` our extension is in it."""

    def __init__(self, *, ours: bool) -> None:
        driver = playwright()  # ends after its pages
        self._ends = contextlib.ExitStack()
        atexit.register(self.close)
        folder = Path(
            self._ends.enter_context(tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True))
        )
        self.root = folder / "root"
        self.model = self._ends.enter_context(MessagesServer(seconds_between_deltas=0))
        self.url = self._lab(folder, ours=ours)
        program = next(path for name in CHROMIUMS if (path := shutil.which(name)))
        browser = driver.chromium.launch_persistent_context(
            folder / "profile", executable_path=program, args=ARGUMENTS, viewport={"width": 1440, "height": 900}
        )
        self._ends.callback(browser.close)
        self._browser = browser

    def close(self) -> None:
        self._ends.close()

    def load(self) -> float:
        """Load JupyterLab in a page of its own; the milliseconds of its main thread until it is there."""
        for page in self._browser.pages[1:]:
            page.close()
        # a page that goes elsewhere keeps its thread, or has another one with a time of its own: both would be counted
        self.page = self._browser.new_page()
        self.page.set_default_timeout(LONG_MS)
        self._metrics = self._browser.new_cdp_session(self.page)
        self._metrics.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.page.goto(f"{self.url}/lab?reset", wait_until="domcontentloaded")
        self.page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)")
        self.page.locator(".jp-LauncherCard").first.wait_for()
        return self.cpu_ms()

    def cpu_ms(self) -> float:
        figures = self._metrics.send("Performance.getMetrics")["metrics"]
        return 1000 * float(next(each["value"] for each in figures if each["name"] == "TaskDuration"))

    def traced(self, act: Callable[[Any], None]) -> list[dict[str, Any]]:
        """What the browser's trace says of the tasks of its threads while `act` has the page."""
        events: list[dict[str, Any]] = []
        over: list[Any] = []
        session = self._metrics
        session.on("Tracing.dataCollected", lambda data: events.extend(data["value"]))
        session.on("Tracing.tracingComplete", lambda data: over.append(data))
        categories = "toplevel,blink.user_timing,disabled-by-default-devtools.timeline,devtools.timeline"
        session.send("Tracing.start", {"transferMode": "ReportEvents", "categories": categories})
        act(self.page)
        session.send("Tracing.end")
        while not over:
            self.page.wait_for_timeout(50)  # has the driver hand over what has come
        return events

    def notebook(self, name: str, cells: list[dict[str, Any]]) -> str:
        content = {"cells": cells, "metadata": {"kernelspec": KERNELSPEC}, "nbformat": 4, "nbformat_minor": 5}
        path = self.root / name
        path.write_text(json.dumps(content), "utf-8")
        # the user's own: a foreign one is asked about
        NotebookNotary(data_dir=str(self.root.parent / "data")).sign(nbformat.read(path, 4))
        return name

    def _lab(self, folder: Path, *, ours: bool) -> str:
        for name in ("root", "data", "config/labconfig", "settings/@jupyterlab/apputils-extension"):
            (folder / name).mkdir(parents=True)
        page = {"buildCheck": False, "disabledExtensions": {} if ours else {"cellwright": True}}
        (folder / "config/labconfig/page_config.json").write_text(json.dumps(page))
        news = folder / "settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
        news.write_text('{"fetchNews": "false", "checkForUpdates": false}')
        places = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
        }
        places["JUPYTER_DATA_DIR"] = "data"
        more = {
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
            "CELLWRIGHT_HOME": "state",
            "IPYTHONDIR": "ipython",
            "HOME": "",
        }
        environ = {**os.environ, **{name: str(folder / place) for name, place in (places | more).items()}}
        environ |= {"ANTHROPIC_BASE_URL": self.model.url, "ANTHROPIC_API_KEY": self.model.api_key}
        environ["PYTHONPATH"] = str(Path(__file__).parents[2])  # the plain magic
        command = [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.port=0"),
            *(
                "--IdentityProvider.token=",
                "--ServerApp.disable_check_xsrf=True",
                "--LabApp.expose_app_in_browser=True",
            ),
            f"--ServerApp.root_dir={self.root}",
        ]
        log = self._ends.enter_context((folder / "lab.log").open("wb"))
        process = subprocess.Popen(command, cwd=self.root, env=environ, stdout=log, stderr=log, start_new_session=True)
        self._ends.callback(lambda: (os.killpg(process.pid, signal.SIGTERM), process.wait(20)))
        return _address(folder / "runtime", process)


@functools.cache
def playwright() -> Any:
    """The driver, one for all pages."""
    from playwright.sync_api import sync_playwright  # only the tests' environment has it

    driver = sync_playwright().start()
    atexit.register(driver.stop)
    return driver


@functools.cache
def page(*, ours: bool = True) -> Page:
    """The page of all rows, loaded."""
    made = Page(ours=ours)
    made.load()
    return made


def _address(runtime: Path, process: subprocess.Popen[bytes]) -> str:
    while process.poll() is None:
        for info in runtime.glob("jpserver-*.json"):
            with contextlib.suppress(OSError, ValueError):
                url = str(json.loads(info.read_text())["url"]).rstrip("/")
                urllib.request.urlopen(f"{url}/api/status", timeout=60).close()
                return url
        time.sleep(0.1)  # another process: there is nothing to wait on but its file
    raise RuntimeError("JupyterLab did not start")


# ---- 500 answers ----


def answer(number: int) -> str:
    code = "\n".join(f"heights_{number}[{row}] = tide(hour={row})" for row in range(6))
    items = "\n".join(f"- point {number}.{item} is reached after the moon has turned" for item in range(3))
    told = f"The **tide** comes with `heights_{number}`, and *seldom* stays away."
    return f"## Step {number}\n\n{told}\n\n```python\n{code}\n```\n\n{items}\n"


def cell(number: int, data: Mapping[str, Any]) -> dict[str, Any]:
    output = {"output_type": "display_data", "data": data, "metadata": {}}
    return {
        "cell_type": "code",
        "id": f"cell-{number}",
        "metadata": {},
        "execution_count": number + 1,
        "outputs": [output],
        "source": f"%%claude\nStep {number}?",
    }


def saved(number: int) -> dict[str, Any]:
    """An answer with a call as a notebook keeps it, and its Markdown beside it."""
    title, text = f"Read tides_{number}.txt", answer(number)
    ops = [
        {"op": "run", "model": "claude-opus-5-5", "mode": "default", "session": "", "started": 0.0},
        {"op": "text", "block": 0, "text": "I look at it."},
        {
            **{"op": "tool", "id": "t", "name": "Read", "title": title, "input": {"file_path": f"tides_{number}.txt"}},
            **{"parallel": False, "estimate": None, "at": 0.0},
        },
        {"op": "tool_end", "id": "t", "status": "success", "ms": 12, "result": "1\thigh", "diff": None, "error": None},
        {"op": "text", "block": 1, "text": text},
        {"op": "end", "stop_reason": "end_turn", "cost_usd": 0.01, "session_cost_usd": 0.01, "ms": 1000, "error": None},
    ]
    transcript = {"version": 1, "part": 0, "last": True, "ops": ops}
    return {TRANSCRIPT: transcript, **plain(number)}


def plain(number: int) -> dict[str, Any]:
    markdown = (
        f"I look at it.\n\n- ✓ `Read tides_{number}.txt` · 12 ms\n\n{answer(number)}\n\n*claude-opus-5-5* · *1.0 s*"
    )
    return {"text/markdown": markdown, "text/plain": markdown}


def many_answers(subject: str) -> Mapping[str, float]:
    """The same notebook with answers and with their Markdown as plain outputs: opening it, and scrolling through it."""
    lab = page()
    data = plain if subject == "floor" else saved
    path = lab.notebook(f"{subject}.ipynb", [cell(number, data(number)) for number in range(ANSWERS)])
    lab.load()
    begun = lab.cpu_ms()
    lab.page.evaluate(OPEN, path)
    lab.page.evaluate(ALL_DRAWN, ANSWERS)
    opened = lab.cpu_ms() - begun
    frames = lab.page.evaluate(SCROLLED)
    return {"q open": opened, "q scroll": _p95(frames)}


def _p95(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


# ---- the start, and typing ----


def start(subject: str) -> Mapping[str, float]:
    """What our extension adds to JupyterLab's start: loads with it and without it, taking turns."""
    with_us, without = page(), page(ours=False)
    for warm in (with_us, without):
        warm.load()  # what the browser compiles once is no part of later starts
    loads = [(with_us.load(), without.load()) for _ in range(STARTS)]
    # whatever else the machine does is only ever added
    return {"q start": min(ours for ours, _ in loads) - min(plain for _, plain in loads)}


def typing(subject: str) -> Mapping[str, float]:
    """Keys in a cell while another one streams; the floor's prints what arrives."""
    # our extension loads ours into every kernel
    lab = page(ours=subject != "floor")
    magic = "benchmarks.rows.plain_magic" if subject == "floor" else "cellwright"
    cells = [{**cell(number, {}), "outputs": [], "execution_count": None} for number in range(3)]
    cells[0]["source"], cells[1]["source"] = f"%load_ext {magic}", "%%claude\nTell me all about the tides"
    path = lab.notebook(f"typing-{subject}.ipynb", [*cells[:2], {**cells[2], "source": ""}])
    text = "\n".join(map(answer, range(DELTAS * DELTA_CHARS // len(answer(0)) + 1)))[: DELTAS * DELTA_CHARS]
    heading = f"Step {int(TYPED_AFTER * len(text) / len(answer(0)))}"
    before = text.index(heading) + len(heading) + 1
    size = -(-(len(text) - before) // len(KEYS))
    portions = [text[at : at + size] for at in range(before, len(text), size)]
    # each key lets the next portion through: on a slow machine, too, the stream lasts as long as the keys
    gates = [Gate() for _ in portions]
    gated = [part for gate, portion in zip(gates, portions, strict=True) for part in (hold(gate), say(portion))]
    paced: dict[str, Any] = {"delta_chars": DELTA_CHARS, "seconds_between_deltas": SECONDS_BETWEEN_DELTAS}
    lab.model.add(turn(say(text[:before]), *gated, **paced))
    lab.load()
    lab.page.evaluate(OPEN, path)
    lab.page.wait_for_function(IDLE)
    lab.page.evaluate(RUN, 0)
    lab.page.locator(".jp-InputPrompt", has_text="[1]").wait_for()
    lab.page.locator(".jp-Cell .cm-content").nth(0).click()
    lab.page.evaluate(RUN, 1)
    lab.page.locator(".jp-Cell-outputArea", has_text=heading).wait_for()
    lab.page.locator(".jp-Cell .cm-content").nth(0).click()
    lab.page.evaluate(WATCH_KEYS)
    events = lab.traced(lambda page: _type(page, gates))
    lab.page.locator(".jp-InputPrompt", has_text="[2]").wait_for()
    # the next run finds the notebook without its kernel, so its first cell is [1] again
    lab.page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
    return {"q typing": _p95(_busy_per_key(events))}


def _type(page: Any, gates: list[Gate]) -> None:
    for key, gate in zip(KEYS, gates, strict=True):
        gate.open()
        page.keyboard.press("Space" if key == " " else key, delay=60)


def _busy_per_key(events: list[dict[str, Any]]) -> list[float]:
    """The milliseconds of the processor that the page's main thread worked between each key and its frame."""
    measured = [event for event in events if event["name"].startswith("typed key ")]
    begins, ends = ({event["name"]: event["ts"] for event in measured if event["ph"] == phase} for phase in "be")
    process = measured[0]["pid"]
    main = next(
        event["tid"]
        for event in events
        if event["name"] == "thread_name" and event["pid"] == process and event["args"]["name"] == "CrRendererMain"
    )
    tasks = [
        (event["ts"], event["dur"], event.get("tdur", event["dur"]))
        for event in events
        if (event["pid"], event["tid"], event["ph"]) == (process, main, "X")
        and event["name"] == "RunTask"
        and event["dur"]
    ]
    return [
        sum(worked * max(0, min(end, at + long) - max(begin, at)) / long for at, long, worked in tasks) / 1000
        for name, begin in begins.items()
        if (end := ends.get(name)) is not None
    ]


_OPEN = f"CPU of the page until a notebook of {ANSWERS} answers is open; the floor's are plain Markdown"
_TYPING = (
    f"CPU of the page from key to paint, 95 % of keys, while {DELTAS:,} deltas stream in a cell; the floor prints them"
)
_START = "CPU of the page that our extension adds to JupyterLab's start"
_BOTH = ("floor", "cellwright")

BROWSER_ROWS = (
    Row("q open", _OPEN, "ms", many_answers, _BOTH, max_ratio=1.3),
    Row("q scroll", "95 % of the frames while it is scrolled through", "ms", lambda _: {}, _BOTH, max_ratio=1.1),
    Row("q start", _START, "ms", start, ("cellwright",), max_value=50),
    Row("q typing", _TYPING, "ms", typing, _BOTH, max_value=30),
)
