"""What a notebook does not say of its kernel: stale cells, another order, names that no cell gives."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from IPython.core.interactiveshell import InteractiveShell
from plain_shell import plain_shell, run, run_as_claude

from cellwright.agent.tool import ToolContext, ToolResult
from cellwright.kernel.namespace.cell_log import CellLog
from cellwright.kernel.namespace.hidden_state import (
    HiddenState,
    hidden_state,
    hidden_state_text,
    kernel_remarks,
    stale_cells,
)
from cellwright.tools.files.file_state import FileState
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.notebook_read import notebook_read_tool
from cellwright.tools.notebook.open_notebook import Cell, KernelRemarks, NothingOpen, OpenNotebook


class Notebook:
    """Cells that are run and edited in a shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.log = CellLog(shell)
        self.sources: dict[str, str] = {}

    def write(self, **sources: str) -> Notebook:
        self.sources.update(sources)
        return self

    def run(self, *names: str) -> Notebook:
        for name in names:
            run(self.shell, self.sources[name], name)
        return self

    @property
    def cells(self) -> list[Cell]:
        return [
            Cell(id=name, cell_type="code", source=source, position=position)
            for position, (name, source) in enumerate(self.sources.items())
        ]

    @property
    def state(self) -> HiddenState:
        return hidden_state(self.cells, self.log, self.shell.user_ns)

    @property
    def marks(self) -> dict[str, list[str]]:
        return {cell_id: [mark.kind for mark in marks] for cell_id, marks in self.state.marks.items()}

    @property
    def stale(self) -> list[str]:
        return stale_cells(self.cells, self.log)

    @property
    def orphans(self) -> dict[str, str]:
        return {orphan.name: orphan.text for orphan in self.state.orphans}


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    with plain_shell() as shell:
        notebook = Notebook(shell)
        notebook.log.start()
        yield notebook
        notebook.log.stop()


def test_a_notebook_run_from_the_top_hides_nothing(notebook: Notebook) -> None:
    notebook.write(a="x = 1", b="y = x + 1", c="print(y)", d="", e="%%claude\nDo it").run("a", "b", "c", "e")
    assert notebook.state.marks == {}
    assert notebook.state.orphans == ()
    assert hidden_state_text(notebook.state) == ""
    assert notebook.stale == []


def test_what_was_edited_after_it_ran_is_stale(notebook: Notebook) -> None:
    notebook.write(a="x = 1", b="y = 2").run("a", "b").write(a="x = 10")
    assert notebook.marks == {"a": ["changed"]}
    assert notebook.state.of("a").startswith("stale: the source")
    assert notebook.state.of("b") == ""
    notebook.run("a").write(a="x = 1")
    assert notebook.stale == ["a"]
    notebook.write(a="x = 10")
    assert notebook.stale == []


def test_cells_that_never_ran_are_said(notebook: Notebook) -> None:
    notebook.write(a="x = 1", b="y = 2").run("a")
    assert notebook.marks == {"b": ["never_run"]}
    assert notebook.stale == []
    assert "kernel: b (number 2)." in hidden_state_text(notebook.state)


def test_a_failure_is_said(notebook: Notebook) -> None:
    notebook.write(a="1 / 0").run("a")
    assert notebook.marks == {"a": ["failed"]}


def test_another_order_than_the_notebooks(notebook: Notebook) -> None:
    notebook.write(a="x = []", b="x.append(1)\nz = len(x)", c="y = 3").run("a", "b", "c", "a")
    assert notebook.marks == {"b": ["out_of_order"]}
    assert notebook.state.of("b") == "out of order: cell a above it ran after it and changed `x`"
    assert notebook.stale == []
    notebook.run("b")
    assert notebook.marks == {}


def test_what_is_changed_in_place_is_changed(notebook: Notebook) -> None:
    notebook.write(a="x = {}", b="x['k'] = 1", c="print(x)").run("a", "b", "c", "b")
    assert notebook.marks == {"c": ["out_of_order"]}


