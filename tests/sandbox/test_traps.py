"""Ways out of a sandbox that one means or another is known to leave open: each is tried, and leads nowhere.

A trap is Python that says so where it got through. It is tried without the sandbox first: one that is shut anyway
would prove nothing.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cellwright.agent.calls.confinement import Confinement
from confined import Confined
from row_tables import for_each_row

CALL = """
import ctypes, os, platform, socket, struct, sys
from pathlib import Path
libc = ctypes.CDLL(None, use_errno=True)
def through(yes=True):
    print("got through" if yes else "")
def mode(path):
    return os.stat(path).st_mode & 0o777
def call(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
"""

NETWORK = {
    "a TCP connection": "socket.create_connection(('127.0.0.1', {tcp})); through()",
    "UDP": "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('127.0.0.1', 9)); through()",
    "TCP fast open": "s = socket.socket(); s.sendto(b'x', 0x20000000, ('127.0.0.1', {tcp})); through()",
    "multipath TCP": "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262); through()",
    "IPv6": "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); through()",
    "a raw socket": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW); through()",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); through()",
    "vsock": "socket.socket(40, socket.SOCK_STREAM); through()",
    "a socket by its path": "s = socket.socket(socket.AF_UNIX); s.connect({path!r}); through()",
    "a datagram to a path": "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(b'x', {datagram!r}); through()",
    "a datagram from a pair": (
        "s, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(b'x', {datagram!r}); through()"
    ),
    "an abstract socket": "s = socket.socket(socket.AF_UNIX); s.connect({abstract!r}); through()",
}
PROCESSES = {
    "signals": "os.kill({other}, 0 if {dry} else 10); through()",
    "signals by thread": "call(234 if platform.machine() == 'x86_64' else 131, {other}, {other}, 10); through()",
    "an environment": "through(b'SECRET' in Path('/proc/{other}/environ').read_bytes())",
    "memory": "Path('/proc/{other}/mem').open('rb'); through()",
    "a working folder": "os.readlink('/proc/{other}/cwd'); through()",
    "a root": "os.listdir('/proc/{other}/root/'); through()",
    "descriptors": "os.readlink('/proc/{other}/fd/0'); through()",
    "ptrace": "call(101 if platform.machine() == 'x86_64' else 117, 0x4206, {other}, 0, 0); through()",
    "limits": "import resource; resource.prlimit({other}, resource.RLIMIT_CORE, (0, 0)); through()",
    "a descriptor of another": "fd = os.pidfd_open({other}); call(438, fd, 0, 0); through()",
}
KERNEL = {
    "io_uring": "p = ctypes.create_string_buffer(120); call(425, 1, p); through()",
    "keyrings": "call(250 if platform.machine() == 'x86_64' else 219, 0, -3, 0); through()",
    "shared memory by key": "call(29 if platform.machine() == 'x86_64' else 194, {key}, 4096, 0); through()",
    "a user namespace": "call(272 if platform.machine() == 'x86_64' else 97, 0x10000000); through()",
    "a clone in a user namespace": (
        "pid = call(56 if platform.machine() == 'x86_64' else 220, 0x10000011, 0, 0, 0, 0)\n"
        "if pid == 0: os._exit(0)\n"
        "through()"
    ),
}
FILES = {
    "modes of what may be read": "os.chmod({readable!r}, 0o600); through(mode({readable!r}) == 0o600)",
    "times": "os.utime({readable!r}, (1, 1)); through(os.stat({readable!r}).st_mtime == 1)",
    "modes outside": "os.chmod({outside!r}, 0o600); through(mode({outside!r}) == 0o600)",
    "attributes": "os.setxattr({outside!r}, 'user.x', b'y'); through('user.x' in os.listxattr({outside!r}))",
    "a link to outside": "os.symlink({outside!r}, '{temporary}/l'); open('{temporary}/l').read(); through()",
    "a hard link to outside": "os.link({outside!r}, '{temporary}/h'); open('{temporary}/h').read(); through()",
    "a move from outside": "os.rename({outside!r}, '{temporary}/m'); through()",
    "emptying": "os.truncate({readable!r}, 0); through(not os.path.getsize({readable!r}))",
    "emptying when opened": "os.open({readable!r}, os.O_TRUNC); through(not os.path.getsize({readable!r}))",
    "the way up": "os.chdir('/proc/self/cwd'); open('../outside').read(); through()",
    "an inherited descriptor": "os.read({descriptor}, 1); through()",
    "a folder's descriptor": "os.open('outside', os.O_RDONLY, dir_fd={folder_descriptor}); through()",
}


@pytest.fixture
def targets(confined: Confined, tmp_path: Path) -> Iterator[dict[str, object]]:
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        _unix(tmp_path / "s") as stream,
        _unix(f"\0{tmp_path}") as hidden,
    ):
        datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        datagram.bind(str(tmp_path / "d"))
        other = subprocess.Popen(["sleep", "60"], env={"SECRET": "x"}, cwd=tmp_path)
        libc = ctypes.CDLL(None)
        shared = libc.shmget(key := os.getpid(), 4096, 0o1600)
        descriptor, folder = os.open(__file__, os.O_RDONLY), os.open(tmp_path, os.O_RDONLY)
        os.set_inheritable(descriptor, True)
        os.set_inheritable(folder, True)
        yield {
            **{"tcp": tcp.getsockname()[1], "path": stream.getsockname(), "datagram": datagram.getsockname()},
            **{"abstract": hidden.getsockname(), "other": other.pid, "dry": False, "key": key},
            **{"readable": str(confined.root / "readable"), "outside": str(tmp_path / "outside")},
            **{"temporary": confined.private.temporary, "descriptor": descriptor, "folder_descriptor": folder},
        }
        other.kill()
        other.wait()
        datagram.close()
        os.close(descriptor)
        os.close(folder)
        libc.shmctl(shared, 0, None)


@contextmanager
def _unix(address: Path | str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(address))
        listening.listen()
        yield listening


def prepared(trap: str, targets: dict[str, object], confined: Confined) -> str:
    for name in ("readable", "outside"):
        path = Path(str(targets[name]))
        path.write_text("text", "utf-8")
        path.chmod(0o644)
    for name in ("l", "h", "m"):
        Path(confined.private.temporary, name).unlink(missing_ok=True)
    return CALL + trap.format(**targets)


TRAPS = {**NETWORK, **PROCESSES, **KERNEL, **FILES}
NEED_MORE = {
    *("signals", "signals by thread", "vsock", "a raw socket", "multipath TCP", "io_uring", "attributes"),
    *("a descriptor of another", "a user namespace", "a clone in a user namespace", "an inherited descriptor"),
    *("a folder's descriptor", "TCP fast open", "shared memory by key"),
}
"""Not tried without the sandbox: they would end the target, or not every machine has them."""


def test_no_trap_leads_out(confined: Confined, targets: dict[str, object]) -> None:
    shut, got_through = [], {}
    for name, trap in TRAPS.items():
        if name not in NEED_MORE:
            plain = [sys.executable, "-I", "-c", prepared(trap, targets, confined)]
            free = subprocess.run(plain, cwd=confined.root, capture_output=True, text=True, check=False)
            if "got through" not in free.stdout:
                shut.append(f"{name}: {free.stderr}")
        ended = confined.python(prepared(trap, targets, confined))
        if "got through" in ended.output:
            got_through[name] = ended.output
    assert got_through == {}
    assert shut == []


def test_signals_stay_inside_without_the_scope_of_newer_systems(landlocked: Confined) -> None:
    """Landlock of Linux 6.2 to 6.11, which has no scopes: then the filter refuses."""
    from dataclasses import replace

    from msgspec import structs

    older = replace(landlocked, sandbox=structs.replace(landlocked.sandbox, landlock=3))
    with subprocess.Popen(["sleep", "60"]) as other:
        ended = older.bash(f"kill {other.pid}; kill -9 {other.pid}; cat /proc/{other.pid}/environ; echo going on")
        assert other.poll() is None
        other.send_signal(signal.SIGKILL)
    assert ended.output.count("not permitted") == 2
    assert "going on" in ended.output


@for_each_row("name", ["SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "DOCKER_HOST", "JUPYTERHUB_API_URL"])
def test_ways_to_others_are_not_in_the_environment(name: str, confined: Confined) -> None:
    assert "gone" in confined.bash(f"echo ${{{name}-gone}}", environ={name: "/run/somewhere"}).output


def test_this_process_stays_free(confined: Confined, tmp_path: Path) -> None:
    confined.bash("true")
    (tmp_path / "new").write_text("x", "utf-8")
    (tmp_path / "new").chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    assert "NoNewPrivs:\t0" in Path("/proc/self/status").read_text("utf-8")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


def test_any_host_opens_the_network_and_nothing_else(confined: Confined, targets: dict[str, object]) -> None:
    confinement = Confinement(read=(str(confined.root),), any_host=True)
    opened = {}
    for name in (
        "a TCP connection",
        "UDP",
        "a socket by its path",
        "a datagram to a path",
        "an abstract socket",
        "memory",
    ):
        opened[name] = "got through" in confined.python(prepared(TRAPS[name], targets, confined), confinement).output
    assert [name for name, open_ in opened.items() if open_] == ["a TCP connection", "UDP"]
