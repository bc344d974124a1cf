"""NotebookRun in a real kernel, on a notebook file, called from a cell as Claude's loop calls it."""

from __future__ import annotations

import ast
import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from notebook_kernel import SOURCES, NotebookKernel, running_kernel

from cellwright.agent.tool import ToolContext
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.read import read_tool
from cellwright.tools.notebook.notebook_edit import notebook_edit_tool
from eventual import eventually

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]


class Notebook:
    """A notebook file, and the kernel that runs it."""

    def __init__(self, kernel: NotebookKernel, folder: Path) -> None:
        self.kernel = kernel
        self.path = folder / "notebook.ipynb"

    def write(self, *sources: str | tuple[str, dict[str, Any]]) -> Notebook:
        """Cells `c0`, `c1`, … of these sources, each with an output of old."""
        cells = []
        for number, given in enumerate(sources):
            source, more = given if isinstance(given, tuple) else (given, {})
            old = nbformat.v4.new_output("stream", text="old\n")
            cell = nbformat.v4.new_code_cell(source, id=f"c{number}", outputs=[old], execution_count=99)
            cell.metadata.update(more)
            cells.append(cell)
        nbformat.write(nbformat.v4.new_notebook(cells=cells), self.path)
        return self

    def ask(self, arguments: str, how: str = "await cell.awaited", cell_id: str | None = "c9") -> dict[str, Any]:
        """What the tool said to `arguments`, from a cell that is itself running."""
        told = self.kernel.run(f"told = {how}({arguments})", cell_id=cell_id, user_expressions={"it": "told"})
        assert told.status == "ok", told.error
        reply = json.loads(ast.literal_eval(told.reply["user_expressions"]["it"]["data"]["text/plain"]))
        reply["cell"] = told
        return dict(reply)

    @property
    def cells(self) -> dict[str, Any]:
        notebook = nbformat.read(self.path, 4)
        nbformat.validate(notebook)
        return {cell.id: cell for cell in notebook.cells}

    def texts(self, cell_id: str) -> list[str]:
        return [shown(output) for output in self.cells[cell_id].outputs]

    def value(self, expression: str) -> str:
        return self.kernel.value(expression)


def shown(output: Any) -> str:
    if output.output_type == "stream":
        return f"{output.name}: {output.text}"
    if output.output_type == "error":
        return f"{output.ename}: {output.evalue}"
    return f"{output.output_type}: {output.data['text/plain']}"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookKernel]:
    home = tmp_path_factory.mktemp("home")
    places = {"HOME": str(home), "IPYTHONDIR": str(home / "ipython")}
    with running_kernel(home, places, sources=[SOURCES, Path(__file__).parents[1] / "support"]) as started:
        started.folder = home  # type: ignore[attr-defined]
        started.run_ok("import notebook_run_cell as cell")
        yield started


@pytest.fixture
def notebook(kernel: NotebookKernel) -> Notebook:
    return Notebook(kernel, kernel.folder)  # type: ignore[attr-defined]


def test_outputs_appear_in_their_cells_in_order(notebook: Notebook) -> None:
    notebook.write(
        "import sys\n"
        "from IPython.display import display\n"
        "print('one')\n"
        "print('two', file=sys.stderr)\n"
        "display('three')\n"
        "x = 4\n"
        "x",
        "print('never asked for')",
        "x + 1",
    )
    told = notebook.ask("cell_ids=['c0', 'c2']")
    assert told["status"] == "ok"
    assert notebook.texts("c0") == [
        "stdout: one\n",
        "stderr: two\n",
        "display_data: 'three'",
        "execute_result: 4",
    ]
    assert notebook.texts("c1") == ["stdout: old\n"]
    assert notebook.texts("c2") == ["execute_result: 5"]
    assert told["cell"].outputs == []
    assert told["cell"].stdout == ""
    first, second = notebook.cells["c0"].execution_count, notebook.cells["c2"].execution_count
    assert notebook.cells["c2"].outputs[0].execution_count == second == first + 1
    assert '<cell id="c0" number="1"' in told["text"]
    assert f'execution_count="{first}" seconds="' in told["text"]
    assert "one\ntwo\n'three'\n4\n</cell>" in told["text"]
    assert "5\n</cell>" in told["text"]
    assert [(each["id"], each["status"]) for each in told["structured"]["cells"]] == [("c0", "ok"), ("c2", "ok")]


