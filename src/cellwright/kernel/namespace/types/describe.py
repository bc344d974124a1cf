"""The description of any value, by whichever module knows its type."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from cellwright.kernel.namespace.types.description import MISSING, Description, classes, module_name, static, type_name
from cellwright.kernel.namespace.types.objects import describe_code, describe_object
from cellwright.kernel.namespace.types.plain_values import brief, length_of, plain

Describer = Callable[[Any], Description | None]

LIBRARIES = {
    "geopandas": "pandas",
    "pandas": "pandas",
    "polars": "polars",
    "pyarrow": "arrow",
    "numpy": "numpy",
    "xarray": "xarray",
    "dask": "dask",
    "torch": "torch",
    "duckdb": "database",
    "_duckdb": "database",
    "sqlalchemy": "database",
    "sklearn": "sklearn_matplotlib_scipy",
    "matplotlib": "sklearn_matplotlib_scipy",
    "scipy": "sklearn_matplotlib_scipy",
}
"""The modules that describe values of a library's classes; each has `describe(value) -> Description | None`."""

WORTH_MEASURING = 1_000
"""Characters or items."""

MAX_CHARS = 2_000
"""Of a text or container, when it is described by itself."""


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
        if (module := LIBRARIES.get(name)) and name in sys.modules:
            yield importlib.import_module(f"cellwright.kernel.namespace.types.{module}").describe
    yield describe_code
    yield _describe_plain


def _describe_plain(value: object) -> Description | None:
    """Texts, numbers, containers: their value is their description."""
    if static(value, "__dataclass_fields__") is not MISSING or (text := plain(value)) is None:
        return None
    length = length_of(value)
    return Description(
        type_name(type(value)),
        "" if length is None else f"len {length:,}",
        text,
        memory=_shallow_size(value, length),
        more=lambda: _whole(value, length),
    )


def _shallow_size(value: object, length: int | None) -> int | None:
    """Measure a large text or container without its items; the `__sizeof__` of another class is its own code."""
    if length is None or length < WORTH_MEASURING or module_name(type(value)) != "builtins":
        return None
    return sys.getsizeof(value)


def _whole(value: Any, length: int | None) -> Iterator[str]:
    """More of a text or container than the summary has."""
    if length:
        text = brief(value, MAX_CHARS, 4)
        if text != brief(value):
            yield text
