"""What an installation brings: packages and room, alone and beside JupyterLab. `docs/faq.md` shows it.

`make sizes` measures it anew into `docs/installation.json`, from which `make written` writes the page.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from fresh_environment import Installation, install, installed_mib, packages
from written_sizes import SHARE, WRITTEN, write_sizes

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(3600)]

MOST_MIB = 190
"""What it may take beyond JupyterLab; docs/decisions/libraries.md says what it takes, and for what."""


@pytest.fixture(scope="module")
def measured(wheel: Path, installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("sizes") / "venv"
    subprocess.run([os.path.realpath(sys.executable), "-m", "venv", str(folder)], check=True)
    empty = installed_mib(folder)
    beside = folder / "bin" / "python"
    install(beside, "jupyterlab")
    before, known = installed_mib(folder), packages(beside)
    install(beside, str(wheel))
    beyond = installed_mib(folder) - before
    assert 20 < beyond <= MOST_MIB, by_package(folder)
    with zipfile.ZipFile(wheel) as packed:
        files = {each.filename: each.file_size for each in packed.infolist()}
    return {
        "packages": installation.packages,
        "packages_beyond_jupyterlab": sorted(set(packages(beside)) - set(known)),
        "mib": round(installation.mib - empty),
        "mib_beyond_jupyterlab": round(beyond),
        "wheel_bytes": wheel.stat().st_size,
        "labextension_bytes": sum(size for name, size in files.items() if "/labextensions/cellwright/static/" in name),
        "widget_bytes": files["cellwright/kernel/widgets/static/transcript.js"],
    }


def test_an_installation_brings_what_is_written(measured: dict[str, Any]) -> None:
    write_sizes(measured)
    written = json.loads(WRITTEN.read_text("utf-8"))
    far = {
        name: (value, written[name])
        for name, value in measured.items()
        if isinstance(value, int) and abs(value - written[name]) > SHARE * written[name]
    }
    assert far == {}, "run `make sizes`, then `make written`"
    lists = ("packages", "packages_beyond_jupyterlab")
    assert {name: measured[name] for name in lists} == {name: written[name] for name in lists}


def by_package(folder: Path) -> str:
    """The largest folders, for who has to find what grew."""
    (site,) = folder.glob("lib/python*/site-packages")
    sizes = sorted(((installed_mib(each), each.name) for each in site.iterdir() if each.is_dir()), reverse=True)
    return ", ".join(f"{name} {mib:.1f}" for mib, name in sizes[:15])
