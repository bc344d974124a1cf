"""A turn's variables are taken back in a real kernel: shown first, asked, and brought back from the copy of before."""

from __future__ import annotations

import ast
import os
import signal
import sys
from pathlib import Path

import pytest
from chat_panel import ChatPanel
from notebook_kernel import Cell, NotebookKernel, Page

from cellwright.commands.undo import STAYS
from cellwright.kernel.branches.kernel_branches import unsupported
from cellwright.kernel.branches.memory import memory, private_memory
from cellwright.testing import MessagesServer, say, turn, use
from eventual import eventually

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
    assert shown["title"] == "Undo “go”?"
    lines = shown["detail"].splitlines()
    for line in (
        "`df`: 68,846 rows → 70,112 as before",
        "`scores`: as before",
        "`rows`: 3 items → 2 as before",
        "`fresh`: new, will be removed",
    ):
        assert line in lines, shown["detail"]
    assert "a lock cannot be compared or restored" in shown["detail"]
    assert lines[-1] == STAYS  # the call is named as what cannot be undone; its variables can
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


COMPARED = """
import contextlib, os, signal, types
from concurrent.futures import Future
import numpy as np
from branches_cell import *
from cellwright.kernel.branches.undo import UndoneInKernel
globals().update({f"array{n}": np.full(500_000, n + 0.5) for n in range(30)})
CODE = ", ".join(f"array{n}" for n in range(30))
holds_the_shell = [get_ipython(), globals()]
older = os.fork()
if not older:
    signal.pause()
async def on_main(work):
    done = Future()
    get_ipython().kernel.io_loop.asyncio_loop.call_soon_threadsafe(lambda: done.set_result(work()))
    return await asyncio.wrap_future(done)
jobs = types.SimpleNamespace(call=on_main, owned_by=lambda _: contextlib.nullcontext())
undone = UndoneInKernel(globals(), types.SimpleNamespace(order=0, runs=lambda _: ()), branches, jobs)
async def compared():
    plan = await wait(undone.plan(force=False))
    return [change.name for change in plan.changes], plan.read // os.sysconf("SC_PAGE_SIZE")
"""


MOVED_PAGES = 500_000 * 8 // 4096
"""Of the one array that is new memory with the old contents."""
BESIDE = 60
"""Pages at the ends of 30 arrays, which hold the allocator's numbers, too."""


def test_undo_reads_only_the_pages_that_were_written(branching: NotebookKernel) -> None:
    """Also beside an older copy of the kernel, and when Claude explored in between: each shares pages anew."""

    def ran(code: str) -> str:
        cell = branching.run(code)
        assert cell.status == "ok", cell.error
        return cell.stdout

    def compared() -> tuple[list[str], int]:
        changed, pages = ast.literal_eval(ran("print(await compared())"))
        return changed, pages - MOVED_PAGES

    ran(COMPARED)
    explore = "await taken(); await ran('array1.sum()')"
    ran(f"{explore}; await wait(undone.before_code(CODE))")
    ran("array2[-1] += 1; array3 = array3 + 0")
    changed, pages = compared()
    assert changed == ["array2"]
    assert 1 <= pages <= BESIDE
    ran(f"{explore}; array4[0] += 1")
    changed, pages = compared()
    assert changed == ["array2", "array4"]
    assert 2 <= pages <= BESIDE
    ran("await wait(undone.close()); os.kill(older, 9); os.waitpid(older, 0)")


def test_undo_looks_without_a_fork_that_it_must_wait_for(branching: NotebookKernel) -> None:
    """A copy of a large kernel takes longer to fork than to compare."""
    for code in (
        COMPARED,
        "await taken(); await wait(undone.before_code(CODE)); await wait(undone.ready()); array2[-1] += 1",
    ):
        assert branching.run(code).status == "ok"
    snapshot = int(branching.value("branches._kept.pid"))
    os.kill(snapshot, signal.SIGSTOP)
    try:
        assert branching.run("changed, _ = await compared()").status == "ok"
    finally:
        os.kill(snapshot, signal.SIGCONT)
    assert branching.value("changed") == "['array2']"
    assert branching.run("await wait(undone.close()); os.kill(older, 9); os.waitpid(older, 0)").status == "ok"


