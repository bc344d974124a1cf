"""While Claude's code runs, what it prints and displays goes to the call and not into the cell.

IPython has one stdout, one display publisher and one display hook for everything in the process. They stay in place;
only their methods are replaced for the time of the call, and pass on what does not come from the call's own code: the
agent's thread draws the cell meanwhile, and a widget's callback may print. The same goes for what code can ask of the
user (`input`), and for what would end the kernel or write into the user's cells.
"""

from __future__ import annotations

import builtins
import contextlib
import contextvars
import getpass
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.display_trap import DisplayTrap
from IPython.core.displayhook import DisplayHook

from cellwright.kernel.captured_output import CapturedOutput, Clear, Update, display_of
from cellwright.kernel.child_output import child_output
from cellwright.kernel.user_traceback import short_traceback

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_output_here: contextvars.ContextVar[CapturedOutput | None] = contextvars.ContextVar("output_here", default=None)

NO_INPUT = (
    "input() has nobody to ask: Claude runs this code, and the user does not see it as a cell of theirs. "
    "Put the value into the code; what only the user knows, ask in your answer."
)
NO_EXIT = "exit() would end the user's kernel and lose everything in it, so it was not done. Code simply ends."


@contextlib.contextmanager
def diverted_output(
    shell: InteractiveShell, output: CapturedOutput, transformed_code: str, own_file: str, *, with_children: bool
) -> Iterator[None]:
    """For the time of the block, on this thread: what code in this context does to the outside goes to `output`.

    `own_file` is the name that the code is compiled under. `with_children`: also what child processes write to the
    file descriptors they inherit; not in a terminal, where these are the screen that the agent draws on.
    """
    route = _Route(shell, output, own_file)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_payloads_kept(shell))
        if with_children:
            stack.enter_context(child_output(output.put))
        # what reads stdin by itself comes to its end at once, instead of waiting for somebody
        nothing = stack.enter_context(Path(os.devnull).open(encoding="utf-8"))
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stack.enter_context(_replaced(stream, "write", route.write_of(stream.write)))
        for owner, name, replacement in (
            (shell.display_pub, "publish", route.publish_of(shell.display_pub.publish)),
            (shell.display_pub, "clear_output", route.clear_of(shell.display_pub.clear_output)),
            (shell, "display_trap", DisplayTrap(hook=route.show_result(transformed_code))),
            (shell, "showtraceback", route.traceback_of(shell.showtraceback)),
            (shell, "showsyntaxerror", route.traceback_of(shell.showsyntaxerror)),
            (shell, "set_next_input", route.next_input_of(shell.set_next_input)),
            (shell, "ask_exit", route.refusal_of(getattr(shell, "ask_exit", None), NO_EXIT)),
            (builtins, "input", route.refusal_of(builtins.input, NO_INPUT)),
            (getpass, "getpass", route.refusal_of(getpass.getpass, NO_INPUT)),
            (sys, "stdin", nothing),
        ):
            stack.enter_context(_replaced(owner, name, replacement))
        stack.enter_context(_paged(shell, route))
        token = _output_here.set(output)
        try:
            yield
        finally:
            _output_here.reset(token)


def cell_name(shell: InteractiveShell, own_file: str) -> Callable[[str], str | None]:
    """How tracebacks name files: the code of this call, the notebook's cells; None for real files."""

    def name_of(file: str) -> str | None:
        if file == own_file:
            return "<this call's code>"
        named = shell.compile.format_code_name(file)
        return " ".join(named) if named is not None else None

    return name_of


