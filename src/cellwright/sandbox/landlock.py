"""Landlock: a thread gives up all access to files but what is listed, and what it starts inherits that.

For a command a fresh thread is restricted, starts it and ends; the process itself stays as it was. A process of one thread
can confine itself for good. A rule holds for all that lies below a path, and none takes anything back: what is hidden is
what no rule covers.
"""

from __future__ import annotations

import _thread
import ctypes
import functools
import os
import stat
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

from cellwright.sandbox.paths import PLAIN, KernelPlaces, below, kernel_places
from cellwright.sandbox.resolved_bounds import Bounds, ConfinementError
from cellwright.sandbox.seccomp import Filter, program

Result = TypeVar("Result")

LEAST_ABI = 3
"""Before it, files could be emptied that must not be written."""
_NETWORK_SINCE, _DEVICES_SINCE, _SCOPES_SINCE = 4, 5, 6

MOST_SIBLINGS = 2_000
"""As many rules as may stand in for one that would cover something hidden; they take 15 ms."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_FOR_VERSION, _PATH_BENEATH = 1, 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 1 << 1, 1 << 2, 1 << 3
_DEVICE_NODES = 1 << 6 | 1 << 11
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL

_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER_MODE, _AMBIENT, _CLEAR_ALL = 38, 22, 2, 47, 4
_CAPABILITY_VERSION = 0x20080522
_KEPT_CAPABILITIES = 0b11111111
"""Of files and own processes: CHOWN to SETUID. Root alone has any, and needs these to be root for its files."""


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """The version of Landlock in this Linux; 0 where there is none, or it is switched off."""
    return max(0, _syscall(_CREATE_RULESET, None, 0, _ASK_FOR_VERSION))


def too_old(version: int) -> str:
    """Say that Landlock of `version` does not keep a command within its bounds."""
    return f"the Landlock of this Linux is too old (version {version}; {LEAST_ABI} came with Linux 6.2)"


def in_fresh_thread(work: Callable[[], Result]) -> Result:
    """Do `work` in a thread that nothing else runs in, before or after; what it raises is raised here.

    It is none of `threading`'s: debuggers trace those, and would read files in it that it may not read any more.
    """
    done: Future[Result] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            done.set_exception(error)

    _thread.start_new_thread(run, ())
    return done.result()


def check(bounds: Bounds) -> None:
    """Raise ConfinementError where `bounds` would take too many rules."""
    for _ in _rules(bounds, 0, processes=True):
        pass


def start_confined(bounds: Bounds, start: Callable[[], Result], version: int, *, processes: bool = True) -> Result:
    """Call `start` where it, and all that it starts, keeps within `bounds`, as Landlock of `version` can enforce them.

    `processes`: it may look at processes in `/proc`, which are all of the user's, if `bounds` let it read there. Raises
    ConfinementError, and what it raises.
    """

    def confined() -> Result:
        confine_this_thread(bounds, version, processes=processes)
        return start()

    return in_fresh_thread(confined)


def confine_this_thread(bounds: Bounds, version: int, *, processes: bool = True, outer: bool = False) -> None:
    """Confine the calling thread, and all that it starts from now on, for good; the rest as in `start_confined`.

    Other threads of the process stay as they are: code that may start none of its own is confined only if it is alone. A
    failure may come half-way, and then the thread must not run that code. `outer`: it starts processes that confine
    themselves further and marks them. Raises ConfinementError.
    """
    if version < LEAST_ABI:
        raise ConfinementError(too_old(version))
    loaded = program(
        Filter(
            network=bounds.network,
            metadata="done" if bounds.metadata else "refused" if bounds.write else "pretended",
            signals=version < _SCOPES_SINCE,
            shared_by_key=True,
            keeps_marks=not outer,
        )
    )
    with _ruleset(bounds, version, processes=processes) as ruleset:
        _drop_capabilities()
        _check("no_new_privs", _libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _check("landlock_restrict_self", _syscall(_RESTRICT_SELF, ruleset, 0))
        instructions = ctypes.create_string_buffer(loaded, len(loaded))
        # struct sock_fprog: a count, and a pointer at its own alignment
        described = struct.pack("@HP", len(loaded) // 8, ctypes.addressof(instructions))
        _check("seccomp", _libc().prctl(_SET_SECCOMP, _FILTER_MODE, ctypes.create_string_buffer(described), 0, 0))


@contextmanager
def _ruleset(bounds: Bounds, version: int, *, processes: bool) -> Iterator[int]:
    """A ruleset that allows what `bounds` do: made anew for each command, since rules hold files and not names."""
    all_files = (1 << (15 if version < _DEVICES_SINCE else 16)) - 1
    # which hosts cannot be said, so TCP is left to the filter
    scopes = 3 if version >= _SCOPES_SINCE else 0
    attributes = struct.pack("=QQQ", all_files, 0, scopes)[: 8 if version < _NETWORK_SINCE else 24 if scopes else 16]
    ruleset = _check("landlock_create_ruleset", _syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    try:
        for path, access in _rules(bounds, all_files, processes=processes):
            _allow(ruleset, path, access)
        yield ruleset
    finally:
        os.close(ruleset)


def _rules(bounds: Bounds, all_files: int, *, processes: bool) -> Iterator[tuple[str, int]]:
    left = [MOST_SIBLINGS]
    kernels = kernel_places()
    readable = ((_READ, bounds.read), (_READ & ~_EXECUTE, bounds.data))
    for access, paths in readable:
        for path in paths:
            # devices and processes have rules of their own
            if path not in kernels.private:
                hidden = (*bounds.hidden, *(place for place in kernels.private if below(place, path)))
                yield from _except_hidden(path, access, hidden, left)
    changing = all_files & ~_DEVICE_NODES & ~_IOCTL
    for path in (*bounds.write, *bounds.temporary):
        if kernels.hold(path):
            if path not in kernels.private:
                yield path, _READ & ~_EXECUTE
            continue
        # no new name can be made on the way to what is the kernel's
        yield from _except_hidden(path, changing, tuple(kernels.below(path)), left)
        yield from ((place, _READ & ~_EXECUTE) for place in kernels.shared if place != path and below(place, path))
    yield from _rules_of_processes(bounds, kernels, processes=processes)
    for path in DEVICES:
        yield path, _READ_FILE | _WRITE_FILE


def _rules_of_processes(bounds: Bounds, kernels: KernelPlaces, *, processes: bool) -> Iterator[tuple[str, int]]:
    """Rules for `/proc`: all of it, or what shows the machine alone. Which processes are the command's is not known yet."""
    tops = (*bounds.read, *bounds.data, *bounds.write)
    if "/proc" in bounds.hidden or not any(below("/proc", top) for top in tops):
        return
    if not processes:
        yield from ((f"/proc/{name}", _READ & ~_EXECUTE) for name in PLAIN)
        return
    hidden = tuple(path for path in (*bounds.hidden, *kernels.private) if below(path, "/proc") and path != "/proc")
    yield from _except_hidden("/proc", _READ & ~_EXECUTE, hidden, [MOST_SIBLINGS])


