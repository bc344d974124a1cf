"""The description of any value: plain values by what they hold, libraries' by the module that knows them, others as objects.

Objects are dataclasses, models, anything with attributes. Code is functions, classes, modules and generators: what they
are called with, what they say of themselves, where they stand.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import datetime
import decimal
import enum
import fractions
import importlib
import inspect
import io
import itertools
import pathlib
import sys
import types
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from IPython.core.getipython import get_ipython

from cellwright.kernel.namespace.cell_names import cell_of_file
from cellwright.kernel.namespace.description import (
    MISSING,
    Description,
    class_vars,
    classes,
    in_columns,
    module_name,
    own_vars,
    short_name,
    static,
    type_name,
)
from cellwright.redaction.redaction import LONGEST_SECRET, Redaction
from cellwright.redaction.secret_names import is_always_secret
from cellwright.redaction.secret_names import is_secret_name as might_be_secret

ROOM = 200
"""Characters of a value in a line."""

BEFORE_CUT = Redaction()

MAX_ITEMS = 12
MAX_BITS = 512
DEPTH = 3

shows_secrets: contextvars.ContextVar[bool] = contextvars.ContextVar("shows_secrets", default=False)
"""Set where values whose names say that they are secret are told all the same."""

_LITERAL = (dict, list, tuple, set)
_PLAIN = (type(None), bool, float, complex, type(Ellipsis), type(NotImplemented), range, slice)
_WORDS = (uuid.UUID, decimal.Decimal, fractions.Fraction, datetime.date, datetime.timedelta, datetime.timezone)
_LISTS: tuple[tuple[type, str, str], ...] = (
    (list, "[", "]"),
    (tuple, "(", ")"),
    (set, "{", "}"),
    (frozenset, "{", "}"),
    (collections.deque, "[", "]"),
)

MAX_ATTRIBUTES = 30

Describer = Callable[[Any], Description | None]

LIBRARIES = {
    "geopandas": "tables:describe_pandas",
    "pandas": "tables:describe_pandas",
    "polars": "tables:describe_polars",
    "pyarrow": "tables:describe_arrow",
    "numpy": "arrays:describe_numpy",
    "xarray": "arrays:describe_xarray",
    "dask": "arrays:describe_dask",
    "torch": "arrays:describe_torch",
    "duckdb": "tables:describe_database",
    "_duckdb": "tables:describe_database",
    "sqlalchemy": "tables:describe_database",
    "sklearn": "arrays:describe_plots_and_models",
    "matplotlib": "arrays:describe_plots_and_models",
    "scipy": "arrays:describe_plots_and_models",
}
"""`module:function` that describes values of a library's classes: `(value) -> Description | None`."""


def is_secret_name(name: object) -> bool:
    """Return whether a text under this name is a secret, whatever it looks like."""
    return type(name) is str and not shows_secrets.get() and is_always_secret(name)


def is_secret(name: object, value: object) -> bool:
    """Return whether a value is a text, of any class, under the name of a secret; `MY_TOKEN` must look like one."""
    if is_secret_name(name):
        return not {str, bytes, bytearray}.isdisjoint(classes(value))
    if type(name) is not str or type(value) is not str or not might_be_secret(name) or shows_secrets.get():
        return False
    from cellwright.redaction.named_secrets import fits_name  # its patterns take 20 ms to compile

    return fits_name(name, value)


def named(name: object, value: object, room: int = ROOM, depth: int = DEPTH) -> str:
    """`brief`, unless the name says that the value is a secret."""
    if is_secret(name, value):
        return f"[secret removed: {name}]"
    return brief(value, room, depth)


def brief(value: object, room: int = ROOM, depth: int = DEPTH) -> str:
    """A value in one line of about `room` characters at most."""
    text = plain(value, max(room, 8), depth)
    if text is None:
        text = label(value)
    return text if len(text) <= room + 40 else f"{text[:room]}…"


def plain(value: object, room: int = ROOM, depth: int = DEPTH) -> str | None:
    """`brief` of a text, a number, a container, a date …; None for other values."""
    of = classes(value)
    text = _scalar(value, of, room)
    return text if text is not None else _container(value, of, room, depth)


