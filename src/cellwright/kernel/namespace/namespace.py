"""The variables of the user's namespace: those there are, those that are new or have changed, and each in words.

A name counts as news when it was bound, when a cell stored into it (`df["a"] = 1`), or when its size is another one
than at the last look: a list that grew through a method.

A variable is a line, or all that is known of it, within a time limit. An object may say itself what Claude should know of
it: `_repr_claude_()` returns a text, or a mimebundle with one. It is the only code of the user's that is called.

A completion is told each name with its type, and with what can be known without running any code of the user's: never
a value, and never a `repr`. From any thread.

A tool that looks for definitions is told of functions and classes that exist in the kernel alone: made by a cell or
`exec`, in no file of the project.
"""

from __future__ import annotations

import contextlib
import heapq
import io
import itertools
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from cellwright.kernel.namespace.description import (
    MISSING,
    bytes_in_words,
    classes,
    library_class,
    short_name,
    static,
    type_name,
)
from cellwright.kernel.namespace.hidden_state import BEFORE_ALL
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.kernel.namespace.cell_log import Binding, CellLog, RanCell
    from cellwright.kernel.namespace.description import Description


CODE_TYPES = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)

_WHOLE = (type(None), bool, int, float, complex)
_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset)
_TABLES = (
    ("pandas", "DataFrame"),
    ("pandas", "Series"),
    ("polars", "DataFrame"),
    ("polars", "Series"),
    ("numpy", "ndarray"),
    ("torch", "Tensor"),
)

Fingerprint = tuple[Any, ...]

_LIVE_TABLES = {"DataFrame": ("pandas", "polars"), "GeoDataFrame": ("geopandas",)}

SECONDS_EACH = 0.5
SECONDS_ALL = 3.0
CHARS_EACH = 4_000
LINE_CHARS = 240

OWN_WORDS = "_repr_claude_"
MAX_TYPES = ("text/markdown", "text/plain", "text/html")

Summarize = Callable[[str, object], str]


def user_variables(shell: InteractiveShell) -> dict[str, Any]:
    """The variables that cells defined, in the order of their definition; IPython's own and `_hidden` ones are left out.

    Functions, classes and modules are among them (`is_code`). Takes microseconds and looks into no value.
    """
    hidden = shell.user_ns_hidden
    return {
        name: value
        for name, value in dict(shell.user_ns).items()
        if not name.startswith("_") and (name not in hidden or hidden[name] is not value)
    }


def is_code(value: object) -> bool:
    """Return whether a value is a function, class or module, and no data."""
    return type(value) in CODE_TYPES or type in classes(value)


def fingerprint(value: object) -> Fingerprint:
    """Return what differs once a variable has another value, or its value another size. Runs no code of its class.

    That an element of a list or a cell of a frame changed in place does not show.
    """
    kind = type(value)
    if kind in _WHOLE:
        return (type_name(kind), value if kind is not int or int.bit_length(value) <= 128 else id(value))  # type: ignore[arg-type]
    if kind in _SIZED:
        return (type_name(kind), id(value), len(value))  # type: ignore[arg-type]
    for module, name in _TABLES:
        if kind is library_class(module, name):
            return (type_name(kind), id(value), tuple(value.shape))  # type: ignore[attr-defined]
    return (type_name(kind), id(value))


MAX_COLUMNS = 30
_WORD = lazy_pattern(r"[^\W\d]\w*")


def code_names(values: Mapping[str, Any], text: str) -> list[str]:
    """A line for each variable; those that `text` mentions first, then the newest."""
    mentioned = set(_WORD.findall(text))
    newest = list(values)[::-1]
    ordered = sorted(newest, key=lambda name: name not in mentioned)[:80]
    # in the namespace's own order the lines stay as they are while the user types, and the cache holds them
    chosen = set(ordered)
    return [f"{name}: {_what(values[name])}"[:200] for name in values if name in chosen]


def _what(value: object) -> str:
    kind = type(value)
    if kind is types.ModuleType:
        name = vars(value).get("__name__")
        return f"module {name}" if isinstance(name, str) else "module"
    if isinstance(value, types.FunctionType):
        return f"function{code_signature(value.__code__)}"
    if type in classes(value):
        return f"class {short_name(value)}"  # type: ignore[arg-type]
    found, *rest = fingerprint(value)
    shape = next((each for each in rest if isinstance(each, tuple)), None)
    words = f"{found} {shape}" if shape is not None else str(found)
    return f"{words} with columns {columns}" if (columns := _columns(value)) else words


