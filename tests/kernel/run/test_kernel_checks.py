"""`/doctor` in a kernel: it knows which front ends have come, and whether the kernel answers while a cell runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from notebook_kernel import NotebookKernel
from notebook_page import NotebookPage

pytestmark = pytest.mark.kernel


def told(kernel: NotebookKernel) -> str:
    return str(kernel.run("%claude /doctor --offline").outputs[0]["text/plain"])


def test_the_front_end_is_the_one_that_has_connected(kernel: NotebookKernel, project: Path) -> None:
    before, _, _ = told(kernel).partition("Well")
    assert "! front end" in before
    page = NotebookPage(kernel, project / "notebook.ipynb", ("a1", "code", "x = 1"))
    page.open()
    _, _, well = told(kernel).partition("Well")
    page.close()
    assert "JupyterLab 4.6.6" in well
    assert "notebook.ipynb" in well
    assert ("a cell runs" in well) is kernel.has_subshells
