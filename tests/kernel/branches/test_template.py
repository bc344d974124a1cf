"""When branches are given values instead of a copy of the kernel, each reason in a real kernel, and what goes by value."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from notebook_kernel import SOURCES, NotebookKernel, running_kernel

from cellwright.kernel.branches.branch import HUNG
from cellwright.kernel.branches.kernel_branches import CELL_RUNS, HANGS, THREADS_COMPUTE

pytestmark = [pytest.mark.kernel, pytest.mark.skipif(sys.platform != "linux", reason="the other way needs Linux")]

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(scope="module")
def kernel(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookKernel]:
    """A kernel that can be forked; a test has it fall back."""
    home = tmp_path_factory.mktemp("home")
    places = {"HOME": str(home), "CELLWRIGHT_HOME": str(home / "cellwright"), "IPYTHONDIR": str(home / "ipython")}
    places["BRANCH_TEST_WAY"] = "either"
    with running_kernel(project, places, sources=(SOURCES, SUPPORT), as_for_users=True) as running:
        printed(running, "from branches_cell import *\nimport time, threading")
        yield running


def printed(kernel: NotebookKernel, code: str) -> str:
    cell = kernel.run(code)
    assert cell.status == "ok", cell.error
    return cell.stdout


def test_a_kernel_that_can_be_forked_is_forked(kernel: NotebookKernel) -> None:
    printed(kernel, "assert await taken() == 'taken'")
    assert printed(kernel, "print(repr(branches.taken.by_value), branches._templates)") == "'' {}\n"


def test_a_cell_that_runs_is_no_hindrance(kernel: NotebookKernel) -> None:
    """The whole way beside a cell: the snapshot's moment does not come, and the value is read while the cell runs."""
    printed(kernel, "total = [1, 2]")
    printed(
        kernel,
        "async def beside():\n"
        "    taken = await branches.snapshot(or_by_value=True)\n"
        "    branch = await branches.branch('beside', reading)\n"
        "    return taken, text_of(await branch.run('sum(total)', timeout=60))\n"
        "task = thread.submit(beside())\n"
        "while not task.future.done():\n    time.sleep(0.01)\n"
        "found = task.future.result()",
    )
    assert printed(kernel, "print(found[0].by_value, found[1])") == f"{CELL_RUNS} 3\n\n"


def test_threads_that_never_rest_are_no_hindrance(kernel: NotebookKernel) -> None:
    printed(
        kernel,
        "import hashlib\nstop = threading.Event()\nn = 20\ndef busy():\n    data = bytes(1 << 24)\n"
        "    while not stop.is_set(): hashlib.sha256(data).digest()\n"
        "computing = [threading.Thread(target=busy) for _ in range(2)]\n[t.start() for t in computing]",
    )
    try:
        found = printed(
            kernel, "await taken(); print(branches.taken.by_value, await said('n + 1', confinement=reading))"
        )
    finally:
        printed(kernel, "stop.set(); [t.join() for t in computing]")
    assert found == f"{THREADS_COMPUTE} 21\n\n"


def test_what_hung_in_a_copy_runs_in_the_next_call(kernel: NotebookKernel) -> None:
    polars = pytest.importorskip("polars")
    assert polars
    printed(
        kernel, "import polars as pl\nframe = pl.DataFrame({'k': [1, 1, 2], 'v': [1, 2, 3]}); frame.group_by('k').len()"
    )
    printed(kernel, "assert await taken() == 'taken'")
    code = "frame.group_by('k').agg(pl.col('v').sum()).sort('k')['v'].to_list()"
    found = printed(kernel, f"r = await ran({code!r}, seconds=60, confinement=reading); print(r.status, r.text)")
    assert found.startswith(f"hung {HUNG}")
    again = printed(
        kernel, f"print(await said({code!r}, confinement=reading), branches._branches['main'].taken.by_value)"
    )
    assert again == f"[3, 3]\n {HANGS}\n"
    other = printed(kernel, "print(await said('1', owner='other'), type(branches._branches['other']).__name__)")
    assert other == "1\n Branch\n"
    # and a new copy is tried with the next snapshot
    printed(kernel, "assert await taken() == 'taken'; await ran('1', confinement=reading)")
    assert printed(kernel, "print(type(branches._branches['main']).__name__)") == "Branch\n"


