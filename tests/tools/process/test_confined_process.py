"""A command with a confinement runs in the sandbox, and ends, tells and leaves behind what any other does."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from cellwright.agent.calls.approval import Confinement
from cellwright.sandbox import mechanisms
from cellwright.sandbox.confined_process import marking, new_mark
from cellwright.tools.process.child_processes import ChildProcesses, Command
from cellwright.tools.process.runner import OutputHead, RunningProgram, child_environment
from confined import sandbox_by
from eventual import eventually


@pytest.fixture(params=["Landlock", "bubblewrap"])
def children(request: pytest.FixtureRequest) -> Iterator[ChildProcesses]:
    sandbox = sandbox_by(request.param)
    processes = ChildProcesses(find_sandbox=lambda: sandbox)
    yield processes
    processes.stop()


def command(script: str, folder: Path, **more: object) -> Command:
    """A command that may read its folder."""
    return Command(
        arguments=["bash", "-c", script],
        cwd=folder,
        environ=child_environment(os.environ),
        **{"confinement": Confinement(read=(str(folder),)), **more},  # type: ignore[arg-type]
    )


def run(script: str, folder: Path, children: ChildProcesses, seconds: float = 30, **more: object) -> tuple[int, str]:
    async def play() -> tuple[int, str]:
        output = OutputHead(100_000)
        program = RunningProgram(command(script, folder, **more), output=output.take, children=children)
        await program.finish(seconds)
        return program.exit_code, output.text()

    return asyncio.run(play())


def sleepers(marker: str) -> list[str]:
    """The processes with `marker` among their arguments."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if line[:2] == [b"sleep", marker.encode()]:
            found.append(folder.name)
    return found