EIGHT_GB = ["held = []"] + ["held += [np.ones(2_500_000) for _ in range(100)]"] * 4
TIMED = """
import time
async def timed(work):
    began = time.perf_counter()
    result = await work
    return result, round((time.perf_counter() - began) * 1000)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_kernel_of_eight_gigabytes_is_copied_explored_and_undone(branching: NotebookKernel) -> None:
    if memory().left < 14 << 30:
        pytest.skip("8 GB and the copies need 14 GB of memory")

    def ran(code: str) -> str:
        cell = branching.run(code)
        assert cell.status == "ok", cell.error
        return cell.stdout

    ran(COMPARED)
    for part in (TIMED, *EIGHT_GB):
        ran(part)
    try:
        copied = ran("print(await timed(taken()))")
        assert "'taken'" in copied
        explored = ran("print(await timed(said('print(sum(each[::512].sum() for each in held))')))")
        assert f"{400 * -(-2_500_000 // 512)}.0" in explored
        ran("await wait(undone.before_code('held')); held[7][5] = 2")
        (changed, pages), took = ast.literal_eval(ran("print(await timed(compared()))"))
        assert changed == ["held"]
        assert pages <= 4
        print(f"8 GB: snapshot {copied}, a call that reads all {explored}, undo {took} ms")
    finally:
        ran("await wait(undone.close()); del held; os.kill(older, 9); os.waitpid(older, 0)")


def explored_and_changed(kernel: NotebookKernel, model: MessagesServer, made: Path) -> tuple[int, int]:
    """A turn with a branch, a file and a variable; gives the snapshot that both use and the keeper beside it."""
    kernel.run("count = 1" + COPIES)
    model.add(
        turn(use("Branch", code="count")),
        turn(use("Write", file_path=str(made), content="x")),
        turn(use("Python", code="count = 2\n(snapshot,) = copies()")),
        say("Done."),
    )
    assert kernel.run("%%claude --new --mode bypassPermissions\ngo").status == "ok"
    snapshot = int(kernel.value("snapshot"))
    keeper, *_ = Path(f"/proc/{snapshot}/task/{snapshot}/children").read_text("ascii").split()
    return snapshot, int(keeper)


def test_copies_that_wait_hold_little_memory(kernel: NotebookKernel, model: MessagesServer, project: Path) -> None:
    """Beside the libraries that are used most; what the kernel writes meanwhile comes on top."""
    assert kernel.run(BEFORE).status == "ok"
    snapshot, keeper = explored_and_changed(kernel, model, project / "made.txt")
    assert 0 < sum(map(private_memory, (snapshot, keeper, waiting_helper(keeper)))) < 15 << 20
    (project / "made.txt").unlink()  # the next turns make it


def waiting_helper(keeper: int) -> int:
    """The process that the next comparison will ask."""
    return int(eventually(Path(f"/proc/{keeper}/task/{keeper}/children").read_text))


def test_undo_gets_another_copy_where_the_one_that_waited_was_ended(
    kernel: NotebookKernel, model: MessagesServer, project: Path
) -> None:
    """Linux ends it before the kernel where memory is short."""
    _, keeper = explored_and_changed(kernel, model, project / "made.txt")
    os.kill(waiting_helper(keeper), signal.SIGKILL)
    assert kernel.run("%claude /undo yes").status == "ok"
    assert kernel.value("count") == "1"


@pytest.mark.parametrize("sign", [signal.SIGSTOP, signal.SIGKILL])
def test_a_keeper_that_does_not_answer_holds_up_neither_files_nor_branches(
    kernel: NotebookKernel, model: MessagesServer, project: Path, sign: signal.Signals
) -> None:
    made = project / "made.txt"
    snapshot, keeper = explored_and_changed(kernel, model, made)
    os.kill(keeper, sign)
    cell = kernel.run("%claude /undo yes")
    assert cell.status == "ok", cell.error
    assert "the copy of the kernel that undo needs has ended." in cell.outputs[-1]["text/plain"]
    assert not made.exists()
    assert kernel.value("count") == "2"
    assert Path(f"/proc/{snapshot}").exists()  # the branch that rests lives in it
    assert kernel.run("%claude /branches keep count as counted").status == "ok"
    assert kernel.value("counted") == "1"
    kernel.run("del counted")


@pytest.mark.parametrize("sign", [signal.SIGSTOP, signal.SIGKILL])
def test_a_snapshot_that_does_not_answer_holds_up_no_files(
    kernel: NotebookKernel, model: MessagesServer, project: Path, sign: signal.Signals
) -> None:
    made = project / "made.txt"
    snapshot, _ = explored_and_changed(kernel, model, made)
    os.kill(snapshot, sign)
    cell = kernel.run("%claude /undo yes")
    assert "The snapshot of the kernel is gone" in cell.outputs[-1]["text/plain"]
    assert not made.exists()
    assert kernel.value("count") == "2"


LOCKED = """
import threading
lock = threading.Lock()
class Locked:
    def __getstate__(self):
        print("looked at", flush=True)
        with lock:
            return {}
locked = Locked()
"""


def test_a_value_that_waits_for_good_as_it_is_looked_at_ends_with_an_interrupt(
    kernel: NotebookKernel, model: MessagesServer
) -> None:
    kernel.run(LOCKED)
    ask(kernel, model, "lock.acquire(); locked.seen = True")
    cell = kernel.begin("%claude /undo yes")
    kernel.wait_for(lambda message: "looked at" in str(message["content"].get("text")), cell)
    kernel.interrupt()
    assert kernel.finish(cell).status == "error"
    assert kernel.value("lock.locked()") == "True"


@pytest.mark.parametrize("where", ["kernel", "copy"])
def test_a_value_that_waits_for_good_as_it_is_looked_at_is_given_up(
    kernel: NotebookKernel, model: MessagesServer, project: Path, where: str
) -> None:
    made = project / "made.txt"
    kernel.run("from cellwright.kernel.branches import undo; limit = undo.HELPER_SECONDS; undo.HELPER_SECONDS = 4")
    kernel.run(LOCKED + ("lock.acquire()" if where == "copy" else ""))
    code = "lock.release()" if where == "copy" else "lock.acquire()"
    model.add(turn(use("Write", file_path=str(made), content="x")))
    ask(kernel, model, f"{code}; locked.seen = True")
    cell = kernel.run("%claude /undo yes")
    said = {"kernel": "looking at them took longer than", "copy": "did not answer within 4 s"}[where]
    assert said in cell.outputs[-1]["text/plain"]
    assert not made.exists()
    assert kernel.run("undo.HELPER_SECONDS = limit").status == "ok"


def test_the_panel_brings_variables_back_without_a_cell(
    kernel: NotebookKernel, panel: ChatPanel, model: MessagesServer
) -> None:
    kernel.run("count = 1")
    ask(kernel, model, "count = 2")
    panel.wait_for_end(panel.prompt("/undo yes"))
    assert kernel.value("count") == "1"