def test_a_preview_which_is_of_all_variables_has_no_values(kernel: NotebookKernel) -> None:
    printed(kernel, "branches = await renewed('template')")
    code = (
        "try: await wait(branches.branch('preview', reading, ('/tmp',)))\nexcept NoBranch as error: print(error.reason)"
    )
    assert printed(kernel, code) == "This kernel is not copied.\n"
    assert printed(kernel, "try: await wait(branches.snapshot())\nexcept NoBranch as error: print(error.reason)") == (
        "This kernel is not copied.\n"
    )


HAS_NUMPY = importlib.util.find_spec("numpy") is not None
DEFINED = """
import datetime, functools, math, sqlite3, threading, collections
from math import floor
def doubled(f):
    return lambda x: 2 * f(x)
@doubled
def plus(x):
    return x + limit
def even(n): return n == 0 or odd(n - 1)
def odd(n): return n != 0 and even(n - 1)
def adder(n):
    def add(x): return x + n
    return add
class Point:
    scale = 3
    def moved(self): return even(4), self.scale
square = lambda x: x * x
add2 = adder(2)
limit = 10
pair = (1, {2: {(4,)}}, b'x', 1j, None, float('inf'), datetime.date(2026, 1, 2), datetime.timedelta(1, 2))
con = sqlite3.connect(':memory:'); gen = (x for x in 'ab'); lock = threading.Lock()
point = Point(); point.at = (1, 2); held = Point(); held.lock = lock
"""
BY_VALUE = {
    "limit += 1; limit": "11\n",
    "limit": "11\n",
    "even(10), square(3), floor(2.5), math.floor(1.5)": "(True, 9, 2, 1)\n",
    "Point().moved()": "(True, 3)\n",
    "repr(pair)": "\"(1, {2: {(4,)}}, b'x', 1j, None, inf, datetime.date(2026, 1, 2), datetime.timedelta(days=1, ",
    "eval('limit')": "11\n",
    "'%s' % 'no such name'": "'no such name'\n",
    "con.execute('select 1')": "`con` is Connection of sqlite3: it is not here; use Python.",
    "next(gen)": "`gen` is generator: it is not here; use Python.",
    "lock.locked()": "`lock` is lock of _thread: it is not here; use Python.",
    "add2(1)": "`add2` is a function whose source is not known by itself: it is not here; use Python.",
    "point.moved(), point.at, vars(point)": "((True, 3), (1, 2), {'at': (1, 2)})\n",
    "held.moved()": "`held` is Point, whose attributes are not all plain values: it is not here; use Python.",
    "plus(1)": "`plus` is a function whose source is not known by itself",
}
"""Code, and what of its output a reader sees."""


def test_names_go_by_value_and_what_does_not_is_named(kernel: NotebookKernel) -> None:
    printed(kernel, DEFINED + ("import numpy as np; root = np.sqrt\n" if HAS_NUMPY else ""))
    printed(kernel, "branches = await renewed('template')")
    wrong = {}
    more = {"float(root(9.0))": "3.0\n"} if HAS_NUMPY else {}
    for code, expected in {**BY_VALUE, **more}.items():
        shown = printed(kernel, f"print(await said({code!r}, confinement=reading))")
        if expected not in shown:
            wrong[code] = shown
    assert wrong == {}
    assert printed(kernel, "print(limit)") == "10\n"


MADE = """
import numpy as np, pandas as pd
least = 2; df = pd.DataFrame({'a': [1, 2, 3], 'b': list('xyz')}); arr = np.arange(4.0)
"""


def test_frames_and_arrays_are_copies(kernel: NotebookKernel) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    printed(kernel, MADE)
    printed(kernel, "branches = await renewed('template')")
    code = "df.loc[0, 'a'] = 9; arr[:] = 7; df.query('a > @least').a.sum() + arr.sum()"
    assert printed(kernel, f"print(await said({code!r}, confinement=reading))") == "np.float64(40.0)\n\n"
    assert printed(kernel, "print(df.a.sum(), arr.sum())") == "6 6.0\n"


def test_what_an_import_does_is_confined_too(kernel: NotebookKernel, project: Path) -> None:
    """The template imports what the kernel has, from files that may have changed since."""
    (project / "changed.py").write_text("kept = 1\n", "utf-8")
    printed(kernel, "import sys; sys.path.insert(0, '.')\nimport changed")
    (project / "changed.py").write_text(
        "import os, socket\ntried = []\n"
        "for each in (lambda: open('by_import.txt', 'w'), lambda: socket.create_connection(('127.0.0.1', 9), 1),\n"
        "             lambda: open(f'/proc/{os.getppid()}/environ', 'rb').read(), lambda: socket.socket(2, 2)):\n"
        "    try: tried.append(each())\n    except OSError as error: tried.append(type(error).__name__)\n",
        "utf-8",
    )
    printed(kernel, "branches = await renewed('template')")
    found = printed(kernel, "print(await said('changed.tried', confinement=reading))")
    assert found == f"{['PermissionError'] * 4}\n\n"
    assert not (project / "by_import.txt").exists()


