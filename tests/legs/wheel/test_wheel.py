"""What users install: a wheel with the browser's part in it, that needs no Node."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from fresh_environment import install, without_this_checkout

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(600)]


def test_it_holds_what_the_browser_needs(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    data = "cellwright-0.1.0.data/data/share"
    assert "cellwright/kernel/widgets/static/transcript.js" in names
    assert "cellwright/kernel/widgets/static/loader.js" in names
    assert f"{data}/jupyter/labextensions/cellwright/package.json" in names
    assert f"{data}/jupyter/labextensions/cellwright/install.json" in names
    assert f"{data}/cellwright/01-first-cell.ipynb" in names
    assert "cellwright/terminal/demo/sample_project/tides.py" in names
    assert "cellwright/py.typed" in names
    assert {"cellwright/pages/index.md", "cellwright/pages/faq.md", "cellwright/pages/guides/teach-with-it.md"} <= {
        *names
    }
    assert not [name for name in names if "node_modules" in name or name.startswith("tests/")]


def test_its_page_on_a_package_index_leads_nowhere_that_is_not_there(wheel):
    metadata = zipfile.ZipFile(wheel).read("cellwright-0.1.0.dist-info/METADATA").decode()
    assert "# Cellwright" in metadata
    assert "%%claude" in metadata
    assert "](" not in metadata.replace("](http", "")
    assert "make demo" not in metadata, "commands of a clone"


def test_the_demo_runs_from_it(python, tmp_path):
    """In an environment that has the wheel and not the checkout."""
    environ = without_this_checkout()
    code = "import cellwright; print(cellwright.__file__)"
    where = subprocess.run([python, "-c", code], capture_output=True, text=True, env=environ, cwd=tmp_path, check=False)
    assert str(python.parents[1]) in where.stdout, where.stderr
    command = [python, "-m", "cellwright.terminal.main", "demo"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environ, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "From red to green" in run.stdout


MOST_MIB = 190
"""What it may take beyond JupyterLab; docs/decisions/libraries.md says what it takes, and for what."""


def test_it_takes_no_more_room_beyond_jupyterlab_than_was_decided(wheel, tmp_path):
    base = os.path.realpath(sys.executable)
    folder = tmp_path / "venv"
    subprocess.run([base, "-m", "venv", str(folder)], check=True)
    install(folder / "bin" / "python", "jupyterlab")
    before = installed_mib(folder)
    install(folder / "bin" / "python", str(wheel))
    beyond = installed_mib(folder) - before
    print(f"{beyond:.1f} MiB beyond JupyterLab")
    assert 20 < beyond <= MOST_MIB, by_package(folder)


def installed_mib(folder: Path) -> float:
    """The room on the disk, as `du` counts it."""
    done = subprocess.run(["du", "-sk", str(folder)], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0]) / 1024


def by_package(folder: Path) -> str:
    """The largest folders, for who has to find what grew."""
    (site,) = folder.glob("lib/python*/site-packages")
    sizes = sorted(((installed_mib(each), each.name) for each in site.iterdir() if each.is_dir()), reverse=True)
    return ", ".join(f"{name} {mib:.1f}" for mib, name in sizes[:15])
