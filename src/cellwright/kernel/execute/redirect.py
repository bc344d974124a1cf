"""While code runs for Claude, what it prints and displays goes to the call and not into the cell that is running.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from cellwright.kernel.child_output import child_output

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

NO_INPUT = (
    "input() has nobody to ask: Claude runs this code, and the user does not sit before it. "
    "Put the value into the code; what only the user knows, ask in your answer."
)
NO_EXIT = "exit() would end the user's kernel and lose everything in it, so it was not done. Code simply ends."

StreamName = Literal["stdout", "stderr"]
Replacement = tuple[Any, str, object]
"""An object, the name of one of its attributes, and the value it has for a while."""


class CodeOutput(Protocol):
    """Where goes what code does to the outside. Called on any thread, and never waits for another one."""

    def write(self, text: str, stream: StreamName = "stdout") -> None:
        """Text was printed."""

    def display(self, data: Mapping[str, Any], metadata: Mapping[str, Any], display_id: str, *, update: bool) -> None:
        """A mimebundle was displayed; or, with `update`, takes the place of the displays that have this id."""

    def knows(self, display_id: str) -> bool:
        """Whether a display with this id is among what came here: an older one stands in some cell."""

    def clear(self, *, wait: bool) -> None:
        """`clear_output` was called."""

    def reporters(self, shell: InteractiveShell, code: RunningCode) -> Sequence[Replacement]:
        """What shows the results and the errors of `code`."""


_output_here: contextvars.ContextVar[CodeOutput | None] = contextvars.ContextVar("output_here", default=None)


@dataclass(frozen=True)
class RunningCode:
    """The code that is running: `transformed`, and compiled as `file`. `is_ours` says whether it is what calls."""

    transformed: str
    file: str
    is_ours: Callable[[], bool]


@contextlib.contextmanager
def diverted_output(
    shell: InteractiveShell, output: CodeOutput, transformed_code: str, own_file: str, *, with_children: bool
) -> Iterator[None]:
    """For the time of the block, on this thread: what code in this context does to the outside goes to `output`.

    `own_file` is the name that the code is compiled under. `with_children`: also what child processes write to the
    file descriptors they inherit; not in a terminal, where these are the screen that the agent draws on.
    """
    route = _Route(shell, output)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_payloads_kept(shell))
        if with_children:
            stack.enter_context(child_output(output.write))
        # what reads stdin by itself comes to its end at once, instead of waiting for somebody
        nothing = stack.enter_context(Path(os.devnull).open(encoding="utf-8"))
        for stream, stream_name in _standard_streams():
            stack.enter_context(_replaced(stream, "write", route.write_of(stream.write, stream_name)))
        for owner, name, replacement in (
            (shell.display_pub, "publish", route.publish_of(shell.display_pub.publish)),
            (shell.display_pub, "clear_output", route.clear_of(shell.display_pub.clear_output)),
            *output.reporters(shell, RunningCode(transformed_code, own_file, route.is_ours)),
            (shell, "set_next_input", route.next_input_of(shell.set_next_input)),
            (shell, "ask_exit", route.refusal_of(getattr(shell, "ask_exit", None), NO_EXIT)),
            (os, "_exit", route.refusal_of(os._exit, NO_EXIT)),
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


def _standard_streams() -> Iterator[tuple[Any, StreamName]]:
    if sys.stdout is not None:
        yield sys.stdout, "stdout"
    if sys.stderr is not None and sys.stderr is not sys.stdout:
        yield sys.stderr, "stderr"


class _Route:
    """Makes the replacements: each asks first whether it was called from the call's own code."""

    def __init__(self, shell: InteractiveShell, output: CodeOutput) -> None:
        self.shell = shell
        self.output = output
        self.process = os.getpid()
        self.older_threads = set(threading.enumerate())

    def is_ours(self) -> bool:
        """Whether it is the call's code that runs here: by its context, or on a thread that it started."""
        return _output_here.get() is self.output or threading.current_thread() not in self.older_threads

    def write_of(self, original: Callable[[str], Any], stream: StreamName) -> Callable[[str], Any]:
        def write(text: str) -> Any:
            if not self.is_ours():
                return original(text)
            if not isinstance(text, str):
                raise TypeError(f"write() argument must be str, not {type(text).__name__}")
            if os.getpid() != self.process:
                # a fork: what it puts into its copy of `output` nobody reads, but it inherits the descriptor
                return os.write(1, text.encode("utf-8", "backslashreplace"))
            self.output.write(text, stream)
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
            if not self.is_ours() or (update and not self.output.knows(display_id)):
                original(data, metadata, *args, transient=transient, update=update, **more)
                return
            self.output.display(data, metadata or {}, display_id, update=update)

        return publish

    def clear_of(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def clear_output(wait: bool = False) -> None:
            if self.is_ours():
                self.output.clear(wait=wait)
            else:
                original(wait)

        return clear_output

    def next_input_of(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def set_next_input(text: str, *args: Any, **more: Any) -> None:
            if self.is_ours():
                self.output.write(f"{text}\n")
            else:
                original(text, *args, **more)

        return set_next_input

    def refusal_of(self, original: Any, message: str) -> Callable[..., Any]:
        def refuse(*args: Any, **more: Any) -> Any:
            if self.is_ours() and os.getpid() == self.process:  # a fork may end as it likes
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
            route.output.write(f"{page['text/plain'] if isinstance(page, Mapping) else page}\n")
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
