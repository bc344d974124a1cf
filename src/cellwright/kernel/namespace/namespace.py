"""The variables of the user's namespace: which there are, and what tells cheaply that one of them changed."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from cellwright.kernel.described.looking import classes, library_class, type_name

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

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
    """Whether a value is a function, class or module, and no data."""
    return type(value) in CODE_TYPES or type in classes(value)


def fingerprint(value: object) -> Fingerprint:
    """What differs when a variable got another value, or its value another size. Runs no code of the value's class.

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
