"""Code in a branch: what comes back, what stays, and what the kernel notices of it, which is nothing."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest
from notebook_kernel import NotebookKernel

from cellwright.kernel.branches.branch import HUNG
from cellwright.kernel.branches.kernel_branches import CELL_RUNS, LET_GO, NOTHING_TAKEN, THREADS_COMPUTE
from eventual import eventually

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.kernel_version,
    pytest.mark.parametrize("branching", ["fork", "template"], indirect=True, scope="module"),
]


@pytest.fixture
def kernel(branching: NotebookKernel) -> Iterator[NotebookKernel]:
    """The module's kernel with a snapshot of it as it is now."""
    assert printed(branching, "print(await taken())") == "taken\n"
    yield branching
    printed(branching, "await wait(branches.drop_snapshot())")


@pytest.fixture
def by_value(branching: NotebookKernel) -> bool:
    return printed(branching, "print(by_value)") == "True\n"


def printed(kernel: NotebookKernel, code: str) -> str:
    cell = kernel.run(code)
    assert cell.status == "ok", cell.error
    return cell.stdout


SHOWN = {
    "1 + 1": "2\n",
    "print('a'); print('b'); 'c'": "a\nb\n'c'\n",
    "import asyncio; await asyncio.sleep(0); 7": "7\n",
    "1 / 0": "ZeroDivisionError: division by zero\n",
    "%who_ls int": "['n']\n",
    "!echo out; echo err >&2": "out\nerr\n",
    "print('one'); !echo two": "SyntaxError: invalid syntax (<SOURCE>, line 1)\n",
    "import os\nprint('one')\nos.write(1, b'two\\n')\nprint('three')": "one\ntwo\nthree\n",
    "import subprocess; subprocess.run(['echo', 'sub']).returncode": "sub\n0\n",
    "import sys; print('text', file=sys.__stdout__)": "text\n",
    "_ = input('who? ')": "EOFError: input() cannot ask here",
    "import getpass; getpass.getpass()": "EOFError: input() cannot ask here",
    "exit()": "",
    "n?": "Type:",
    "from IPython.display import HTML, display; display(HTML('<b>x</b>'))": "<IPython.core.display.HTML object>\n",
    "import tempfile; tempfile.gettempdir() == os.environ['TMPDIR']": "True\n",
    "b'x' * (1 << 44)": "MemoryError: \n",
    "import signal; signal.getsignal(signal.SIGINT) is signal.default_int_handler": "True\n",
    "import threading; threading.current_thread() is threading.main_thread()": "True\n",
    "f'{get_ipython().history_manager.enabled}'": "'False'\n",
}
"""Code, and what of its output a reader sees, or how that begins."""
NOT_BY_VALUE = ["%who_ls int"]
"""What needs variables that the code does not name."""


def test_what_code_shows_comes_back_in_its_order(kernel: NotebookKernel, by_value: bool) -> None:
    printed(kernel, "n = 1; import os")
    printed(kernel, "print(await taken())")
    wrong = {}
    for code, expected in SHOWN.items():
        shown = printed(kernel, f"print(await said({code!r}), end='')")
        if expected not in shown or not (shown or not expected):
            wrong[code] = shown
    assert list(wrong) == [*(NOT_BY_VALUE if by_value else ()), "print('one'); !echo two"], wrong


def test_a_figure_comes_back_as_a_picture(kernel: NotebookKernel) -> None:
    pytest.importorskip("matplotlib")
    printed(kernel, "%matplotlib inline\nimport matplotlib.pyplot as plt")
    printed(kernel, "print(await taken())")
    code = "plt.plot([1, 2]); None"
    assert "'image/png'" in printed(kernel, f"print([list(o['data']) for o in (await ran({code!r})).outputs])")


