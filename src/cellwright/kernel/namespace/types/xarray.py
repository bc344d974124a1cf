"""xarray: what is where. Values are told only when they are in memory already; dask and files are not computed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from cellwright.kernel.namespace.types.description import Description, in_columns, is_of, own_vars, type_name
from cellwright.kernel.namespace.types.numpy import first_values
from cellwright.kernel.namespace.types.plain_values import brief, named

MOST = 40


def describe(value: Any) -> Description | None:
    """A description of a Dataset or DataArray; None for what is not known here."""
    if is_of(value, "xarray", "Dataset"):
        names = [str(name) for name in itertools.islice(value.data_vars, MOST)]
        return Description(
            type_name(type(value)),
            _sizes(value),
            ", ".join(names)[:200],
            int(value.nbytes),
            lambda: _dataset_lines(value),
        )
    if is_of(value, "xarray", "DataArray"):
        words = f"{value.name or ''} {value.dtype}{_where(value)}".strip()
        return Description(type_name(type(value)), _sizes(value), words, int(value.nbytes), lambda: _array_lines(value))
    return None


def _sizes(value: Any) -> str:
    return ", ".join(f"{name}: {length:,}" for name, length in itertools.islice(value.sizes.items(), 8))


def _data(array: Any) -> Any:
    """Return what holds the values: a numpy array, or something that would have to be computed."""
    return own_vars(array.variable).get("_data")


def _where(array: Any) -> str:
    data = _data(array)
    if is_of(data, "numpy", "ndarray") or type_name(type(data)).startswith("xarray.Pandas"):
        return ""
    return ", chunked, not computed" if type_name(type(data)).startswith("dask") else ", not loaded"


def _dataset_lines(dataset: Any) -> Iterator[str]:
    rows = [("variable", "dimensions", "dtype", "")]
    for kind, arrays in (("", dataset.data_vars), ("coordinate", dataset.coords)):
        for name, array in itertools.islice(arrays.items(), MOST):
            note = f"{kind}{_where(array)}{_values(array)}".lstrip(", ")
            rows.append((str(name)[:40], ", ".join(map(str, array.dims))[:60], str(array.dtype)[:30], note))
    yield from in_columns(rows)
    yield from _attributes(dataset)


def _array_lines(array: Any) -> Iterator[str]:
    if values := _values(array):
        yield f"first values{values}"
    for name, coordinate in itertools.islice(array.coords.items(), MOST):
        yield f"coordinate {name}: {', '.join(map(str, coordinate.dims))} {coordinate.dtype}{_values(coordinate)}"
    yield from _attributes(array)


def _values(array: Any) -> str:
    data = _data(array)
    if not is_of(data, "numpy", "ndarray") or not data.size:
        return ""
    return f": {', '.join(brief(each, 30) for each in first_values(data)[:3])}"


def _attributes(value: Any) -> Iterator[str]:
    for name, item in itertools.islice(value.attrs.items(), 12):
        yield f"attribute {name}: {named(name, item, 80, 1)}"
