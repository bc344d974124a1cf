"""One kernel with Cellwright loaded for all tests of a module, and the scripted model behind it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))  # importlib mode leaves it out

from chat_panel import ChatPanel
from IPython.core.interactiveshell import InteractiveShell
from notebook_kernel import NotebookKernel, Page, model_of, running_kernel

from cellwright.kernel.namespace.cell_log import CellLog
from cellwright.testing import MessagesServer
from forked import forked_python


@pytest.fixture(scope="session", autouse=True)
def jupyter_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What Jupyter keeps for its user; kernels of whole modules start before a test has its own home."""
    place = tmp_path_factory.mktemp("jupyter")
    with pytest.MonkeyPatch.context() as environ:
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            environ.setenv(name, str(place / name.lower()))
        yield


@pytest.fixture
def forked_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that Jupyter's libraries start are forked, too."""
    for name, value in forked_python.jupyter_place(os.environ).items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def model() -> Iterator[MessagesServer]:
    """What the module's kernel talks to; a test adds the turns that it needs."""
    with MessagesServer() as server:
        yield server


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the module's kernel works in."""
    return tmp_path_factory.mktemp("project")


@pytest.fixture(scope="module")
def loaded(model: MessagesServer, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookKernel]:
    home = tmp_path_factory.mktemp("home")
    places = {"HOME": str(home), "CELLWRIGHT_HOME": str(home / "cellwright"), "IPYTHONDIR": str(home / "ipython")}
    with running_kernel(project, {**model_of(model), **places}) as kernel:
        assert kernel.run("%load_ext cellwright").status == "ok"
        yield kernel


@pytest.fixture
def kernel(loaded: NotebookKernel, model: MessagesServer) -> Iterator[NotebookKernel]:
    """The module's kernel. Afterwards the model was asked exactly what its script has, and nothing that the API refuses."""
    yield loaded
    assert [request.error for request in model.rejected] == []
    assert not model.exhausted
    assert model.remaining_turns == 0


@pytest.fixture
def page(kernel: NotebookKernel) -> Iterator[Page]:
    """JupyterLab's page with the notebook open."""
    page = Page(kernel)
    yield page
    page.close()


@pytest.fixture
def panel(kernel: NotebookKernel) -> Iterator[ChatPanel]:
    """A panel that takes part in the conversation of the module's kernel."""
    panel = ChatPanel(kernel).connect()
    yield panel
    panel.close()
    kernel.run("")  # the goodbye has arrived before the next test


@pytest.fixture
def log(shell: InteractiveShell) -> Iterator[CellLog]:
    """What is run in the module's shell, written down."""
    log = CellLog(shell)
    log.start()
    yield log
    log.stop()