def code_signature(code: types.CodeType) -> str:
    """The names of a function's arguments, without looking at their defaults."""
    return f"({', '.join(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])})"


def _columns(value: object) -> str:
    """The columns of a table that is pandas' or Polars' own: a subclass could run code."""
    for module in ("pandas", "polars"):
        if type(value) is library_class(module, "DataFrame"):
            from cellwright.kernel.namespace.tables import names_of  # for who has tables

            columns = value.columns  # type: ignore[attr-defined]
            return names_of(itertools.islice(columns, MAX_COLUMNS), len(columns))
    return ""


class Variable(Struct, frozen=True):
    """A name at one time: what it was in a line, and its binding. `what` is "" for values, which have a line of their own.

    The line is "" where it was not asked for.
    """

    line: str
    what: str
    binding: Binding | None


class NamespaceSnapshot(Struct, frozen=True):
    """The namespace at one time, the names bound last first. `moved` had another line at the look before.

    `stored` is when cells last stored into names. `variables` are the latest; `names` are all there are.
    """

    variables: Mapping[str, Variable]
    moved: frozenset[str]
    names: frozenset[str]
    stored: Mapping[str, int]

    def news(self, order: int, runs: Sequence[RanCell]) -> VariableNews:
        """Find what is new above `order`, where the user ran `runs`; everything is where nothing was told before."""
        everything = order == BEFORE_ALL
        stored = set() if everything else {name for name, at in self.stored.items() if at > order}

        def is_new(name: str, binding: Binding | None) -> bool:
            bound = binding is not None and binding.order > order and binding.by != "claude"
            return everything or bound or name in stored or name in self.moved

        new = {name: each for name, each in self.variables.items() if is_new(name, each.binding)}
        deleted = {name for run in runs for name in run.deleted if name not in self.names}
        kinds = sorted({each.what for each in new.values() if each.what})
        return VariableNews(
            tuple((name, each.line) for name, each in new.items() if not each.what),
            tuple((kind, tuple(sorted(name for name, each in new.items() if each.what == kind))) for kind in kinds),
            () if everything else tuple(sorted(deleted)),
        )


class VariableNews(Struct, frozen=True):
    """`lines` are of values, the newest first; `names` those of modules, functions and classes, by what they are."""

    lines: tuple[tuple[str, str], ...] = ()
    names: tuple[tuple[str, tuple[str, ...]], ...] = ()
    deleted: tuple[str, ...] = ()


class NamespaceNews:
    """Looks at the namespace of one shell, on the thread that runs its cells. Keeps sizes and ids, and no values."""

    def __init__(self, shell: InteractiveShell, log: CellLog) -> None:
        self._shell = shell
        self._log = log
        self._seen: dict[str, _NameState] = {}

    def look(self, lines: int = 0, *, remember: bool = True) -> NamespaceSnapshot:
        """The namespace as it is now, the newest `lines` values with a line each.

        The next look is compared with this one if it is remembered.
        """
        bindings, stored = self._log.bindings(), self._log.stored()
        touched = {name: binding.order for name, binding in bindings.items()}
        for name, order in stored.items():
            touched[name] = max(order, touched.get(name, 0))
        every = user_variables(self._shell)

        def latest(name: str) -> int:
            return touched.get(name, BEFORE_ALL)

        # of those that one cell touched, what is new to the namespace comes first
        # the most names that a prompt's look takes in: those that were bound or stored into last
        names = heapq.nlargest(3_000, reversed(every), key=latest)
        values = {name: every[name] for name in names}
        seen = {
            name: _NameState(bindings[name].order if name in bindings else BEFORE_ALL, fingerprint(value))
            for name, value in values.items()
        }
        # what was bound anew says so itself
        moved = frozenset(
            name
            for name, now in seen.items()
            if (before := self._seen.get(name)) is not None and before.order == now.order and before != now
        )
        if remember:
            self._seen = seen
        touched |= dict.fromkeys(moved, self._log.order)
        names.sort(key=latest, reverse=True)
        shown = [name for name in names if not is_code(values[name])][:lines]
        summaries = dict(describe_all({name: values[name] for name in shown}, line))
        return NamespaceSnapshot(
            {
                name: Variable(
                    summaries.get(name, "").removeprefix(f"{name}: "), _group_of(values[name]), bindings.get(name)
                )
                for name in names
            },
            moved,
            frozenset(self._shell.user_ns),
            stored,
        )


class _NameState(NamedTuple):
    """The state of a name at a look."""

    order: int
    fingerprint: Fingerprint


