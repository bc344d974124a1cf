"""The README and each page, followed word by word by one who has nothing but the wheel: a fresh environment, an empty home.

What pages tell to install is installed by their own words, from a folder with the wheel in the place of the index.
`tests/docs` runs the same blocks from the checkout, on every change.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))  # importlib mode leaves it out

from fences import PAGES, ROOT, Fence, fences
from following import answer, failed_cells, failed_commands, make_project
from fresh_environment import install, without_this_checkout
from notebook_kernel import NotebookKernel, model_of, started_kernel

from cellwright.testing import MessagesServer
from eventual import eventually

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(3600)]

HERE = str(Path(__file__).relative_to(ROOT))
INSTALL = ("README.md", "docs/index.md", "docs/get-started.md", "docs/guides/run-it-for-a-class.md")
"""Pages that tell how to install the package."""
NAMED = {
    "docs/guides/clean-a-data-set.md": "pandas",
    "docs/headless.md": "papermill",
    "docs/many-prompts.md": "distributed",
    "docs/mcp.md": "cellwright[mcp]",
    "docs/telemetry.md": "opentelemetry-sdk",
}
"""What a page's blocks need beside the package; the page says so."""
OF_READERS = ("jupyterlab", "pytest")
"""What readers have before they come."""
ONLY_READ = {
    "docs/architecture.md": "explains",
    "docs/branches.md": "lines of text, which tests/docs/test_inline_code.py reads",
    "docs/coming-from-other-assistants.md": "a table of names",
    "docs/completion.md": "keys in an editor, which tests/e2e presses",
    "docs/context.md": "lines of text, which tests/docs/test_inline_code.py reads",
    "docs/environment.md": "a table of variables, which tests/house/test_environment.py holds",
    "docs/faq.md": "answers; their lines are read by tests/docs/test_inline_code.py",
    "docs/numbers.md": "lines of text, which tests/docs/test_inline_code.py reads",
    "docs/panel.md": "keys and clicks, which tests/e2e does",
    "docs/performance.md": "measured, by `python -m benchmarks`",
    "docs/plugins.md": "installs from other machines",
    "docs/providers.md": "needs an account of each provider; tests/model asks stand-ins",
    "docs/sandbox.md": "bounds, which tests/sandbox holds",
    "docs/security.md": "promises, which tests/permissions and tests/sandbox hold",
    "docs/terminal.md": "keys, which tests/terminal presses",
    "docs/troubleshooting.md": "messages, which tests/house/test_guides.py holds",
    "docs/undo.md": "lines of text, which tests/docs/test_inline_code.py reads",
    "docs/whats-new.md": "a list",
}
"""Pages without a block that can be run here or is by another test: why."""


def of_page(page: str, *, having: str) -> Fence:
    """The block of `page` that begins with `having`."""
    (fence,) = [each for each in fences() if each.page == page and each.code.startswith(having)]
    return fence


def environ_of(python: Path, home: Path) -> dict[str, str]:
    """What a user has in a terminal with the environment of `python` activated, and an empty home."""
    own = ("ANTHROPIC_", "CLAUDE_", "CELLWRIGHT_", "XDG_", "PYTHON", "JUPYTER")
    kept = {name: value for name, value in without_this_checkout().items() if not name.startswith(own)}
    return {**kept, "HOME": str(home), "PATH": f"{python.parent}{os.pathsep}{kept['PATH']}", "MPLBACKEND": "agg"}


