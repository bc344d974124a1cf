"""What users install: a wheel with the browser's part in it, that needs no Node."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    (path,) = folder.glob("*.whl")
    return path


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
    assert not [name for name in names if "node_modules" in name or name.startswith("tests/")]


def test_the_demo_runs_from_it(wheel, tmp_path):
    """In an environment that has the wheel and not the checkout; what it depends on is this environment's."""
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    here = subprocess.run(
        [sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    purelib = next((tmp_path / "venv" / "lib").glob("python3*/site-packages"))
    (purelib / "parent.pth").write_text(here + "\n")
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", str(wheel)], check=True)
    where = subprocess.run(
        [python, "-c", "import cellwright; print(cellwright.__file__)"], capture_output=True, text=True
    )
    assert str(tmp_path) in where.stdout, where.stderr
    run = subprocess.run(
        [python, "-m", "cellwright.terminal.main", "demo"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "From red to green" in run.stdout
