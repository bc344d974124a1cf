"""Variables of two times compared and brought back: what a helper of the snapshot does, and what the kernel does.

The helper is forked from the snapshot, which never ran code of Claude's since: its pickles are the kernel's own. A value
is compared by the digest of its pickle. What comes back is one pickle, so that shared parts stay shared. An object that is
the same on both sides is not sent: it keeps its identity, and gets its former contents in place if it has changed.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import io
import marshal
import os
import pickle
import signal
import socket
import struct
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from cellwright.kernel.branches.memory import Pages, address_of, part_of
from cellwright.kernel.branches.resets import end_with_parent
from cellwright.kernel.branches.snapshot import end_child
from cellwright.kernel.namespace.description import is_exactly, short_name
from cellwright.text import counted

LONGEST_TEXT = 24

ByPages = Callable[[memoryview], Pages]
"""Says which pages of a large buffer are to be read; the others are known to hold what they held."""

_NO_PARTS = (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType, types.FrameType, types.CodeType)
_PLAIN = (str, bytes, int, float, bool, complex, type(None))
_ONLY_PLAIN = frozenset(_PLAIN)

IPYTHONS = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open"})
"""Names that a shell gives to each notebook."""

_SHELLS = frozenset({"IPython.core.interactiveshell", "IPython.terminal.interactiveshell", "ipykernel.zmqshell"})

_LENGTH = struct.Struct("!Q")
_CHUNK = 1 << 20


class Large(Struct, frozen=True):
    """A large buffer, and which of its pages were read."""

    address: int
    size: int
    pages: Pages


class Value(Struct, frozen=True):
    """A variable at one time: the object's address, the digest of its contents ("": `error` says why there is none).

    `rows` and `columns` are -1 if it has none; `text` is a short value itself. `kind` is its type's name. `in_place`: it can
    get other contents and stay the same object. `plain`: it never changes.
    """

    address: int
    digest: str
    kind: str
    error: str = ""
    rows: int = -1
    columns: int = -1
    text: str = ""
    in_place: bool = False
    plain: bool = False
    large: tuple[Large, ...] = ()
    """The large buffers whose contents `digest` leaves out; that of the pages that were read is `pages`."""
    pages: str = ""
    read: int = 0
    """Bytes of large buffers that were read."""

    def has_buffers_of(self, other: Value) -> bool:
        """Return whether all large buffers are where those of `other` are."""
        own, its = ([(each.address, each.size) for each in value.large] for value in (self, other))
        return own == its


def difference(was: Value, value: Value) -> str:
    """Say by what two values of a variable differ; "" if only by what they hold.

    >>> table = Value(1, "x", "DataFrame", rows=68846, columns=3)
    >>> difference(table, Value(2, "y", "DataFrame", rows=70112, columns=3))
    '68,846 rows → 70,112'
    """
    if was.text and value.text:
        return f"{was.text} → {value.text}"
    if was.kind != value.kind:
        return f"{was.kind} → {value.kind}"
    if was.rows != value.rows and min(was.rows, value.rows) >= 0:
        return f"{size_of(was)} → {value.rows:,}"
    if was.columns != value.columns and min(was.columns, value.columns) >= 0:
        return f"{counted(was.columns, 'column')} → {value.columns:,}"
    return ""


def size_of(value: Value) -> str:
    """Say how many rows or items a value has; "" if it has none."""
    return counted(value.rows, "row" if value.columns >= 0 else "item") if value.rows >= 0 else ""


class CannotReturn(Exception):
    """A value cannot be made again in the kernel; the text says why."""


# ---------------------------------------------------------------- digests


def look_at(namespace: Mapping[str, Any], names: Iterable[str], by_pages: ByPages | None = None) -> dict[str, Value]:
    """Describe those of `names` that `namespace` has. Runs what classes define for pickling."""
    return {name: _look_at(namespace, namespace[name], by_pages) for name in names if name in namespace}


def _look_at(namespace: Mapping[str, Any], value: Any, by_pages: ByPages | None) -> Value:
    rows, columns = _extent(value)
    text = repr(value) if type(value) in (int, float, bool, complex, type(None)) else ""
    digests, error = _Digests(by_pages), ""
    try:
        digest = digests.of(namespace, value)
    except Exception as raised:  # noqa: BLE001 - a class may raise what it likes
        digest, error = "", str(raised) or type(raised).__name__
    return Value(
        address=id(value),
        digest=digest,
        kind=short_name(type(value)),
        error=error,
        rows=rows,
        columns=columns,
        text=text if len(text) <= LONGEST_TEXT else "",
        in_place=_can_change_in_place(value),
        plain=isinstance(value, (*_PLAIN, *_NO_PARTS)),
        large=tuple(digests.large),
        pages=digests.pages,
        read=digests.read,
    )


class _Digests:
    """The digest of a value, and with `by_pages` one of its own for the pages of large buffers that are to be read."""

    def __init__(self, by_pages: ByPages | None) -> None:
        self.large: list[Large] = []
        self.read = 0
        self._by_pages = by_pages
        self._summed = hashlib.sha256()
        self._of_pages = hashlib.sha256()

    @property
    def pages(self) -> str:
        return self._of_pages.hexdigest() if any(each.pages for each in self.large) else ""

    def of(self, namespace: Mapping[str, Any], value: Any) -> str:
        target = io.BytesIO()
        _Pickler(target, namespace, {}, self._add).dump(value)
        self._summed.update(target.getbuffer())
        return self._summed.hexdigest()

    def _add(self, buffer: pickle.PickleBuffer) -> None:
        with buffer.raw() as raw:
            # buffers above are compared by their pages where that is possible: reading 2 GB takes more than a second
            if raw.nbytes < 1 << 20:
                self._summed.update(raw)
            elif self._by_pages is None:
                self._summed.update(raw)
                self.read += raw.nbytes
            else:
                pages = self._by_pages(raw)
                self.large.append(Large(address_of(raw), raw.nbytes, pages))
                for part in part_of(raw, pages):
                    self._of_pages.update(part)
                    self.read += part.nbytes


def _extent(value: Any) -> tuple[int, int]:
    """The rows and columns of a table or an array, or the items of a collection of Python's; -1 for what it has not."""
    module = type(value).__module__.partition(".")[0]
    if module in ("pandas", "polars", "numpy", "scipy", "torch", "pyarrow"):
        with contextlib.suppress(Exception):
            shape = [int(each) for each in value.shape]
            return (shape[0], shape[1] if len(shape) > 1 else -1) if shape else (-1, -1)
    if type(value) in (list, tuple, dict, set, frozenset, bytearray):
        return len(value), -1
    return -1, -1


