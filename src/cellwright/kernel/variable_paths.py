"""`df.columns`, `config["db"].host`, `rows[0]`: what stands in a variable, found without running code of the user's."""

from __future__ import annotations

import ast
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cellwright.kernel.described.looking import MISSING, classes, is_of, own_vars, short_name, static

LIBRARY_ATTRIBUTES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("pandas", "DataFrame"): ("columns", "index", "dtypes", "shape", "attrs"),
    ("pandas", "Series"): ("index", "dtype", "shape", "name", "attrs"),
    ("pandas", "Index"): ("dtype", "shape", "name", "names"),
    ("polars", "DataFrame"): ("columns", "schema", "shape"),
    ("polars", "Series"): ("dtype", "name", "shape"),
    ("pyarrow", "Table"): ("schema", "column_names", "shape"),
    ("numpy", "ndarray"): ("shape", "dtype", "T", "size"),
    ("xarray", "Dataset"): ("sizes", "attrs", "data_vars", "coords"),
    ("xarray", "DataArray"): ("sizes", "attrs", "dims", "shape", "dtype", "coords"),
    ("torch", "Tensor"): ("shape", "dtype", "device"),
}
"""What of a library's object costs nothing to ask for."""

BY_KEY = (("pandas", "DataFrame"), ("polars", "DataFrame"), ("xarray", "Dataset"), ("pyarrow", "Table"))
BY_POSITION = (("numpy", "ndarray"), ("torch", "Tensor"), ("polars", "Series"), ("pyarrow", "ChunkedArray"))


class NoSuchValue(Exception):
    """Why a path leads nowhere, in words."""


@dataclass(frozen=True, slots=True)
class _Step:
    """`.name`, or `[key]`."""

    key: Any
    attribute: bool

    def __str__(self) -> str:
        return f".{self.key}" if self.attribute else f"[{self.key!r}]"


def value_at(path: str, variables: Mapping[str, Any]) -> Any:
    """The value that `path` leads to. Raises NoSuchValue."""
    name, steps = _parsed(path)
    if name not in variables:
        raise NoSuchValue(f"There is no variable {name}.")
    value, so_far = variables[name], name
    for step in steps:
        value = _attribute(value, step.key, so_far) if step.attribute else _item(value, step.key, so_far)
        so_far += str(step)
    return value


def _parsed(path: str) -> tuple[str, list[_Step]]:
    try:
        node: ast.AST = ast.parse(path.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NoSuchValue(f"{path!r} is not the name of a variable.") from None
    steps: list[_Step] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            steps.append(_Step(node.attr, attribute=True))
            node = node.value
        elif isinstance(node, ast.Subscript):
            steps.append(_Step(_constant(node.slice, path), attribute=False))
            node = node.value
        else:
            raise NoSuchValue(f"{path!r} is more than names, attributes and [keys]. Python can evaluate it.")
    return node.id, steps[::-1]


def _constant(node: ast.AST, path: str) -> Any:
    try:
        key = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        key = MISSING
    if type(key) not in (str, int, tuple):
        raise NoSuchValue(f"In {path!r} a key is no text or number. Python can evaluate it.")
    return key


def _attribute(value: Any, name: str, so_far: str) -> Any:
    if type(value) is types.ModuleType:
        found = vars(value).get(name, MISSING)
    elif (found := own_vars(value).get(name, MISSING)) is MISSING:
        for (module, cls), names in LIBRARY_ATTRIBUTES.items():
            if name in names and is_of(value, module, cls):
                return getattr(value, name)
        if is_of(value, "pandas", "DataFrame") and name in value.columns:
            return value[name]
        if tuple in classes(value) and name in (fields := static(value, "_fields") or ()):
            return tuple.__getitem__(value, list(fields).index(name))
    if found is MISSING:
        kind = short_name(type(value))
        if static(value, name) is not MISSING:
            raise NoSuchValue(f"{so_far}.{name} is made by code of {kind} when it is asked for. Python can run it.")
        raise NoSuchValue(f"{so_far}, of type {kind}, has no {name} of its own.")
    return found


def _item(value: Any, key: Any, so_far: str) -> Any:
    of = classes(value)
    try:
        for base in (dict, list, tuple):
            if base in of:
                return base.__getitem__(value, key)
        if any(is_of(value, module, cls) for module, cls in BY_KEY) and type(key) is str:
            return value[key]
        if any(is_of(value, module, cls) for module, cls in BY_POSITION) and type(key) is not str:
            return value[key]
    except (LookupError, TypeError):
        raise NoSuchValue(f"{so_far} has nothing at [{key!r}].") from None
    except Exception as error:  # noqa: BLE001  libraries have errors of their own for a missing column
        raise NoSuchValue(f"{so_far} gives nothing at [{key!r}]: {type(error).__name__}.") from None
    raise NoSuchValue(f"{so_far}[{key!r}] would be made by code of {short_name(type(value))}. Python can run it.")
