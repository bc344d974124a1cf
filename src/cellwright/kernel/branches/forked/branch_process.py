"""A branch, as it is inside: confined, it runs code cell by cell and sends its outputs. Nothing here is the kernel's."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import signal
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from cellwright.kernel.branches.bounds import BranchBounds
from cellwright.kernel.branches.forked.descriptors import cut_descriptors
from cellwright.kernel.branches.forked.outlet import Outlet
from cellwright.kernel.branches.forked.resets import end_with_parent, report_errors
from cellwright.kernel.branches.messages import Answered, Done, Ready, Stream, receive, send
from cellwright.sandbox.paths import below
from cellwright.sandbox.resolved_bounds import Bounds

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

MOST_FILE_BYTES = 2 << 30
"""No file that a branch writes gets larger, what its programs print included."""


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
            _answer(shell, outlet, request, sent)


def _may_read(bounds: Bounds, path: str) -> bool:
    """Return whether a branch may read the file at `path`; one in memory has none."""
    readable = (*bounds.read, *bounds.data, *bounds.write, *bounds.temporary)
    inside = any(below(path, top) for top in readable) and not any(below(path, hidden) for hidden in bounds.hidden)
    return inside or path.startswith("/memfd:")


def _limit(memory: int) -> None:
    import resource  # not on Windows

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


def _answer(shell: InteractiveShell, outlet: Outlet, request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
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