def test_an_edit_after_a_run_is_no_conflict(notebook: Notebook) -> None:
    notebook.write("x = 1\nx", "x + 1")
    state, folder = FileState(), notebook.path.parent
    context = ToolContext("toolu_test", lambda **_: None)
    asyncio.run(read_tool(state, folder).call({"file_path": "notebook.ipynb"}, context))
    for source in ("x = 2\nx", "x = 3\nx"):
        notebook.ask("cell_ids=['c0', 'c1']")
        given = {"notebook_path": "notebook.ipynb", "cell_id": "c0", "new_source": source}
        asyncio.run(notebook_edit_tool(state, folder).call(given, context))
        assert notebook.cells["c0"].source == source
    assert notebook.texts("c1") == ["execute_result: 3"]


def test_it_is_as_if_the_user_had_run_the_cells(notebook: Notebook) -> None:
    notebook.write("y = 40\ny + 2", "silent = 1;\nsilent;")
    told = notebook.ask("which='all'")
    count = notebook.cells["c0"].execution_count
    assert notebook.value(f"(In[{count}], Out[{count}], _{count})") == "('y = 40\\ny + 2', 42, 42)"
    assert notebook.value(f"{count + 1} in Out") == "False"
    assert notebook.texts("c1") == []
    # the cell that asked keeps its own count, and the next one goes on after those that it ran
    assert told["cell"].reply["execution_count"] == count - 1
    after = notebook.kernel.run("_", cell_id="c8")
    assert after.reply["execution_count"] == count + 2
    assert after.of_type("execute_result")[0]["data"]["text/plain"] == "42"


def test_the_log_knows_the_runs(notebook: Notebook) -> None:
    notebook.write("z = 1")
    notebook.ask("which='all'")
    last = "cell.log.last_run('c0')"
    value = notebook.value(f"({last}.by, {last}.success, {last}.sha256 == cell.log.runs()[-1].sha256)")
    assert value == "('claude', True, False)"
    count = notebook.cells["c0"].execution_count
    assert notebook.value(f"{last}.execution_count") == str(count)


def test_the_first_failure_ends_the_run(notebook: Notebook) -> None:
    notebook.write("print('before')\n1 / 0", "print('after')")
    told = notebook.ask("which='all'")
    assert told["status"] == "error"
    assert notebook.texts("c0") == ["stdout: before\n", "ZeroDivisionError: division by zero"]
    assert "\x1b[" in "".join(notebook.cells["c0"].outputs[1].traceback)
    assert "ZeroDivisionError:" in told["text"]
    assert "\x1b" not in told["text"]
    assert "[Cell c0 failed.]" in told["text"]
    assert "did not run: c1]" in told["text"]
    assert notebook.texts("c1") == ["stdout: old\n"]
    assert notebook.cells["c1"].execution_count == 99
    assert told["cell"].of_type("error") == []
    assert notebook.value("type(__import__('sys').last_value).__name__") == "'ZeroDivisionError'"


def test_a_cell_that_may_fail_does_not_end_the_run(notebook: Notebook) -> None:
    notebook.write(("1 / 0", {"tags": ["raises-exception"]}), "print('after')")
    told = notebook.ask("which='all'")
    assert told["status"] == "ok"
    assert notebook.texts("c1") == ["stdout: after\n"]
    assert "[Cell c0 failed," in told["text"]
    assert "raises-exception" in told["text"]


