"""Every way out that is known, tried from a forked process that has confined itself, as a branch of the kernel does."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from notebook_kernel import NotebookKernel

from cellwright.agent.calls.approval import Confinement
from cellwright.kernel.branches.bounds import BranchBounds, branch_bounds, branches_enforced, end_marked
from cellwright.kernel.branches.resets import LEAST_BYTES
from cellwright.sandbox import landlock
from cellwright.sandbox.confined_process import marked_processes
from cellwright.sandbox.private_folder import PrivateFolder
from cellwright.sandbox.resolved_bounds import ConfinementError
from confined import REQUIRED
from processes.escape_probes import PROBES, RUNNER, Probe, Run, escapes_of, shut_anyway
from processes.user_process import as_user

PROBES_OF_BRANCHES = {
    **{name: probe for name, probe in PROBES.items() if probe.by in ("", "Landlock")},
    "the kernel's memory": Probe("os.open('/proc/{kernel}/mem', os.O_RDONLY); through()"),
    "the kernel's environment": Probe("through(open('/proc/{kernel}/environ', 'rb').read() != b'')"),
    "the kernel's descriptors": Probe("os.listdir('/proc/{kernel}/fd'); through()"),
    "a signal to the kernel": Probe("os.kill({kernel}, signal.SIGWINCH); through()"),
    "another's command line": Probe("through(open('/proc/{victim}/cmdline', 'rb').read() != b'')"),
    "the list of processes": Probe("os.listdir('/proc'); through()"),
    "shared memory by name": Probe("os.close(os.open('/dev/shm/{kernel}', os.O_CREAT | os.O_RDWR)); through()"),
    "shared memory of Python": Probe(
        "from multiprocessing.shared_memory import SharedMemory\n"
        "made = SharedMemory(create=True, size=8, track=False) if sys.version_info >= (3, 13) "
        "else SharedMemory(create=True, size=8)\n"
        "made.unlink(); through()"
    ),
    "a program in memory": Probe(
        "fd = os.memfd_create('p'); os.write(fd, Path('/bin/sh').read_bytes())\n"
        "os.execv(f'/proc/self/fd/{{fd}}', ['sh', '-c', 'echo x >> {outside}'])"
    ),
    "a program of its own": Probe(
        "Path('{temporary}/p').write_text('#!/bin/sh\\necho x >> {outside}\\n'); os.chmod('{temporary}/p', 0o700)\n"
        "subprocess.run(['/bin/sh', '{temporary}/p'], check=False)"
    ),
    "its own program's memory": Probe("os.open('/proc/self/mem', os.O_RDWR); through()"),
    "the terminal": Probe("os.open('/dev/tty', os.O_RDWR); through()", "nobody"),
}
VERSIONS = (landlock.LEAST_ABI, 5, 7)
"""The oldest Landlock, the last without scopes, and the one that this was written with."""


@pytest.fixture(autouse=True)
def _enforced() -> None:
    if reason := branches_enforced():
        if REQUIRED:
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture
def private() -> Iterator[PrivateFolder]:
    with contextlib.closing(PrivateFolder()) as made:
        yield made


@pytest.mark.thorough  # the branch of a kernel, below, is tried always
@pytest.mark.parametrize("version", VERSIONS)
def test_no_probe_leads_out_of_a_confined_fork(version: int) -> None:
    if version > landlock.abi():
        pytest.skip(f"this Linux has Landlock {landlock.abi()}")
    assert escapes_of(PROBES_OF_BRANCHES, functools.partial(_in_fork, version)) == {}


@pytest.mark.thorough
def test_no_probe_leads_a_user_out_of_a_confined_fork() -> None:
    def try_all() -> dict[str, str]:
        shut_anyway.cache_clear()  # of root
        return escapes_of(PROBES_OF_BRANCHES, functools.partial(_in_fork, landlock.abi()))

    assert as_user(try_all) == {}


IN_BRANCH = """
import io, os, sys
os.chdir({root!r})
own = os.environ["TMPDIR"]
for name in {folders!r}:
    os.mkdir(os.path.join(own, name))
output = io.StringIO()
before = sys.stdin, sys.stdout
sys.stdin, sys.stdout = io.StringIO({programs!r}.replace({temporary!r}, own)), output
try:
    exec(compile({runner!r}, "probes", "exec"), {{}})
finally:
    sys.stdin, sys.stdout = before
