"""Plain values in one line, bounded in depth, width and length, and told without running code of theirs."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import datetime
import decimal
import enum
import fractions
import itertools
import pathlib
import types
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from cellwright.kernel.namespace.types.description import classes, module_name, own_vars, short_name, static
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
    text = _brief(value, max(room, 8), depth)
    return text if len(text) <= room + 40 else f"{text[:room]}…"


def plain(value: object, room: int = ROOM, depth: int = DEPTH) -> str | None:
    """`brief` of a text, a number, a container, a date …; None for other values."""
    of = classes(value)
    text = _scalar(value, of, room)
    return text if text is not None else _container(value, of, room, depth)


def _brief(value: object, room: int, depth: int) -> str:
    if (text := plain(value, room, depth)) is not None:
        return text
    from cellwright.kernel.namespace.types.describe import label  # each needs the other

    return label(value)


def _scalar(value: Any, of: tuple[type, ...], room: int) -> str | None:
    kind = of[0]
    if kind in _PLAIN:
        return repr(value) if kind is not range and kind is not slice else _bounded_parts(value)
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


def _bounded_parts(value: range | slice) -> str:
    parts = [brief(part, 40, 1) for part in (value.start, value.stop, value.step)]
    return f"{type(value).__name__}({', '.join(parts)})"


def _container(value: Any, of: tuple[type, ...], room: int, depth: int) -> str | None:
    if dict in of:
        return _around(of, dict, _items(iter(dict.items(value)), dict.__len__(value), room, depth, _pair), "{", "}")
    if tuple in of and type(fields := static(value, "_fields")) is tuple:
        pairs = zip(fields, tuple.__iter__(value), strict=False)
        return f"{short_name(of[0])}({_items(pairs, len(fields), room, depth, _field)})"
    for base, opening, closing in _LISTS:
        if base in of:
            length = base.__len__(value)  # type: ignore[attr-defined]
            inner = _items(base.__iter__(value), length, room, depth, _item)  # type: ignore[attr-defined]
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


def _item(item: Any, room: int, depth: int) -> str:
    return brief(item, room, depth)


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