def _can_change_in_place(value: Any) -> bool:
    """Return whether `value` can get other contents and stay the same object."""
    kind = type(value)
    if kind in (list, dict, set, bytearray):
        return True
    if is_exactly(value, "numpy", "ndarray"):
        return bool(value.flags.writeable and not value.dtype.hasobject)
    if is_exactly(value, "pandas", "DataFrame") or is_exactly(value, "pandas", "Series"):
        return True
    return kind.__module__ == "__main__" and hasattr(value, "__dict__") and not hasattr(kind, "__slots__")


class _Pickler(pickle.Pickler):
    """Pickles values of cells: functions by their code, classes and modules by name, `kept` objects by a name of theirs."""

    def __init__(
        self,
        target: io.BytesIO,
        namespace: Mapping[str, Any],
        kept: Mapping[int, str],
        add: Any = None,
    ) -> None:
        super().__init__(target, 5, buffer_callback=add)
        self._namespace = namespace
        self._kept = kept
        self._compares = add is not None

    def persistent_id(self, value: Any) -> Any:
        if type(value) in _ONLY_PLAIN:  # most are, and none of these is kept
            return None
        if (name := self._kept.get(id(value))) is not None:
            return ("kept", name, id(value))
        if value is self._namespace:
            return ("namespace",)
        if isinstance(value, types.ModuleType):
            return ("module", value.__name__)
        if isinstance(value, type) and value.__module__ == "__main__":
            return ("class", value.__qualname__, id(value))
        return None

    def reducer_override(self, value: Any) -> Any:
        if type(value) is types.FunctionType and value.__globals__ is self._namespace:
            state = (value.__defaults__, value.__kwdefaults__, value.__dict__, value.__doc__, value.__qualname__)
            return _made_function, (value.__code__, self._namespace, value.__name__, value.__closure__, state)
        if type(value) is types.CellType:
            return _made_cell, (value.cell_contents,)
        if type(value) is types.CodeType:
            return marshal.loads, (_parts_of(value) if self._compares else marshal.dumps(value),)
        return NotImplemented


def _parts_of(code: types.CodeType) -> tuple[object, ...]:
    """The contents of `code`; how it is marshalled depends on who else refers to its names."""
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return code.co_code, code.co_consts, names, code.co_flags, code.co_argcount, code.co_kwonlyargcount


def _made_cell(contents: Any) -> types.CellType:
    return types.CellType(contents)


