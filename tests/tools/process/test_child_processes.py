"""Children end with the process that started them, however that ends. Real processes, counted in /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from eventual import SECONDS, eventually
from processes.marked_processes import marked

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are counted in /proc")

PARENT = """
import asyncio, os, signal, sys
from pathlib import Path
from cellwright.agent.tool import ToolContext
from cellwright.tools.shell.bash import bash_tool
from cellwright.tools.process.child_processes import Command, child_processes
from cellwright.tools.process.runner import RunningProgram

tool = bash_tool(Path.cwd())

async def bash(command, **options):
    return await tool.call({"command": command, **options}, ToolContext("x", lambda **_: None))

async def read_only(*arguments):
    command = Command(arguments=arguments, cwd=Path.cwd(), environ=dict(os.environ), read_only=True)
    await RunningProgram(command, output=lambda chunk: True).wait()

def tell(text):
    # print may be in the middle of itself when a signal's handler tells something
    os.write(1, (str(text) + chr(10)).encode())
"""


class Parent:
    """A Python process that runs `script`; all it starts carries `marker`, and so does it."""

    def __init__(self, script: str, tmp_path: Path) -> None:
        self.marker = f"CELLWRIGHT-TEST-{os.getpid()}-{time.monotonic_ns()}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", PARENT + textwrap.dedent(script)],
            env={**os.environ, "MARKER": self.marker},
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        """Let a script go on that waits for a line."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def sleepers(self) -> list[str]:
        return [line for line in self.others().values() if line.startswith("sleep")]

    def others(self) -> dict[int, str]:
        return {pid: line for pid, line in marked(self.marker).items() if pid != self.process.pid}

    def watchdogs(self) -> list[int]:
        """The watchdogs whose parent is this process."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text("utf-8").split()
        return [int(pid) for pid in children if "watchdog" in command_line(int(pid))]


def command_line(pid: int) -> str:
    """What it runs; nothing once it has ended, whether or not whoever inherited it has reaped it."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8")
    except OSError:  # it has just ended
        return ""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Parent]]:
    parents: list[Parent] = []

    def start(script: str) -> Parent:
        parents.append(Parent(script, tmp_path))
        return parents[-1]

    yield start
    for parent in parents:
        with ended(parent):
            pass


@contextmanager
def ended(parent: Parent) -> Iterator[None]:
    try:
        yield
    finally:
        for pid in [*parent.others(), parent.process.pid]:
            if parent.process.poll() is None or pid != parent.process.pid:
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(pid, signal.SIGKILL)
        parent.process.wait()
        for stream in (parent.process.stdin, parent.process.stdout):
            assert stream is not None
            stream.close()


ENDINGS: dict[str, Callable[[Parent], None]] = {
    "SIGKILL": lambda parent: parent.process.kill(),
    "SIGTERM": lambda parent: parent.process.terminate(),
    "SIGKILL to its group": lambda parent: os.killpg(parent.process.pid, signal.SIGKILL),
}

COMMANDS = {
    "background and foreground": "sleep 1000 & sleep 1000",
    "a pipeline": "sleep 1000 | sleep 1000 | cat",
    "deaf to signals": "trap '' TERM INT HUP; sleep 1000 & sleep 1000; sleep 1000",
    "shells in shells": "bash -c 'bash -c \"sleep 1000 & sleep 1000\"'",
    "a session of its own": "setsid sleep 1000 & sleep 1000",
    "a daemon": "(setsid nohup sleep 1000 >/dev/null 2>&1 &) ; sleep 1000",
    "no environment, same group": "env -i sleep 1000 & sleep 1000",
}


SCENES = [(command, "SIGKILL") for command in COMMANDS] + [
    (command, ending)
    for command in ("background and foreground", "a daemon")
    for ending in ENDINGS
    if ending != "SIGKILL"
]


@pytest.mark.parametrize(("command", "ending"), SCENES)
def test_nothing_runs_on_when_the_parent_is_killed(start, command, ending):
    parent = start(f"asyncio.run(bash({COMMANDS[command]!r}))")
    (watchdog,) = eventually(parent.watchdogs)
    eventually(lambda: running(parent))
    groups = [pid for pid, line in parent.others().items() if "bash --no" in line]
    assert groups
    ENDINGS[ending](parent)
    parent.process.wait()
    eventually(parent.others, nothing)
    eventually(lambda: not command_line(watchdog))
    eventually(lambda: [members(group) for group in groups], lambda found: not any(found))


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_only_reads_ends_with_the_parent_too(start, ending):
    parent = start("asyncio.run(read_only('sleep', '1000'))")
    eventually(parent.sleepers, ["sleep 1000"].__eq__)
    ENDINGS[ending](parent)
    parent.process.wait()
    eventually(parent.others, nothing)


def nothing(found: Collection[object]) -> bool:
    return not found


def running(parent: Parent) -> list[str]:
    """What sleeps for `parent`, in its shells' groups (where it may have no environment) or by its mark."""
    shells = [pid for pid, line in parent.others().items() if "bash --no" in line]
    return [*parent.sleepers(), *(name for shell in shells for name in members(shell) if "sleep" in name)]