def test_displays_can_be_updated_and_cleared(kernel: NotebookKernel) -> None:
    code = "h = display('a', display_id=True); h.update('b'); print('x'); from IPython.display import clear_output"
    assert printed(kernel, f"print(await said({code!r}))") == "'b'\nx\n\n"
    assert "update_display_data" in printed(kernel, "print([o['output_type'] for o in live])")
    code = "print('x')\nclear_output()\nprint('y')"
    assert printed(kernel, f"print(await said({code!r}))") == "y\n\n"


def test_a_branch_keeps_its_state_and_the_kernel_its_own(kernel: NotebookKernel) -> None:
    printed(kernel, "values = [1]")
    printed(kernel, "await taken()")
    assert printed(kernel, "print(await said('values.append(2); mine = 1; values'))") == "[1, 2]\n\n"
    assert printed(kernel, "print(await said('values, mine'))") == "([1, 2], 1)\n\n"
    assert printed(kernel, "print(await said('values', owner='another'))") == "[1]\n\n"
    assert printed(kernel, "print(values, 'mine' in globals(), _oh.get(-1))") == "[1] False None\n"
    assert printed(kernel, "print(sorted(b.owner for b in branches.listing()))") == "['another', 'main']\n"
    printed(kernel, "await wait(branches.turn_ended())")
    assert printed(kernel, "print(branches.listing(), branches.taken is None)") == "[] True\n"


def test_a_confined_branch_writes_in_its_own_folder_alone(kernel: NotebookKernel, by_value: bool) -> None:
    code = "open(tempfile.gettempdir() + '/a', 'w').write('1')\nopen('made.txt', 'w')"
    printed(kernel, "kept = open('kept.txt', 'w+'); import tempfile")
    printed(kernel, "await taken()")
    assert "PermissionError" in printed(kernel, f"print(await said({code!r}, confinement=reading))")
    read = printed(kernel, "print(await said('kept.read()', confinement=reading))")
    assert "`kept` is TextIOWrapper" in read if by_value else read == "''\n\n"
    assert printed(kernel, "import os; print(os.path.exists('made.txt'))") == "False\n"


ENDLESS = "while True: pass"
NO_EVENT = """
import contextlib
for channel in channels:
    with contextlib.suppress(OSError):
        os.write(channel, b'\\0\\0\\0\\2{]')
"""
STUBBORN = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
BUSY_SECONDS = 2.0
"""A machine that does much else looks so much later at whether a branch hangs."""
TRIES = 10
"""For a time that the machine makes longer and never shorter: the best of so many says what it takes."""
ENDS = {
    "import time; time.sleep(60)": ("timeout", "It took longer than 0.6 s and was stopped.", True),
    ENDLESS: ("timeout", "It took longer than 0.6 s and was stopped.", True),
    "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass": (
        "timeout",
        "The branch was",
        False,
    ),
    "import os; os._exit(3)": ("died", "(exit code 3)", False),
    "import ctypes; ctypes.string_at(0)": ("died", "(SIGSEGV)", False),
    "while True: print('x' * 1000)": ("too_much_output", "It printed more", False),
    NO_EVENT: ("died", "", False),
}
"""Code, its status and a part of what is said, and whether the branch lives on."""


def test_whatever_code_does_the_call_ends(kernel: NotebookKernel, by_value: bool) -> None:
    # CPython 3.13 sets the flag of a signal in the thread that was the main one before the fork; the template forks in it
    deaf = () if by_value or sys.version_info < (3, 13) else (ENDLESS,)
    numbers = "os.listdir('/proc/self/fd')"  # the one by which it is read is gone then
    own = f"channels = [int(n) for n in {numbers} if 'socket' in os.path.realpath(f'/proc/self/fd/{{n}}')]"
    wrong = {}
    for code, (status, text, lives_on) in ENDS.items():
        lives = lives_on and code not in deaf
        patience = 60 if lives else 0.4
        printed(kernel, f"branches = await renewed(timeout={patience}); await ran({'import os; ' + own!r})")
        seconds = 0.6 if status == "timeout" else 60
        found = printed(kernel, f"r = await ran({code!r}, seconds={seconds}); print(r.status, r.text)")
        alive = printed(kernel, "print(len(branches.listing()))") == "1\n"
        if not found.startswith(f"{status} ") or text not in found or alive != lives:
            wrong[code] = (found, alive)
    assert wrong == {}
    assert printed(kernel, "print(await said('1'))") == "1\n\n"


