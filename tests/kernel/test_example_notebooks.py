"""The example notebooks, executed from their recordings by nbclient and papermill: no key, no request, always the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import papermill
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from cellwright.terminal.subcommands.settings import trust_recordings
from cellwright.testing import MessagesServer

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("forked_kernels")]

ROOT = Path(__file__).parents[2]
DOCUMENT = "application/vnd.cellwright.transcript+json"
EXAMPLES = ("02-data-analysis", "03-fix-and-refactor", "04-reproducible", "05-know-the-code")


@pytest.fixture
def server(messages_server: Callable[..., MessagesServer], monkeypatch: pytest.MonkeyPatch) -> MessagesServer:
    """Where requests would go, if there were any: there is no key, and replay is strict."""
    server = messages_server()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("CELLWRIGHT_REPLAY", "strict")
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)
    return server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The examples as they are shipped, in a folder of the user's."""
    return shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks", ignore=shutil.ignore_patterns("made"))


def execute(path: Path) -> Any:
    notebook: Any = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(path.parent)}})
    client.execute(env={**os.environ})
    return notebook


def shown(notebook: Any) -> list[Any]:
    """What the cells show, and where their answers came from; of pictures, that they are there.

    So of the document that an answer is beside its text: it has times, and the folder that it was made in.
    """
    found: list[Any] = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = {
                kind: kind.startswith("image/") or kind == DOCUMENT or text
                for kind, text in output.get("data", {}).items()
            }
            text = output.get("text", "").replace("Overwriting", "Writing")
            if text and found and found[-1][0] == cell.id and found[-1][2]:
                text = found.pop()[2] + text  # what is printed comes in as many pieces as the kernel is slow
            found.append((cell.id, data, text, dict(output.get("metadata", {}))))
    return found


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_on_its_recording(name: str, folder: Path, server: MessagesServer, tmp_path: Path) -> None:
    path = folder / f"{name}.ipynb"
    trust_recordings([str(folder / f"{name}.cellwright.jsonl")])
    first = execute(path)
    assert shown(first) == shown(nbformat.read(path, as_version=4))
    answers = [output for output in shown(first) if "cellwright" in output[3]]
    assert len(answers) == sum(cell.source.startswith("%%claude") for cell in first.cells)
    before = files(folder)

    papermill.execute_notebook(path, tmp_path / "out.ipynb", cwd=folder, progress_bar=False, kernel_name="python3")

    assert shown(nbformat.read(tmp_path / "out.ipynb", as_version=4)) == shown(first)
    assert files(folder) == before
    assert server.all_requests == []


def test_a_shipped_recording_runs_nothing_unasked(folder: Path, server: MessagesServer) -> None:
    with pytest.raises(CellExecutionError, match="cellwright trust-recording"):
        execute(folder / "04-reproducible.ipynb")
    assert not (folder / "made").exists()
    assert server.all_requests == []


def test_a_changed_input_fails_where_replay_is_strict(folder: Path, server: MessagesServer) -> None:
    trust_recordings([str(folder / "04-reproducible.cellwright.jsonl")])
    path = folder / "04-reproducible.ipynb"
    path.write_text(path.read_text("utf-8").replace("random.seed(4)", "random.seed(5)"), "utf-8")
    with pytest.raises(CellExecutionError, match="Python gave other results than when this was recorded"):
        execute(path)


@pytest.mark.thorough
def test_the_recordings_are_made_by_a_script(folder: Path, tmp_path: Path) -> None:
    """What is shipped is what the script makes, but for the ids and times of its sessions."""
    done = subprocess.run(
        [sys.executable, str(folder / "record_examples.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for name in EXAMPLES:
        made, shipped = (nbformat.read(place / f"{name}.ipynb", as_version=4) for place in (folder, ROOT / "notebooks"))
        assert [output[:3] for output in shown(made)] == [output[:3] for output in shown(shipped)]
