"""A variable in words: a line, or all that is known of it, within a time limit.

An object may say itself what Claude should know of it: `_repr_claude_()` returns a text, or a mimebundle with one. It is
the only code of the user's that is called.
"""

from __future__ import annotations

import contextlib
import io
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cellwright.kernel.namespace.description import Description

SECONDS_EACH = 0.5
SECONDS_ALL = 3.0
CHARS_EACH = 4_000
LINE_CHARS = 240

OWN_WORDS = "_repr_claude_"
MAX_TYPES = ("text/markdown", "text/plain", "text/html")

Summarize = Callable[[str, object], str]


class TimeLimitOver(BaseException):
    """The limit is over. No `Exception`: code that catches all of those must not go on."""


class MainThreadLimit:
    """`with MainThreadLimit() as limit:`, and in it `with limit.seconds(0.5): …`; raises `TimeLimitOver` when that is over.

    The user's own interrupt goes where it always goes. An interrupt that is swallowed comes again every `AGAIN` seconds.
    """

    AGAIN = 0.2

    def __init__(self) -> None:
        self._ends: float | None = None
        self._sent = False
        self._closed = False
        self._changed = threading.Condition()
        self._watcher: threading.Thread | None = None
        self._before: Any = None

    def __enter__(self) -> MainThreadLimit:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._on_sigint)
            self._watcher = threading.Thread(target=self._watch, name="cellwright-time-limit", daemon=True)
            self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._watcher is None:
            return
        try:
            self._ends = None
            with self._changed:
                self._closed = True
                self._changed.notify()
            self._watcher.join()
        finally:
            # a signal that is still on its way is handled in this call, by our handler
            signal.signal(signal.SIGINT, self._before if self._before is not None else signal.default_int_handler)

    @contextlib.contextmanager
    def seconds(self, seconds: float) -> Iterator[None]:
        """The block has so many seconds. Who catches `TimeLimitOver` calls `lift`: it may have come when the block ended."""
        try:
            self._ends = time.monotonic() + seconds
            with self._changed:
                self._changed.notify()
            yield
        finally:
            self.lift()

    def lift(self) -> None:
        """There is no limit any more."""
        self._ends = None

    def _watch(self) -> None:
        with self._changed:
            while not self._closed:
                ends = self._ends
                if ends is None:
                    self._changed.wait()
                elif (left := ends - time.monotonic()) > 0:
                    self._changed.wait(left)
                else:
                    self._sent = True
                    if sys.platform == "win32":
                        signal.raise_signal(signal.SIGINT)
                    else:
                        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                    # it puts the end off when it arrives
                    self._changed.wait(self.AGAIN)

    def _on_sigint(self, number: int, frame: FrameType | None) -> None:
        if self._sent:
            self._sent = False
            ends = self._ends
            if ends is not None and time.monotonic() >= ends:
                self._ends = time.monotonic() + self.AGAIN
                raise TimeLimitOver
        elif callable(self._before):
            self._before(number, frame)


def line(name: str, value: object) -> str:
    """One line of a list: name, type, shape, memory, and the value if it is short."""
    from cellwright.kernel.namespace.describe import described  # most runs look at no variable

    text = _head(name, value, described(value))
    return text if len(text) <= LINE_CHARS else f"{text[:LINE_CHARS]}…"


def describe(name: str, value: object, budget: int = CHARS_EACH) -> str:
    """All that is known of a value in about `budget` characters. For the main thread, and within `describe_all`."""
    from cellwright.kernel.namespace.describe import described

    found = described(value)
    lines = [_head(name, value, found)]
    room = budget - len(lines[0])
    for each in _own_words(value) if _has_own_words(value) else found.more():
        if len(each) > room:
            return "\n".join([*lines, f"  {each[: max(room, 0)]} …"])
        lines.append(f"  {each}")
        room -= len(each) + 3
    return "\n".join(lines)


def describe_all(
    values: Mapping[str, object],
    summarize: Summarize = describe,
    seconds: float = SECONDS_ALL,
    seconds_each: float = SECONDS_EACH,
) -> Iterator[tuple[str, str]]:
    """`(name, tell(name, value))` for each value, on the main thread; what takes too long or fails is said instead."""
    if not values:
        return  # a limit is a thread of its own
    ends = time.monotonic() + seconds
    with MainThreadLimit() as limit:
        for name, value in values.items():
            left = ends - time.monotonic()
            if left <= 0:
                yield name, f"{name}: {_type(value)}, not described: the others took {seconds:g} s"
            else:
                yield name, _bounded_summary(limit, min(seconds_each, left), name, value, summarize)


def _bounded_summary(limit: MainThreadLimit, seconds: float, name: str, value: object, summarize: Summarize) -> str:
    try:
        with limit.seconds(seconds):
            return summarize(name, value)
    except TimeLimitOver:
        limit.lift()
        return f"{name}: {_type(value)}, whose description takes longer than {seconds:.2g} s"
    except (Exception, SystemExit) as error:  # noqa: BLE001  an object in any state; the others are described
        return f"{name}: {_type(value)}, whose description fails with {type(error).__name__}"


def _type(value: object) -> str:
    from cellwright.kernel.namespace.description import type_name

    return type_name(type(value))


def _head(name: str, value: object, found: Description) -> str:
    from cellwright.kernel.namespace.describe import is_secret
    from cellwright.kernel.namespace.description import bytes_in_words

    parts = [part for part in (found.shape, bytes_in_words(found.memory) if found.memory else "") if part]
    about = f"{found.type} ({', '.join(parts)})" if parts else found.type
    summary = f"[secret removed: {name}]" if is_secret(name, value) else found.summary
    return f"{name}: {about}{f' = {summary}' if summary else ''}"


def _has_own_words(value: object) -> bool:
    from cellwright.kernel.namespace.description import MISSING, static

    return static(value, OWN_WORDS) is not MISSING


def _own_words(value: Any) -> Iterable[str]:
    """Return what `_repr_claude_()` says, or how it failed. What it prints is nobody's."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            words = value._repr_claude_()
    except (Exception, SystemExit) as error:  # noqa: BLE001  the user's code
        return [f"[its {OWN_WORDS} raised {type(error).__name__}]"]
    if type(words) is dict:
        words = next((words[kind] for kind in MAX_TYPES if type(words.get(kind)) is str), words)
    if type(words) is not str:
        return [f"[its {OWN_WORDS} returned no text but {_type(words)}]"]
    return words[: CHARS_EACH * 4].splitlines()