print(output.getvalue())
"""
MORE_IN_A_BRANCH = {
    "the snapshot's memory": Probe("os.open('/proc/{snapshot}/mem', os.O_RDONLY); through()", "nobody"),
    "a signal to the snapshot": Probe("os.kill({snapshot}, signal.SIGWINCH); through()", "nobody"),
    "tracing the snapshot": Probe("call(101, 117, 0x4206, {snapshot}, 0, 0); through()", "nobody"),
    "inherited connections": Probe(
        "for fd in map(int, os.listdir('/proc/self/fd')):\n"
        "    with contextlib.suppress(OSError):\n"
        "        kind = os.readlink(f'/proc/self/fd/{{fd}}')\n"
        "        through(kind.startswith('socket:') and bool(socket.socket(fileno=os.dup(fd)).getpeername()))",
        "nobody",
    ),
    "the kernel's files to be written": Probe(
        "for fd in map(int, os.listdir('/proc/self/fd')):\n"
        "    with contextlib.suppress(OSError):\n"
        "        path = os.readlink(f'/proc/self/fd/{{fd}}')\n"
        "        writes = fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_WRONLY | os.O_RDWR)\n"
        "        through(bool(writes) and os.path.isfile(path) and not path.startswith(os.environ['TMPDIR']))",
        "nobody",
    ),
}


@pytest.mark.parametrize("branching", ["fork", "template"], indirect=True, scope="module")
def test_no_probe_leads_out_of_a_branch_of_a_kernel(branching: NotebookKernel) -> None:
    assert branching.run("print(await taken())").stdout == "taken\n"
    assert branching.run("await said('1', owner='probes', confinement=reading)").status == "ok"
    pids = {"kernel": branching.value("os.getpid()"), "snapshot": branching.value("snapshot_pids()[0]")}
    snapshot = pids["snapshot"]
    of_keeper = {}
    if branching.value("way") == "'fork'":  # forked before any branch, with all that undo needs, secrets among it
        pids["keeper"] = Path(f"/proc/{snapshot}/task/{snapshot}/children").read_text("ascii").split()[0]
        of_keeper = {
            name.replace("snapshot", "keeper"): replace(probe, code=probe.code.replace("{snapshot}", "{keeper}"))
            for name, probe in MORE_IN_A_BRANCH.items()
        }
    probes = {}
    for name, probe in {**PROBES_OF_BRANCHES, **of_keeper, **MORE_IN_A_BRANCH}.items():
        code = probe.code
        for process, pid in pids.items():
            code = code.replace(f"{{{process}}}", pid)
        probes[name] = replace(probe, code=code)

    def in_branch(private: PrivateFolder) -> Run:
        def run(programs: str, root: Path, environ: Mapping[str, str]) -> bytes:
            code = IN_BRANCH.format(
                root=str(root),
                folders=[folder.name for folder in Path(private.temporary).iterdir()],
                programs=programs,
                temporary=private.temporary,
                runner=RUNNER,
            )
            bounds = f"Confinement(read=({str(root)!r},))"
            cell = branching.run(f"print(await said({code!r}, owner='probes', seconds=120, confinement={bounds}))")
            assert cell.status == "ok", cell.error
            # programs that were refused said so
            return next((line for line in cell.stdout.splitlines() if line.startswith("{")), cell.stdout).encode()

        return run

    assert escapes_of(probes, in_branch) == {}


def test_it_writes_in_its_folders_alone_and_hidden_places_stay_hidden(tmp_path: Path, private: PrivateFolder) -> None:
    secrets = (".ssh/id_rsa", ".aws/credentials", ".netrc", "own/secret.txt")
    for name in (*secrets, "data.csv", "own/data.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name, "utf-8")
    # what a command that was allowed could do, a branch cannot
    confinement = Confinement(
        read=(str(tmp_path),), write=(str(tmp_path),), hidden=(str(tmp_path / "own/secret.txt"),), any_host=True
    )
    bounds = branch_bounds(confinement, private, cwd=str(tmp_path), environ={**os.environ, "HOME": str(tmp_path)})

    def try_them() -> str:
        read = [name for name in (*secrets, "data.csv", "own/data.csv") if _allowed((tmp_path / name).read_text)]
        folders = (str(tmp_path), private.path, private.temporary, private.caches, os.environ["TMPDIR"], "/tmp")
        written = [folder for folder in folders if _allowed(Path(folder, "new").write_text, "x")]
        return repr((read, written))

    own = [private.temporary, private.caches, private.temporary]
    assert _result_of(bounds, try_them) == repr((["data.csv", "own/data.csv"], own))


def test_a_process_that_leaves_its_session_is_ended_with_the_branch(tmp_path: Path, private: PrivateFolder) -> None:
    bounds = branch_bounds(Confinement(read=(str(tmp_path),)), private, cwd=str(tmp_path))

    def leave() -> str:
        for _ in range(2):
            heard, said = os.pipe()
            if os.fork() == 0:
                os.setsid()
                os.environ.clear()
                os.closerange(3, 100)
                time.sleep(600)
                os._exit(0)
            os.close(said)
            os.read(heard, 1)  # it has left
        return "left"

    assert _result_of(bounds, leave) == "left"
    assert len([pid for pid in marked_processes(bounds.mark) if _runs(pid)]) == 2
    assert end_marked(bounds.mark)
    assert not [pid for pid in marked_processes(bounds.mark) if _runs(pid)]


def test_a_process_with_other_threads_is_not_confined_in_part(tmp_path: Path, private: PrivateFolder) -> None:
    import threading

    bounds = branch_bounds(Confinement(read=(str(tmp_path),)), private, cwd=str(tmp_path))

    def in_threads() -> str:
        ended = threading.Event()
        threading.Thread(target=ended.wait, daemon=True).start()
        try:
            bounds.enter()
        except ConfinementError as error:
            return str(error)
        return ""

    assert "other threads" in _forked(in_threads)


def test_what_is_enforced_only_in_part_raises(tmp_path: Path, private: PrivateFolder) -> None:
    bounds = branch_bounds(Confinement(read=(str(tmp_path),)), private, cwd=str(tmp_path), version=2)
    assert "too old" in _result_of(bounds, lambda: "it ran")


def test_everyday_work_is_done_in_it(tmp_path: Path, private: PrivateFolder) -> None:
    (tmp_path / "data.csv").write_text("a,b\n1,2\n", "utf-8")
    bounds = branch_bounds(Confinement(read=(str(tmp_path),)), private, cwd=str(tmp_path))

    def work() -> str:
        import asyncio
        import subprocess
        import tempfile

        with tempfile.TemporaryFile("w") as file:
            file.write("x")
        shell = subprocess.run(
            "cat data.csv | wc -l; cp -p data.csv $TMPDIR; free > /dev/null && echo ok",
            shell=True,
            cwd=tmp_path,
            capture_output=True,
            check=True,
        )
        status = Path("/proc/self/status").read_text("utf-8")
        return repr((asyncio.run(asyncio.sleep(0, "slept")), shell.stdout.split(), "VmRSS" in status))

    assert _result_of(bounds, work) == repr(("slept", [b"2", b"ok"], True))


HOLDER = """
import os
from cellwright.kernel.branches.resets import overwrite_in_memory, secrets_of