def test_a_call_ends_though_what_it_started_holds_its_channel(kernel: NotebookKernel) -> None:
    """A killed branch is gone when its channel is at its end; a process that left its group has the same channel."""
    code = f"import os, time\nif not os.fork():\n    os.setsid(); time.sleep(600)\n{STUBBORN}"
    printed(kernel, "branches = await renewed(timeout=0.3)")
    found = printed(kernel, f"r = await ran({code!r}, seconds=0.6, confinement=reading); print(r.status, r.text)")
    assert found.startswith("timeout ")
    assert printed(kernel, "print(await said('1', confinement=reading))") == "1\n\n"


def test_an_interrupt_ends_the_code_and_not_the_branch(kernel: NotebookKernel) -> None:
    printed(kernel, "branches = await renewed(interrupt=60); await ran('kept = 1')")
    assert (
        printed(kernel, "print((await ran('import time; time.sleep(600)', interrupt=0.1)).status)") == "interrupted\n"
    )
    assert printed(kernel, "print(await said('kept'))") == "1\n\n"
    printed(kernel, "branches = await renewed()")
    found = printed(kernel, f"r = await ran({STUBBORN!r}, interrupt=0.1); print(r.status, r.text)")
    assert found.startswith("interrupted It was interrupted. The branch was ended")


@pytest.mark.parametrize("code", ["import time; time.sleep(600)", STUBBORN], ids=["obeys", "stubborn"])
def test_an_interrupt_is_over_within_half_a_second(kernel: NotebookKernel, code: str) -> None:
    """Whatever the code does: what does not obey within 0.4 s is killed. The best of some, on a machine that is busy."""
    took: list[float] = []
    while len(took) < TRIES and not (took and took[-1] < 0.5):
        printed(kernel, "print(await taken())")
        took.append(float(printed(kernel, f"r = await ran({code!r}, interrupt=0.5); print(r.seconds - 0.5)")))
    assert min(took) < 0.5


def test_a_lock_that_is_never_released_is_told_from_work(kernel: NotebookKernel) -> None:
    waits = "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()"
    took: list[float] = []
    while len(took) < TRIES and not (took and took[-1] < 4):
        found = printed(kernel, f"r = await ran({waits!r}, seconds=600); print(r.status, r.text, r.seconds)")
        assert found.startswith(f"hung {HUNG}")
        took.append(float(found.split()[-1]))
        printed(kernel, "await taken()")
    assert min(took) < 4 + BUSY_SECONDS
    listens = "import os, threading; threading.Thread(target=os.read, args=(os.pipe()[0], 1), daemon=True).start()"
    printed(kernel, f"await taken(); await ran({listens!r})")
    assert printed(kernel, f"print((await ran({waits!r}, seconds=600)).status)") == "hung\n"
    printed(kernel, "await taken()")
    works = "import threading, time; t = threading.Thread(target=time.sleep, args=(3.6,)); t.start(); t.join(); 'done'"
    assert printed(kernel, f"print(await said({works!r}))") == "'done'\n\n"