def test_no_value_holds_a_secret(kernel: NotebookKernel) -> None:
    printed(
        kernel,
        "branches = await renewed('template')\nsecret = 'sk-ant-' + 'x' * 20; shown = {'key': [secret]}; free = 'y'",
    )
    printed(kernel, "guarded = made(secrets=lambda: [secret]); assert await taken(guarded) == 'taken'")
    code = "print(free); shown"
    found = printed(
        kernel, f"print(await said({code!r}, of=guarded, confinement=reading)); await wait(guarded.close())"
    )
    assert found.startswith("y\n")
    assert "`shown` is a value that holds a key or token: it is not here; use Python." in found
    assert "sk-ant" not in found


HIDDEN = r"""
token = 'say "friend"' + 'x' * 12
class Client: pass
client = Client(); client.raw = token.encode()
bare = [token.encode()]; quoted = {'a': token}; late = 'later-' + 'z' * 20
"""


def test_a_secret_in_another_form_is_found_too(kernel: NotebookKernel) -> None:
    """Bytes go as hex and quotes are escaped; labels and attrs of frames go beside the data, numpy's texts as UTF-32."""
    names = ["bare", "quoted", "client"]
    more = ""
    if importlib.util.find_spec("pandas") and importlib.util.find_spec("pyarrow"):
        more = "import numpy as np, pandas as pd\nwide = np.array([token])\nframe = pd.DataFrame({'a': [1]})\n"
        more += "frame.attrs['key'] = token; named = pd.DataFrame({token: [1]})\n"
        names += ["wide", "frame", "named"]
    printed(kernel, HIDDEN + more + "known = [token]\nbranches = await renewed('template')")
    printed(kernel, "guarded = made(secrets=lambda: known); assert await taken(guarded) == 'taken'")
    given = {}
    for name in [*names, "late"]:
        found = printed(kernel, f"print(await said({name!r}, of=guarded, confinement=reading))")
        given[name] = "a value that holds a key or token" not in found
    assert given == {**dict.fromkeys(names, False), "late": True}
    # set by a cell while the branch is there
    printed(kernel, "known.append('newer-' + 'q' * 20); newer = {'k': known[1]}")
    assert "holds a key or token" in printed(kernel, "print(await said('newer', of=guarded, confinement=reading))")
    printed(kernel, "await wait(guarded.close())")


HOSTILE = """
import json, os, resource, socket, threading, time
import cellwright.kernel.branches.forked as serving
from cellwright.kernel.branches.messages import Ready, send
target, victim = json.load(open('told.json'))
try:
    resource.prlimit(victim, resource.RLIMIT_NOFILE, (9, 9))
    limited = True
except OSError as error:
    limited = type(error).__name__
try:
    os.kill(victim, 15)
    signalled = True
except OSError as error:
    signalled = type(error).__name__
tmp = os.environ['TMPDIR']
def swap():
    while True:
        for each in os.listdir(tmp):
            if each.startswith('sandbox-') and not os.path.islink(f'{tmp}/{each}'):
                try:
                    os.rename(f'{tmp}/{each}', f'{tmp}/old-{each}')
                    os.symlink(target, f'{tmp}/{each}')
                except OSError:
                    pass
        time.sleep(0.001)
def fork_none(serving, order, descriptors):
    open_channels.append(socket.socket(fileno=os.dup(descriptors[0])))
    send(open_channels[-1], Ready())
    return victim
open_channels = []
if os.path.exists('swaps'):
    threading.Thread(target=swap, daemon=True).start()
if os.path.exists('lies'):
    serving._fork_branch = fork_none
"""


LOOP = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"