key, token, short = os.environ["ANTHROPIC_API_KEY"], os.environ["HUB_TOKEN"], os.environ["DB_PASSWORD"]
# as headers, settings and messages hold them
held = [{"x-api-key": f"{key}"}, f"Bearer {token} {key}".encode(), [f"{number}:{key}" for number in range(50)], short]
needles = secrets_of(os.environ)
print("held", flush=True)
input()
print(overwrite_in_memory(needles), held[2][7], os.environ["HOME"], held[3], flush=True)
input()
"""


def test_secrets_are_overwritten_in_memory_and_nothing_else() -> None:
    key, token, short = "sk-ant-api03-" + os.urandom(30).hex(), os.urandom(20).hex(), "s" * (LEAST_BYTES - 1)
    environ = {"ANTHROPIC_API_KEY": key, "HUB_TOKEN": token, "DB_PASSWORD": short, "HOME": "/home/somebody"}
    # a process of its own, looked at from here: one that counts in its own memory finds what the counting copied
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True
    ) as holder:
        assert holder.stdin
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        assert _count_in_memory(holder.pid, key) > 50
        assert _count_in_memory(holder.pid, token) > 1
        print(file=holder.stdin, flush=True)
        count, *rest = holder.stdout.readline().split()
        assert int(count) > 50
        assert rest == [f"7:{'*' * len(key)}", "/home/somebody", short]
        assert [_count_in_memory(holder.pid, secret) for secret in (key, token)] == [0, 0]
        holder.communicate("\n")


def _count_in_memory(pid: int, text: str) -> int:
    """Count the copies of `text` that the memory of process `pid` holds, wherever they are."""
    count = 0
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text("utf-8").splitlines():
            begin, end = (int(address, 16) for address in line.split()[0].split("-"))
            if line.split()[1].startswith("rw"):
                memory.seek(begin)
                with contextlib.suppress(OSError):
                    count += memory.read(end - begin).count(text.encode())
    return count


def _in_fork(version: int, private: PrivateFolder) -> Run:
    """Run the probes in a forked process, whose descriptors are cut as those of a branch are."""

    def run(programs: str, root: Path, environ: Mapping[str, str]) -> bytes:
        bounds = branch_bounds(Confinement(read=(str(root),)), private, cwd=str(root), environ=environ, version=version)

        def try_all() -> str:
            os.chdir(root)
            sys.stdin, sys.stdout = io.StringIO(programs), io.StringIO()
            exec(compile(RUNNER, "probes", "exec"), {})
            return str(sys.stdout.getvalue())

        return _result_of(bounds, try_all).encode()

    return run


def _result_of(bounds: BranchBounds, work: Callable[[], str]) -> str:
    """Do `work` in a forked process within `bounds`; its answer, or the text of what it raised."""

    def confined() -> str:
        bounds.enter()
        return work()

    return _forked(confined)


def _forked(work: Callable[[], str]) -> str:
    heard, said = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(said, 3)
            for number in (0, 1):
                os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.closerange(4, 4096)
            try:
                text = work()
            except Exception:  # noqa: BLE001 - the parent is to name it
                text = traceback.format_exc()
            with open(3, "w") as told:
                told.write(text)
        finally:
            os._exit(0)
    os.close(said)
    with os.fdopen(heard) as told:
        text = told.read()
    os.waitpid(child, 0)
    return text


def _allowed(work: Callable[..., object], *arguments: str) -> bool:
    try:
        work(*arguments)
    except PermissionError:
        return False
    return True


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
