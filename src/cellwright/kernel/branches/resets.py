"""The steps that a forked process takes before it may live, in their order; each names what was seen without it.

Secrets that the memory holds are overwritten as far as they are found before Claude's code can look: those that Python's
objects and the environment hold. Not found are copies in large blocks of memory, parts of a secret, and a secret in
another encoding.

Fork shares descriptors and maps. Left as they are, a branch speaks on the user's connections, moves the position of the
user's files, and `mm[0] = 7` in an array on a shared map changes the kernel's array and the file on disk, confined or not.
"""

from __future__ import annotations

import asyncio
import builtins
import concurrent.futures
import contextlib
import ctypes
import getpass
import io
import logging
import math
import mmap
import os
import queue
import re
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher

from cellwright.kernel.branches.messages import Cleared, Failed, Outlet, OutletStream, Shown
from cellwright.kernel.execute.traceback import short_traceback
from cellwright.kernel.namespace.cell_names import cell_of_file
from cellwright.redaction.redaction import secret_values

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


_READ, _WRITE, _EXECUTE = 1, 2, 4
_SHARED, _PRIVATE, _FIXED, _ANONYMOUS = 1, 2, 0x10, 0x20
_MAY_MOVE, _MOVE_FIXED = 1, 2
_FAILED = ctypes.c_void_p(-1).value
_MEMORY_FILES = ("/dev/zero", "/memfd:", "/SYSV", "/dev/shm/", "/run/shm/")

_libc: ctypes.CDLL

MOST_LOOKED_AT = 256 * 2**20
"""Bytes in all; a hundred arrays of a few megabytes would take a second."""

LEAST_BYTES = 12
"""The length below which a text may stand in memory by chance, and something else breaks when it is overwritten."""

NO_INPUT = (
    "input() cannot ask here: this code runs in a copy of the kernel. Put the value into the code; "
    "what only the user knows, ask in your answer."
)

_kept: list[object] = []


if sys.platform != "win32":
    _libc = ctypes.CDLL(None, use_errno=True)
    _libc.mmap.restype = _libc.mremap.restype = ctypes.c_void_p
    _libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    _libc.mremap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    _libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
# made before a fork: the child would compile and import it anew
_memmove = ctypes.memmove


class TooMuchShared(Exception):
    """There is more shared memory than can be copied."""


def cut_descriptors(kept: Collection[int], may_read: Callable[[str], bool]) -> None:
    """Put something harmless behind every number but `kept`; none is closed.

    Objects still own the numbers, and would close whatever file got theirs. Files become read-only at the same position,
    which is their own from now on, if `may_read` allows their path; of the rest, calls fail with EBADF.
    """
    nowhere = os.open("/", os.O_PATH | os.O_CLOEXEC)
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - names alone
        if number in kept or number in (nowhere, null):
            continue
        with contextlib.suppress(OSError):  # the one by which this list was read
            inheritable = os.get_inheritable(number)
            if number <= 2:
                os.dup2(null, number, inheritable=True)
                continue
            own = _reopened(number, may_read)
            os.dup2(nowhere if own is None else own, number, inheritable=inheritable)
            if own is not None:
                os.close(own)
    os.close(nowhere)
    os.close(null)


