"""A kernel whose cell runs loads the extension by a completion, which runs no hook of the user on the subshell's thread."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import ipykernel
import pytest
from notebook_kernel import NotebookKernel, model_of, running_kernel

from cellwright.kernel.pages import load_on_completion
from cellwright.server.kernel_connection import LOAD_WHILE_BUSY
from cellwright.testing import MessagesServer

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.kernel_version,
    pytest.mark.skipif(ipykernel.version_info[0] < 7, reason="without subshells the page waits for the cell"),
]

PAGE = Path(__file__).parents[3] / "labextension/src/transport/load_extension.ts"

RECORD = """
    import threading, time
    threads = set()
    for event in ('pre_execute', 'post_execute', 'pre_run_cell', 'post_run_cell'):
        get_ipython().events.register(event, lambda *_: threads.add(threading.current_thread().name))
"""
LOADED = "'cellwright' in get_ipython().extension_manager.loaded"


@pytest.fixture
def kernel(model: MessagesServer, project: Path, tmp_path: Path) -> Iterator[NotebookKernel]:
    places = {"HOME": str(tmp_path), "CELLWRIGHT_HOME": str(tmp_path / "cellwright")}
    with running_kernel(project, {**model_of(model), **places}) as kernel:
        yield kernel


def test_it_loads_while_a_cell_runs_and_enters_no_hook(kernel: NotebookKernel):
    assert kernel.run(textwrap.dedent(RECORD)).status == "ok"
    assert kernel.value(LOADED) == "False"
    subshell = kernel.control("create_subshell_request")["subshell_id"]
    cell = kernel.begin(f"print('begun')\nwhile not ({LOADED}): time.sleep(0.01)")
    kernel.wait_for(lambda message: "begun" in str(message["content"]), cell)
    assert kernel.completions(LOAD_WHILE_BUSY, subshell) == ["LOADED"]
    assert kernel.finish(cell).status == "ok"
    assert kernel.value("sorted(threads)") == "['MainThread']"


def test_what_unloads_it_can_be_followed_by_a_load(kernel: NotebookKernel):
    subshell = kernel.control("create_subshell_request")["subshell_id"]
    for _ in range(2):
        assert kernel.completions(LOAD_WHILE_BUSY, subshell) == ["LOADED"]
        assert kernel.value(LOADED) == "True"
        kernel.run("%unload_ext cellwright")


def test_an_extension_that_does_not_load_is_not_said_to_be_loaded(kernel: NotebookKernel):
    subshell = kernel.control("create_subshell_request")["subshell_id"]
    kernel.run("import cellwright.kernel.pages.load_on_completion as module\nmodule.EXTENSION = 'no_such_extension'")
    assert "LOADED" not in kernel.completions(LOAD_WHILE_BUSY, subshell)


def test_the_page_and_the_server_complete_the_name_of_that_module():
    assert f'"{LOAD_WHILE_BUSY}"' in PAGE.read_text(encoding="utf-8")
    assert load_on_completion.__name__ in LOAD_WHILE_BUSY
