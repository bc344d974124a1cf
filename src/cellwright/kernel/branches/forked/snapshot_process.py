"""The snapshot, as it is inside: a copy of the kernel that waits, and forks a branch for each request.

It never runs Claude's code, so what it says of the variables is the kernel's own word. Keys and tokens are overwritten in
what branches are forked from. Undo needs variables that hold them: before that is done, the snapshot forks a *keeper*,
which only serves undo.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from cellwright.kernel.branches.bounds import end_marked
from cellwright.kernel.branches.forked.branch_process import BranchOrder, run_branch
from cellwright.kernel.branches.forked.resets import Forked, Reset, end_with_parent
from cellwright.kernel.branches.messages import Ready, receive, send
from cellwright.kernel.branches.snapshot import end_child

KEEPER_SECONDS = 5.0
"""Half of what the kernel waits for the snapshot: a keeper that does not answer is ended alone, and branches live on."""

KEEPER_GONE = "the copy of the kernel that undo needs has ended"


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
