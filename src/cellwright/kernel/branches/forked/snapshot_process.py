"""The snapshot, as it is inside: a copy of the kernel that waits, and forks a branch for each request.

It never runs Claude's code, so what it says of the variables is the kernel's own word.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from cellwright.kernel.branches.bounds import end_marked
from cellwright.kernel.branches.forked.branch_process import BranchOrder, run_branch
from cellwright.kernel.branches.forked.resets import Forked, Reset, end_with_parent
from cellwright.kernel.branches.messages import Ready, receive, send


def run_snapshot(forked: Forked, resets: Sequence[Reset], control: socket.socket) -> None:
    """Be the snapshot, until the kernel closes `control`."""
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
        for mark in marks.values():
            end_marked(mark)
        os._exit(0)

    # what a branch started may have left its group and cleared its environment: when the kernel is killed, it ends here
    signal.signal(signal.SIGTERM, end)
    end_with_parent(forked.parent, signal.SIGTERM)
    send(control, Ready(steps=steps))
    for reset in resets:
        if not reset.before_ready:
            reset.do(forked)
    while (message := receive(control)) is not None:
        request, descriptors = message
        send(control, _answer(forked, request, descriptors, control, marks))
    end()


def _answer(
    forked: Forked,
    request: dict[str, Any],
    descriptors: list[int],
    control: socket.socket,
    marks: dict[int, int],
) -> dict[str, Any]:
    try:
        match request["kind"]:
            case "branch":
                order = msgspec.convert(request["order"], BranchOrder)
                pid = _fork_branch(forked, order, descriptors, control)
                if order.bounds is not None:
                    marks[pid] = order.bounds.mark
                return {"pid": pid}
            case "reap":
                return {"status": _reap(request["pid"], marks)}
            case "call":
                module, _, function = request["function"].partition(":")
                found = getattr(importlib.import_module(module), function)
                return {"value": found(forked.shell, request["arguments"], descriptors)}
            case unknown:
                return {"problem": f"unknown request {unknown!r}"}
    except Exception as error:  # noqa: BLE001 - the kernel says it
        return {"problem": f"{type(error).__name__}: {error}"}
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _fork_branch(
    forked: Forked,
    order: BranchOrder,
    descriptors: list[int],
    control: socket.socket,
) -> int:
    if sys.platform == "win32":
        raise NotImplementedError
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            control.close()  # a branch says nothing in the snapshot's name
            channel, out, errors = descriptors
            run_branch(forked.shell, forked.outlet, order, parent, (channel, out, errors))
        finally:
            os._exit(0)
    return pid


def _reap(pid: int, marks: dict[int, int]) -> int | None:
    """End a branch's group for good, and give the branch's exit status; None while it is not gone.

    Until here its pid is nobody else's: the kernel can send signals to it.
    """
    if sys.platform == "win32":
        raise NotImplementedError
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:  # it was killed before it had one
        os.kill(pid, signal.SIGKILL)
    found, status = os.waitpid(pid, os.WNOHANG)
    if not found:
        return None
    marks.pop(pid, None)
    return os.waitstatus_to_exitcode(status)