def test_a_syntax_error_is_an_output(notebook: Notebook) -> None:
    told = notebook.write("def f(:").ask("which='all'")
    assert told["status"] == "error"
    assert notebook.texts("c0") == ["SyntaxError: invalid syntax (" + notebook.texts("c0")[0].split(" (", 1)[1]]
    assert notebook.cells["c0"].execution_count != 99


def test_displays_are_updated_also_from_a_later_cell(notebook: Notebook) -> None:
    notebook.write(
        "handle = display('first', display_id=True)\nother = display('x', display_id=True)\nother.update('y')",
        "handle.update('second')\nprint('done')",
    )
    notebook.ask("which='all'")
    assert notebook.texts("c0") == ["display_data: 'second'", "display_data: 'y'"]
    assert notebook.texts("c1") == ["stdout: done\n"]


def test_output_can_be_cleared(notebook: Notebook) -> None:
    notebook.write(
        "from IPython.display import clear_output\n"
        "print('gone')\nclear_output()\nprint('also gone')\nclear_output(wait=True)\nprint('stays')"
    )
    notebook.ask("which='all'")
    assert notebook.texts("c0") == ["stdout: stays\n"]


def test_top_level_await_and_magics(notebook: Notebook) -> None:
    notebook.write("import asyncio\nawait asyncio.sleep(0)\n'awaited'", "%time 1 + 1", "!echo shell")
    told = notebook.ask("which='all'")
    assert told["status"] == "ok", told["text"]
    assert notebook.texts("c0") == ["execute_result: 'awaited'"]
    assert notebook.texts("c1")[-1] == "execute_result: 2"
    assert notebook.texts("c2") == ["stdout: shell\n"]


def test_figures_are_in_the_cell_and_seen_by_claude(notebook: Notebook) -> None:
    notebook.write("%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    told = notebook.ask("which='all'")
    assert [sorted(output.data) for output in notebook.cells["c0"].outputs] == [["image/png", "text/plain"]]
    assert [block["type"] for block in told["content"]] == ["text", "image", "text"]


def test_while_a_cell_blocks_a_blocking_call_works(notebook: Notebook) -> None:
    notebook.write("print('sync')")
    told = notebook.ask("which='all'", how="cell.blocking")
    assert told["status"] == "ok"
    assert notebook.texts("c0") == ["stdout: sync\n"]


@pytest.mark.parametrize(("which", "ran"), [("above", ["c0", "c1"]), ("below", ["c3"]), ("all", ["c0", "c1", "c3"])])
def test_cells_by_where_they_stand(notebook: Notebook, which: str, ran: list[str]) -> None:
    notebook.write("'a'", "'b'", "'the one that asks'", "'d'", "   ")
    told = notebook.ask(f"which={which!r}", cell_id="c2")
    assert [each["id"] for each in told["structured"]["cells"]] == ran


def test_stale_cells_and_what_depends_on_them(notebook: Notebook) -> None:
    notebook.write("p = 1", "q = p * 2", "r = 5")
    notebook.ask("which='all'")
    notebook.write("p = 10", "q = p * 2", "r = 5")
    told = notebook.ask("which='stale'")
    assert [each["id"] for each in told["structured"]["cells"]] == ["c0", "c1"]
    assert notebook.value("q") == "20"
    again = notebook.ask("which='stale'")
    assert again["status"] == "INVALID_PARAMETERS"
    assert "No cell" in again["text"]
    assert "stale" in again["text"]


@pytest.mark.parametrize(
    "source",
    [
        "%%claude\nDo it",
        "%claude do it",
        "x = 1\n%claude do it",
        "%%time\n%claude do it",
        "if True:\n    %claude do it",
    ],
)
def test_a_cell_that_asks_claude_is_refused_before_anything_runs(notebook: Notebook, source: str) -> None:
    notebook.write("touched = True", source, "'third'")
    notebook.kernel.run("touched = False")
    told = notebook.ask("which='all'")
    assert told["status"] == "INVALID_PARAMETERS"
    assert "Nothing was run: c1" in told["text"]
    assert "The others are: c0, c2." in told["text"]
    assert notebook.value("touched") == "False"


@pytest.mark.parametrize("source", ["# %%claude\n1", "'''\n%%claude\n'''", "text = '%claude'", "%claudette = 1", "f(:"])
def test_a_mention_of_claude_is_no_question(notebook: Notebook, source: str) -> None:
    told = notebook.write(source).ask("which='all'")
    assert "would ask Claude" not in told["text"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("", "Give either cell_ids or which (below, above, all, stale)."),
        ("which='all', cell_ids=['c0']", "Give either cell_ids or which"),
        (
            "cell_ids=['nope', 'c0']",
            "Cell nope was not found in notebook.ipynb; nothing was run. The cells are: c0, c1",
        ),
        ("cell_ids=['c1']", "Cell c1 is the one that is running now"),
        ("which='below'", "There is nothing to run"),
        ("which='all', notebook_path='other.ipynb'", "other.ipynb is not the notebook that this kernel runs"),
    ],
)
def test_what_cannot_be_run_is_said(notebook: Notebook, arguments: str, problem: str) -> None:
    notebook.write("untouched = 1", "'the one that asks'")
    told = notebook.ask(arguments, cell_id="c1")
    assert problem in told["text"]
    assert notebook.texts("c0") == ["stdout: old\n"]