@pytest.fixture(scope="module")
def reader(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a reader who has JupyterLab, and has done what the README and the pages tell to install."""
    folder = tmp_path_factory.mktemp("reader")
    subprocess.run([os.path.realpath(sys.executable), "-m", "venv", str(folder / "venv")], check=True)
    python = folder / "venv" / "bin" / "python"
    install(python, *OF_READERS)
    links = " ".join(filter(None, [str(wheel.parent), os.environ.get("PIP_FIND_LINKS")]))
    environ = {**environ_of(python, folder), "PIP_FIND_LINKS": links, "PIP_QUIET": "1"}
    said = [of_page(page, having="pip install").code for page in INSTALL]
    said.append("pip install " + " ".join(f"'{name}'" for name in NAMED.values()))
    subprocess.run(["bash", "-eu", "-c", "\n".join(dict.fromkeys(said))], check=True, cwd=folder, env=environ)
    return python


@pytest.fixture(scope="module")
def model() -> Iterator[MessagesServer]:
    with MessagesServer(answer) as server:
        yield server


def test_every_page_is_followed_or_says_why_not() -> None:
    done: dict[str, Counter[str]] = {str(page.relative_to(ROOT)): Counter() for page in PAGES}
    for fence in fences():
        how = "elsewhere" if fence.run_by and fence.run_by != HERE else "not run" if fence.not_run else fence.kind
        done[fence.page][how] += 1
    run = {"cell", "shell", "config", "json", "markdown", "elsewhere"}
    for page, kinds in done.items():
        print(f"{page:44}", ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or ONLY_READ.get(page))
    idle = {page for page, kinds in done.items() if not run & kinds.keys()}
    assert idle == ONLY_READ.keys()


def test_pages_name_what_their_blocks_need() -> None:
    silent = {
        page: name for page, name in NAMED.items() if not re.search(rf"pip install '?{re.escape(name)}", text(page))
    }
    assert silent == {}


def text(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def test_cells_run_in_a_kernel_of_the_wheel(reader: Path, model: MessagesServer, tmp_path: Path) -> None:
    project, home = make_project(tmp_path / "project"), tmp_path / "home"
    home.mkdir()
    environ = {**environ_of(reader, home), **model_of(model), "JPY_SESSION_NAME": str(project / "02.ipynb")}
    with started_kernel(project, environ, python=reader) as (manager, client):
        kernel = NotebookKernel(manager, client)
        assert kernel.run("%load_ext cellwright").status == "ok"
        assert str(reader.parents[1]) in kernel.value("__import__('cellwright').__file__")
        assert failed_cells(kernel, fences()) == {}
    assert [request.error for request in model.rejected] == []


def test_commands_run_from_the_wheel(reader: Path, model: MessagesServer, tmp_path: Path) -> None:
    project, home = make_project(tmp_path / "project"), tmp_path / "home"
    home.mkdir()
    assert failed_commands(fences(), project, {**environ_of(reader, home), **model_of(model)}) == {}
    assert [request.error for request in model.rejected] == []


def test_settings_of_the_pages_are_settings_of_the_wheel(reader: Path, tmp_path: Path) -> None:
    """The doctor reads each as the user's own settings file, and has nothing to say against it."""
    refused = {}
    for fence in fences():
        if fence.kind != "json" or fence.page.startswith("docs/protocol/"):
            continue
        home = tmp_path / f"{Path(fence.page).stem}-{fence.line}"
        (home / ".claude").mkdir(parents=True)
        is_mcp = fence.code.lstrip().startswith('{"mcpServers"')
        (home / (".claude.json" if is_mcp else ".claude/settings.json")).write_text(fence.code)
        done = subprocess.run(
            [reader.with_name("cellwright"), "doctor", "--json", "--offline"],
            env={**environ_of(reader, home), "ANTHROPIC_API_KEY": "k", "GITHUB_TOKEN": "t"},
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
        )
        findings = {each["name"]: each for each in json.loads(done.stdout)["findings"]}
        if findings["settings"]["status"] not in ("ok", "info"):
            refused[fence.place] = findings["settings"]
    assert refused == {}


def test_settings_of_the_server_are_traits_of_the_wheel(reader: Path, tmp_path: Path) -> None:
    blocks = [
        fence.code.replace('open("/etc/jupyterhub/anthropic-key").read().strip()', '"k"')
        for fence in fences()
        if fence.kind == "config" and not fence.elsewhere
    ]
    code = (
        "import json, sys\nfrom traitlets.config import Config\n"
        "from cellwright.server.hub_proxy import HubProxy\n"
        "from cellwright.server.server_extension import CellwrightApp\n"
        "for code in json.load(sys.stdin):\n"
        "    c = Config()\n"
        "    exec(code, {'c': c})\n"
        "    for kind in (HubProxy, CellwrightApp):\n"
        "        unknown = set(c.get(kind.__name__, {})) - set(kind.class_trait_names(config=True))\n"
        "        assert not unknown, unknown\n"
        "        kind(config=c)\n"
    )
    environ = environ_of(reader, tmp_path)
    subprocess.run([reader, "-c", code], input=json.dumps(blocks), text=True, check=True, cwd=tmp_path, env=environ)


def test_the_demo_of_get_started_opens_its_notebook_in_jupyterlab(reader: Path, tmp_path: Path) -> None:
    command = of_page("docs/get-started.md", having="cellwright demo").code
    environ = {**environ_of(reader, tmp_path), "TMPDIR": str(tmp_path)}
    environ.pop("DISPLAY", None)
    demo = subprocess.Popen(
        ["bash", "-c", f"exec {command}"], env=environ, cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    try:
        assert demo.stderr is not None
        listens = re.compile(r"(http://\S+?)/lab/tree/(\S+?)\?token=(\w+)")
        url, notebook, token = next(found for line in demo.stderr if (found := listens.search(line))).groups()
        request = urllib.request.Request(f"{url}/api/contents/{notebook}", headers={"Authorization": f"token {token}"})

        def cells_of_notebook() -> list[dict[str, Any]]:
            try:
                with urllib.request.urlopen(request, timeout=60) as reply:
                    return list(json.load(reply)["content"]["cells"])
            except urllib.error.URLError:  # its address is told before it listens
                return []

        cells = eventually(cells_of_notebook)
        assert any(cell["source"].startswith("%%claude") for cell in cells)
    finally:
        demo.send_signal(signal.SIGTERM)
        demo.wait()


def test_without_jupyterlab_the_demo_says_what_to_install(python: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        ["cellwright", "demo", "--lab"],
        env=environ_of(python, tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "pip install 'cellwright[lab]'" in done.stderr