def _scalar(value: Any, of: tuple[type, ...], room: int) -> str | None:
    kind = of[0]
    if kind in _PLAIN:
        if kind is not range and kind is not slice:
            return repr(value)
        parts = [brief(part, 40, 1) for part in (value.start, value.stop, value.step)]
        return f"{kind.__name__}({', '.join(parts)})"
    if enum.Enum in of:
        name = own_vars(value).get("_name_")
        return f"{short_name(kind)}.{name if type(name) is str else '?'}"
    if str in of:
        return _text(str.__len__(value), _start_of(value, room), "characters")
    if bytes in of or bytearray in of:
        base = bytes if bytes in of else bytearray
        return _text(base.__len__(value), bytes(base.__getitem__(value, slice(0, room))), "bytes")
    if int in of:
        bits = int.bit_length(value)
        return int.__repr__(value) if bits <= MAX_BITS else f"<int of {bits:,} bits>"
    if float in of:
        return float.__repr__(value)
    return _written(value, of, room)


def _written(value: Any, of: tuple[type, ...], room: int) -> str | None:
    """Values of types that are written by libraries, whose words can be trusted."""
    kind = of[0]
    if kind is datetime.datetime or kind is datetime.time:
        # the time zone may be a class of the user's
        known = value.tzinfo is None or type(value.tzinfo).__module__ in ("datetime", "zoneinfo")
        return str(value) if known else f"{value.replace(tzinfo=None)} (in a time zone)"
    if kind in _WORDS:
        return str(value)[:room]
    if pathlib.PurePath in of and kind.__module__.startswith("pathlib"):
        return f"{short_name(kind)}({str(value)[:room]!r})"
    package = module_name(kind).partition(".")[0]
    if package == "numpy" and any(short_name(cls) == "generic" and module_name(cls) == "numpy" for cls in of):
        return str(value)[:room] if short_name(kind) != "void" else "<numpy.void>"
    if package == "pandas" and short_name(kind) in ("Timestamp", "Timedelta", "Period", "NaTType", "NAType"):
        return str(value)[:room]
    return None


def _text(length: int, start: str | bytes, unit: str) -> str:
    return repr(start) if length <= len(start) else f"{start!r}… ({length:,} {unit})"


def _start_of(text: str, room: int) -> str:
    """The first characters of a text. What is cut through is not known for a secret any more: they go before."""
    if str.__len__(text) <= room or shows_secrets.get():
        return str.__getitem__(text, slice(0, room))
    return BEFORE_CUT.clean(str.__getitem__(text, slice(0, room + LONGEST_SECRET))).text[:room]


def _container(value: Any, of: tuple[type, ...], room: int, depth: int) -> str | None:
    if dict in of:
        return _around(of, dict, _items(iter(dict.items(value)), dict.__len__(value), room, depth, _pair), "{", "}")
    if tuple in of and type(fields := static(value, "_fields")) is tuple:
        pairs = zip(fields, tuple.__iter__(value), strict=False)
        return f"{short_name(of[0])}({_items(pairs, len(fields), room, depth, _field)})"
    for base, opening, closing in _LISTS:
        if base in of:
            length = base.__len__(value)  # type: ignore[attr-defined]
            inner = _items(base.__iter__(value), length, room, depth, brief)  # type: ignore[attr-defined]
            comma = "," if base is tuple and length == 1 else ""
            if not length and base in (set, frozenset):
                return f"{short_name(of[0])}()"
            return _around(of, base, inner + comma, opening, closing)
    return None


def _around(of: tuple[type, ...], base: type, inner: str, opening: str, closing: str) -> str:
    text = f"{opening}{inner}{closing}"
    return text if of[0] is base and base in _LITERAL else f"{short_name(of[0])}({text})"


Write = Callable[[Any, int, int], str]


def _items(items: Iterable[Any], length: int, room: int, depth: int, write: Write) -> str:
    """The first items, as many as fit, and how many there are."""
    if depth <= 0:
        return "…" if length else ""
    shown: list[str] = []
    left = room
    for item in itertools.islice(items, MAX_ITEMS):
        if left <= 0:
            break
        shown.append(write(item, max(left, 8), depth - 1))
        left -= len(shown[-1]) + 2
    more = length - len(shown)
    return ", ".join([*shown, f"… {more:,} more"] if more > 0 else shown)


def _pair(pair: tuple[Any, Any], room: int, depth: int) -> str:
    key, item = pair
    return f"{brief(key, min(room, 60), depth)}: {named(key, item, room, depth)}"


def _field(pair: tuple[Any, Any], room: int, depth: int) -> str:
    name, item = pair
    return f"{name}={named(name, item, room, depth)}"


def length_of(value: Any) -> int | None:
    """The length of a text or container, as its base knows it; None for other values."""
    of = classes(value)
    for base in (
        str,
        bytes,
        bytearray,
        dict,
        list,
        tuple,
        set,
        frozenset,
        collections.deque,
        range,
        types.MappingProxyType,
    ):
        if base in of:
            with contextlib.suppress(OverflowError, TypeError):
                return int(base.__len__(value))
    return None


