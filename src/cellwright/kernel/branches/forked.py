"""The forked processes, as they are inside: a branch, the snapshot that it is forked from, the template.

A **branch** is confined, runs code cell by cell and sends its outputs.

The **snapshot** is a copy of the kernel that waits, and forks a branch for each request. It never runs Claude's code, so
what it says of the variables is the kernel's own word. Keys and tokens are overwritten in what branches are forked from.
Undo needs variables that hold them: before that is done, the snapshot forks a *keeper*, which only serves undo.

The **template** confines itself, imports what the kernel has imported, and forks branches on request. It runs no code of
Claude's, but an import runs files, which Claude may have written: so it is confined before the first.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from cellwright.kernel.branches import given_values
from cellwright.kernel.branches.bounds import BranchBounds, end_marked
from cellwright.kernel.branches.messages import Answered, Done, Outlet, Ready, Stream, receive, send
from cellwright.kernel.branches.resets import (
    Forked,
    Reset,
    cut_descriptors,
    end_with_parent,
    leave_group,
    renew_libraries,
    renew_shell,
    renew_streams,
    report_errors,
)
from cellwright.kernel.branches.snapshot import end_child
from cellwright.sandbox.paths import below
from cellwright.sandbox.resolved_bounds import Bounds

if sys.platform != "win32":
    import resource

MOST_FILE_BYTES = 2 << 30
"""No file that a branch writes gets larger, what its programs print included."""

KEEPER_SECONDS = 5.0
"""Half of what the kernel waits for the snapshot: a keeper that does not answer is ended alone, and branches live on."""

KEEPER_GONE = "the copy of the kernel that undo needs has ended"


class BranchOrder(msgspec.Struct, frozen=True):
    """A new branch as the kernel wants it. `bounds` None: nothing confines it, and it has the variables `environ`.

    `memory`: bytes of addresses beyond those that the kernel has.
    """

    bounds: BranchBounds | None
    environ: Mapping[str, str]
    memory: int


def run_branch(
    shell: InteractiveShell,
    outlet: Outlet,
    order: BranchOrder,
    parent: int,
    descriptors: tuple[int, int, int],
) -> None:
    """Be the branch, until the kernel closes the channel. `descriptors`: the channel, what is printed, errors."""
    channel = socket.socket(fileno=descriptors[0])
    try:
        os.setpgid(0, 0)
        end_with_parent(parent)
        for number, own in ((1, descriptors[1]), (2, descriptors[2])):
            os.dup2(own, number)
            os.close(own)
        _limit(order.memory)
        if order.bounds is None:
            os.environ.clear()
            os.environ.update(order.environ)
            tempfile.tempdir = None
        else:
            # what the kernel had opened there
            cut_descriptors((0, 1, 2, descriptors[0]), functools.partial(_may_read, order.bounds.bounds))
            order.bounds.enter()
        outlet.open(channel)
        send(channel, Ready())
    except BaseException as error:  # noqa: BLE001 - the kernel says it
        send(channel, Ready(f"{type(error).__name__}: {error}"))
        return
    files: dict[str, str] = {}
    report_errors(shell, outlet, files)
    while (message := receive(channel)) is not None:
        request, sent = message
        if "code" in request:
            _run(shell, outlet, str(request["code"]), files)
        else:
            _call(shell, outlet, request, sent)


def _may_read(bounds: Bounds, path: str) -> bool:
    """Return whether a branch may read the file at `path`; one in memory has none."""
    readable = (*bounds.read, *bounds.data, *bounds.write, *bounds.temporary)
    inside = any(below(path, top) for top in readable) and not any(below(path, hidden) for hidden in bounds.hidden)
    return inside or path.startswith("/memfd:")


def _limit(memory: int) -> None:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    present = pages * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = present + memory
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_FILE_BYTES, MOST_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it would hold all the kernel's memory
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # an error of the write is enough


def _run(shell: InteractiveShell, outlet: Outlet, code: str, files: dict[str, str]) -> None:
    """Run `code` as a cell; `files` names the files that the code of calls is compiled under."""
    began = time.monotonic()
    ok = False
    for file in files:
        files[file] = "<an earlier call's code>"
    with contextlib.suppress(Exception):  # a transformer may raise anything: then the cell says it
        name = shell.compile.get_code_name(code, shell.transform_cell(code), shell.execution_count)
        files[name] = "<this call's code>"
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        ok = bool(shell.run_cell(code, store_history=False).success)
        _show_pages(shell, outlet)
    except KeyboardInterrupt:  # between two lines of ours
        pass
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    outlet.emit(Done(ok, time.monotonic() - began))


def _call(shell: InteractiveShell, outlet: Outlet, request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Answer a question of the kernel's own about what is here: `function`, "module:name", called with plain data."""
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        module, _, function = str(request["function"]).partition(":")
        found = getattr(importlib.import_module(module), function)
        answer = Answered(found(shell, request["arguments"], descriptors))
    except BaseException as error:  # noqa: BLE001 - the kernel says it
        answer = Answered(problem=str(error) or type(error).__name__)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for descriptor in descriptors:
            os.close(descriptor)
    outlet.emit(answer)