def _group_of(value: object) -> str:
    """Name the group that is listed in one line with others of its kind; "" for values, which have their own."""
    if not is_code(value):
        return ""
    kind = type(value)
    return "modules" if kind is types.ModuleType else "classes" if type in classes(value) else "functions"


def live_definitions(shell: InteractiveShell, project: Path) -> Callable[[str], str]:
    """Make what says of a name what the kernel has by it that no file of `project` defines; "" for nothing.

    Runs no code of the user's, and may be called on any thread.
    """

    def definition(name: str) -> str:
        value = _found(user_variables(shell), name)
        code = _code(value)
        if code is None:
            return ""
        file = Path(code.co_filename)
        if file.is_absolute() and file.is_relative_to(project) and file.is_file():
            return ""
        numbers: Mapping[str, int] = getattr(shell.compile, "_filename_map", {})
        cell = f"In [{numbers[code.co_filename]}]" if code.co_filename in numbers else ""
        place = f"{cell}:{code.co_firstlineno}" if cell else "made while the kernel ran"
        if _is_class(value):
            return f"in the kernel ({place}): class {name}"
        arguments = code_signature(code)
        return f"in the kernel ({place}): function {name} | def {name.rpartition('.')[2]}{arguments}"

    return definition


def has_name(shell: InteractiveShell) -> Callable[[str], bool]:
    """Make what says whether the user has a variable of a name, or a table or a mapping with a column or key of it.

    Runs no code of the user's, and may be called on any thread.
    """

    def has(name: str) -> bool:
        variables = user_variables(shell)
        return name in variables or any(name in _columns_of(value) for value in list(variables.values()))

    return has


def _columns_of(value: object) -> Container[object]:
    kind = type(value)
    if kind is dict:
        return value  # type: ignore[return-value]  # a mapping
    if kind.__name__ not in _LIVE_TABLES or kind.__module__.partition(".")[0] not in _LIVE_TABLES[kind.__name__]:
        return ()
    columns = [str(column) for column in value.columns]  # type: ignore[attr-defined]  # a table
    index = getattr(value, "index", None)
    return {*columns, *(str(name) for name in getattr(index, "names", ()))}


def _found(variables: Mapping[str, Any], name: str) -> object:
    first, *rest = name.split(".")
    value: object = variables.get(first)
    for part in rest:
        if not _is_class(value):
            return None
        mro = type.__dict__["__mro__"].__get__(value)
        value = next((each for each in (_own(kind).get(part) for kind in mro) if each is not None), None)
    return _unbound(value)


def _own(kind: object) -> Mapping[str, object]:
    """The attributes of a class itself, read past its metaclass (`inspect.getattr_static` is not enough)."""
    found: Mapping[str, object] = type.__dict__["__dict__"].__get__(kind)
    return found


def _unbound(value: object) -> object:
    return value.__func__ if type(value) in (staticmethod, classmethod) else value  # type: ignore[attr-defined]


def _is_class(value: object) -> bool:
    """Return whether it is a class, without asking it: `isinstance` would run its metaclass's code."""
    return issubclass(type(value), type)


def _code(value: object) -> types.CodeType | None:
    """The code of a function; of a class, that of its first method."""
    if type(value) is types.FunctionType:
        return value.__code__
    if _is_class(value):
        functions = map(_unbound, _own(value).values())
        return next((each.__code__ for each in functions if type(each) is types.FunctionType), None)
    return None


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
    text, _ = _head(name, value)
    return text if len(text) <= LINE_CHARS else f"{text[:LINE_CHARS]}…"


def describe(name: str, value: object, budget: int = CHARS_EACH) -> str:
    """All that is known of a value in about `budget` characters. For the main thread, and within `describe_all`."""
    head, found = _head(name, value)
    lines = [head]
    room = budget - len(head)
    for each in _own_words(value) if static(value, OWN_WORDS) is not MISSING else found.more():
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
    return type_name(type(value))


def _head(name: str, value: object) -> tuple[str, Description]:
    """The first line of a value's description, and the description."""
    from cellwright.kernel.namespace.describe import described, is_secret  # most runs look at no variable

    found = described(value)
    parts = [part for part in (found.shape, bytes_in_words(found.memory) if found.memory else "") if part]
    about = f"{found.type} ({', '.join(parts)})" if parts else found.type
    summary = f"[secret removed: {name}]" if is_secret(name, value) else found.summary
    return f"{name}: {about}{f' = {summary}' if summary else ''}", found


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
