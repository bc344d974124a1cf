"""Python's and IPython's ways to show something, in a forked process: they would lead to the kernel's front ends."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import getpass
import io
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher

from cellwright.kernel.branches.forked.outlet import Outlet, OutletStream
from cellwright.kernel.branches.messages import Cleared, Failed, Shown
from cellwright.kernel.execute.traceback import short_traceback
from cellwright.kernel.namespace.cell_names import cell_of_file

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

NO_INPUT = (
    "input() cannot ask here: this code runs in a copy of the kernel. Put the value into the code; "
    "what only the user knows, ask in your answer."
)

_STEP_SECONDS = 0.1
_MESSAGE_CHARS = 2_000


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
    for handler in _handlers():
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


def _handlers() -> Iterator[logging.Handler]:
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    for logger in loggers:
        yield from getattr(logger, "handlers", ())


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
        kernel.session.send = kernel.iopub_thread.send_multipart = kernel.iopub_thread.schedule = _nothing
        kernel.raw_input = kernel.getpass = _refuse_input
    builtins.input = getpass.getpass = _refuse_input


def _nothing(*_arguments: object, **_named: object) -> None:
    return None


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
                said = str(error)[:_MESSAGE_CHARS]
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
                    code = process.wait(_STEP_SECONDS)
                    break
                outlet.drain_files()
        except KeyboardInterrupt:
            process.kill()
            code = process.wait()
        outlet.drain_files()
        shell.user_ns["_exit_code"] = code

    return system
