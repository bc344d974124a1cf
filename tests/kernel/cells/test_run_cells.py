"""NotebookRun and NotebookVerify from a `%%claude` cell that no front end shows: nbclient's, a console's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import ipykernel
import nbformat
import pytest
from nbformat import v4
from notebook_kernel import Cell, Message, NotebookKernel, Page, model_of, running_kernel

from cellwright.testing import MessagesServer, say, turn, use
from eventual import eventually

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
    assert "not known here" in told(model)
    assert path.read_bytes() == before


def test_a_notebook_that_is_named_is_run_and_written(kernel: NotebookKernel, model: MessagesServer, path: Path) -> None:
    model.add(turn(use("NotebookRun", cell_ids=["one", "two"])), turn(say("42.")))
    ask = f"%%claude --new --mode bypassPermissions --notebook {path.name}\nRun both"
    cell = kernel.run(ask, cell_id=None)
    assert cell.status == "ok", cell.error
    assert "40\n42\n</cell>" in told(model)
    assert "written to the" in told(model)
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
    assert "was not allowed:" in told(model)
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
    assert told(model).startswith("Reproduces from clean: yes (")
    assert "Not compared" in told(model)
    assert "two (number 2)." in told(model)


def finish_in_background(kernel: NotebookKernel, cell: Cell) -> None:
    """Wait until the cell's output is what the notebook keeps."""

    def replaced(message: Message) -> bool:
        return message["msg_type"] == "update_display_data" and message["parent_header"]["msg_id"] == cell.id

    if not any(map(replaced, kernel.published)):
        kernel.wait_for(replaced)


BACKGROUND = "%%claude --background --new --mode bypassPermissions --notebook notebook.ipynb\n"


background = pytest.mark.skipif(
    (7, 0) <= ipykernel.version_info[:2] < (7, 4), reason="the cell waits on this ipykernel"
)


@background
def test_in_the_background_cells_run_on_the_idle_kernel(
    kernel: NotebookKernel, page: Page, model: MessagesServer, path: Path
) -> None:
    model.add(turn(use("NotebookRun", cell_ids=["one", "two"])), turn(say("Done.")))
    cell = kernel.run(BACKGROUND + "Run both")
    finish_in_background(kernel, cell)
    assert "40\n42\n</cell>" in told(model)
    notebook = nbformat.read(path, 4)
    counts = [cell.execution_count for cell in notebook.cells]
    assert counts == [cell.reply["execution_count"] + 1, cell.reply["execution_count"] + 2]
    assert kernel.run("1").reply["execution_count"] == counts[1] + 1


@background
def test_an_interrupt_in_the_background_ends_the_cells_and_claude_is_told_which_ran(
    kernel: NotebookKernel, page: Page, model: MessagesServer, path: Path
) -> None:
    endless = "import pathlib\npathlib.Path('begun').touch()\nwhile True: pass"
    cells = [v4.new_code_cell("print('first')", id="one"), v4.new_code_cell(endless, id="two")]
    nbformat.write(v4.new_notebook(cells=[*cells, v4.new_code_cell("3", id="three")]), path)
    model.add(turn(use("NotebookRun", which="all")), turn(say("Then not.")))
    cell = kernel.run(BACKGROUND + "Run it all")
    eventually((path.parent / "begun").exists)
    kernel.interrupt()
    finish_in_background(kernel, cell)
    text = told(model)
    assert "first\n</cell>" in text
    assert "KeyboardInterrupt" in text
    assert "not run: three]" in text
    assert "user interrupted" in text
    assert kernel.run("1").status == "ok"
    outputs = nbformat.read(path, 4).cells[1].outputs
    assert [output.ename for output in outputs] == ["KeyboardInterrupt"]