def test_without_a_front_end_nothing_is_above_or_below(notebook: Notebook) -> None:
    told = notebook.write("1").ask("which='above'", cell_id=None)
    assert "is unknown here" in told["text"]


def test_a_notebook_that_nobody_knows(notebook: Notebook) -> None:
    notebook.path.unlink(missing_ok=True)
    told = notebook.ask("which='all'")
    assert told["status"] == "FILE_NOT_FOUND"
    assert "not known here" in told["text"]


def test_a_file_that_must_not_be_written_is_not_run(notebook: Notebook) -> None:
    notebook.write("1")
    notebook.kernel.run("cell.notebooks.refused = 'It is open elsewhere.'")
    told = notebook.ask("which='all'")
    notebook.kernel.run("cell.notebooks.refused = ''")
    assert "Nothing was run." in told["text"]
    assert notebook.texts("c0") == ["stdout: old\n"]


def test_what_was_changed_after_the_question_does_not_run(notebook: Notebook) -> None:
    notebook.write("touched = True")
    notebook.kernel.run("touched = False")
    told = notebook.ask("lambda: cell.rewrite('c0', 'touched = 2'), which='all'")
    assert "changed after it" in told["text"]
    assert notebook.value("touched") == "False"


def test_a_cell_that_is_changed_meanwhile_does_not_run(notebook: Notebook) -> None:
    notebook.write("cell.rewrite('c1', 'somebody_else = 1')", "print('as it was')", "print('last')")
    told = notebook.ask("which='all'")
    assert told["status"] == "error"
    assert "[Cell c1 was changed" in told["text"]
    assert "did not run: c2]" in told["text"]
    assert notebook.texts("c1") == ["stdout: old\n"]


def test_outputs_go_only_into_the_cell_that_gave_them(notebook: Notebook) -> None:
    notebook.write("cell.rewrite('c0', 'new = 1')\nprint('of the old source')")
    told = notebook.ask("which='all'")
    assert notebook.texts("c0") == []
    assert "outputs of cell c0" in told["text"]
    assert "the old source" in told["text"]


def test_the_time_limit_ends_the_run(notebook: Notebook) -> None:
    notebook.write("print('started')\nwhile True: pass", "print('after')")
    for seconds in (5, 60):  # a busy machine takes longer to begin
        told = notebook.ask(f"which='all', timeout_seconds={seconds}")
        assert told["status"] == "EXECUTION_TIMEOUT"
        assert f"[Interrupted after {seconds} s," in told["text"]
        if "started\n" in told["text"]:
            break
    assert notebook.texts("c0") == ["stdout: started\n", "KeyboardInterrupt: "]
    assert "started\n" in told["text"]
    assert "did not run: c1]" in told["text"]
    assert notebook.texts("c1") == ["stdout: old\n"]
    assert notebook.value("1 + 1") == "2"


