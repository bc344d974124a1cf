"""NotebookRun and NotebookVerify from a `%%claude` cell that no front end shows: nbclient's, a console's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat import v4
from notebook_kernel import NotebookKernel, model_of, running_kernel

from cellwright.testing import MessagesServer, say, turn, use

pytestmark = pytest.mark.kernel


@pytest.fixture(scope="module")
def loaded(model: MessagesServer, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookKernel]:
    home = tmp_path_factory.mktemp("home")
    places = {"HOME": str(home), "CELLWRIGHT_HOME": str(home / "cellwright"), "IPYTHONDIR": str(home / "ipython")}
    with running_kernel(project, {**model_of(model), **places, "IS_SANDBOX": "1"}) as kernel:
        assert kernel.run("%load_ext cellwright").status == "ok"
        yield kernel


@pytest.fixture
def path(project: Path) -> Path:
    path = project / "notebook.ipynb"
    cells = [v4.new_code_cell("x = 40", id="one"), v4.new_code_cell("print(x)\nx + 2", id="two")]
    nbformat.write(v4.new_notebook(cells=cells), path)
    return path


def told(model: MessagesServer) -> str:
    """What Claude was told by the last call."""
    [result] = [block for block in model.requests[-1].body["messages"][-1]["content"] if block["type"] == "tool_result"]
    return str(result["content"])


def test_without_a_front_end_claude_is_told_so(kernel: NotebookKernel, model: MessagesServer, path: Path) -> None:
    before = path.read_bytes()
    model.add(turn(use("NotebookRun", which="all")), turn(say("I cannot.")))
    cell = kernel.run("%%claude --new --mode bypassPermissions\nRun it all", cell_id=None)
    assert cell.status == "ok", cell.error
    assert "Which notebook this kernel runs is not known here" in told(model)
    assert path.read_bytes() == before


def test_a_notebook_that_is_named_is_run_and_written(kernel: NotebookKernel, model: MessagesServer, path: Path) -> None:
    model.add(turn(use("NotebookRun", cell_ids=["one", "two"])), turn(say("42.")))
    ask = f"%%claude --new --mode bypassPermissions --notebook {path.name}\nRun both"
    cell = kernel.run(ask, cell_id=None)
    assert cell.status == "ok", cell.error
    assert "40\n42\n</cell>" in told(model)
    assert "The outputs were written to the file: nobody has the notebook open here." in told(model)
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    assert notebook.cells[1].outputs[0].text == "40\n"
    assert notebook.cells[1].outputs[1].data["text/plain"] == "42"
    count = notebook.cells[0].execution_count
    assert notebook.cells[1].execution_count == count + 1
    assert cell.reply["execution_count"] == count - 1
    assert kernel.value("x") == "40"


def test_it_is_asked_for_and_nobody_is_there_to_be_asked(
    kernel: NotebookKernel, model: MessagesServer, path: Path
) -> None:
    kernel.run("del x")
    model.add(turn(use("NotebookRun", which="all")), turn(say("It was not allowed.")))
    kernel.run(f"%%claude --new --notebook {path.name}\nRun it all", cell_id=None)
    assert "NotebookRun was not allowed: The code in the cells can do anything you can." in told(model)
    assert kernel.value("'x' in globals()") == "False"


def test_a_rule_about_commands_binds_cells(kernel: NotebookKernel, model: MessagesServer, path: Path) -> None:
    settings = path.parent / ".claude" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('{"permissions": {"deny": ["Bash(touch *)"]}}')
    cells = [v4.new_code_cell("y = 1", id="one"), v4.new_code_cell("!touch made", id="two")]
    nbformat.write(v4.new_notebook(cells=cells), path)
    model.add(turn(use("NotebookRun", which="all")), turn(say("A rule is against it.")))
    kernel.run(f"%%claude --new --mode bypassPermissions --notebook {path.name}\nRun it all", cell_id=None)
    settings.unlink()
    assert "Bash(touch *)" in told(model)
    assert not (path.parent / "made").exists()
    assert kernel.value("'y' in globals()") == "False"


def test_claude_verifies_a_notebook(kernel: NotebookKernel, model: MessagesServer, path: Path) -> None:
    model.add(turn(use("NotebookVerify", notebook_path=path.name)), turn(say("It reproduces.")))
    kernel.run("%%claude --new --mode bypassPermissions\nDoes it reproduce?", cell_id=None)
    assert told(model).startswith(
        "Reproduces from clean: yes (it runs; the notebook has no outputs to compare with). "
        "2 code cells of notebook.ipynb ran in a fresh kernel (python3) in "
    )
    assert "Not compared, since the notebook has no run of them: one (number 1), two (number 2)." in told(model)
