"""A turn's variables are taken back in a real kernel: shown first, asked, and brought back from the copy of before."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from notebook_kernel import Cell, NotebookKernel, Page

from cellwright.kernel.branches.kernel_branches import unsupported
from cellwright.testing import MessagesServer, say, turn, use

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(sys.platform != "linux" or unsupported() is not None, reason="no kernel is forked here"),
]

BEFORE = """
import threading
import numpy as np, pandas as pd
df = pd.DataFrame({"a": range(70112)})
alias = df
scores = np.zeros(1000)
rows = [1, 2]
table = {"rows": rows}
secret = "sk-ant-api03-" + "x" * 40
lock = threading.Lock()
"""


def ask(kernel: NotebookKernel, model: MessagesServer, *codes: str, options: str = "--new") -> Cell:
    model.add(*(turn(use("Python", code=code)) for code in codes), say("Done."))
    cell = kernel.run(f"%%claude {options} --mode bypassPermissions\ngo")
    assert cell.status == "ok", cell.error
    return cell


def test_variables_are_shown_and_brought_back_with_a_yes(
    kernel: NotebookKernel, page: Page, model: MessagesServer
) -> None:
    assert kernel.run(BEFORE).status == "ok"
    changes = "df.drop(df.index[:1266], inplace=True)\nscores += 1\nfresh = 1\nsecret = secret[:3]"
    ask(kernel, model, changes, "rows.append(3)\nlock.locked()")
    assert kernel.value("len(alias), scores.sum(), rows, fresh") == "(68846, np.float64(1000.0), [1, 2, 3], 1)"
    cell = kernel.begin("%claude /undo")
    shown = page.wait_for_op("ask", cell)
    assert shown["title"] == "Undo turn 1 “go”?"
    lines = shown["detail"].splitlines()
    for line in (
        "`df`: 68,846 rows → 70,112 as before",
        "`scores`: as before",
        "`rows`: 3 items → 2 as before",
        "`fresh`: new, will be removed",
    ):
        assert line in lines, shown["detail"]
    assert "a lock cannot be compared or restored" in shown["detail"]
    page.answer(shown["question"], "allow")
    kernel.finish(cell)
    assert cell.status == "ok", cell.error
    assert "68,846 rows → 70,112 as before" in cell.outputs[-1]["text/plain"]
    assert kernel.value("len(df), df is alias, scores.sum(), rows, table['rows'] is rows") == (
        "(70112, True, np.float64(0.0), [1, 2], True)"
    )
    assert kernel.value("'fresh' in globals(), secret") == f"(False, '{'sk-ant-api03-' + 'x' * 40}')"
    model.add(say("I see."))
    kernel.run("%%claude\nand now?")
    assert "`df`: 68,846 rows → 70,112 as before" in str(model.requests[-1].body["messages"][-1])


def test_a_cell_of_the_users_in_between_is_asked_about(kernel: NotebookKernel, model: MessagesServer) -> None:
    kernel.run("count, other = 1, 1")
    ask(kernel, model, "count = other = 2")
    kernel.run("count = 3")
    cell = kernel.run("%claude /undo yes")
    assert "your cells have changed it since" in cell.outputs[-1]["text/plain"]
    assert kernel.value("count, other") == "(3, 1)"


def test_a_later_turn_lets_the_copy_go_and_undo_says_so(kernel: NotebookKernel, model: MessagesServer) -> None:
    kernel.run("kept = 1")
    ask(kernel, model, "kept = 2")
    model.add(say("Nothing to do."))
    kernel.run("%%claude\nand now?")
    cell = kernel.run("%claude /undo yes")
    assert kernel.value("kept") == "2"
    assert "the copy of the kernel from before" in cell.outputs[-1]["text/plain"]


def test_a_turn_that_only_looked_is_passed_over(kernel: NotebookKernel, model: MessagesServer, project: Path) -> None:
    kernel.run("looked = [1]")
    made = project / "made.txt"
    model.add(turn(use("Write", file_path=str(made), content="x")), say("Done."))
    kernel.run("%%claude --new --mode bypassPermissions\nwrite it")
    ask(kernel, model, "sum(looked)", options="")
    cell = kernel.run("%claude /undo yes")
    assert "Undone: turn 1" in cell.outputs[-1]["text/plain"]
    assert not made.exists()


def test_without_branches_no_copy_is_made(kernel: NotebookKernel, model: MessagesServer) -> None:
    kernel.run("kept = 1")
    ask(kernel, model, "kept = 2", options="--new --branches off")
    cell = kernel.run("%claude /undo yes")
    assert kernel.value("kept") == "2"
    assert "There is no turn to undo" in cell.outputs[-1]["text/plain"]
    assert "the copy of the kernel from before" in cell.outputs[-1]["text/plain"]


COPIES = """
from pathlib import Path
def copies():
    children = [pid for task in Path("/proc/self/task").iterdir() for pid in read(task / "children").split()]
    return [int(pid) for pid in children if read(Path("/proc", pid.decode(), "cmdline")) == read(Path("/proc/self/cmdline"))]
