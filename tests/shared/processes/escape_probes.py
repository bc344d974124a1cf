"""Ways out of a sandbox: small programs, each with canaries outside of it, and the run of all of them in one sandbox.

A probe is Python that says so where it got through. Besides, whoever runs it looks at the file and at the process outside
that are its own. It is tried without a sandbox first, if that can be done: what is shut anyway would prove nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cellwright.agent.calls.approval import Confinement
from cellwright.sandbox.mechanisms import Sandbox, in_container
from cellwright.sandbox.private_folder import PrivateFolder

SECONDS = 120

RUNNER = """
import contextlib, ctypes, errno, fcntl, io, json, os, platform, signal, socket, stat, struct, subprocess, sys, time
from pathlib import Path
libc = ctypes.CDLL(None, use_errno=True)
machine = platform.machine()
def through(yes=True):
    if yes:
        os.write(said, b"1")
def mode(path):
    return os.stat(path).st_mode & 0o777
def result_of(x86_64, aarch64, *arguments):
    number = x86_64 if machine == "x86_64" else aarch64
    passed = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = libc.syscall(ctypes.c_long(number), *passed)
    if result < 0 and ctypes.get_errno() == errno.ENOSYS:
        os.write(said, b"0")  # this Linux was built without it
    return result
def call(*arguments):
    if result_of(*arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def looked_at(*arguments):
    # the call may fail by its arguments, which nobody looks at who refuses it
    done = result_of(*arguments) >= 0
    through(done or ctypes.get_errno() not in (errno.EPERM, errno.EACCES, errno.ENOSYS))
def new_process(*arguments):
    # without a stack of its own the child goes on here
    number = 56 if machine == "x86_64" else 220
    child = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(value) for value in (*arguments, 0, 0, 0, 0)))
    if child == 0:
        os._exit(0)
    through(child > 0)
def written_to(place):
    for folder, folders, files in os.walk(place):
        folders[:] = [name for name in folders if not os.path.islink(os.path.join(folder, name))]
        for name in files:
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                if os.stat(path).st_mode & 0o222:
                    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
                    yield path
probes, answers = json.loads(sys.stdin.read()), {"0": [], "1": []}
for name, code in probes.items():
    heard, said = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os.close(heard)
        sys.stdout = sys.stderr = io.StringIO()
        with contextlib.suppress(BaseException):
            exec(compile(code, name, "exec"))
        os._exit(0)
    os.close(said)
    os.waitpid(child, 0)
    os.set_blocking(heard, False)
    with contextlib.suppress(BlockingIOError):
        if answer := os.read(heard, 1):
            answers[answer.decode()].append(name)
    os.close(heard)