class _Route:
    """Makes the replacements: each asks first whether it was called from the call's own code."""

    def __init__(self, shell: InteractiveShell, output: CapturedOutput, own_file: str) -> None:
        self.shell = shell
        self.output = output
        self.process = os.getpid()
        self.older_threads = set(threading.enumerate())
        self.display_ids: set[str] = set()
        self.name_of = cell_name(shell, own_file)

    def is_ours(self) -> bool:
        """Whether it is the call's code that runs here: by its context, or on a thread that it started."""
        return _output_here.get() is self.output or threading.current_thread() not in self.older_threads

    def write_of(self, original: Callable[[str], Any]) -> Callable[[str], Any]:
        def write(text: str) -> Any:
            if not self.is_ours():
                return original(text)
            if not isinstance(text, str):
                raise TypeError(f"write() argument must be str, not {type(text).__name__}")
            if os.getpid() != self.process:
                # a fork: what it puts into its copy of `output` nobody reads, but it inherits the descriptor
                return os.write(1, text.encode("utf-8", "backslashreplace"))
            self.output.put(text)
            return len(text)

        return write

    def publish_of(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def publish(
            data: Mapping[str, Any],
            metadata: Mapping[str, Any] | None = None,
            *args: Any,
            transient: Mapping[str, Any] | None = None,
            update: bool = False,
            **more: Any,
        ) -> None:
            display_id = str((transient or {}).get("display_id", ""))
            # a display that is older than this call stands in some cell, and is updated there
            if not self.is_ours() or (update and display_id not in self.display_ids):
                original(data, metadata, *args, transient=transient, update=update, **more)
                return
            display = display_of(data, display_id)
            self.output.put(Update(display) if update else display)
            if display_id:
                self.display_ids.add(display_id)

        return publish

    def clear_of(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def clear_output(wait: bool = False) -> None:
            if self.is_ours():
                self.output.put(Clear(wait))
            else:
                original(wait)

        return clear_output

    def show_result(self, code: str) -> Callable[[object], None]:
        def show(value: object) -> None:
            formatter = self.shell.display_formatter
            if value is None or formatter is None or DisplayHook.semicolon_at_end_of_expression(code):
                return
            data, _ = formatter.format(value)
            if data:
                self.output.put(display_of(data))

        return show

    def traceback_of(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def show(exc_tuple: Any = None, *args: Any, **more: Any) -> None:
            if not self.is_ours():
                original(exc_tuple, *args, **more)
                return
            # `showsyntaxerror` takes a file name first
            error = exc_tuple[1] if isinstance(exc_tuple, tuple) else sys.exc_info()[1]
            if error is not None:
                self.output.put(short_traceback(error, self.name_of))

        return show

    def next_input_of(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def set_next_input(text: str, *args: Any, **more: Any) -> None:
            if self.is_ours():
                self.output.put(f"{text}\n")
            else:
                original(text, *args, **more)

        return set_next_input

    def refusal_of(self, original: Any, message: str) -> Callable[..., Any]:
        def refuse(*args: Any, **more: Any) -> Any:
            if self.is_ours():
                raise RuntimeError(message)
            return original(*args, **more)

        return refuse


@contextlib.contextmanager
def _replaced(owner: Any, name: str, replacement: object) -> Iterator[None]:
    """An attribute with another value for a while; a method that is the class's is left as the class's."""
    own = hasattr(inspect.getattr_static(type(owner), name, None), "__set__") or name in vars(owner)
    previous = getattr(owner, name, None)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, previous)
        else:
            delattr(owner, name)


@contextlib.contextmanager
def _paged(shell: InteractiveShell, route: _Route) -> Iterator[None]:
    """Help (`name?`) as text: a pager would wait for the user, or open in the notebook."""
    original = shell.hooks.show_in_pager

    def show(page: Any, *args: Any, **more: Any) -> None:
        if route.is_ours():
            route.output.put(f"{page['text/plain'] if isinstance(page, Mapping) else page}\n")
        else:
            original(page, *args, **more)

    shell.hooks.show_in_pager = show
    try:
        yield
    finally:
        shell.hooks.show_in_pager = original


@contextlib.contextmanager
def _payloads_kept(shell: InteractiveShell) -> Iterator[None]:
    """What magics ask of the front end (`%load` replaces the cell's source) is not done for Claude's code."""
    payloads = shell.payload_manager
    assert payloads is not None  # every shell makes one
    before = list(payloads.read_payload())
    try:
        yield
    finally:
        payloads.clear_payload()
        for payload in before:
            payloads.write_payload(payload, single=False)