def _show_pages(shell: InteractiveShell, outlet: Outlet) -> None:
    """Print what `name?` shows: a kernel gives it back beside its outputs."""
    payloads = getattr(shell, "payload_manager", None)
    if payloads is None:
        return
    for payload in payloads.read_payload():
        text = payload.get("data", {}).get("text/plain", "") if payload.get("source") == "page" else ""
        if text:
            outlet.emit(Stream("stdout", f"{text}\n"))
    payloads.clear_payload()


def run_snapshot(forked: Forked, resets: Sequence[Reset], control: socket.socket, *, for_branches: bool = True) -> None:
    """Be the snapshot, until the kernel closes `control`. `for_branches`: a branch is due, and is made ready for at once."""
    step, steps = "", {}
    try:
        for step, do, before_ready in resets:
            if before_ready:
                began = time.perf_counter()
                do(forked)
                steps[step] = time.perf_counter() - began
    except BaseException as error:  # noqa: BLE001 - the kernel says it
        send(control, Ready(f"{step}: {type(error).__name__}: {error}"))
        return
    marks: dict[int, int] = {}

    def end(*_: object) -> None:
        with contextlib.suppress(PermissionError):  # a template where Linux does not tell its processes from others
            for mark in marks.values():
                end_marked(mark)
        os._exit(0)

    # what a branch started may have left its group and cleared its environment: when the kernel is killed, it ends here
    signal.signal(signal.SIGTERM, end)
    end_with_parent(forked.parent, signal.SIGTERM)
    send(control, Ready(steps=steps))
    serving = _Serving(forked, resets, control, marks)
    if for_branches:
        serving.prepare_branches()
    while (message := receive(control)) is not None:
        request, descriptors = message
        send(control, _answer(serving, request, descriptors))
    end()


