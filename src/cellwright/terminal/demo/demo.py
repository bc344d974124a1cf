"""A tour in five prompts: fix a test, plot data, ask about a variable, undo, a plan.

It needs no key and no network: without a key the model is scripted and served by the package's own local Messages API
server. Everything else is real: the kernel, the HTTP requests, the tools, the files, the tests.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import site
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_core.paths import jupyter_data_dir

from cellwright.config.settings.settings import save_allow_rules
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.credentials import key_in
from cellwright.terminal.demo.script import PAUSE_SECONDS, TEST_COMMAND, TEST_RULE, demo_script, scripted_environ
from cellwright.terminal.exit_codes import stop_requests_raise
from cellwright.terminal.views.streams import print_line
from cellwright.terminal.views.terminal_text import fitting_theme
from cellwright.testing import MessagesServer
from cellwright.this_process.files import new_folder
from cellwright.this_process.late_imports import importing

if TYPE_CHECKING:
    from cellwright.terminal.views.themes import Theme


NO_NEWS = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}
"""At its first start JupyterLab asks whether it may fetch news, in a toast that lies over the panel."""

HERE = Path(__file__).parent
NOTEBOOK = "01-first-cell.ipynb"
FOLDER = "cellwright-demo"
RULES = (TEST_RULE, "Python")


def main(argv: Sequence[str]) -> int:
    """Run the demo with these arguments; 0 when the sample project's tests, which failed, pass.

    Raises CellwrightError CONFIG_INVALID if JupyterLab is asked for and missing.
    """
    parser = argparse.ArgumentParser(prog="cellwright demo", description=__doc__, add_help=True)
    parser.add_argument("--lab", action="store_true", help="open the notebook in JupyterLab instead of running it here")
    parser.add_argument(
        "--keep", action="store_true", help="keep the temporary folder with the project and the notebook"
    )
    options = parser.parse_args(argv)
    if options.lab and importlib.util.find_spec("jupyterlab") is None:
        raise CellwrightError(
            ErrorCode.CONFIG_INVALID,
            "JupyterLab is not installed in this environment: pip install 'cellwright[lab]'. "
            "`cellwright demo` runs without it.",
        )
    with _project(keep=options.keep) as project, _model(project) as model_environ:
        environ = {**os.environ, **model_environ}
        if options.lab:
            return _open_lab(project, environ)
        return _run_here(project, environ)


@contextlib.contextmanager
def _project(*, keep: bool) -> Iterator[Path]:
    """A copy of the sample project, with the notebook in it, in a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="cellwright-demo-")) if keep else new_folder("demo")
    # what the demo keeps and trusts goes with its folder; the process is the demo's own
    os.environ["CELLWRIGHT_HOME"] = str(folder / "state")
    try:
        project = folder / "tides"
        make_project(project)
        rules = ", ".join(RULES)
        print_line(
            f"The sample project allows: {rules}. Edits are allowed by the cell's `--mode acceptEdits`.", sys.stdout
        )
        yield project
    finally:
        if keep:
            print(f"Kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _model(project: Path) -> Iterator[Mapping[str, str]]:
    """The environment that leads to a model: the user's own where there is a key, else a scripted one."""
    if key_in(os.environ):
        print("Model: the real one (there is a key in the environment; this costs a few cents).")
        yield {}
        return
    print("Model: SCRIPTED. There is no key in the environment, so a local server plays a written conversation;")
    print("       kernel, HTTP requests, tools, files and tests are real.")
    with MessagesServer(demo_script(str(project)), seconds_between_deltas=PAUSE_SECONDS) as server:
        yield scripted_environ(server.url, server.api_key)


def _run_here(project: Path, environ: Mapping[str, str]) -> int:
    from cellwright.terminal.views.themes import theme_named

    theme = theme_named(fitting_theme(os.environ))
    console = theme.console(sys.stdout)
    console.rule("The project's tests, before")
    red = _tests_pass(project, console)
    console.rule(f"{NOTEBOOK}, in a real kernel")
    _execute(project, environ, console, theme)
    console.rule("The project's tests, after")
    green = _tests_pass(project, console)
    if red or not green:
        console.print("[bold red]The tests did not go from red to green.[/]")
        return 1
    console.print("[bold green]From red to green.[/]")
    console.print(theme.line("Next: `cellwright demo --lab`, or `%load_ext cellwright` in a notebook of yours.", ""))
    return 0


def _tests_pass(project: Path, console: Any) -> bool:
    command = [sys.executable, *TEST_COMMAND.split()[1:]]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    console.print(f"$ {TEST_COMMAND}", style="bold", highlight=False)
    console.print("\n".join(run.stderr.strip().splitlines()[-3:]), highlight=False, markup=False)
    return run.returncode == 0


def _execute(project: Path, environ: Mapping[str, str], console: Any, theme: Theme) -> None:
    """Execute the notebook cell by cell, showing each when it is done."""
    import nbformat  # as below

    with importing:
        from jupyter_client.manager import AsyncKernelManager
        from nbclient import NotebookClient

    notebook: Any = nbformat.read(project / NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    manager = AsyncKernelManager()
    # this very interpreter: the kernelspec named python3 may be another environment's
    command = [
        sys.executable,
        "-m",
        "ipykernel_launcher",
        "-f",
        "{connection_file}",
        "--ext=cellwright",
        "--log-level=ERROR",
    ]
    assert manager.kernel_spec is not None, "ipykernel brings the kernelspec python3"
    manager.kernel_spec.argv[:] = command
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=300,
        resources={"metadata": {"path": str(project)}},
        on_cell_execute=lambda cell, cell_index: _show_source(console, cell, theme),
        on_cell_executed=lambda cell, cell_index, execute_reply: _show_outputs(console, cell, theme),
    )
    client.execute(env=dict(environ))
    nbformat.write(notebook, project / NOTEBOOK)  # type: ignore[no-untyped-call]


def _show_source(console: Any, cell: Any, theme: Theme) -> None:
    from rich.panel import Panel
    from rich.syntax import Syntax

    if cell.cell_type == "code":
        console.print(
            Panel(
                Syntax(cell.source, "python", theme=theme.code, word_wrap=True, background_color="default"), title="In"
            )
        )
    else:
        _print_markdown(console, cell.source, theme)


def _show_outputs(console: Any, cell: Any, theme: Theme) -> None:
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if "text/markdown" in data:
            _print_markdown(console, data["text/markdown"], theme)
        elif output.output_type == "stream":
            console.print(output.text, markup=False, highlight=False)
        elif output.output_type == "error":
            console.print("\n".join(output.traceback), markup=False, highlight=False)
        elif "text/plain" in data:
            console.print(data["text/plain"], markup=False, highlight=False)


def _print_markdown(console: Any, text: str, theme: Theme) -> None:
    from cellwright.terminal.views.markdown_view import drawn_markdown

    console.print(drawn_markdown(text, theme))


def _open_lab(project: Path, environ: Mapping[str, str]) -> int:
    trust_notebook(project / NOTEBOOK)
    config = project.parent / "config"
    (config / "labconfig").mkdir(parents=True)
    # defaults only: what the user has chosen in their own JupyterLab counts here, too
    (config / "labconfig" / "default_setting_overrides.json").write_text(json.dumps(NO_NEWS), "utf-8")
    search = [str(config), *filter(None, [environ.get("JUPYTER_CONFIG_PATH")])]
    # the address of the notebook, as a file to open is not in the address that is printed
    command = [sys.executable, "-m", "jupyterlab", f"--LabApp.default_url=/lab/tree/{NOTEBOOK}"]
    if not environ.get("DISPLAY") and not environ.get("BROWSER") and sys.platform.startswith("linux"):
        command.append("--no-browser")
    if getattr(os, "geteuid", lambda: 1)() == 0:
        command.append("--allow-root")
    lab = subprocess.Popen(command, cwd=project, env={**environ, "JUPYTER_CONFIG_PATH": os.pathsep.join(search)})
    try:
        with stop_requests_raise():
            return lab.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        # it ends its kernels when it is asked to; Ctrl-C has reached it as well
        lab.terminate()
        lab.wait()


def notebook_path() -> Path:
    """The demo's notebook: in `notebooks/` of a source checkout, in the environment's shared data when installed."""
    folders = [HERE.parents[3] / "notebooks"]
    folders += [Path(base) / "share" / "cellwright" for base in (sysconfig.get_path("data"), site.getuserbase())]
    return next(path for folder in folders if (path := folder / NOTEBOOK).exists())


def is_demo(folder: Path) -> bool:
    """Return whether `folder` is a copy of the demo's."""
    return all((folder / name).is_file() for name in (NOTEBOOK, "tides.py", "tests/test_tides.py"))


def make_project(project: Path) -> None:
    """Copy the sample project to `project`, where nothing is yet. Raises OSError."""
    shutil.copytree(HERE / "sample_project", project, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(notebook_path(), project / NOTEBOOK)
    # what "always allow" leaves behind
    save_allow_rules(project, list(RULES))


def project_in(folder: Path) -> Path:
    """The demo's project in `folder`: the one that is there, else a new copy. Raises OSError."""
    project = folder / FOLDER
    if not is_demo(project):
        if project.exists():
            number = next(n for n in range(2, 1_000) if not (folder / f"{FOLDER}-{n}").exists())
            project = folder / f"{FOLDER}-{number}"
        make_project(project)
    trust_notebook(project / NOTEBOOK)
    return project


def trust_notebook(notebook: Path) -> None:
    """Sign the notebook as `jupyter trust` does it: who opens the demo wants its prompts to run."""
    import nbformat.sign  # takes its time, and few open the demo

    Path(jupyter_data_dir()).mkdir(parents=True, exist_ok=True)
    nbformat.sign.NotebookNotary().sign(nbformat.read(notebook, as_version=4))  # type: ignore[no-untyped-call]
