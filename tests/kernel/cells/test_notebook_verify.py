"""NotebookVerify on small notebooks, in fresh kernels: what reproduces, what does not, and nothing is left running."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbformat import v4
from plain_shell import plain_shell, run

from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.thread import AgentTask, AgentThread, CallerJobs
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolResult
from cellwright.errors import ToolError
from cellwright.kernel.cells.notebook_run import Runner, notebook_run_tool
from cellwright.kernel.cells.notebook_verify import Verifier, notebook_verify_tool
from cellwright.kernel.namespace.cell_log import CellLog
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import NothingOpen, OpenNotebook
from eventual import eventually

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("forked_kernels")]


class Named(NothingOpen):
    """The kernel's notebook is the one whose file is named."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def own(self) -> OpenNotebook | None:
        return FileNotebook(self.path) if self.path.is_file() else None


class Place:
    """A kernel's tool and its notebook."""

    def __init__(self, shell: InteractiveShell, folder: Path) -> None:
        self.shell = shell
        self.path = folder / "notebook.ipynb"
        self.jobs = CallerJobs()
        self.thread = AgentThread()
        self.log = CellLog(shell)
        self.log.start()
        self.environ = dict(os.environ)
        self.news: list[dict[str, Any]] = []
        self.begun = False
        self.on_progress = lambda: None

    @property
    def tool(self) -> Tool:
        folder = self.path.parent
        return notebook_verify_tool(Verifier(self.shell, self.jobs, Named(self.path), self.log, folder, self.environ))

    def write(self, *cells: tuple[str, list[Any]], kernel: str = "python3", **more: Any) -> None:
        """Code cells `c0`, `c1`, … of these sources and outputs, as if they had been run."""
        made = [
            v4.new_code_cell(source, id=f"c{number}", outputs=outputs, execution_count=number + 1, **more)
            for number, (source, outputs) in enumerate(cells)
        ]
        notebook = v4.new_notebook(cells=made, metadata={"kernelspec": {"name": kernel, "display_name": kernel}})
        nbformat.write(notebook, self.path)

    def start(self, **tool_input: Any) -> AgentTask[ToolResult]:
        tool = self.tool

        def progress(**more: Any) -> None:
            self.news.append(more)
            self.on_progress()

        async def call() -> ToolResult:
            assert tool.prepare is not None
            await tool.prepare(tool_input)
            found = await tool.call(tool_input, ToolContext("toolu_1", progress))
            assert isinstance(found, ToolResult)
            return found

        return self.thread.submit(call())

    def verify(self, **tool_input: Any) -> str:
        task = self.start(**tool_input)
        self.jobs.work_until_done(task)
        result = task.result()
        self.output = result.structured
        return str(result.content)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with plain_shell() as shell:
        place = Place(shell, tmp_path)
        yield place
        place.log.stop()
        place.thread.stop()


def printed(text: str) -> Any:
    return v4.new_output("stream", text=text)


def result(text: str, count: int = 1) -> Any:
    return v4.new_output("execute_result", data={"text/plain": text}, execution_count=count)


def test_a_notebook_that_reproduces(place: Place) -> None:
    place.write(
        ("import os\nx = 2", []),
        ("print(x)\nx + 1", [printed("2\n"), result("3")]),
        ("object()", [result("<object at 0x7f0123456789>")]),
        ("sorted(os.listdir())", [result("['notebook.ipynb']")]),
    )
    before = place.path.read_bytes()
    text = place.verify()
    assert "(python3)" in text
    output = place.output
    assert (output.notebook, output.reproduces, output.ran) == ("notebook.ipynb", True, 4)
    assert output.first_difference is None
    assert [news["message"] for news in place.news] == [f"Cell {n} ({n} of 4)" for n in (1, 2, 3, 4)]
    assert place.path.read_bytes() == before
    assert os.listdir(place.path.parent) == ["notebook.ipynb"]  # noqa: PTH208


def test_state_that_no_cell_gives(place: Place) -> None:
    run(place.shell, "factor = 3", "gone")
    run(place.shell, "factor * 2", "c0")
    place.write(("factor * 2", [result("6")]), ("'below'", [result("'below'")]))
    text = place.verify()
    assert not place.output.reproduces
    assert "First difference: cell c0 (" in text
    assert "\n6\n--- from clean\nNameError:" in text
    assert "Not run: c1 (number 2)." in text
    assert "notebook hides:" in text
    assert "factor (" in text
    assert place.output.first_difference["id"] == "c0"