print(json.dumps(answers))
"""


@dataclass(frozen=True)
class Probe:
    """A program; `free` says who gets through without a sandbox: everybody, root, or nobody that it could be tried by.

    `by` is the mechanism that it is about, if it is about one. Names in braces stand for what is outside: `{outside}` and
    `{victim}` are a file and a process of its own.
    """

    code: str
    free: str = "everybody"
    by: str = ""


NETWORK = {
    "a TCP connection": Probe("socket.create_connection(('127.0.0.1', {tcp})); through()"),
    "UDP": Probe("s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('127.0.0.1', 9)); through()"),
    "TCP fast open": Probe(
        "s = socket.socket(); s.sendto(b'x', 0x20000000, ('127.0.0.1', {tcp})); through()", "nobody"
    ),
    "multipath TCP": Probe("socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262); through()", "nobody"),
    "IPv6": Probe("socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); through()", "nobody"),
    "a raw socket": Probe("socket.socket(socket.AF_PACKET, socket.SOCK_RAW); through()", "nobody"),
    "netlink": Probe("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); through()"),
    "vsock": Probe("socket.socket(40, socket.SOCK_STREAM); through()", "nobody"),
    "a socket by its path": Probe("s = socket.socket(socket.AF_UNIX); s.connect({path!r}); through()"),
    "a datagram to a path": Probe(
        "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(b'x', {datagram!r}); through()"
    ),
    "a datagram from a pair": Probe(
        "s, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(b'x', {datagram!r}); through()"
    ),
    "an abstract socket": Probe("s = socket.socket(socket.AF_UNIX); s.connect({abstract!r}); through()"),
    "an abstract name": Probe("s = socket.socket(socket.AF_UNIX); s.bind('\\0{temporary}x'); through()", by="Landlock"),
    "a socket at a path outside": Probe("s = socket.socket(socket.AF_UNIX); s.bind({outside!r} + '-s'); through()"),
}

_ASYNC = "fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK); os.write(w, b'x')"
_SOCKETS = "a, b = socket.socketpair(); own = struct.pack('i', {victim}); "
_SIGIO = "; fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK); b.send(b'x')"
SIGNALS = {
    "a signal": Probe("os.kill({victim}, 15)"),
    "a signal to a group": Probe("os.killpg({victim}, 15)"),
    "a signal to a thread": Probe("call(234, 131, {victim}, {victim}, 15)"),
    "a signal to a thread by its number": Probe("call(200, 130, {victim}, 15)"),
    "a signal with a value": Probe("i = ctypes.create_string_buffer(128); call(129, 138, {victim}, 15, i)", "nobody"),
    "a signal by a descriptor": Probe("call(424, 424, os.pidfd_open({victim}), 15, 0, 0)"),
    "F_SETOWN": Probe(f"r, w = os.pipe(); fcntl.fcntl(r, fcntl.F_SETOWN, {{victim}}); {_ASYNC}"),
    "F_SETOWN with F_SETSIG": Probe(
        f"r, w = os.pipe(); fcntl.fcntl(r, 10, 15); fcntl.fcntl(r, fcntl.F_SETOWN, {{victim}}); {_ASYNC}"
    ),
    "F_SETOWN of a group": Probe(f"r, w = os.pipe(); fcntl.fcntl(r, fcntl.F_SETOWN, -{{victim}}); {_ASYNC}"),
    "F_SETOWN_EX": Probe(f"r, w = os.pipe(); fcntl.fcntl(r, 15, struct.pack('ii', 1, {{victim}})); {_ASYNC}"),
    "FIOSETOWN": Probe(f"{_SOCKETS}fcntl.ioctl(a, 0x8901, own){_SIGIO}"),
    "SIOCSPGRP": Probe(f"{_SOCKETS}fcntl.ioctl(a, 0x8902, own){_SIGIO}"),
    "a lease": Probe("fcntl.fcntl(os.open({readable!r}, os.O_RDONLY), 1024, fcntl.F_RDLCK); through()", "nobody"),
    "F_NOTIFY": Probe("fcntl.fcntl(os.open('.', os.O_RDONLY), 1026, 0x80000001); through()"),
    "F_SETSIG": Probe("fcntl.fcntl(os.pipe()[0], 10, 15); through()"),
    "a child of the parent": Probe("new_process(0x8000 | 17)"),
}
PROCESSES = {
    "an environment": Probe("through(b'SECRET' in Path('/proc/{victim}/environ').read_bytes())"),
    "memory": Probe("Path('/proc/{victim}/mem').open('rb'); through()"),
    "memory to be written": Probe("os.open('/proc/{victim}/mem', os.O_RDWR); through()"),
    "a map of memory": Probe("through(Path('/proc/{victim}/maps').read_bytes() != b'')"),
    "a working folder": Probe("os.readlink('/proc/{victim}/cwd'); through()"),
    "a root": Probe("os.listdir('/proc/{victim}/root/'); through()"),
    "the first process's root": Probe("os.listdir('/proc/1/root/'); through()", "nobody", by="Landlock"),
    "a file by another's root": Probe("open('/proc/{victim}/root{outside}').read(); through()"),
    "a program's file": Probe("os.readlink('/proc/{victim}/exe'); through()"),
    "descriptors": Probe("os.readlink('/proc/{victim}/fd/0'); through()"),
    "input and output": Probe("through(Path('/proc/{victim}/io').read_bytes() != b'')", "root"),
    "its own out of memory score": Probe("os.open('/proc/{victim}/oom_score_adj', os.O_WRONLY); through()"),
    "its name": Probe("os.open('/proc/{victim}/comm', os.O_WRONLY); through()"),
    "ptrace": Probe("call(101, 117, 0x4206, {victim}, 0, 0); through()"),
    "reading memory by a call": Probe(
        "b = ctypes.create_string_buffer(8); v = struct.pack('PN', ctypes.addressof(b), 8)\n"
        "looked_at(310, 270, {victim}, v, 1, v, 1, 0)"
    ),
    "writing memory by a call": Probe(
        "b = ctypes.create_string_buffer(8); v = struct.pack('PN', ctypes.addressof(b), 8)\n"
        "looked_at(311, 271, {victim}, v, 1, v, 1, 0)"
    ),
    "advice about memory": Probe("looked_at(440, 440, os.pidfd_open({victim}), 0, 0, 21, 0)", "nobody"),
    "limits": Probe("import resource; resource.prlimit({victim}, resource.RLIMIT_CORE, (0, 0)); through()"),
    "its own mark": Probe("import resource; resource.setrlimit(resource.RLIMIT_RTTIME, (9, 9)); through()"),
    "a descriptor of another": Probe("call(438, 438, os.pidfd_open({victim}), 0, 0); through()"),
    "comparing with another": Probe("looked_at(312, 272, {victim}, os.getpid(), 1, 0, 0)"),
}
KERNEL = {
    "io_uring": Probe("looked_at(425, 425, 1, ctypes.create_string_buffer(120))", "nobody"),
    "keyrings": Probe("call(250, 219, 0, -3, 0); through()"),
    "a new key": Probe("looked_at(248, 217, b'user', b'x', b'y', 1, -4)"),
    "bpf": Probe("looked_at(321, 280, 0, ctypes.create_string_buffer(120), 120)", "root"),
    "performance events": Probe("looked_at(298, 241, ctypes.create_string_buffer(120), 0, -1, -1, 0)", "root"),
    "userfaultfd": Probe("looked_at(323, 282, 1)", "nobody"),
    "fanotify": Probe("looked_at(300, 262, 0x200, 0)", "nobody"),
    "shared memory by key": Probe("call(29, 194, {key}, 4096, 0); through()"),
    "shared memory by number": Probe("looked_at(30, 196, {shared}, 0, 0)", by="Landlock"),
    "a message queue by number": Probe("call(71, 187, {queue}, 0, 0); through()"),
    "a semaphore by number": Probe("call(66, 191, {semaphore}, 0, 0, 0); through()"),
    "a message queue by name": Probe(
        "looked_at(240, 180, b'cellwright', 0x42, 0o600, 0); call(241, 181, b'cellwright')", by="Landlock"
    ),
    "mounting": Probe("looked_at(165, 40, b'none', b'.', b'tmpfs', 0, 0)", "nobody"),
    "unmounting": Probe("looked_at(166, 39, b'/proc', 2)", "nobody"),
    "another root": Probe("call(161, 51, b'.'); through()", "root"),
    "a pivot": Probe("looked_at(155, 41, b'.', b'.')", "nobody"),
    "a file system of one's own": Probe("looked_at(430, 430, b'tmpfs', 0)", "root"),
    "a tree of mounts": Probe("looked_at(428, 428, -100, b'.', 1)", "root"),
    "moving a mount": Probe("looked_at(429, 429, -100, b'.', -100, b'.', 0)", "nobody"),
    "attributes of a mount": Probe("looked_at(442, 442, -100, b'.', 0, ctypes.create_string_buffer(32), 32)", "nobody"),
    "a handle": Probe(
        "h = ctypes.create_string_buffer(struct.pack('Ii', 8, 1) + b'\\2' + b'\\0' * 7, 16)\n"
        "looked_at(304, 265, os.open('.', os.O_RDONLY), h, 0)",
        "root",
    ),
    "another's namespace": Probe("looked_at(308, 268, os.open('/proc/{victim}/ns/uts', os.O_RDONLY), 0)", "root"),
    "a namespace's descriptor": Probe("looked_at(308, 268, os.pidfd_open({victim}), 0x04000000)", "root"),
    "accounting": Probe("looked_at(163, 89, b'/nowhere')", "root"),
    "the host's name": Probe("looked_at(170, 161, b'', -1)", "root"),
    "the clock": Probe("looked_at(227, 112, 99, ctypes.create_string_buffer(16))", "root"),
    "the kernel's log": Probe("looked_at(103, 116, 10, 0, 0)", "root"),
    "a module": Probe("looked_at(175, 105, 0, 0, 0)", "nobody"),
    "swapping": Probe("looked_at(167, 224, b'/nowhere', 0)", "root"),
    "a reboot with wrong numbers": Probe("looked_at(169, 142, 0, 0, 0, 0)", "root"),
    "a call of another instruction set": Probe(
        "r = libc.syscall(ctypes.c_long(0x40000000 | 39)) if machine == 'x86_64' else -1; through(r > 0)", "nobody"
    ),
    "capabilities": Probe(
        "l = next(l for l in open('/proc/self/status') if l.startswith('CapEff')); through(int(l.split()[1], 16) > 255)",
        "root",
    ),
    "rights of a program's owner": Probe("through(libc.prctl(39, 0, 0, 0, 0) == 0)"),
    "typing into a terminal": Probe("m, s = os.openpty(); fcntl.ioctl(s, 0x5412, b'x'); through()", "nobody"),
    "another line discipline": Probe(
        "m, s = os.openpty(); fcntl.ioctl(s, 0x5423, struct.pack('i', 0)); through()", "nobody"
    ),
    "settings of the kernel": Probe("through(next(written_to('/proc/sys'), ''))", "root"),
    "buses, interrupts and file systems": Probe(
        "names = ('irq', 'bus', 'acpi', 'fs', 'scsi', 'driver', 'tty')\n"
        "through([path for name in names for path in written_to(f'/proc/{{name}}')])",
        "root",
    ),
    "other files of the kernel": Probe(
        "through([p for p in ('/proc/sysrq-trigger', '/proc/mtrr', '/proc/sys/kernel/core_pattern')\n"
        "    if os.path.exists(p) and not os.close(os.open(p, os.O_WRONLY))])",
        "root",
    ),
    "settings of devices and groups": Probe("through(next(written_to('/sys'), ''))", "root"),
    "memory of the kernel": Probe(
        "through([p for p in ('kcore', 'kpagecount', 'slabinfo', 'timer_list', 'vmallocinfo', 'kmsg')\n"
        "    if os.path.exists(f'/proc/{{p}}') and open(f'/proc/{{p}}', 'rb').read(8)])",
        "root",
        by="bubblewrap",
    ),
    "a disk": Probe(
        "p = [p for p in Path('/dev').iterdir() if p.is_block_device()]; through([p.open('rb').read(1) for p in p][:1])",
        "nobody",
    ),
    "a device that was made": Probe(
        "os.mknod('{temporary}/disk', 0o600 | stat.S_IFBLK, {disk}); open('{temporary}/disk', 'rb'); through()",
        "nobody",
    ),
}
for name, flag in {
    **{"user": 0x10000000, "mount": 0x20000, "process": 0x20000000, "network": 0x40000000, "name": 0x04000000},
    **{"message": 0x08000000, "group": 0x02000000},
}.items():
    KERNEL[f"a {name} namespace"] = Probe(f"call(272, 97, {flag}); through()", "nobody")
    KERNEL[f"a clone in a {name} namespace"] = Probe(f"new_process({flag | 17})", "nobody")
    KERNEL[f"a new clone in a {name} namespace"] = Probe(
        f"looked_at(435, 435, struct.pack('8Q', {flag}, 0, 0, 0, 17, 0, 0, 0), 64)", "nobody"
    )

_READ_ONLY = "fd = os.open({readable!r}, os.O_RDONLY); "
FILES = {
    "modes of what may be read": Probe("os.chmod({readable!r}, 0o600); through(mode({readable!r}) == 0o600)"),
    "times": Probe("os.utime({readable!r}, (1, 1)); through(os.stat({readable!r}).st_mtime == 1)"),
    "modes outside": Probe("os.chmod({outside!r}, 0o600); through(mode({outside!r}) == 0o600)"),
    "modes outside, newer": Probe("call(452, 452, -100, os.fsencode({outside!r}), 0o600, 0)", "nobody"),
    "an owner outside": Probe("os.chown({outside!r}, os.getuid(), os.getgid())"),
    "times outside": Probe("os.utime({outside!r}, (1, 1))"),
    "attributes": Probe(
        "os.setxattr({outside!r}, 'user.x', b'y'); through('user.x' in os.listxattr({outside!r}))", "nobody"
    ),
    "a link to outside": Probe("os.symlink({outside!r}, '{temporary}/l'); open('{temporary}/l').read(); through()"),
    "a hard link to outside": Probe(
        "os.link({outside!r}, '{temporary}/h'); open('{temporary}/h').read(); through()", "nobody"
    ),
    "a move from outside": Probe("os.rename({outside!r}, '{temporary}/m'); through()", "nobody"),
    "a move to outside": Probe(
        "open('{temporary}/n', 'w'); os.rename('{temporary}/n', {outside!r}); through()", "nobody"
    ),
    "an exchange with outside": Probe(
        "open('{temporary}/e', 'w'); call(316, 276, -100, os.fsencode('{temporary}/e'), -100, os.fsencode({outside!r}), 2)",
        "nobody",
    ),
    "reading outside": Probe("open({outside!r}).read(); through()"),
    "writing outside": Probe("open({outside!r}, 'a').write('x')"),
    "a new file outside": Probe("open({outside!r} + '-new', 'w'); through()"),
    "a file without a name": Probe(
        "os.open(os.path.dirname({outside!r}), os.O_TMPFILE | os.O_WRONLY); through()", "nobody"
    ),
    "a new folder outside": Probe("os.mkdir({outside!r} + '-folder'); through()"),
    "a pipe outside": Probe("os.mkfifo({outside!r} + '-pipe'); through()"),
    "removing outside": Probe("os.unlink({outside!r})"),
    "emptying outside": Probe("os.truncate({outside!r}, 0)"),
    "emptying": Probe("os.truncate({readable!r}, 0); through(not os.path.getsize({readable!r}))"),
    "emptying when opened": Probe("os.open({readable!r}, os.O_TRUNC); through(not os.path.getsize({readable!r}))"),
    "opening once more": Probe("fd = os.open({outside!r}, os.O_PATH); open(f'/proc/self/fd/{{fd}}').read(); through()"),
    "opening once more to write": Probe(
        "fd = os.open({readable!r}, os.O_RDONLY); open(f'/proc/self/fd/{{fd}}', 'a'); through()"
    ),
    "copying into what may be read": Probe(
        "fd = os.open({readable!r}, os.O_RDONLY); os.copy_file_range(fd, os.open({readable!r}, os.O_RDONLY), 1); through()",
        "nobody",
    ),
    "the way up": Probe("os.chdir('/proc/self/cwd'); open('../outside/first').read(); through()"),
    "an inherited descriptor": Probe("os.read({descriptor}, 1); through()", "nobody"),
    "a folder's descriptor": Probe("os.open('first', os.O_RDONLY, dir_fd={folder_descriptor}); through()", "nobody"),
    "flags": Probe(
        f"{_READ_ONLY}flags = struct.pack('l', 0x80 | 0x80000); fcntl.ioctl(fd, 0x40086602, flags); through()", "nobody"
    ),
    "flags, by the older request": Probe(
        f"{_READ_ONLY}fcntl.ioctl(fd, 0x40046602, struct.pack('l', 0x80 | 0x80000)); through()", "nobody"
    ),
    "a project's number": Probe(
        f"{_READ_ONLY}now = bytearray(28); fcntl.ioctl(fd, 0x801C581F, now); fcntl.ioctl(fd, 0x401C5820, now); through()",
        "nobody",
    ),
    "a version": Probe(f"{_READ_ONLY}fcntl.ioctl(fd, 0x40087602, struct.pack('l', 7)); through()", "nobody"),
    "thawing the disk": Probe(
        f"{_READ_ONLY}\ntry: fcntl.ioctl(fd, 0xC0045878, 0)\n"
        "except OSError as error: through(error.errno not in (errno.EPERM, errno.EACCES, errno.ENOTTY))",
        "root",
    ),
    "file attributes by a call": Probe(
        "call(469, 469, -100, os.fsencode({outside!r}), struct.pack('Q4I', 0x80, 0, 0, 0, 0), 24, 0)", "nobody"
    ),
}
PROBES = {**NETWORK, **SIGNALS, **PROCESSES, **KERNEL, **FILES}


def reading(root: str) -> Confinement:
    """The bounds of what runs unasked."""
    return Confinement(read=(root,))


Run = Callable[[str, Path, Mapping[str, str]], bytes]
"""Runs `RUNNER` in a folder with an environment: programs in, answers out."""


def escapes(sandbox: Sandbox, bounds: Callable[[str], Confinement] = reading) -> dict[str, str]:
    """Try the probes with `sandbox`, within the bounds made for their folder, and without.

    The names of those that are wrong, with what is wrong.
    """
    mechanism = "bubblewrap" if sandbox.bubblewrap else "Landlock"
    tried = {name: probe for name, probe in PROBES.items() if probe.by in ("", mechanism)}
    return escapes_of(tried, lambda private: functools.partial(_run_program, sandbox, bounds, private))


def escapes_of(probes: Mapping[str, Probe], confined: Callable[[PrivateFolder], Run]) -> dict[str, str]:
    """Try `probes` by the run that `confined` makes for a private folder, and without it; the same answer as `escapes`."""
    with contextlib.closing(PrivateFolder()) as private:
        outside = _Outside(private, probes)
        with outside:
            got_through, _ = outside.run(confined(private))
    shut = _shut(probes)
    return {**dict.fromkeys(shut, "it is shut without a sandbox, too"), **dict.fromkeys(got_through, "it got through")}


@functools.cache
def shut_anyway() -> tuple[str, ...]:
    """The usual probes that lead nowhere without a sandbox either, and should."""
    return _tried_free(PROBES)


def _shut(probes: Mapping[str, Probe]) -> list[str]:
    others = {name: probe for name, probe in probes.items() if name not in PROBES}
    return [name for name in (*shut_anyway(), *(_tried_free(others) if others else ())) if name in probes]


def _tried_free(tried: Mapping[str, Probe]) -> tuple[str, ...]:
    who = ("everybody", "root") if os.geteuid() == 0 else ("everybody",)
    probes = {name: probe for name, probe in tried.items() if probe.free in who}
    with contextlib.closing(PrivateFolder()) as private:
        free = _Outside(private, probes)
        with free:
            got_through, absent = free.run(functools.partial(_run_program, None, reading, private))
    # a container shuts some of them by itself
    return () if in_container() else tuple(set(probes) - {*got_through, *absent})


class _Outside:
    """What lies outside of a sandbox: sockets, processes and files, for each probe its own."""

    def __init__(self, private: PrivateFolder, probes: Mapping[str, Probe]) -> None:
        self._private = private
        self._probes = probes
        self._held = contextlib.ExitStack()

    def __enter__(self) -> None:
        held = self._held
        self._folder = Path(os.path.realpath(held.enter_context(tempfile.TemporaryDirectory())))
        self._root, outside = self._folder / "project", self._folder / "outside"
        self._root.mkdir()
        outside.mkdir()
        (outside / "first").write_text("text", "utf-8")
        tcp = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        stream = held.enter_context(_unix(str(self._folder / "s")))
        hidden = held.enter_context(_unix(f"\0{self._folder}"))
        datagram = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        datagram.bind(str(self._folder / "d"))
        self._descriptors = [os.open(__file__, os.O_RDONLY), os.open(outside, os.O_RDONLY)]
        for descriptor in self._descriptors:
            os.set_inheritable(descriptor, True)
            held.callback(os.close, descriptor)
        self._targets = {
            **{"tcp": tcp.getsockname()[1], "path": stream.getsockname(), "datagram": datagram.getsockname()},
            **{"abstract": hidden.getsockname()},
            **dict(zip(("descriptor", "folder_descriptor"), self._descriptors, strict=True)),
            **{"disk": self._folder.stat().st_dev, "kernel": os.getpid()},
            **held.enter_context(_shared_by_key()),
        }
        self._files = {name: outside / str(number) for number, name in enumerate(self._probes)}
        self._victims: dict[str, subprocess.Popen[bytes]] = {}
        for name, probe in self._probes.items():
            self._files[name].write_text("text", "utf-8")
            self._files[name].chmod(0o644)
            if "{victim}" in probe.code:
                self._victims[name] = subprocess.Popen(
                    ["sleep", str(SECONDS)], env={"SECRET": "x"}, cwd=outside, stdin=subprocess.DEVNULL, process_group=0
                )
        self._before = {name: _state(path) for name, path in self._files.items()}

    def __exit__(self, *_: object) -> None:
        for victim in self._victims.values():
            victim.kill()
            victim.wait()
        self._held.close()

    def run(self, run: Run) -> tuple[list[str], list[str]]:
        """Run the probes; the names of those that got through, or did something to what is theirs, and of absent ones."""
        programs = {}
        for number, (name, probe) in enumerate(self._probes.items()):
            readable = self._root / str(number)
            readable.write_text("text", "utf-8")
            readable.chmod(0o644)
            victim = self._victims[name].pid if name in self._victims else 0
            own = {"outside": str(self._files[name]), "readable": str(readable), "victim": victim}
            temporary = tempfile.mkdtemp(dir=self._private.temporary)
            programs[name] = probe.code.format(**self._targets, **own, temporary=temporary)
        environ = {"PATH": os.defpath, "HOME": str(self._folder)}
        said = json.loads(run(json.dumps(programs), self._root, environ))
        changed = [name for name, path in self._files.items() if _state(path) != self._before[name]]
        ended = [name for name, victim in self._victims.items() if victim.poll() is not None]
        return [*dict.fromkeys((*said["1"], *changed, *ended))], said["0"]


def _run_program(
    sandbox: Sandbox | None,
    bounds: Callable[[str], Confinement],
    private: PrivateFolder,
    programs: str,
    root: Path,
    environ: Mapping[str, str],
) -> bytes:
    def start(arguments: Sequence[str], environ: Mapping[str, str], more: Sequence[int]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            arguments,
            cwd=root,
            env=environ,
            pass_fds=more,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    arguments = [sys.executable, "-I", "-c", RUNNER]
    with contextlib.ExitStack() as held:
        if sandbox is None:
            process = held.enter_context(start(arguments, environ, ()))
        else:
            confined = held.enter_context(
                contextlib.closing(
                    sandbox.start(start, arguments, bounds(str(root)), cwd=root, environ=environ, private=private)
                )
            )
            process = held.enter_context(confined.process)
        output, errors = process.communicate(programs.encode(), timeout=SECONDS)
        if sandbox is not None:
            confined.wait()
    assert process.returncode == 0, errors.decode("utf-8", "replace")
    return output


def _state(path: Path) -> tuple[object, ...]:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return ()
    # its change time moves with all that is done to it
    return path.read_bytes(), status.st_mode, status.st_uid, status.st_ino, status.st_ctime_ns


@contextlib.contextmanager
def _unix(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        yield listening


@contextlib.contextmanager
def _shared_by_key() -> Iterator[dict[str, int]]:
    """Objects that others find by their number; any process of the user may use and remove them."""
    libc = ctypes.CDLL(None)
    key = os.getpid()
    shared = libc.shmget(key, 4096, 0o1600)
    queue, semaphore = libc.msgget(0, 0o1600), libc.semget(0, 1, 0o1600)
    try:
        yield {"key": key, "shared": shared, "queue": queue, "semaphore": semaphore}
    finally:
        libc.shmctl(shared, 0, None)
        libc.msgctl(queue, 0, None)
        libc.semctl(semaphore, 0, 0)