def describe_object(value: Any) -> Description:
    """Any object: its type, and its own attributes without those that are made when they are asked for."""
    if BaseException in classes(value):
        return Description(type_name(type(value)), summary=brief(BaseException.args.__get__(value)))  # type: ignore[attr-defined]
    if io.IOBase in classes(value) and module_name(type(value)) in ("_io", "io"):
        return _file(value)
    attributes = _fields(value)
    words = ", ".join(f"{name}={named(name, item, 40, 1)}" for name, item in itertools.islice(attributes.items(), 6))
    more = ", …" if len(attributes) > 6 else ""
    return Description(
        type_name(type(value)),
        summary=f"{short_name(type(value))}({words}{more})" if attributes else "",
        more=lambda: attribute_lines(attributes),
    )


def _fields(value: object) -> dict[str, Any]:
    """Return what the object holds: the fields of a dataclass or model in order, else all of its own attributes."""
    own = own_vars(value)
    for declared in ("__dataclass_fields__", "__pydantic_fields__", "model_fields", "__struct_fields__"):
        names = static(value, declared)
        if type(names) in (dict, tuple):
            return {name: own[name] for name in names if name in own}
    kept = [name for name in own if not name.startswith(("_sa_", "__"))]
    return {name: own[name] for name in sorted(kept, key=lambda name: name.startswith("_"))}


def attribute_lines(attributes: dict[str, Any]) -> Iterator[str]:
    """One line for each attribute, with its type and as much of its value as is safe to tell."""
    rows = [
        (f".{name}", short_name(type(item)), named(name, item, 120, 2))
        for name, item in itertools.islice(attributes.items(), MAX_ATTRIBUTES)
    ]
    if rows:
        yield from in_columns(rows)
    if len(attributes) > MAX_ATTRIBUTES:
        yield f"… {len(attributes) - MAX_ATTRIBUTES:,} more attributes"


def _file(value: Any) -> Description:
    name = getattr(value, "name", None)
    state = "closed" if value.closed else "open"
    return Description(
        type_name(type(value)), summary=f"{brief(name, 120) if name is not None else ''} {state}".strip()
    )


MAX_NAMES = 20

_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
_PAUSED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


def describe_code(value: Any) -> Description | None:
    """A description of code; None for a value that is none."""
    kind = type(value)
    if kind in _FUNCTIONS:
        return _function(value)
    if type in classes(value):
        bases = ", ".join(type_name(base) for base in classes_of_class(value)[1:3] if base is not object)
        return Description("class", summary=f"{type_name(value)}({bases})", more=lambda: _class_lines(value))
    if kind is types.ModuleType:
        return _module(value)
    if kind in _PAUSED:
        return Description(short_name(kind), summary=f"{_name(value)}, not run by looking at it")
    return None


def _function(value: Any) -> Description:
    plain = value.__func__ if type(value) is types.MethodType else value
    if type(plain) is not types.FunctionType:
        return Description("builtin", summary=f"{_name(plain)}(…)", more=lambda: _docstring_line(plain))
    kind = "async function" if inspect.iscoroutinefunction(plain) else "function"
    return Description(kind, summary=f"{plain.__name__}{signature(plain)}", more=lambda: _function_lines(plain))


def _function_lines(function: types.FunctionType) -> Iterator[str]:
    yield from _docstring_line(function)
    file, shell = function.__code__.co_filename, get_ipython()
    # of a cell the name that tracebacks have for it
    words = cell_of_file(shell, file) if shell is not None else None
    where = " ".join(words) if words else file
    yield f"defined in {where}, line {function.__code__.co_firstlineno}"


def _docstring_line(value: Any) -> Iterator[str]:
    """The first line of a docstring."""
    doc = value.__doc__
    if type(doc) is str and (lines := doc.strip().splitlines()):
        yield lines[0][:300]


def signature(function: types.FunctionType) -> str:
    """The parameters of a function, from its code: `inspect.signature` would have defaults describe themselves."""
    code, defaults = function.__code__, function.__defaults__ or ()
    names = list(code.co_varnames)
    count = code.co_argcount
    parts: list[str] = []
    for index, name in enumerate(names[:count]):
        position = index - (count - len(defaults))
        parts.append(_parameter(function, name, defaults[position:]) if position >= 0 else _parameter(function, name))
        if index + 1 == code.co_posonlyargcount:
            parts.append("/")
    after = count + code.co_kwonlyargcount
    if code.co_flags & inspect.CO_VARARGS:
        parts.append(f"*{names[after]}")
        after += 1
    elif code.co_kwonlyargcount:
        parts.append("*")
    keyword_defaults = function.__kwdefaults__ or {}
    for name in names[count : count + code.co_kwonlyargcount]:
        given = (keyword_defaults[name],) if name in keyword_defaults else ()
        parts.append(_parameter(function, name, given))
    if code.co_flags & inspect.CO_VARKEYWORDS:
        parts.append(f"**{names[after]}")
    text = ", ".join(parts)
    return f"({text if len(text) < 400 else text[:400] + '…'})"