def test_outputs_of_another_order(place: Place) -> None:
    place.write(("x = 1", []), ("x", [result("2")]), ("x = 2", []), ("x", [result("5")]))
    text = place.verify()
    assert "First difference: cell c1 (" in text
    assert "\n2\n--- from clean\n1\n---" in text
    assert "Further differences: c3 (" in text


def test_an_error_that_the_notebook_shows(place: Place) -> None:
    failed = v4.new_output("error", ename="ZeroDivisionError", evalue="division by zero", traceback=["…"])
    place.write(("1 / 0", [failed]), ("2", [result("2")]))
    text = place.verify()
    assert not place.output.reproduces
    assert "ended in cell c0 (" in text
    place.write(("1 / 0", [failed]), ("2", [result("2")]), metadata={"tags": ["raises-exception"]})
    place.verify()
    assert place.output.reproduces


def test_cells_that_never_ran_are_not_compared(place: Place) -> None:
    cells = [v4.new_code_cell("print('hi')", id="c0"), v4.new_markdown_cell("# x"), v4.new_code_cell("1 / 0", id="c2")]
    nbformat.write(v4.new_notebook(cells=cells), place.path)
    text = place.verify()
    assert "First difference: cell c2 (" in text
    assert "Not compared" in text
    assert ": c0 (number 1), c2 (number 3)." in text


def test_cells_that_ask_claude_are_left_out(place: Place) -> None:
    place.write(("%%claude\nSay hi", [printed("hi\n")]), ("'after'", [result("'after'")]))
    text = place.verify()
    assert (place.output.reproduces, place.output.ran) == (True, 1)
    assert "Left out" in text
    assert ": c0 (number 1)." in text


def test_a_display_updated_from_a_later_cell(place: Place) -> None:
    place.write(
        ("handle = display(1, display_id=True)", [v4.new_output("display_data", data={"text/plain": "2"})]),
        ("handle.update(2)", []),
    )
    place.verify()
    assert place.output.reproduces


def test_what_is_written_to_the_descriptors_stays_out_of_the_way(place: Place) -> None:
    place.write(("import os\nos.write(1, b'{\"problem\": \"none\"}\\n');\n'fine'", [result("'fine'")]))
    text = place.verify()
    assert "a fresh kernel" in text
    assert "not run anything" not in text


def test_secrets_stay_here(place: Place) -> None:
    place.environ |= {"ANTHROPIC_API_KEY": "sk-ant-secret", "HARMLESS": "yes"}
    place.write(
        ("import os\n(os.environ.get('ANTHROPIC_API_KEY'), os.environ.get('HARMLESS'))", [result("(None, 'yes')")])
    )
    place.verify()
    assert place.output.reproduces


def test_a_variable_that_was_withheld_is_named_when_the_notebook_fails_for_want_of_it(place: Place) -> None:
    place.environ |= {"SALES_API_TOKEN": "not-for-anybody", "OTHER_API_TOKEN": "neither"}
    place.write(("import os\nos.environ['SALES_API_TOKEN'][:0]", [result("''")]))
    text = place.verify()
    assert ": SALES_API_TOKEN." in text
    assert "OTHER_API_TOKEN" not in text
    assert "not-for-anybody" not in text


def test_a_kernel_that_is_not_there(place: Place) -> None:
    place.write(("1", []), kernel="no-such-kernel")
    with pytest.raises(ToolError, match=r"The fresh kernel no-such-kernel could not run anything: NoSuchKernel"):
        place.verify()


def test_a_kernel_that_dies(place: Place) -> None:
    place.write(("1", [result("1")]), ("import os\nos._exit(1)", []), ("3", []))
    text = place.verify()
    assert not place.output.reproduces
    assert "ended in cell c1 (" in text
    assert "kernel died" in text
    assert "Not run: c2 (number 3)." in text


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"cell_timeout_seconds": 5}, r"ended in cell c0 \(number 1\): the cell took longer than 5 s\."),
        # on a busy machine that is not even enough to start
        (
            {"timeout_seconds": 5},
            r"ended in cell c0 \(number 1\): the whole took longer than 5 s\.|did not start in \d+ s",
        ),
    ],
)
def test_time_is_bounded_and_nothing_is_left_running(place: Place, limits: dict[str, int], why: str) -> None:
    place.write(("import time, os, pathlib\n" + STARTS_SOMETHING + "time.sleep(1000)", []), ("'never'", []))
    text = place.verify(**limits)
    assert not place.output.reproduces
    assert re.search(why, text)
    assert_gone(place)


