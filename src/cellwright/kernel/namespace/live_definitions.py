"""Functions and classes that exist in the kernel alone: made by a cell or `exec`, in no file of the project."""

from __future__ import annotations

import types
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cellwright.kernel.namespace.namespace import code_signature, user_variables

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


_TABLES = {"DataFrame": ("pandas", "polars"), "GeoDataFrame": ("geopandas",)}


def live_definitions(shell: InteractiveShell, project: Path) -> Callable[[str], str]:
    """Make what says of a name what the kernel has by it that no file of `project` defines; "" for nothing.

    Runs no code of the user's, and may be called on any thread.
    """

    def definition(name: str) -> str:
        value = _found(user_variables(shell), name)
        code = _code(value)
        if code is None or _is_in(code.co_filename, project):
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
        return name in variables or any(name in _columns(value) for value in list(variables.values()))

    return has


def _columns(value: object) -> Container[object]:
    kind = type(value)
    if kind is dict:
        return value  # type: ignore[return-value]  # a mapping
    if kind.__name__ not in _TABLES or kind.__module__.partition(".")[0] not in _TABLES[kind.__name__]:
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


def _is_in(file: str, project: Path) -> bool:
    return Path(file).is_absolute() and Path(file).is_relative_to(project) and Path(file).is_file()