def test_without_the_moment_there_is_no_snapshot(kernel: NotebookKernel, by_value: bool) -> None:
    if by_value:
        pytest.skip("the template needs no moment")
    while_a_cell_runs = "import threading\nprint(thread.submit(branches.snapshot()).future.exception(60).reason)"
    assert printed(kernel, while_a_cell_runs) == f"{CELL_RUNS}\n"
    printed(
        kernel,
        "import hashlib\nstop = threading.Event()\ndef busy():\n    data = bytes(1 << 24)\n"
        "    while not stop.is_set(): hashlib.sha256(data).digest()\n"
        "computing = [threading.Thread(target=busy) for _ in range(2)]\n[t.start() for t in computing]",
    )
    told = printed(kernel, "print(await taken())")
    printed(kernel, "stop.set(); [t.join() for t in computing]")
    assert told == f"{THREADS_COMPUTE}\n"
    printed(kernel, "await wait(branches.drop_snapshot())")
    nothing = "try: await ran('1')\nexcept NoBranch as error: print(error.reason)"
    assert printed(kernel, nothing) == f"{NOTHING_TAKEN}\n"


def test_an_interrupt_while_the_main_thread_stands_still_reaches_its_cell(kernel: NotebookKernel) -> None:
    """It is sent from the middle of the park, on another thread, and ends the cell as it would without."""
    code = (
        "import asyncio, os, signal\nfrom cellwright.kernel.branches.snapshot import Attempt\n"
        "attempt = Attempt()\n"
        "def interrupt():\n    attempt._parked.wait(5); os.kill(os.getpid(), signal.SIGINT)\n"
        "    import time; time.sleep(0.05); attempt.give_up()\n"
        "threading.Thread(target=interrupt).start()\n"
        "asyncio.get_running_loop().call_soon(attempt.park)\nawait asyncio.sleep(60)"
    )
    began = time.monotonic()
    cell = kernel.run(code)
    assert cell.status == "error"
    assert time.monotonic() - began < 30
    assert printed(kernel, "print('as before')") == "as before\n"


def test_what_is_kept_for_undo_goes_when_memory_runs_short(kernel: NotebookKernel, by_value: bool) -> None:
    if by_value:
        pytest.skip("undo needs a copy of the kernel")
    printed(
        kernel, "is_short = threading.Event()\nkeeping = made(is_short=is_short.is_set)\nawait wait(keeping.keep())"
    )
    asked = "keeping.ask_kept('os:getpid', None)"  # it takes no arguments, which the copy says
    told = f"try: await wait({asked})\nexcept NoBranch as error: print(error.reason)"
    assert "TypeError" in printed(kernel, told)
    waiting = "is_short.set()\nimport asyncio\nwhile not keeping.let_go_because: await asyncio.sleep(0.01)"
    printed(kernel, waiting)
    assert printed(kernel, told) == f"{LET_GO}\n"
    printed(kernel, "await wait(keeping.close())")


def test_nothing_is_left_when_the_kernel_is_killed(branching: NotebookKernel) -> None:
    """The module's last test: its kernel is gone afterwards."""
    printed(branching, "await taken()")
    started = "import subprocess; print(subprocess.Popen(['sleep', '600'], start_new_session=True, env={}).pid)"
    of_branches = [
        printed(branching, f"print(await said({started!r}, owner={name!r}, confinement=reading))") for name in "ab"
    ]
    left, ended_before = map(int, of_branches)
    printed(branching, "await wait(branches.end('b'))")
    assert (_runs(left), _runs(ended_before)) == (True, False)
    printed(branching, 'await ran("1")')
    printed(branching, "await ran('1', owner='rests')")
    resting = int(printed(branching, "rests = branches._branches['rests']; await wait(rests.rest()); print(rests.pid)"))
    printed(branching, "task = thread.submit(branches._branches['main'].run('while True: pass', timeout=600))")
    found = printed(branching, "print(*snapshot_pids(), branches._branches['main'].pid)")
    pids = [left, resting, *(int(word) for word in found.split())]
    assert all(map(_runs, pids))
    os.kill(int(branching.value("__import__('os').getpid()")), signal.SIGKILL)
    eventually(lambda: not any(map(_runs, pids)))  # each would run on for ten minutes


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:  # noqa: PTH123
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