def _made_function(
    code: types.CodeType, namespace: dict[str, Any], name: str, closure: Any, state: Any
) -> types.FunctionType:
    made = types.FunctionType(code, namespace, name, None, closure)
    made.__defaults__, made.__kwdefaults__, own, made.__doc__, made.__qualname__ = state
    made.__dict__.update(own)
    return made


# ---------------------------------------------------------------- what is shared


def sharing(namespace: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """The variables that share a part which can change with one of `names`, without these."""
    named = set(names)
    # objects that are looked through to find which variables share parts; what lies beyond is not known to be shared
    left = [200_000]
    parts = {part for name in named & namespace.keys() for part in _parts(namespace[name], namespace, left)}
    others = [
        name for name in dict(namespace) if name not in named and not name.startswith("_") and name not in IPYTHONS
    ]
    return [name for name in others if parts and not parts.isdisjoint(_parts(namespace[name], namespace, left))]


def _parts(value: Any, namespace: Mapping[str, Any], left: list[int]) -> Iterator[int]:
    """The addresses of `value` and all that it consists of, but what never changes.

    A value that holds the shell or the namespace does not consist of it: each variable would share parts with all others.
    """
    seen = {id(namespace)}
    waiting = [value]
    while waiting and left[0] > 0:
        part = waiting.pop()
        if isinstance(part, (*_NO_PARTS, *_PLAIN)) or id(part) in seen:
            continue
        if type(part).__module__ in _SHELLS:
            continue
        left[0] -= 1
        seen.add(id(part))
        if type(part) not in (tuple, frozenset):
            yield id(part)
        # a view has the memory of its base, and is no container that the collector knows
        if type(part).__module__ == "numpy" and (base := getattr(part, "base", None)) is not None:
            waiting.append(base)
        referents = gc.get_referents(part)
        if not _ONLY_PLAIN.issuperset(map(type, referents)):
            waiting += [each for each in referents if type(each) not in _ONLY_PLAIN]


# ---------------------------------------------------------------- values, sent and put back


class Wanted(Struct, frozen=True):
    """The values that are to come back. `in_place` of them keep their object; `kept` are the same on both sides.

    Both are addresses by name.
    """

    names: tuple[str, ...]
    in_place: Mapping[str, int]
    kept: Mapping[str, int]


def pickled(namespace: Mapping[str, Any], wanted: Wanted) -> bytes:
    """All values of `wanted` in one pickle. Raises what pickling raises."""
    kept = {address: name for name, address in {**wanted.kept, **wanted.in_place}.items()}
    contents = {
        name: _contents(namespace[name]) if name in wanted.in_place else namespace[name] for name in wanted.names
    }
    target = io.BytesIO()
    _Pickler(target, namespace, kept).dump(contents)
    return target.getvalue()


def restore(namespace: dict[str, Any], wanted: Wanted, data: bytes, removed: Sequence[str] = ()) -> None:
    """Give the variables of `wanted` the values of `data`, and take away `removed`. All or nothing, but for in-place code.

    Raises `CannotReturn`, and what unpickling raises; nothing has changed then.
    """
    contents: dict[str, Any] = _Unpickler(io.BytesIO(data), namespace).load() if wanted.names else {}
    for name in wanted.names:
        if name in wanted.in_place and not _fits(namespace.get(name), contents[name], wanted.in_place[name]):
            message = f"{name} has changed meanwhile"
            raise CannotReturn(message)
    for name in wanted.names:
        if name in wanted.in_place:
            _put_back(namespace[name], contents[name])
        else:
            namespace[name] = contents[name]
    for name in removed:
        namespace.pop(name, None)


class _Unpickler(pickle.Unpickler):
    """Reads what `_Pickler` wrote, for the namespace of the kernel."""

    def __init__(self, source: io.BytesIO, namespace: dict[str, Any]) -> None:
        super().__init__(source)
        self._namespace = namespace

    def persistent_load(self, what: Any) -> Any:
        match what:
            case ("kept", name, address):
                if id(found := self._namespace.get(name)) == address:
                    return found
                message = f"{name} has changed meanwhile"
                raise CannotReturn(message)
            case ("namespace",):
                return self._namespace
            case ("module", name):
                return sys.modules[name]
            case ("class", name, address):
                found = self._namespace.get(name)
                if id(found) == address:
                    return found
                message = f"the class {name} is another one now"
                raise CannotReturn(message)
        raise CannotReturn(str(what))


def _contents(value: Any) -> Any:
    """The contents of an object that stays: a shallow copy, or its variables."""
    if type(value) in (list, dict, set, bytearray):
        return type(value)(value)
    if is_exactly(value, "numpy", "ndarray"):
        return value.view()
    if is_exactly(value, "pandas", "DataFrame") or is_exactly(value, "pandas", "Series"):
        return value.copy(deep=False)
    return dict(vars(value))


def _fits(value: Any, contents: Any, address: int) -> bool:
    if id(value) != address:
        return False
    if is_exactly(value, "numpy", "ndarray"):
        return bool(value.shape == contents.shape and value.dtype == contents.dtype)
    return type(value) is type(contents) or isinstance(contents, dict)


def _put_back(value: Any, contents: Any) -> None:
    if type(value) in (list, bytearray):
        value[:] = contents
    elif type(value) in (dict, set):
        value.clear()
        value.update(contents)
    elif is_exactly(value, "numpy", "ndarray"):
        value[...] = contents
    elif is_exactly(value, "pandas", "DataFrame") or is_exactly(value, "pandas", "Series"):
        value._update_inplace(contents)  # as pandas itself does for `inplace=True`
        value.attrs = contents.attrs
    else:
        vars(value).clear()
        vars(value).update(contents)


# ---------------------------------------------------------------- between the two processes


class Look(Struct, frozen=True, tag="look"):
    """Asks for `names`; `with_sharing`: and for those that share parts with them.

    Of large buffers only the pages that `large` names are read, and with None all.
    """

    names: tuple[str, ...]
    with_sharing: bool = False
    large: tuple[Large, ...] | None = None


class Send(Struct, frozen=True, tag="send"):
    """Asks for values."""

    wanted: Wanted


def start_helper(shell: Any, _arguments: object, descriptors: Sequence[int]) -> int:
    """In the snapshot: fork the helper that serves the socket `descriptors[0]`; return its pid."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            end_with_parent(parent)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setpgid(0, 0)
            serve(shell.user_ns, socket.socket(fileno=os.dup(descriptors[0])))
        finally:
            os._exit(0)
    return pid


def end_helper(_shell: Any, pid: int, _descriptors: Sequence[int]) -> None:
    """In the snapshot: end the helper."""
    end_child(pid)


def serve(namespace: Mapping[str, Any], channel: socket.socket) -> None:
    """In the helper: answer until the kernel closes `channel`."""
    while (data := receive(channel)) is not None:
        request = msgspec.json.decode(data, type=Look | Send)
        try:
            if isinstance(request, Look):
                others = sharing(namespace, request.names) if request.with_sharing else ()
                names = dict.fromkeys((*request.names, *others))
                answer = msgspec.json.encode(look_at(namespace, names, _pages_asked_for(request.large)))
            else:
                answer = pickled(namespace, request.wanted)
        except BaseException as error:  # noqa: BLE001 - the kernel says it
            send(channel, b"!" + (str(error) or type(error).__name__).encode("utf-8", "replace"))
        else:
            send(channel, b"=" + answer)


def _pages_asked_for(large: Sequence[Large] | None) -> ByPages | None:
    if large is None:
        return None
    asked_for = {(each.address, each.size): each.pages for each in large}
    return lambda raw: asked_for.get((address_of(raw), raw.nbytes), ())


def ask(channel: socket.socket, request: Look | Send) -> bytes:
    """In the kernel: ask and wait. Raises `CannotReturn` for what the helper could not do, and OSError if it is gone."""
    try:
        send(channel, msgspec.json.encode(request))
        answer = receive(channel)
    except TimeoutError:
        # a value's class may wait for a lock that a thread held at the fork: it has no such thread
        message = f"the copy of the kernel did not answer within {channel.gettimeout():g} s"
        raise CannotReturn(message) from None
    if answer is None:
        message = "the copy of the kernel has ended"
        raise ConnectionError(message)
    if answer[:1] != b"=":
        raise CannotReturn(answer[1:].decode("utf-8", "replace"))
    return answer[1:]


def send(channel: socket.socket, data: bytes) -> None:
    """Send `data` as one message."""
    channel.sendall(_LENGTH.pack(len(data)))
    channel.sendall(data)


def receive(channel: socket.socket) -> bytes | None:
    """Wait for the next message; None when the other side has ended."""
    head = _exactly(channel, _LENGTH.size)
    return None if head is None else _exactly(channel, _LENGTH.unpack(head)[0])


def _exactly(channel: socket.socket, size: int) -> bytes | None:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        count = channel.recv_into(view[done : done + _CHUNK])
        if not count:
            return None
        done += count
    return bytes(data)