def test_what_changes_nothing_may_run_again(notebook: Notebook) -> None:
    notebook.write(a="import json\nflag = True", b="text = json.dumps(flag)", c="print(text)").run("a", "b", "c", "a")
    assert notebook.marks == {}


def test_who_read_a_name_that_is_given_differently_now_is_stale(notebook: Notebook) -> None:
    notebook.write(a="x = 1", b="y = x + 1", c="z = 5").run("a", "b", "c").write(a="x = 2").run("a")
    assert notebook.marks == {"b": ["outdated"]}
    assert notebook.state.of("b") == "stale: cell a has defined `x` differently since it ran"
    assert notebook.stale == ["b"]


def test_who_ran_before_the_cell_that_gives_it_its_name_is_stale(notebook: Notebook) -> None:
    notebook.shell.push({"x": 0})
    notebook.write(a="x = 1", b="y = x").run("b", "a")
    assert notebook.marks == {"b": ["outdated"]}


def test_what_is_set_anew_below_is_the_notebooks_own_way(notebook: Notebook) -> None:
    notebook.write(a="x = 1", b="print(x)", c="x = x + 1").run("a", "b", "c")
    assert notebook.marks == {}


def test_only_the_nearest_giver_above_counts(notebook: Notebook) -> None:
    notebook.write(a="x = 1", b="x = 2", c="print(x)").run("a", "b", "c").write(a="x = 3").run("a")
    assert notebook.marks == {"c": ["out_of_order"]}
    assert notebook.stale == []


def test_with_a_stale_cell_goes_what_reads_from_it(notebook: Notebook) -> None:
    notebook.write(a="x = 1", b="y = x", c="z = y", d="w = 4", e="v = z").run("a", "b", "c", "d").write(a="x = 2")
    assert notebook.stale == ["a", "b", "c"]


def test_functions_read_too(notebook: Notebook) -> None:
    notebook.write(a="rate = 1", b="def cost(n):\n    return n * rate").run("a", "b").write(a="rate = 2")
    assert notebook.stale == ["a", "b"]


def test_names_whose_cell_is_gone(notebook: Notebook) -> None:
    notebook.write(a="x = 1", b="y = 2", c="z = x + y").run("a", "b", "c")
    del notebook.sources["a"]
    assert notebook.orphans == {"x": "its cell a is gone"}
    assert hidden_state_text(notebook.state) == "In the kernel, but from no cell: x (its cell a is gone)."
    assert notebook.marks == {"c": ["orphaned"]}
    assert notebook.state.of("c") == "uses `x`, which no cell defines any more"
    notebook.write(d="x = 3")
    assert notebook.orphans == {}


def test_names_that_their_cell_no_longer_defines(notebook: Notebook) -> None:
    notebook.write(a="old = 1").run("a").write(a="new = 1")
    assert notebook.orphans == {"old": "cell a no longer defines it"}
    notebook.run("a")
    assert notebook.orphans == {"old": "cell a no longer defines it"}


def test_names_that_claude_made(notebook: Notebook) -> None:
    run_as_claude(notebook.shell, "made = [1]")
    assert notebook.orphans == {"made": "made by Claude's Python"}
    notebook.write(a="made = [1]")
    assert notebook.orphans == {}


def test_a_cell_that_cannot_be_read_is_not_accused(notebook: Notebook) -> None:
    notebook.write(a="globals()['made'] = [1]").run("a")
    assert "made" in notebook.shell.user_ns
    assert notebook.orphans == {}
    assert notebook.marks == {}


def test_what_ran_before_the_log_began_is_known_by_its_source() -> None:
    with plain_shell() as shell:
        notebook = Notebook(shell).write(a="x = 1", b="y = 2").run("a")
        notebook.log.start()
        assert notebook.marks == {"b": ["never_run"]}
        notebook.log.stop()