def _reopened(number: int, may_read: Callable[[str], bool]) -> int | None:
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode) or not may_read(str(Path(f"/proc/self/fd/{number}").readlink())):
            return None
        position = os.lseek(number, 0, os.SEEK_CUR)
        own = os.open(f"/proc/self/fd/{number}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # not ours to read
        return None
    os.lseek(own, position, os.SEEK_SET)
    return own


class _Map(NamedTuple):
    begin: int
    size: int
    protection: int
    offset: int
    device: str
    inode: int
    path: str


def make_maps_private() -> None:
    """Make every shared map a private one with the same content at the same place. Raises `TooMuchShared`, `OSError`.

    Also those that may only be read: `mprotect` makes them writable if their file was opened so.
    """
    shared = list(_shared_maps())
    opened = {each: _source(each) for each in shared}
    copied = sum(each.size for each, source in opened.items() if source is None and _is_memory(each))
    # shared memory without a file must be copied; more than this takes too long
    if copied > 1 << 30:
        message = f"{copied / 1e9:.1f} GB of memory are shared with other processes"
        raise TooMuchShared(message)
    for each, source in opened.items():
        if source is not None:
            try:
                _check(_libc.mmap(each.begin, each.size, each.protection, _PRIVATE | _FIXED, source, each.offset))
            finally:
                os.close(source)
        elif _is_memory(each):
            _copy(each)
        else:  # a device's: what a write there does, nobody knows
            _check(_libc.mprotect(each.begin, each.size, 0))


def _shared_maps() -> Iterator[_Map]:
    for line in Path("/proc/self/maps").read_text("utf-8", "surrogateescape").splitlines():
        fields = line.split(maxsplit=5)
        if fields[1][3] != "s":
            continue
        begin, end = (int(part, 16) for part in fields[0].split("-"))
        flags = zip(fields[1], (_READ, _WRITE, _EXECUTE), strict=False)
        path = fields[5].replace("\\012", "\n") if len(fields) > 5 else ""
        protection = sum(bit for letter, bit in flags if letter != "-")
        yield _Map(begin, end - begin, protection, int(fields[2], 16), fields[3], int(fields[4]), path)


def _source(shared: _Map) -> int | None:
    """The file behind a map, opened for reading; None if it is gone, another one, or nothing that can be mapped anew."""
    if not shared.path.startswith("/") or shared.path.startswith("/dev/") or shared.path.endswith(" (deleted)"):
        return None
    try:
        opened = os.open(shared.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    status = os.fstat(opened)
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    if stat.S_ISREG(status.st_mode) and (status.st_ino, device) == (shared.inode, shared.device):
        return opened
    os.close(opened)
    return None


def _is_memory(shared: _Map) -> bool:
    """Return whether a map without a file to map anew can be copied: memory, or a file that is gone or not ours to open."""
    return shared.path.startswith(_MEMORY_FILES) or not shared.path.startswith(("/dev/", "anon_inode:", "["))


def _copy(shared: _Map) -> None:
    own = _check(_libc.mmap(None, shared.size, _READ | _WRITE, _PRIVATE | _ANONYMOUS, -1, 0))
    if not shared.protection & _READ:
        _check(_libc.mprotect(shared.begin, shared.size, _READ))
    _memmove(own, shared.begin, shared.size)
    _check(_libc.mprotect(own, shared.size, shared.protection))
    _check(_libc.mremap(own, shared.size, shared.size, _MAY_MOVE | _MOVE_FIXED, shared.begin))


def _check(result: int | None) -> int:
    if result in (_FAILED, -1):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result or 0


def secrets_of(environ: Mapping[str, str], others: Iterable[str | bytes] = ()) -> list[bytes]:
    """The secrets of `environ` and `others` (a key of the Messages API, the kernel's own), as they stand in memory."""
    found = (*secret_values(environ).values(), *others)
    return [each.encode("utf-8", "surrogateescape") if isinstance(each, str) else each for each in found]


def overwrite_in_memory(needles: Iterable[bytes]) -> int:
    """Overwrite each copy of `needles` in the memory of this process, theirs included; return their number.

    The process must have no other thread. Whatever still uses one of them has asterisks from now on.
    """
    sought = {bytes(needle) for needle in needles if len(needle) >= LEAST_BYTES}
    if not sought:
        return 0
    libc = ctypes.CDLL(None)
    libc.memmem.restype = ctypes.c_void_p
    libc.memmem.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t)
    # what is sought for must outlast the first copy that is found: it is kept where nothing is overwritten before the end
    sizes = [len(needle) for needle in sought]
    kept = mmap.mmap(-1, sum(sizes), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    kept.write(b"".join(sought))
    view = (ctypes.c_char * len(kept)).from_buffer(kept)
    first = ctypes.addressof(view)
    places = [(first + sum(sizes[:index]), size) for index, size in enumerate(sizes)]
    last = first + math.ceil(len(kept) / mmap.PAGESIZE) * mmap.PAGESIZE
    # the system may have laid it into a larger block of the same kind
    blocks = [part for begin, end in _blocks() for part in ((begin, min(end, first)), (max(begin, last), end))]
    count = 0
    for begin, end in blocks:
        for needle, size in places:
            at = begin
            while at < end and (found := libc.memmem(at, end - at, needle, size)):
                ctypes.memset(found, ord("*"), size)
                count += 1
                at = found + size
    ctypes.memset(first, 0, len(kept))
    return count


def _blocks() -> Iterator[tuple[int, int]]:
    """The parts of memory, by their first and last address, that hold what Python makes: private, written, of no file.

    The smallest blocks come first, and as many as `MOST_LOOKED_AT` allows.
    """
    found = []
    for line in Path("/proc/self/maps").read_text("utf-8", "surrogateescape").splitlines():
        addresses, access, *rest = line.split(None, 5)
        begin, end = (int(address, 16) for address in addresses.split("-"))
        of_no_file = len(rest) < 4 or rest[3] == "[heap]" or rest[3].startswith(("[stack", "[anon"))
        # the size in bytes above which a block of memory is an array's: all that Python's own objects use is smaller
        if access.startswith("rw") and access.endswith("p") and of_no_file and end - begin <= 64 * 2**20:
            found.append((end - begin, begin))
    left = MOST_LOOKED_AT
    for size, begin in sorted(found):
        for part in _written(begin, begin + size):
            left -= part[1] - part[0]
            yield part
        if left < 0:
            return


def _written(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a block that hold anything. The rest, most of each thread's stack, would be made by reading it."""
    with open("/proc/self/pagemap", "rb", buffering=0) as pages:  # noqa: PTH123 - for each of many blocks
        entries = os.pread(pages.fileno(), (end - begin) // mmap.PAGESIZE * 8, begin // mmap.PAGESIZE * 8)
    if len(entries) * mmap.PAGESIZE != (end - begin) * 8:  # it grew meanwhile, or the system does not say
        yield begin, end
        return
    # the highest byte of each entry begins with the bits for a page in memory and one that was moved out
    for run in re.finditer(rb"[\x40-\xff]+", entries[7::8]):
        yield begin + run.start() * mmap.PAGESIZE, begin + run.end() * mmap.PAGESIZE


def renew_loop() -> None:
    """A new event loop. The kernel's counts as running, and its epoll instance is the kernel's: it is not closed either."""
    asyncio._set_running_loop(None)
    asyncio.set_event_loop(asyncio.new_event_loop())
    helpers: Any = sys.modules.get("IPython.core.async_helpers")
    if helpers is not None:
        # IPython keeps the loop of top-level await in one of two places
        if hasattr(helpers, "_asyncio_event_loop"):
            helpers._asyncio_event_loop = None
        helpers.get_asyncio_loop.__dict__.pop("loop", None)


def renew_streams(outlet: Outlet) -> None:
    """New streams, also inside the kernel's: logging handlers and progress bars hold those.

    Left as they are, ipykernel sends what a child prints to the kernel's cell, through a pipe that it has for that.
    """
    for name in ("stdout", "stderr"):
        new = OutletStream(outlet, name)
        old = getattr(sys, name)
        setattr(sys, name, new)
        for stream in (old, getattr(sys, f"__{name}__")):
            if isinstance(stream, io.TextIOWrapper):
                _empty(stream)
            elif hasattr(stream, "pub_thread"):  # ipykernel's
                stream.write, stream.flush, stream._flush = new.write, new.flush, new.flush
                stream._buffer_lock = threading.RLock()
                stream._buffers.clear()
                stream.echo = None
        setattr(sys, f"__{name}__", new)
    sys.stdin = io.StringIO()


def renew_files(namespace: dict[str, Any]) -> None:
    """A new lock and an empty buffer for files that may be in use, and logging's files closed off.

    Another thread may have held the lock of a BufferedWriter in C (only `logging` renews its own): 6 to 10 % of children
    hung in `flush` without this. What is in the buffer is the kernel's to write.
    """
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    for handler in [each for logger in loggers for each in getattr(logger, "handlers", ())]:
        stream = getattr(handler, "stream", None)
        if isinstance(stream, io.TextIOWrapper):
            _empty(stream)
            # its descriptor takes no writes, and every record would print "--- Logging error ---"
            with contextlib.suppress(OSError, ValueError):
                null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
                os.dup2(null, stream.fileno(), inheritable=False)
                os.close(null)
    for value in list(namespace.values()):
        if isinstance(value, (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)):
            _empty(value)


def _empty(file: Any) -> None:
    buffer = getattr(file, "buffer", file)
    with contextlib.suppress(ValueError, AttributeError, OSError):  # closed, or made of something else
        buffer.__init__(buffer.raw)


class BranchDisplayHook(DisplayHook):
    """Sends the value of a cell."""

    outlet: Outlet

    def write_output_prompt(self) -> None:
        """There is none: the number would be the user's next cell's."""

    def write_format_data(self, format_dict: dict[str, Any], md_dict: dict[str, Any] | None = None) -> None:
        self.outlet.emit(Shown(_plain(format_dict), _plain(md_dict or {}), result=True))

    def finish_displayhook(self) -> None:
        self._is_active = False


class BranchDisplayPublisher(DisplayPublisher):
    """Sends what is displayed."""

    outlet: Outlet

    def publish(
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        *_source: object,
        transient: dict[str, Any] | None = None,
        update: bool = False,
        **_more: object,
    ) -> None:
        display_id = str((transient or {}).get("display_id", ""))
        self.outlet.emit(Shown(_plain(data), _plain(metadata or {}), display_id, update))

    def clear_output(self, wait: bool = False) -> None:
        self.outlet.emit(Cleared(wait))


def _plain(bundle: dict[str, Any]) -> dict[str, Any]:
    """A mimebundle as JSON: pictures as base64, and what JSON does not know as text."""
    return {str(key): msgspec.to_builtins(value, enc_hook=str, str_keys=True) for key, value in bundle.items()}


def renew_shell(shell: InteractiveShell, outlet: Outlet) -> None:
    """Have IPython show by `outlet`, keep no history, ask nobody, and call nothing of ours or of the user's front ends."""
    hook, publisher = BranchDisplayHook(shell=shell), BranchDisplayPublisher(shell=shell)
    hook.outlet = publisher.outlet = outlet
    shell.displayhook = shell.display_trap.hook = sys.displayhook = hook
    shell.display_pub = publisher
    patched: Any = shell
    patched.system = _system(shell, outlet)
    patched.ask_exit = lambda: None
    if shell.history_manager is not None:
        shell.history_manager.enabled = False
    for callbacks in shell.events.callbacks.values():
        callbacks[:] = [callback for callback in callbacks if getattr(callback, "__name__", "") == "flush_figures"]
    kernel: Any = getattr(shell, "kernel", None)
    if kernel is not None:
        kernel.session.send = kernel.iopub_thread.send_multipart = kernel.iopub_thread.schedule = (
            lambda *_arguments, **_named: None
        )
        kernel.raw_input = kernel.getpass = _refuse_input
    builtins.input = getpass.getpass = _refuse_input


def _refuse_input(*_arguments: object, **_named: object) -> str:
    raise EOFError(NO_INPUT)


def report_errors(shell: InteractiveShell, outlet: Outlet, files: Mapping[str, str]) -> None:
    """Have errors sent as the tool `Python` gives them to Claude; `files` names the files of the code of calls."""

    def name_of(file: str) -> str | None:
        if (named := files.get(file)) is not None:
            return named
        cell = cell_of_file(shell, file)
        return " ".join(cell) if cell is not None else None

    def show(exc_tuple: Any = None, *_arguments: object, **_named: object) -> None:
        # `showsyntaxerror` takes a file name first
        error = exc_tuple[1] if isinstance(exc_tuple, tuple) else sys.exc_info()[1]
        if error is not None:
            said = ""
            with contextlib.suppress(Exception):  # a class of the user's or of Claude's says what it likes
                said = str(error)[:2_000]
            outlet.emit(Failed(type(error).__name__, said, [short_traceback(error, name_of)]))

    patched: Any = shell
    patched.showtraceback = patched.showsyntaxerror = show


def _system(shell: InteractiveShell, outlet: Outlet) -> Callable[[str], None]:
    """`!command`: IPython's own wants a pseudo-terminal, which a branch can't open. Its output is sent as it comes."""

    def system(command: str) -> None:
        command = shell.var_expand(command, depth=1)
        outlet.flush()
        process = subprocess.Popen(command, shell=True, executable="/bin/sh")
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(0.1)
                    break
                outlet.drain_files()
        except KeyboardInterrupt:
            process.kill()
            code = process.wait()
        outlet.drain_files()
        shell.user_ns["_exit_code"] = code

    return system


# what would write to the kernel's pipes when it is collected
def renew_libraries() -> None:
    """Forget workers that are the kernel's, and have thread pools start theirs anew."""
    _forget_loky()
    _forget_multiprocessing()
    _renew_thread_pools()


def _forget_loky() -> None:
    # its executor wrote to the kernel's wakeup pipe from a callback
    reusable: Any = sys.modules.get("joblib.externals.loky.reusable_executor")
    if reusable is not None:
        _kept.append(reusable._executor)
        reusable._executor = None
    # without semaphores, which need /dev/shm, joblib works in sequence
    for name in ("_multiprocessing_helpers", "parallel", "_parallel_backends", "pool"):
        module: Any = sys.modules.get(f"joblib.{name}")
        if module is not None and hasattr(module, "mp"):
            module.mp = None


def _forget_multiprocessing() -> None:
    process: Any = sys.modules.get("multiprocessing.process")
    if process is not None:
        process._children.clear()
    util: Any = sys.modules.get("multiprocessing.util")
    if util is not None:
        _kept.append(dict(util._finalizer_registry))
        util._finalizer_registry.clear()
    tracker: Any = sys.modules.get("multiprocessing.resource_tracker")
    if tracker is not None:
        tracker._resource_tracker._fd = tracker._resource_tracker._pid = None


def _renew_thread_pools() -> None:
    pool: Any = concurrent.futures.ThreadPoolExecutor
    submit = pool.submit

    def renewing(self: Any, /, *arguments: Any, **named: Any) -> Any:
        if self._threads and not any(thread.is_alive() for thread in self._threads):
            _kept.append(self._work_queue)
            self._threads = set()
            self._work_queue = queue.SimpleQueue()
            self._idle_semaphore = threading.Semaphore(0)
            self._shutdown_lock = threading.Lock()
        return submit(self, *arguments, **named)

    pool.submit = renewing


class Forked(NamedTuple):
    """The things that the steps work on. `kept`: the descriptors that are the process's own; `parent`: who must live, too.

    `environ`: the variables that are left. `secrets`: what is to be overwritten. Both are worked out in the kernel, where
    the patterns that takes are compiled once.
    """

    shell: InteractiveShell
    outlet: Outlet
    kept: tuple[int, ...]
    parent: int
    may_read: Callable[[str], bool]
    environ: Mapping[str, str]
    secrets: Sequence[bytes]


class Reset(NamedTuple):
    """One step by its name; a test leaves one out and sees what it is for.

    `before_ready`: the kernel waits for it. The others are done before the first branch, and never for undo.
    """

    name: str
    do: Callable[[Forked], object]
    before_ready: bool = True


def leave_group(parent: int) -> None:
    """A group of its own, and an end with its parent.

    Jupyter interrupts the kernel's *group*: an interrupt of a cell would end a snapshot. Killed, a kernel ends nothing.
    """
    os.setpgid(0, 0)
    end_with_parent(parent)
    # where memory runs out, this goes and the kernel stays
    Path("/proc/self/oom_score_adj").write_text("1000", "ascii")
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for each in (signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM, signal.SIGHUP):
        signal.signal(each, signal.SIG_DFL)
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        signal.setitimer(timer, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    sys.settrace(None)
    sys.setprofile(None)
    threading.settrace(None)
    threading.setprofile(None)


def end_with_parent(parent: int, sign: signal.Signals | None = None) -> None:
    """Get `sign` (default: SIGKILL) when the thread that forked this process ends; exit if it has ended already."""
    death_signal = 1
    _libc.prctl(death_signal, sign or signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(71)


def _set_environment(forked: Forked) -> None:
    os.environ.clear()
    os.environ.update(forked.environ)


RESETS: Sequence[Reset] = (
    Reset("group", lambda forked: leave_group(forked.parent)),
    Reset("descriptors", lambda forked: cut_descriptors(forked.kept, forked.may_read)),
    Reset("maps", lambda _: make_maps_private()),
    Reset("loop", lambda _: renew_loop()),
    Reset("streams", lambda forked: renew_streams(forked.outlet)),
    Reset("files", lambda forked: renew_files(forked.shell.user_ns)),
    Reset("shell", lambda forked: renew_shell(forked.shell, forked.outlet)),
    Reset("libraries", lambda _: renew_libraries()),
    # no keys and tokens: a branch is given its own, and the memory of a snapshot is every branch's
    Reset("environment", _set_environment, before_ready=False),
    # looks through all memory of Python's objects, which takes longer than all the rest
    Reset("secrets", lambda forked: overwrite_in_memory(forked.secrets), before_ready=False),
)
