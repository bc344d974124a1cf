"""The template, as it is inside: it confines itself, imports what the kernel has imported, and forks branches on request.

It runs no code of Claude's, but an import runs files, which Claude may have written: so it is confined before the first.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import socket
import sys
from collections.abc import Mapping, Sequence

import msgspec
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from cellwright.kernel.branches import given_values
from cellwright.kernel.branches.bounds import BranchBounds
from cellwright.kernel.branches.forked.outlet import Outlet
from cellwright.kernel.branches.forked.resets import (
    Forked,
    Reset,
    leave_group,
    renew_libraries,
    renew_shell,
    renew_streams,
)
from cellwright.kernel.branches.forked.snapshot_process import run_snapshot
from cellwright.kernel.branches.messages import Ready, receive, send


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


def main(channel: int) -> None:
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