class _Serving:
    """The things that requests work on. `keeper`: the end of a socket, from the first branch on, if a step needs one."""

    def __init__(
        self, forked: Forked, resets: Sequence[Reset], control: socket.socket, marks: dict[int, int] | None = None
    ) -> None:
        self.forked = forked
        self.control = control
        self.marks = {} if marks is None else marks
        self.keeper: socket.socket | None = None
        self._keeper_pid = 0
        self._resets = resets
        self._is_prepared = False

    def prepare_branches(self) -> None:
        """Take the steps that undo must not see, once."""
        if self._is_prepared:
            return
        steps = [reset for reset in self._resets if not reset.before_ready]
        if self.keeper is None and steps:  # a template has none, and nothing is undone from it
            self.keeper = self._fork_keeper()
        for reset in steps:
            reset.do(self.forked)
        self._is_prepared = True  # not before: what failed is tried again, and no branch is forked without it

    def _fork_keeper(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        parent = os.getpid()
        if pid := os.fork():
            self._keeper_pid = pid
            theirs.close()
            ours.settimeout(KEEPER_SECONDS)
            return ours
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setpgid(0, 0)
            end_with_parent(parent)
            ours.close()
            self.control.close()
            serving = _Serving(self.forked, (), theirs)
            while (message := receive(theirs)) is not None:
                request, descriptors = message
                send(theirs, _answer(serving, request, descriptors))
        finally:
            os._exit(0)

    def ask_keeper(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Let the keeper answer. Raises OSError if it is gone; one that does not answer is ended."""
        assert self.keeper is not None, "no keeper"
        if self.keeper.fileno() < 0:
            raise ConnectionError(KEEPER_GONE)
        try:
            send(self.keeper, request, descriptors)
            message = receive(self.keeper)
        except OSError as error:
            self._end_keeper()
            raise ConnectionError(KEEPER_GONE) from error
        if message is None:
            self._end_keeper()
            raise ConnectionError(KEEPER_GONE)
        answer: dict[str, Any] = message[0]
        return answer

    def _end_keeper(self) -> None:
        if self.keeper is not None:
            self.keeper.close()
        end_child(self._keeper_pid)


def _answer(serving: _Serving, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    forked, marks = serving.forked, serving.marks
    try:
        match request["kind"]:
            case "branch":
                order = msgspec.convert(request["order"], BranchOrder)
                serving.prepare_branches()
                pid = _fork_branch(serving, order, descriptors)
                if order.bounds is not None:
                    marks[pid] = order.bounds.mark
                return {"pid": pid}
            case "reap":
                return {"status": _reap(request["pid"], marks)}
            case "undo" if serving.keeper is not None:
                return serving.ask_keeper(request, descriptors)
            case "call" | "undo":
                module, _, function = request["function"].partition(":")
                found = getattr(importlib.import_module(module), function)
                return {"value": found(forked.shell, request["arguments"], descriptors)}
            case unknown:
                return {"problem": f"unknown request {unknown!r}"}
    except ConnectionError as error:  # a sentence of ours
        return {"problem": str(error)}
    except Exception as error:  # noqa: BLE001 - the kernel says it
        return {"problem": f"{type(error).__name__}: {error}"}
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _fork_branch(serving: _Serving, order: BranchOrder, descriptors: list[int]) -> int:
    forked, parent = serving.forked, os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            serving.control.close()  # a branch says nothing in the snapshot's name
            if serving.keeper is not None:
                serving.keeper.close()
            channel, out, errors = descriptors
            run_branch(forked.shell, forked.outlet, order, parent, (channel, out, errors))
        finally:
            os._exit(0)
    return pid


def _reap(pid: int, marks: dict[int, int]) -> int | None:
    """End a branch's group for good, and give the branch's exit status; None while it is not gone.

    Until here its pid is nobody else's: the kernel can send signals to it.
    """
    with contextlib.suppress(PermissionError):  # as above: the kernel has killed it
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:  # it was killed before it had one
            os.kill(pid, signal.SIGKILL)
    found, status = os.waitpid(pid, os.WNOHANG)
    if not found:
        return None
    marks.pop(pid, None)
    return os.waitstatus_to_exitcode(status)


class TemplateOrder(msgspec.Struct, frozen=True):
    """A template as the kernel wants it. `bounds` None: nothing confines it, and it has the variables `environ`.

    `parent`: the kernel's pid. `ipython_dir`: a folder that it may write in. `path`: `sys.path`. `modules` are imported; one
    that cannot be is left out.
    """

    bounds: BranchBounds | None
    environ: Mapping[str, str]
    parent: int
    cwd: str
    ipython_dir: str
    path: Sequence[str]
    modules: Sequence[str]
    inline_figures: bool


def run_template(channel: int) -> None:
    """Be the template, until the kernel closes the other end of the socket with the number `channel`."""
    control = socket.socket(fileno=channel)
    if (message := receive(control)) is None:
        return
    order = msgspec.convert(message[0], TemplateOrder)
    outlet = Outlet()
    try:
        leave_group(order.parent)
        if order.bounds is None:
            os.environ.clear()
            os.environ.update(order.environ)
        else:
            order.bounds.enter(outer=True)
        shell = _warm_shell(order)
    except Exception as error:  # noqa: BLE001 - the kernel says it
        send(control, Ready(f"{type(error).__name__}: {error}"))
        return
    steps = (
        Reset("streams", lambda _: renew_streams(outlet)),
        Reset("shell", lambda _: renew_shell(shell, outlet)),
        Reset("libraries", lambda _: renew_libraries()),
    )
    gc.collect()
    gc.freeze()  # a collection in a branch would copy every page
    run_snapshot(Forked(shell, outlet, (channel,), order.parent, lambda _: False, order.environ, ()), steps, control)


def _warm_shell(order: TemplateOrder) -> InteractiveShell:
    os.chdir(order.cwd)
    sys.path[:] = order.path
    without_history = Config({"HistoryManager": {"enabled": False, "hist_file": ":memory:"}})
    shell = InteractiveShell.instance(config=without_history, ipython_dir=order.ipython_dir)
    for name in order.modules:
        # a module may raise anything; a branch that needs it then says what
        with contextlib.suppress(Exception, SystemExit):
            importlib.import_module(name)
    if order.inline_figures:
        with contextlib.suppress(Exception):
            shell.enable_matplotlib("inline")
    assert given_values  # what reads values in a branch is imported before the fork
    return shell