def _parameter(function: types.FunctionType, name: str, default: tuple[Any, ...] = ()) -> str:
    # lazily evaluated annotations (3.14) would run code
    annotations = own_vars(function).get("__annotations__") or _plain_annotations(function)
    annotation = f": {_annotation(annotations[name])}" if name in annotations else ""
    return f"{name}{annotation}" + (f"={named(name, default[0], 40, 1)}" if default else "")


def _plain_annotations(function: types.FunctionType) -> dict[str, Any]:
    if getattr(function, "__annotate__", None) is not None:
        return {}
    found = function.__annotations__
    return found if type(found) is dict else {}


def _annotation(annotation: Any) -> str:
    if type(annotation) is str:
        return annotation[:60]
    if type in classes(annotation):
        return short_name(annotation)
    if module_name(type(annotation)) in ("typing", "types"):
        return str(annotation)[:60]
    return f"<{short_name(type(annotation))}>"


def classes_of_class(cls: type) -> tuple[type, ...]:
    """The method resolution order of a class, whatever its metaclass says."""
    return tuple(type.__dict__["__mro__"].__get__(cls))


def _class_lines(cls: type) -> Iterator[str]:
    body = class_vars(cls)
    doc = body.get("__doc__")
    if type(doc) is str and doc.strip():
        yield doc.strip().splitlines()[0][:300]
    initialize = body.get("__init__")
    if type(initialize) is types.FunctionType:
        yield f"__init__{signature(initialize)}"
    names = [name for name in body if not name.startswith("_")]
    if names:
        yield f"has {', '.join(names[:MAX_NAMES])}{' …' if len(names) > MAX_NAMES else ''}"


def _module(value: types.ModuleType) -> Description:
    there = vars(value)
    name, version = there.get("__name__"), there.get("__version__")
    words = f"{name if type(name) is str else '?'}{f' {version}' if type(version) is str else ''}"
    file = there.get("__file__")
    return Description("module", summary=words, more=lambda: [file] if type(file) is str else [])


def _name(value: Any) -> str:
    return str(value.__qualname__)


def described(value: object) -> Description:
    """Describe what is known of `value`, whatever it is; nothing of it is run, computed or used up."""
    return _known(value) or describe_object(value)


def label(value: object) -> str:
    """A value inside of another. Into objects it does not look: they may hold each other in circles."""
    return (_known(value) or Description(type_name(type(value)))).label


def _known(value: object) -> Description | None:
    for describer in _describers(value):
        try:
            if (found := describer(value)) is not None:
                return found
        except Exception as error:  # noqa: BLE001  a library's own code, of any version, on any state of its object
            return Description(type_name(type(value)), summary=f"[cannot be described: {type(error).__name__}]")
    return None


def _describers(value: object) -> Iterator[Describer]:
    for name in dict.fromkeys(module_name(cls).partition(".")[0] for cls in classes(value)):
        if (place := LIBRARIES.get(name)) and name in sys.modules:
            module, _, function = place.partition(":")
            yield getattr(importlib.import_module(f"cellwright.kernel.namespace.{module}"), function)
    yield describe_code
    yield _describe_plain


def _describe_plain(value: object) -> Description | None:
    """Texts, numbers, containers: their value is their description."""
    if static(value, "__dataclass_fields__") is not MISSING or (text := plain(value)) is None:
        return None
    length = length_of(value)
    # a large text or container without its items; the `__sizeof__` of another class is its own code
    is_measured = length is not None and length >= 1_000 and module_name(type(value)) == "builtins"
    return Description(
        type_name(type(value)),
        "" if length is None else f"len {length:,}",
        text,
        memory=sys.getsizeof(value) if is_measured else None,
        more=lambda: _whole(value, length),
    )


def _whole(value: Any, length: int | None) -> Iterator[str]:
    """More of a text or container than the summary has."""
    if length:
        # of a text or container, when it is described by itself
        text = brief(value, 2_000, 4)
        if text != brief(value):
            yield text