def test_what_an_import_changes_in_its_process_reaches_nothing_outside(
    kernel: NotebookKernel, project: Path, tmp_path: Path
) -> None:
    """A file that Claude wrote runs in the template: it says which process is a branch, and may rename branches' folders."""
    kept = tmp_path / "kept"
    (kept / "below").mkdir(parents=True)
    (kept / "below" / "file.txt").write_text("the user's", "utf-8")
    (project / "hostile.py").write_text("", "utf-8")
    printed(
        kernel,
        "import json, subprocess, sys; sys.path.insert(0, '.')\nimport hostile\n"
        "victim = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        f"json.dump([{str(kept)!r}, victim.pid], open('told.json', 'w'))",
    )
    (project / "hostile.py").write_text(HOSTILE, "utf-8")
    printed(kernel, "branches = await renewed('template')")
    assert printed(kernel, "print(await said('hostile.limited', confinement=reading))") == "'PermissionError'\n\n"

    # as where Linux cannot keep signals within bounds
    printed(kernel, "from cellwright.sandbox import landlock; abi, landlock.abi = landlock.abi, lambda: 5")
    printed(kernel, "branches = await renewed('template', timeout=0.2, interrupt=0.2)")
    assert printed(kernel, "print(await said('hostile.signalled', confinement=reading))") == "'PermissionError'\n\n"
    printed(
        kernel, f"ended = branches._branches['main'].pid; r = await ran({LOOP!r}, seconds=0.2, confinement=reading)"
    )
    assert printed(kernel, "print(r.status, await said('7', confinement=reading))") == "timeout 7\n\n"
    printed(kernel, "import os; await wait(branches.end('main')); assert not os.path.exists(f'/proc/{ended}')")
    printed(kernel, "landlock.abi = abi")

    (project / "swaps").touch()
    printed(kernel, "branches = await renewed('template')")
    code = "import time\ntime.sleep(0.3)"
    printed(
        kernel,
        "from cellwright.kernel.branches.snapshot import NoBranch\n"
        f"try: await ran({code!r}, confinement=reading)\n"
        "except NoBranch: pass  # the folder may be moved away just as the branch's is made in it\n"
        "await wait(branches.end('main'))",
    )
    assert (kept / "below" / "file.txt").read_text("utf-8") == "the user's"
    (project / "swaps").unlink()

    (project / "lies").touch()
    printed(kernel, "branches = await renewed('template', timeout=0.2, interrupt=0.2)")
    printed(kernel, "r = await ran('1', seconds=0.2, confinement=reading); await wait(branches.close())")
    assert printed(kernel, "print(victim.poll()); victim.kill(); victim.wait()") == "None\n"
    (project / "lies").unlink()
    (project / "hostile.py").unlink()
    printed(kernel, "del hostile, sys.modules['hostile']")


def test_a_template_that_is_cancelled_while_it_starts_is_ended(kernel: NotebookKernel) -> None:
    printed(kernel, "branches = await renewed('template')")
    printed(
        kernel,
        "import asyncio\nfrom cellwright.kernel.branches import template as room\n"
        "started, begun = [], threading.Event()\nstart, kept_start = room._started, room._started\n"
        "def noting(*given):\n    started.append(start(*given)); begun.set(); return started[-1]\n"
        "room._started = noting\n"
        "async def cancelled():\n"
        "    making = asyncio.ensure_future(branches.branch('main', reading))\n"
        "    await asyncio.to_thread(begun.wait)\n"
        "    making.cancel()\n"
        "    await asyncio.wait([making])\n"
        "    while started[0].returncode is None: await asyncio.sleep(0.01)\n"
        "await asyncio.wait_for(wait(cancelled()), 60); room._started = kept_start",
    )
    assert printed(kernel, "print(started[0].returncode, branches._templates)") == "0 {}\n"


def test_a_template_in_the_place_of_one_that_has_died_ends_no_other(kernel: NotebookKernel) -> None:
    """Whichever was started first."""
    printed(kernel, "branches = await renewed('template')")
    for first, second in (("None", "reading"), ("reading", "None")):
        printed(
            kernel,
            f"for each in ({first}, {second}):\n"
            "    await said('1', owner=str(each), confinement=each)\n"
            f"lives, died = (branches._templates[each] for each in ({first}, {second}))\n"
            "os.kill(died.pid, 9)\n"
            "while died.is_alive(): time.sleep(0.01)\n"
            f"again = await said('1', owner='again', confinement={second})",
        )
        assert printed(kernel, f"print(again, branches._templates[{first}] is lives, lives.is_alive())") == (
            "1\n True True\n"
        )
        printed(kernel, "branches = await renewed('template')")


def test_a_template_has_no_process_beside_its_branches(kernel: NotebookKernel) -> None:
    """A snapshot has one for undo; from a template nothing is undone."""
    printed(kernel, "branches = await renewed('template')\nbranch = await wait(branches.branch('main', reading))")
    children = "Path(f'/proc/{pid}/task/{pid}/children').read_text('ascii').split()"
    assert printed(kernel, f"(pid,) = snapshot_pids()\nprint({children} == [str(branch.pid)])") == "True\n"