def test_cells_without_names_are_known_by_their_source(notebook: Notebook) -> None:
    notebook.write(a="x = 1", b="y = 2")
    run(notebook.shell, "x = 1", None)
    assert notebook.marks == {"b": ["never_run"]}


def test_the_text_is_bounded(notebook: Notebook) -> None:
    notebook.write(**{f"c{number}": f"x{number} = 1" for number in range(300)})
    assert len(hidden_state_text(notebook.state)) < 400
    notebook.run(*notebook.sources)
    notebook.sources = {name: f"{source}0" for name, source in notebook.sources.items()}
    text = hidden_state_text(notebook.state)
    assert len(text) < 1000
    assert "and 292 more" in text


class Own(NothingOpen):
    """The kernel's notebook is a file."""

    def __init__(self, path: Path, notebook: Notebook) -> None:
        self.path = path
        self.notebook = notebook

    def own(self) -> OpenNotebook:
        return FileNotebook(self.path)

    def remarks(self, cells: Sequence[Cell]) -> KernelRemarks:
        return kernel_remarks(self.notebook.shell, self.notebook.log, cells)


def test_notebook_read_says_it_of_the_notebook_that_runs(notebook: Notebook, tmp_path: Path) -> None:
    notebook.write(a="x = 1", b="y = x", c="z = 3", d="w = 4").run("a", "b", "c").write(a="x = 2")
    del notebook.sources["c"]
    path = tmp_path / "notebook.ipynb"
    for name in (path, tmp_path / "other.ipynb"):
        cells = [nbformat.v4.new_code_cell(source, id=cell_id) for cell_id, source in notebook.sources.items()]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), name)
    tool = notebook_read_tool(FileState(), tmp_path, Own(path, notebook))

    def read(**more: object) -> str:
        tool_input = {"notebook_path": "notebook.ipynb", **more}
        result = asyncio.run(tool.call(tool_input, ToolContext("toolu_1", lambda **_: None)))
        assert isinstance(result, ToolResult)
        content = result.content
        return content if isinstance(content, str) else "".join(block["text"] for block in content)

    text = read()
    assert '<cell id="a" number="1" type="code" state="stale: the source changed after it ran">' in text
    assert '<cell id="b" number="2" type="code">' in text
    assert '<cell id="d" number="3" type="code" state="not run in this kernel">' in text
    assert "[In the kernel, but from no cell: z (its cell c is gone).]" in text
    outlined = read(outline=True)
    assert "    1  a  code  x = 2  [stale: the source changed after it ran]" in outlined
    assert "z (its cell c is gone)" in outlined
    assert "state=" not in read(notebook_path="other.ipynb")


NAMES = ("a", "b", "c", "d")


@pytest.mark.thorough
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    sources=st.lists(
        st.tuples(st.sampled_from("uvw"), st.lists(st.sampled_from("uvw"), max_size=2)), min_size=4, max_size=4
    ),
    history=st.lists(st.sampled_from(NAMES), max_size=12),
    edits=st.lists(st.sampled_from(NAMES), max_size=2),
)
def test_when_the_stale_cells_have_run_nothing_is_stale(
    sources: Sequence[tuple[str, Sequence[str]]], history: Sequence[str], edits: Sequence[str]
) -> None:
    with plain_shell() as shell:
        shell.showtraceback = lambda *_, **__: None  # type: ignore[method-assign]  # a name may not be there yet
        notebook = Notebook(shell)
        notebook.log.start()
        shell.push({"u": 0, "v": 0, "w": 0})
        for name, (bound, read) in zip(NAMES, sources, strict=True):
            notebook.write(**{name: f"{bound} = [{', '.join(read)}]"})
        notebook.run(*history)
        notebook.sources.update({name: notebook.sources[name] + "  # edited" for name in edits})
        for name in notebook.stale:
            notebook.run(name)
        assert notebook.stale == []
        notebook.log.stop()
