"""Fixtures of place: every test has a home of its own, no credentials from outside, and servers that end with it."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.metadata
import itertools
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from cellwright.testing import MessagesServer
from forked.forked_python import VARIABLE, forked_python, jupyter_packages

# what tests start, hundreds of Python processes, reads compiled modules instead of compiling them each time
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

TESTS = Path(__file__).parent
SCENES = TESTS / "e2e"
# how long an example takes says how busy the machine is; the same examples each time: what fails is the change's doing
hypothesis.settings.register_profile("tests", deadline=None, derandomize=True)
# pytest --hypothesis-profile=explore: other examples each time, and more of them
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2_000, print_blob=True)
hypothesis.settings.load_profile("tests")

VERSIONS = ("ipykernel", "ipython", "jupyterlab", "jupyter-client", "ipywidgets", "anthropic")
# the first is Chromium without what it has for windows, which is half of what its main process computes
CHROMIUM = next(
    (
        path
        for name in ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    "",
)
REQUIRED = os.environ.get("CELLWRIGHT_REQUIRE_BROWSER") == "1"
# jsonschema would import it for a format that nothing here has: 38 parsers, made in 1.4 s of the processor in every server
IRI_PARSERS = "rfc3987_syntax"
EXPECTED = {"CELLWRIGHT_EXPECT_IPYKERNEL": "ipykernel", "CELLWRIGHT_EXPECT_LAB": "jupyterlab"}


CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",  # Debian's script gives it to Chromium where /dev/shm is small, as it is in containers
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
]


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, pytest.CollectReport]:
    """Each worker begins with rooms of its own: what it has compiled, the others read."""
    report: pytest.CollectReport = yield
    if collector.path == TESTS and (worker := getattr(collector.config, "workerinput", None)):
        first = len(report.result) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        report.result = report.result[first:] + report.result[:first]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if len(config.args) == 1:  # all workers have to find one order; of several arguments it is theirs
        items.sort(key=lambda item: item.path.relative_to(TESTS).parts[0])
    if hypothesis.settings.get_current_profile_name() == "tests":
        _leave_out_our_constants()
    if CHROMIUM or REQUIRED:
        return
    for item in items:
        if "browser" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="NO BROWSER: install Chromium to run the browser tests"))


def pytest_collection_finish() -> None:
    """What was imported and collected stays: collections of garbage, with which each IPython shell ends, pass it by."""
    gc.collect()
    gc.freeze()


def pytest_report_header() -> str:
    return "with: " + ", ".join(f"{name} {_installed(name)}" for name in VERSIONS)


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def pytest_configure(config: pytest.Config) -> None:
    """A leg that means an older version of a package must not pass on another one."""
    sys.path.insert(0, str(SCENES))  # importlib mode leaves it out
    from unsteady import PlayedAgain

    config.pluginmanager.register(PlayedAgain(config, SCENES))
    # a shell starts what it runs in the background with interrupts ignored, and children would inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.modules[IRI_PARSERS] = None  # type: ignore[assignment]  # it cannot be imported
    for variable, name in EXPECTED.items():
        if not (expected := os.environ.get(variable)):
            continue
        module = importlib.import_module(name)
        if not f"{module.__version__}.".startswith(f"{expected}."):
            raise pytest.UsageError(
                f"{variable} is {expected}, but {name} {module.__version__} is imported, from {module.__file__}. "
                f"Put the folder with {name} {expected} first on PYTHONPATH."
            )


def _leave_out_our_constants() -> None:
    """Keep Hypothesis from trying the literals of whatever modules of ours are imported by then.

    A test would get other examples in each worker, and a worker takes 5 s to collect the literals of 800 modules.
    """
    from hypothesis.internal.conjecture.providers import Constants

    # it has no setting for that; where it is renamed, this fails
    place = "hypothesis.internal.conjecture.providers._get_local_constants"
    pytest.MonkeyPatch().setattr(place, Constants)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One Chromium for all tests: its driver's event loop can run once in a thread.

    It has a profile, as a user's has: what was compiled for one page is there for the next.
    """
    from playwright.sync_api import sync_playwright

    pixels = 1.5 if os.environ.get("CELLWRIGHT_TAKE_PICTURES") == "1" else 1
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=CHROMIUM,
            args=CHROMIUM_ARGUMENTS,
            viewport={"width": 1180, "height": 900},
            device_scale_factor=pixels,
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session", autouse=True)
def without_iri_parsers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests start does without `IRI_PARSERS`, too."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / f"{IRI_PARSERS}.py").write_text("raise ImportError('left out by the tests: it takes long')\n", "utf-8")
    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield


@pytest.fixture(scope="session", autouse=True)
def forked_pythons(without_iri_parsers: None) -> Iterator[None]:
    """Servers and kernels that tests start are forked from processes that have imported their libraries."""
    folder = Path(tempfile.mkdtemp(prefix="forked-"))  # a socket's path has 107 bytes at most
    with pytest.MonkeyPatch.context() as environ:
        packages = str(jupyter_packages(folder))
        environ.syspath_prepend(packages)
        environ.setenv("PYTHONPATH", packages, prepend=os.pathsep)
        with forked_python(folder) as program:
            environ.setenv(VARIABLE, str(program))
            yield
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Paths for the homes of tests, counted: looking for a free name costs more the more there are."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def own_place(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME and CELLWRIGHT_HOME in a fresh folder, and nothing in the environment that points to a real account."""
    home = next(homes)
    home.mkdir()
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "CLAUDE_", "CELLWRIGHT_", "AWS_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CELLWRIGHT_HOME", str(home / "cellwright"))
    return home


@pytest.fixture
def messages_server() -> Iterator[Callable[..., MessagesServer]]:
    """Starts a `MessagesServer` for a script; it is stopped when the test ends."""
    with contextlib.ExitStack() as running:

        def start(script: Any = (), **options: Any) -> MessagesServer:
            return running.enter_context(MessagesServer(script, **options))

        yield start


@pytest.fixture
def asked_here(own_place: Path, tmp_path: Path) -> Iterator[None]:
    """Have `cellwright.ask` ask in a conversation of the test's own, in its folder, which is closed with the test."""
    from cellwright.conversation.core import Host
    from cellwright.features.conversation import Conversation
    from cellwright.features.process_conversation import register, unregister
    from cellwright.python_api.ask import ScriptConversation

    here = ScriptConversation(Conversation(Host(cwd=tmp_path, interface="a test")))

    def conversation() -> ScriptConversation:
        return here

    register(conversation)
    yield
    unregister(conversation)
    here.conversation.close()