def _except_hidden(path: str, access: int, hidden: tuple[str, ...], left: list[int]) -> Iterator[tuple[str, int]]:
    """Rules for all below `path` but what is hidden: what stands beside the way to that is listed one by one."""
    inside = tuple(one for one in hidden if below(one, path))
    if path in inside:
        return
    if not inside:
        yield path, access
        return
    yield path, _READ_DIR  # its names, and those below it
    try:
        entries = list(os.scandir(path))
    except OSError:  # closed to us, and so to the command
        return
    left[0] -= len(entries)
    if left[0] < 0:
        message = f"more than {MOST_SIBLINGS:,} entries stand beside what is hidden below {path}"
        raise ConfinementError(message)
    for entry in entries:
        if not entry.is_symlink():  # where it leads is judged there
            yield from _except_hidden(entry.path, access, inside, left)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # it is not there, or we may not go there, and so may no child of ours
        return
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            access &= _OF_FILES
        if access:
            rule = struct.pack("=Qi", access, opened)
            if _add_rule()(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0):
                _check(f"landlock_add_rule for {path}", -1)
    finally:
        os.close(opened)


def _drop_capabilities() -> None:
    """Have root keep its power over files and its own processes alone: the rest reaches around file rules."""
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION, 0))
    data = ctypes.create_string_buffer(24)
    _check("capget", _libc().capget(header, data))
    effective, permitted, inheritable, *higher = struct.unpack("=6I", data.raw[:24])
    if not (permitted & ~_KEPT_CAPABILITIES or any(higher)):
        return
    _libc().prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    kept = [value & _KEPT_CAPABILITIES for value in (effective, permitted, inheritable)]
    _check("capset", _libc().capset(header, ctypes.create_string_buffer(struct.pack("=6I", *kept, 0, 0, 0), 24)))


@functools.cache
def _add_rule() -> Callable[[int, int, int, bytes, int], int]:
    """The system call with its types said once: there can be thousands for one command."""
    prototype = ctypes.CFUNCTYPE(
        ctypes.c_long,
        *(ctypes.c_long, ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32),
        use_errno=True,
    )
    return prototype(("syscall", _libc()))


def _syscall(number: int, *arguments: int | bytes | None) -> int:
    passed = [ctypes.c_long(value) if isinstance(value, int) else ctypes.c_char_p(value) for value in arguments]
    return int(_libc().syscall(ctypes.c_long(number), *passed))


def _check(what: str, result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        message = f"{what}: {os.strerror(code)}"
        raise ConfinementError(message)
    return result