def read(path):
    try:
        return path.read_bytes()
    except OSError:  # the thread or the process has just ended
        return b""
"""


def test_the_copy_that_claude_explored_is_the_one_that_undo_brings_back_from(
    kernel: NotebookKernel, model: MessagesServer
) -> None:
    """Secrets are overwritten in the branch, and come back with an undo all the same."""
    kernel.run(BEFORE + COPIES)
    model.add(
        turn(use("Branch", code="len(df)")),
        turn(use("Python", code="scores += 1\nsecret = secret[:3]\nseen = copies()")),
        turn(use("Branch", code="scores.sum()")),
        turn(use("Python", code="rows.append(3)\nseen_later = copies()")),
        say("Done."),
    )
    assert kernel.run("%%claude --new --mode bypassPermissions\ngo").status == "ok"
    assert kernel.value("len(seen), len(seen_later), set(seen) <= set(seen_later)") == "(1, 2, True)"
    assert kernel.run("%claude /undo yes").status == "ok"
    assert kernel.value("scores.sum(), rows, secret[-3:]") == "(np.float64(0.0), [1, 2], 'xxx')"
    model.add(say("Nothing to do."))
    kernel.run("%%claude\nand now?")
    assert kernel.value("copies()") == "[]"


def test_undo_does_not_go_back_to_what_an_earlier_turn_explored(kernel: NotebookKernel, model: MessagesServer) -> None:
    kernel.run("count = 1")
    model.add(turn(use("Branch", code="count")), say("Done."))
    kernel.run("%%claude --new --mode bypassPermissions\nlook")
    kernel.run("count = 2")
    ask(kernel, model, "count = 3", options="")
    cell = kernel.run("%claude /undo yes")
    assert "2 as before" in cell.outputs[-1]["text/plain"]
    assert kernel.value("count") == "2"


LARGE = """
import numpy as np, pandas as pd
waves = np.ones(2_000_000)
view = waves[10:20]
table = pd.DataFrame({"a": np.ones(1_000_000), "b": np.ones(1_000_000)})
untouched = np.ones(2_000_000)
"""


@pytest.mark.parametrize("forked", [False, True], ids=["by pages", "by contents, since something else forked"])
def test_large_arrays_and_frames_come_back(kernel: NotebookKernel, model: MessagesServer, *, forked: bool) -> None:
    kernel.run(LARGE)
    fork = "import os\nchild = os.fork()\nif child == 0: os._exit(0)\nos.waitpid(child, 0)\n" if forked else ""
    ask(kernel, model, "waves[15] = 7\ntable.loc[999_999, 'b'] = 7.0\nuntouched.sum()\n" + fork)
    cell = kernel.run("%claude /undo yes")
    shown = cell.outputs[-1]["text/plain"]
    assert ("waves" in shown, "table" in shown, "untouched" in shown) == (True, True, False), shown
    assert kernel.value("view.sum(), waves.sum(), table.b.sum()") == (
        "(np.float64(10.0), np.float64(2000000.0), np.float64(1000000.0))"
    )
