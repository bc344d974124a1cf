"""Redirection of what code run for Claude prints and displays: to the call, and not into the cell that is running.

IPython has one stdout, one display publisher and one display hook for everything in the process. They stay in place;
only their methods are replaced for the time of the call, and pass on what does not come from the call's own code: the
agent's thread draws the cell meanwhile, and a widget's callback may print. The same goes for what code can ask of the
user (`input`), and for what would end the kernel or write into the user's cells.

Child processes write to the standard output and error they inherit, file descriptors 1 and 2. Python's own streams
never see it, so the descriptors lead into a pipe for a while. A child that lives longer keeps the pipe; what it
writes later goes where it would have gone without us.
"""

from __future__ import annotations

import builtins
import codecs
import contextlib
import contextvars
import getpass
import inspect
import os
import selectors
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

STANDARD = (1, 2)


@contextlib.contextmanager
def child_output(put: Callable[[str], None]) -> Iterator[None]:
    """For the time of the block, `put` gets what children and forks write to descriptors 1 and 2, from any thread."""
    if sys.platform == "win32":  # its pipes cannot be waited for, and a kernel there has no descriptors to speak of
        yield
        return
    pipe = _Pipe(put)
    originals = [os.dup(descriptor) for descriptor in STANDARD]
    for descriptor in STANDARD:
        os.dup2(pipe.write_end, descriptor)
    os.close(pipe.write_end)
    pipe.start()
    try:
        yield
    finally:
        for descriptor, original in zip(STANDARD, originals, strict=True):
            os.dup2(original, descriptor)
        os.close(originals[1])
        pipe.release_to(originals[0])


class _Pipe:
    """The pipe and the thread that reads it until its last writer is gone."""

    def __init__(self, put: Callable[[str], None]) -> None:
        self._put = put
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._read_end, self.write_end = os.pipe()
        if sys.platform != "win32":
            os.set_blocking(self._read_end, False)
        self._lock = threading.Lock()
        self._later: int | None = None
        self._released = threading.Event()
        self._at_end = False

    def start(self) -> None:
        threading.Thread(target=self._read_to_the_end, name="cellwright-child-output", daemon=True).start()

    def release_to(self, descriptor: int) -> None:
        """Take in what is there already; what comes later goes to `descriptor`, which is closed in the end."""
        with self._lock:
            self._pump()
            self._later = descriptor
        self._released.set()

    def _read_to_the_end(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._read_end, selectors.EVENT_READ)
            while not self._at_end:
                selector.select()
                with self._lock:
                    self._pump()
        self._released.wait()
        with self._lock:
            os.close(self._read_end)
            if self._later is not None:
                os.close(self._later)

    def _pump(self) -> None:
        # a child that never stops writing must not hold up the end of the call
        for _ in range(64):
            try:
                data = os.read(self._read_end, 65_536)
            except BlockingIOError:
                return
            if not data:
                self._at_end = True
                return
            if self._later is not None:
                os.write(self._later, data)
            else:
                self._put(self._decode(data))


NO_INPUT = (
    "input() cannot ask here: Claude runs this code, not the user. "
    "Put the value into the code; what only the user knows, ask in your answer."
)
NO_EXIT = "exit() would end the user's kernel and lose everything in it, so it was not done. Code simply ends."

StreamName = Literal["stdout", "stderr"]
Replacement = tuple[Any, str, object]
"""An object, the name of one of its attributes, and the value it has for a while."""


class CodeOutput(Protocol):
    """The destination of what code does to the outside. Called on any thread, and never waits for another one."""

    def write(self, text: str, stream: StreamName = "stdout") -> None:
        """Text was printed."""

    def display(self, data: Mapping[str, Any], metadata: Mapping[str, Any], display_id: str, *, update: bool) -> None:
        """A mimebundle was displayed; or, with `update`, takes the place of the displays that have this id."""

    def knows(self, display_id: str) -> bool:
        """Return whether a display with this id is among what came here: an older one stands in some cell."""

    def clear(self, *, wait: bool) -> None:
        """`clear_output` was called."""

    def reporters(self, shell: InteractiveShell, code: RunningCode) -> Sequence[Replacement]:
        """Return what shows the results and the errors of `code`."""


_output_here: contextvars.ContextVar[CodeOutput | None] = contextvars.ContextVar("output_here", default=None)


class RunningCode(Struct, frozen=True):
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
        """Return whether the call's own code runs here: by its context, or on a thread that it started."""
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
    """Drop what magics ask of the front end (`%load` replaces the cell's source): not done for Claude's code."""
    payloads = shell.payload_manager
    assert payloads is not None  # every shell makes one
    before = list(payloads.read_payload())
    try:
        yield
    finally:
        payloads.clear_payload()
        for payload in before:
            payloads.write_payload(payload, single=False)
