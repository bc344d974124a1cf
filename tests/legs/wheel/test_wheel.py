"""What users install: a wheel with the browser's part in it, that needs no Node."""

import subprocess
import zipfile

import pytest
from fresh_environment import without_this_checkout

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(3600)]


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