def members(group: int) -> list[str]:
    """The processes of a group, without those that ended and wait to be reaped by whoever inherited them."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text("utf-8").rpartition(")")
        except OSError:
            continue
        state, _, of = rest.split()[:3]
        if int(of) == group and state != "Z":
            found.append(name)
    return found


def test_what_a_command_left_in_the_background_ends_with_the_parent(start):
    parent = start("asyncio.run(bash('sleep 1000 & echo x')); tell('returned'); signal.pause()")
    assert parent.line() == "returned"
    eventually(parent.sleepers, ["sleep 1000"].__eq__)  # it may not run its program yet
    parent.process.kill()
    parent.process.wait()
    eventually(parent.others, nothing)


def test_an_orderly_end_leaves_nothing(start):
    parent = start("asyncio.run(bash('sleep 1000 & echo x')); tell('returned')")
    assert parent.line() == "returned"
    assert parent.process.wait(SECONDS) == 0
    eventually(parent.others, nothing)


def test_stop_ends_the_children_and_the_watchdog(start):
    parent = start(
        """
        asyncio.run(bash('sleep 1000 & setsid sleep 1000 & echo x'))
        child_processes().stop()
        tell('stopped')
        sys.stdin.readline()
        asyncio.run(bash('echo again'))
        tell('again')
        signal.pause()
        """
    )
    assert parent.line() == "stopped"
    eventually(parent.sleepers, nothing)
    parent.go_on()
    assert parent.line() == "again"
    assert len(parent.watchdogs()) == 1


def test_there_is_one_watchdog_and_it_starts_with_the_first_child(start):
    parent = start(
        """
        tell('imported')
        tell(len(Path(f'/proc/self/task/{os.getpid()}/children').read_text().split()))
        for _ in range(3):
            asyncio.run(bash('true'))
        tell('ran')
        signal.pause()
        """
    )
    assert parent.line() == "imported"
    assert parent.line() == "0"
    assert parent.line() == "ran"
    assert len(parent.watchdogs()) == 1


def test_children_do_not_hold_the_watchdogs_pipe(start):
    parent = start("asyncio.run(bash('sleep 1000 & sleep 1000'))")
    eventually(parent.sleepers, lambda found: len(found) == 2)
    watchdog = parent.watchdogs()[0]
    pipe = Path(f"/proc/{watchdog}/fd/0").readlink()
    for pid in parent.others():
        assert pipe not in {link.readlink() for link in Path(f"/proc/{pid}/fd").iterdir()}
    held = [link.readlink() for link in Path(f"/proc/{parent.process.pid}/fd").iterdir()].count(pipe)
    assert held == 1


def test_a_forked_worker_does_not_keep_the_children_alive(start):
    parent = start(
        """
        asyncio.run(bash('sleep 1000 & echo x'))
        if os.fork() == 0:
            tell('forked')
            signal.pause()
        signal.pause()
        """
    )
    assert parent.line() == "forked"
    parent.process.kill()
    parent.process.wait()
    # the worker itself is the user's, and goes on
    eventually(parent.sleepers, nothing)
    assert len(parent.others()) == 1


def test_a_forked_worker_that_ends_ends_nothing_of_its_parent(start):
    parent = start(
        """
        asyncio.run(bash('sleep 1000 & echo x'))
        pid = os.fork()
        if pid == 0:
            asyncio.run(bash('sleep 2000 & echo y'))
            child_processes().stop()
            os._exit(0)
        os.waitpid(pid, 0)
        tell('waited')
        signal.pause()
        """
    )
    assert parent.line() == "waited"
    eventually(parent.sleepers, ["sleep 1000"].__eq__)  # it may not run its program yet


def test_a_watchdog_that_was_killed_is_replaced(start):
    parent = start(
        """
        asyncio.run(bash('sleep 1000 & echo x'))
        tell('first')
        sys.stdin.readline()
        asyncio.run(bash('sleep 1001 & echo x'))
        tell('second')
        signal.pause()
        """
    )
    assert parent.line() == "first"
    (watchdog,) = parent.watchdogs()
    os.kill(watchdog, signal.SIGKILL)
    eventually(lambda: Path(f"/proc/{watchdog}/stat").read_text("utf-8").rpartition(")")[2].split()[0], "Z".__eq__)
    parent.go_on()
    assert parent.line() == "second"
    assert len(parent.watchdogs()) == 1
    assert parent.watchdogs() != [watchdog]
    parent.process.kill()
    parent.process.wait()
    eventually(parent.others, nothing)


def test_an_interrupt_of_the_group_does_not_reach_the_children_or_the_watchdog(start):
    parent = start(
        """
        signal.signal(signal.SIGINT, lambda *_: tell('interrupted'))
        asyncio.run(bash('sleep 1000 & echo x'))
        tell('returned')
        while True:
            signal.pause()
        """
    )
    assert parent.line() == "returned"
    os.killpg(parent.process.pid, signal.SIGINT)
    assert parent.line() == "interrupted"
    assert len(parent.watchdogs()) == 1
    eventually(parent.sleepers, ["sleep 1000"].__eq__)  # it may not run its program yet


def test_groups_that_ended_are_forgotten(start):
    parent = start(
        """
        for _ in range(5):
            asyncio.run(bash('true'))
        asyncio.run(bash('sleep 1000 & echo x'))
        tell(len(child_processes()._groups))
        signal.pause()
        """
    )
    assert parent.line() == "1"
