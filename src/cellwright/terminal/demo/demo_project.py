"""The demo's folder: a copy of the sample project, with the notebook in it and the rules that its user would save."""

from __future__ import annotations

import shutil
import site
import sysconfig
from pathlib import Path

from cellwright.config.settings.settings import save_allow_rules
from cellwright.terminal.demo.script import TEST_RULE

HERE = Path(__file__).parent
NOTEBOOK = "01-first-cell.ipynb"
FOLDER = "cellwright-demo"
RULES = (TEST_RULE, "Python")


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
    import nbformat  # takes its time, and few open the demo
    from jupyter_core.paths import jupyter_data_dir
    from nbformat.sign import NotebookNotary

    Path(jupyter_data_dir()).mkdir(parents=True, exist_ok=True)
    NotebookNotary().sign(nbformat.read(notebook, as_version=4))  # type: ignore[no-untyped-call]
