"""One kernel for the tests of a module, and its branches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from notebook_kernel import SOURCES, NotebookKernel, running_kernel

from cellwright.kernel.branches.kernel_branches import unsupported

SUPPORT = Path(__file__).parents[1] / "support"


def branching_kernel(folder: Path, home: Path, way: str = "fork") -> Iterator[NotebookKernel]:
    """A kernel that began as users' kernels do, with its branches imported. `way`: fork or template."""
    if reason := unsupported():
        pytest.skip(reason)
    places = {"HOME": str(home), "CELLWRIGHT_HOME": str(home / "cellwright"), "IPYTHONDIR": str(home / "ipython")}
    places["BRANCH_TEST_TOKEN"] = "tok-0123456789abcdef"
    places["BRANCH_TEST_WAY"] = way
    with running_kernel(folder, places, sources=(SOURCES, SUPPORT), as_for_users=True) as kernel:
        assert kernel.run("from branches_cell import *").status == "ok"
        yield kernel


@pytest.fixture(scope="module")
def branching_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def branching(project: Path, branching_home: Path, request: pytest.FixtureRequest) -> Iterator[NotebookKernel]:
    """Its branches are forks of the kernel; tests that hold for the template, too, name both ways."""
    yield from branching_kernel(project, branching_home, getattr(request, "param", "fork"))
