"""What a value is, in one short line, without running code of the user's: a type, a size, a plain value.

Of builtin types and of a few libraries' own the size is asked for; of everything else only the type is named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

TEXT_CHARS = 40
NAMED = 8
"""How many columns or keys are named."""

DIGITS = 30

_PLAIN = (float, complex, bool, type(None))
_SIZED = (list, tuple, set, frozenset, range, bytes, bytearray)


def value_line(value: object) -> str:
    """`DataFrame, 100 rows × 3 columns: city, price, year`; `list, 3 items`; `Model` where nothing more is known."""
    kind = type(value)
    if kind in _PLAIN:
        return f"{_name_of(kind)} {value!r}" if value is not None else "None"
    if kind is int:
        return _of_int(value)  # type: ignore[arg-type]
    if kind is str:
        return _of_text(value)  # type: ignore[arg-type]
    if kind is dict:
        return _of_dict(value)  # type: ignore[arg-type]
    if kind in _SIZED:
        return f"{_name_of(kind)}, {len(value):,} items"  # type: ignore[arg-type]
    describe = _LIBRARIES.get((_module_of(kind).partition(".")[0], _name_of(kind)))
    if describe is not None:
        try:
            return f"{_name_of(kind)}, {describe(value)}"
        except Exception:  # noqa: BLE001  a library's object may be half made or closed; then its type must do
            pass
    return _qualified(kind)


def _of_int(value: int) -> str:
    digits = value.bit_length() * 0.30103
    return f"int {value}" if digits < DIGITS else f"int of about {round(digits):,} digits"


def _of_text(value: str) -> str:
    start = repr(value[:TEXT_CHARS])
    return f"str {start}" if len(value) <= TEXT_CHARS else f"str, {len(value):,} characters: {start[:-1]}…"


def _of_dict(value: Mapping[Any, Any]) -> str:
    keys = [key for key in islice(value.copy(), NAMED) if type(key) is str]  # type: ignore[attr-defined]
    names = ", ".join(key[:TEXT_CHARS] for key in keys)
    more = ", …" if len(value) > NAMED else ""
    return f"dict, {len(value):,} items{f': {names}{more}' if names else ''}"


def _of_frame(frame: Any) -> str:
    rows, columns = frame.shape
    names = [str(name)[:TEXT_CHARS] if type(name) in (str, int) else "…" for name in frame.columns[:NAMED]]
    more = ", …" if columns > NAMED else ""
    return f"{rows:,} rows × {columns:,} columns: {', '.join(names)}{more}"


def _of_column(column: Any) -> str:
    return f"{len(column):,} × {column.dtype}"


def _of_array(array: Any) -> str:
    return f"{array.dtype} {tuple(array.shape)}"


_LIBRARIES: Mapping[tuple[str, str], Callable[[Any], str]] = {
    ("pandas", "DataFrame"): _of_frame,
    ("pandas", "Series"): _of_column,
    ("polars", "DataFrame"): _of_frame,
    ("polars", "Series"): _of_column,
    ("numpy", "ndarray"): _of_array,
    ("torch", "Tensor"): _of_array,
    ("torch", "Parameter"): _of_array,
}


def _name_of(kind: type) -> str:
    return str(type.__dict__["__name__"].__get__(kind))


def _module_of(kind: type) -> str:
    # a metaclass may answer in place of the class
    module = type.__dict__["__module__"].__get__(kind)
    return module if type(module) is str else ""


def _qualified(kind: type) -> str:
    module = _module_of(kind)
    return _name_of(kind) if module in ("builtins", "__main__", "") else f"{module}.{_name_of(kind)}"