def test_stopped_it_leaves_nothing_running(place: Place) -> None:
    place.write(("import time, os, pathlib\n" + STARTS_SOMETHING + "time.sleep(1000)", []))
    task = place.start()

    async def stop_when_it_runs() -> None:
        while not (place.path.parent / "begun").is_file():
            await asyncio.sleep(0.02)
        task.cancel()

    stopping = place.thread.submit(stop_when_it_runs())
    place.jobs.work_until_done(task)
    assert stopping.done
    assert task.future.cancelled()
    assert_gone(place)


STARTS_SOMETHING = "import subprocess\nchild = subprocess.Popen(['sleep', '1000'])\npathlib.Path('begun').touch()\n"


def assert_gone(place: Place) -> None:
    """The fresh kernel and what it had started have ended: all of them have the notebook's folder as theirs."""
    eventually(lambda: not any(folder_of(process) == place.path.parent for process in Path("/proc").glob("[0-9]*")))


def folder_of(process: Path) -> Path | None:
    try:
        return (process / "cwd").readlink()
    except OSError:
        return None


def test_what_cannot_be_verified_is_said(place: Place) -> None:
    with pytest.raises(ToolError, match="Which notebook this kernel runs is not known here"):
        place.verify()
    with pytest.raises(ToolError, match=r"nowhere\.ipynb"):
        place.verify(notebook_path="nowhere.ipynb")
    (place.path.parent / "text.txt").write_text("x")
    with pytest.raises(ToolError, match=r"text\.txt is not a notebook"):
        place.verify(notebook_path="text.txt")
    nbformat.write(v4.new_notebook(cells=[v4.new_markdown_cell("x")]), place.path)
    with pytest.raises(ToolError, match=r"notebook\.ipynb has no code to run"):
        place.verify()


def test_the_examples_of_the_notebooks_tools_fit(place: Place) -> None:
    run_tool = notebook_run_tool(
        Runner(place.shell, place.jobs, NothingOpen(), place.log, Path.cwd(), in_kernel=True, own_cell=lambda: None)
    )
    for tool, kind in ((place.tool, "fresh_kernel"), (run_tool, "cells")):
        for example in tool.input_examples:
            check_input(tool, example)
        assert tool.category == "notebooks"
        assert tool.access == ToolAccess(kind, "notebook_path")
        assert not tool.read_only
        assert len(tool.description) < 1_500
        assert tool.limits.result_chars <= 200_000


def test_stale_numbers_of_the_text_are_listed(place: Place) -> None:
    place.write(("print('mean', 2.6312)", [printed("mean 2.4123\n")]))
    notebook = nbformat.read(place.path, 4)
    notebook.cells.append(v4.new_markdown_cell("The mean is 2.412, the maximum 97.25, of 2.4123.", id="text"))
    nbformat.write(notebook, place.path)
    text = place.verify()
    assert "Numbers in Markdown" in text
    assert " of 3 numbers traced · " in text
    assert "): 2.412: cell [1]" in text.replace(", line 1: ", "): ")
    assert "2.6312" in text.replace(", line 1: ", "): ")
    assert [(each["kind"], each["text"]) for each in place.output.numbers] == [
        ("stale", "2.412"),
        ("not_found", "97.25"),
        ("stale", "2.4123"),
    ]


def test_a_text_that_the_run_bears_out_is_not_mentioned(place: Place) -> None:
    place.write(("print('mean', 2.6312)", [printed("mean 2.6312\n")]))
    notebook = nbformat.read(place.path, 4)
    notebook.cells.append(v4.new_markdown_cell("The mean is 2.63.", id="text"))
    nbformat.write(notebook, place.path)
    assert "Numbers in" not in place.verify()
    assert place.output.numbers == ()