@pytest.mark.parametrize(
    "source", ["ready = 1\nwhile True: pass", "import asyncio\nready = 1\nawait asyncio.sleep(1000)"]
)
def test_stop_ends_the_cell_and_what_it_gave_stays(notebook: Notebook, source: str) -> None:
    notebook.kernel.run("globals().pop('ready', None)")
    notebook.write(f"print('before')\n{source}", "print('after')")
    told = notebook.ask("which='all'", how="await cell.cancelled")
    assert told["status"] == "cancelled"
    assert notebook.texts("c0")[0] == "stdout: before\n"
    assert notebook.cells["c0"].execution_count not in (None, 99)
    assert notebook.texts("c1") == ["stdout: old\n"]
    assert notebook.value("1 + 1") == "2"


def test_the_kernels_interrupt_ends_the_cell_and_the_call(notebook: Notebook) -> None:
    notebook.write("print('going', flush=True)\nwhile True: pass", "print('after')")
    notebook.kernel.run("import threading\nbeat = threading.Event()")
    running = notebook.kernel.begin(
        "told = await cell.awaited(which='all')", cell_id="c9", user_expressions={"it": "told"}
    )
    interrupt_when(notebook, lambda: "going" in "".join(notebook.texts("c0")))
    done = notebook.kernel.finish(running)
    told = json.loads(ast.literal_eval(done.reply["user_expressions"]["it"]["data"]["text/plain"]))
    assert told["status"] == "cancelled"
    assert notebook.texts("c0") == ["stdout: going\n", "KeyboardInterrupt: "]
    assert notebook.texts("c1") == ["stdout: old\n"]


def interrupt_when(notebook: Notebook, holds: Any) -> None:
    """The outputs are in the file while the cell still runs."""
    eventually(holds)
    notebook.kernel.interrupt()


def test_a_cell_cannot_ask_the_user_nor_end_the_kernel(notebook: Notebook) -> None:
    told = notebook.write("input('name? ')").ask("which='all'")
    assert "RuntimeError: input()" in told["text"]
    told = notebook.write("exit()").ask("which='all'")
    assert "exit() would end" in told["text"]


def test_long_output_is_cut_for_claude_and_kept_in_the_notebook(notebook: Notebook) -> None:
    notebook.write("for number in range(40_000): print(number)", "print('second')")
    told = notebook.ask("which='all'")
    assert len(told["text"]) < 110_000
    assert "characters left out" in told["text"]
    assert "39999\n</cell>" in told["text"]
    assert "second\n</cell>" in told["text"]
    assert len(notebook.cells["c0"].outputs[0].text) > 200_000


def test_the_question_shows_the_code_and_the_policy_gets_it(notebook: Notebook) -> None:
    notebook.write("first = 1", "%%bash\nls")
    shown = notebook.kernel.run(
        "import asyncio, json\n"
        "async def look(given):\n"
        "    await cell.tool.prepare(given)\n"
        "    return [cell.tool.facts(given)['codes'], (await cell.tool.preview(given)).title,"
        " (await cell.tool.preview(given)).detail]\n"
        "task = cell.thread.submit(look({'which': 'all'}))\n"
        "await cell.jobs.work_until_done_async(task)\n"
        "told = json.dumps(task.result())",
        user_expressions={"it": "told"},
    )
    codes, title, detail = json.loads(ast.literal_eval(shown.reply["user_expressions"]["it"]["data"]["text/plain"]))
    assert codes == ["first = 1", "%%bash\nls"]
    assert "Run 2 cells" in title
    assert detail.split("\n") == ["# cell [99]", "first = 1", "", "# cell [99]", "%%bash", "ls"]