def test_its_exit_code_and_output_are_its_own(children: ChildProcesses, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.write_text("outside", "utf-8")
    code, output = run(f"echo out; echo err >&2; cat {outside}; exit 7", tmp_path, children)
    assert code == 7
    assert output.startswith("out\nerr\n")
    assert "outside\n" not in output
    assert run("kill -9 $$", tmp_path, children)[0] in (-9, 137)


@pytest.mark.parametrize(
    "script",
    [
        "sleep {0}",
        "trap '' TERM; sleep {0} & sleep {0}; sleep {0}",
        "setsid sleep {0} & sleep {0}",
        "env -i sleep {0} & sleep {0}",
        "env -i setsid sleep {0} & sleep {0}",
        "(env -i setsid sh -c '(sleep {0} &) &' &) & sleep {0}",
        "ulimit -R 9; python3 -c 'import resource; resource.setrlimit(resource.RLIMIT_RTTIME, (9, 9))'; "
        "(env -i setsid sh -c '(sleep {0} &) &' &) & sleep {0}",
    ],
)
def test_a_time_limit_ends_all_of_it(script: str, children: ChildProcesses, tmp_path: Path) -> None:
    marker = f"10{os.getpid()}"
    run(script.format(marker), tmp_path, children, seconds=0.5)
    eventually(lambda: not sleepers(marker))


def test_what_is_left_behind_runs_on_and_is_known(children: ChildProcesses, tmp_path: Path) -> None:
    marker = f"20{os.getpid()}"

    async def play() -> tuple[bool, bool]:
        plain = RunningProgram(command("true", tmp_path), output=lambda _: True, children=children)
        await plain.wait()
        server = RunningProgram(command(f"sleep {marker} & true", tmp_path), output=lambda _: True, children=children)
        await server.wait()
        left = plain.left_behind, server.left_behind
        assert children.running
        assert len(sleepers(marker)) == 1
        await server.end()
        return left

    assert asyncio.run(play()) == (False, True)
    assert sleepers(marker) == []


def test_its_memory_is_bounded(children: ChildProcesses, tmp_path: Path) -> None:
    code, output = run("python -c 'x = bytearray(900_000_000)'", tmp_path, children, memory_mb=300)
    assert code == 1
    assert "MemoryError" in output
    assert run("ulimit -d", tmp_path, children, memory_mb=300)[1] == f"{300 * 1024}\n"


def test_descriptors_that_are_handed_on_arrive(children: ChildProcesses, tmp_path: Path) -> None:
    reader, writer = os.pipe()

    async def play() -> None:
        what = command(f"pwd -P >&{writer}", tmp_path)
        program = RunningProgram(what, output=lambda _: True, inherited=(writer,), children=children)
        await program.wait()

    asyncio.run(play())
    os.close(writer)
    assert os.read(reader, 1_000).decode() == f"{tmp_path.resolve()}\n"
    os.close(reader)


def test_temporary_files_are_kept_between_commands_and_go_with_the_children(
    children: ChildProcesses, tmp_path: Path
) -> None:
    folder = run("echo kept > $TMPDIR/x; printf %s $TMPDIR", tmp_path, children)[1]
    assert run("cat $TMPDIR/x", tmp_path, children)[1] == "kept\n"
    assert Path(folder).stat().st_mode & 0o077 == 0
    children.stop()
    assert not Path(folder).parent.exists()


def test_a_program_that_is_not_there_is_told_as_without_a_sandbox(children: ChildProcesses, tmp_path: Path) -> None:
    missing = replace(command("", tmp_path), arguments=["no-such-program"])

    async def play() -> None:
        RunningProgram(missing, output=lambda _: True, children=children)

    with pytest.raises(FileNotFoundError):
        asyncio.run(play())


def test_without_a_sandbox_it_is_not_started(tmp_path: Path) -> None:
    children = ChildProcesses(find_sandbox=lambda: None)
    with pytest.raises(OSError, match="no sandbox"):
        run("touch started", tmp_path, children)
    children.stop()
    assert not (tmp_path / "started").exists()


def test_the_sandbox_is_looked_for_when_a_command_is_confined() -> None:
    assert mechanisms.find_sandbox() is mechanisms.find_sandbox()


def test_a_killed_process_leaves_no_folder(tmp_path: Path) -> None:
    """The watchdog removes it."""
    sandbox_by("Landlock")
    script = f"""
import asyncio, os, signal
from pathlib import Path
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
sys.path[1:1] = {[str(Path(__file__).parents[2] / "shared")]!r}
from test_confined_process import run
from cellwright.tools.process.child_processes import child_processes
print(run("printf %s $TMPDIR", Path({str(tmp_path)!r}), child_processes())[1], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    folder = Path(ended.stdout.strip()).parent
    assert folder.name.startswith("sandbox-"), ended.stderr
    assert folder.parent.name.startswith("cellwright-run-")
    eventually(lambda: not folder.exists())


def test_commands_do_not_see_the_processes_of_others_where_both_mechanisms_are(tmp_path: Path) -> None:
    sandbox_by("Landlock")
    sandbox_by("bubblewrap")
    secret = f"--token=of-{os.getpid()}"
    (tmp_path / "link").symlink_to("/proc")
    looking = (
        "ps -ef",
        "pgrep -fa token",
        "cat /proc/[0-9]*/cmdline",
        "grep -ha token link/*/cmdline",
        "head link/*/cmdline",
    )
    looking += (
        'python3 -c \'import pathlib; print(*(p.read_text() for p in pathlib.Path("/proc").glob("*/cmdline")))\'',
    )
    children = ChildProcesses()
    with subprocess.Popen(["sh", "-c", "read -r _", secret], stdin=subprocess.PIPE) as other:
        shown = {script: secret in run(script, tmp_path, children)[1] for script in looking}
        unconfined = run(looking[0], tmp_path, children, confinement=None)[1]
        other.communicate(b"\n")
    children.stop()
    assert shown == dict.fromkeys(looking, False)
    assert secret in unconfined


def test_a_process_that_is_forked_meanwhile_keeps_no_mark() -> None:
    with warnings.catch_warnings(), marking(new_mark()):
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the child has no use for
        if (child := os.fork()) == 0:
            with marking(new_mark()):  # nobody holds its lock
                marked = resource.getrlimit(resource.RLIMIT_RTTIME)[0] != resource.RLIM_INFINITY
            free = resource.getrlimit(resource.RLIMIT_RTTIME)[0] == resource.RLIM_INFINITY
            os._exit(0 if marked and free else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert resource.getrlimit(resource.RLIMIT_RTTIME)[0] == resource.RLIM_INFINITY


OUTLIVE = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path[:1] = {paths!r}
from confined import sandbox_by
from test_confined_process import run
from cellwright.tools.process.child_processes import ChildProcesses
children = ChildProcesses(find_sandbox=lambda: sandbox_by({mechanism!r}))
how = {{}} if {mechanism!r} else {{"confinement": None, "memory_mb": 4000}}
print(run({script!r}, Path.cwd(), children, **how)[0], flush=True)
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("mechanism", ["Landlock", "bubblewrap", ""])
def test_nothing_outlives_a_killed_process_whatever_it_leaves(mechanism: str, tmp_path: Path) -> None:
    """Neither a group nor a session, a parent or an environment is left to know it by."""
    if mechanism:
        sandbox_by(mechanism)
    marker, bystander = f"30{os.getpid()}", f"31{os.getpid()}"
    left = f"env -i setsid sh -c '(sleep {marker} > /dev/null 2>&1 &) &'"
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "shared")]
    script = OUTLIVE.format(paths=paths, mechanism=mechanism, script=f"{left}; true")
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"0\n"
        eventually(lambda: len(sleepers(marker)) == 1)
        # a child that has the mark only, because it began in the same moment
        limits = Path(f"/proc/{sleepers(marker)[0]}/limits").read_text("utf-8")
        mark = next(line.split()[3] for line in limits.splitlines() if line.startswith("Max realtime timeout"))
        if mark != "unlimited":
            limited = ["prlimit", f"--rttime={mark}:", "sleep", bystander]
            own = subprocess.Popen(limited)
            eventually(lambda: len(sleepers(bystander)) == 1)
        assert (mark != "unlimited") == (mechanism == "Landlock")
        parent.communicate(b"\n")
    eventually(lambda: not sleepers(marker))
    if mark != "unlimited":
        eventually(lambda: not watchdogs(mark))
        assert own.poll() is None
        own.kill()
        own.wait()


def watchdogs(mark: str) -> list[str]:
    """The watchdogs that would end what has `mark`."""
    lines = {folder.name: _arguments(folder) for folder in Path("/proc").glob("[0-9]*")}
    return [pid for pid, line in lines.items() if b"cellwright-watchdog" in line and line[-2].decode() == mark[:13]]


def _arguments(folder: Path) -> list[bytes]:
    try:
        return (folder / "cmdline").read_bytes().split(b"\0")
    except OSError:  # gone meanwhile
        return []


@pytest.mark.parametrize("removed", ["", "tmp", "cache"])
def test_the_folder_for_temporary_files_is_made_again(children: ChildProcesses, tmp_path: Path, removed: str) -> None:
    code, first = run("printf %s $TMPDIR", tmp_path, children)
    shutil.rmtree(Path(first).parent / removed)
    code, told = run('echo x > "$(mktemp)" && mkdir -p "$XDG_CACHE_HOME/x" && printf %s $TMPDIR', tmp_path, children)
    assert code == 0, told
    assert Path(told).is_dir()
    assert (told == first) == bool(removed)  # others may know the old name
    children.stop()
    assert not Path(told).parent.exists()
