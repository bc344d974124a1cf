"""pandas: frames, series, indexes, groups. A subclass (geopandas) is looked at as what it comes from."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from cellwright.kernel.namespace.types.description import (
    Description,
    classes,
    is_of,
    library_class,
    module_name,
    short_name,
    type_name,
)
from cellwright.kernel.namespace.types.plain_values import brief
from cellwright.kernel.namespace.types.table_columns import (
    MAX_COLUMNS,
    SAMPLE_ROWS,
    Column,
    brief_name,
    column_lines,
    names_of,
)

EXACT_CELLS = 2_000_000
"""Up to as many cells nulls are counted; of more, in rows at equal distances."""

SAMPLED_ROWS = 10_000
MAX_MEASURED = 500
"""Columns; the memory of a wider table is not added up."""


def describe(value: Any) -> Description | None:
    """A description of an object of pandas; None for what is not known here."""
    if is_of(value, "pandas", "DataFrame"):
        return _frame(value)
    if is_of(value, "pandas", "Series"):
        return _series(value)
    if is_of(value, "pandas", "Index"):
        return _index(value)
    if any(short_name(cls) in ("DataFrameGroupBy", "SeriesGroupBy") for cls in classes(value)):
        return _groups(value)
    return None


def _plain(value: Any, name: str) -> Any:
    """A view of the same data as pandas' own class, whose methods are pandas' own."""
    cls = library_class("pandas", name)
    return value if type(value) is cls else cls(value, copy=False)


def _frame(value: Any) -> Description:
    frame = _plain(value, "DataFrame")
    rows, columns = frame.shape
    names = names_of(itertools.islice(frame.columns, MAX_COLUMNS), columns)
    return Description(
        type_name(type(value)),
        f"{rows:,} × {columns:,}",
        names,
        memory=int(frame.memory_usage(index=True, deep=False).sum()) if columns <= MAX_MEASURED else None,
        more=lambda: _frame_lines(frame),
    )


def _frame_lines(frame: Any) -> Iterator[str]:
    rows, columns = frame.shape
    yield f"index: {_index_words(frame.index)}"
    shown = min(columns, MAX_COLUMNS)
    step = _step(rows, columns)
    found = (_column(frame.iloc[:, position], frame.columns[position], step) for position in range(shown))
    yield from column_lines(found, columns, rows)
    if step > 1:
        yield f"(nulls: in {len(range(0, rows, step)):,} rows at equal distances, the table is large)"


def _step(rows: int, columns: int) -> int:
    return 1 if rows * columns <= EXACT_CELLS else max(1, rows // SAMPLED_ROWS)


def _column(series: Any, name: object, step: int) -> Column:
    return Column(name, dtype_words(series.dtype), _nulls(series, step), series.iloc[:SAMPLE_ROWS].tolist())


def _nulls(series: Any, step: int) -> str:
    count = int(series.iloc[::step].isna().sum())
    if step == 1:
        return f"{count:,}"
    return f"~{count / max(1, len(range(0, len(series), step))):.1%}"


def dtype_words(dtype: Any) -> str:
    """A dtype in words; the categories of a categorical one are counted."""
    if is_of(dtype, "pandas", "CategoricalDtype"):
        categories = dtype.categories
        return "category" if categories is None else f"category({len(categories):,})"
    return str(dtype) if type(dtype).__module__.partition(".")[0] in ("pandas", "numpy") else type_name(type(dtype))


def _series(value: Any) -> Description:
    series = _plain(value, "Series")
    return Description(
        type_name(type(value)),
        f"{len(series):,}",
        f"{brief_name(series.name) + ': ' if series.name is not None else ''}{dtype_words(series.dtype)}",
        memory=int(series.memory_usage(index=True, deep=False)),
        more=lambda: _series_lines(series),
    )


def _series_lines(series: Any) -> Iterator[str]:
    yield f"index: {_index_words(series.index)}"
    step = _step(len(series), 1)
    column = replace(_column(series, series.name, step), labels=series.index[:SAMPLE_ROWS].tolist())
    yield from column_lines([column], 1, len(series))


def _index(value: Any) -> Description:
    index = value if module_name(type(value)).partition(".")[0] == "pandas" else library_class("pandas", "Index")(value)
    words = _index_words(index)
    return Description(type_name(type(value)), f"{len(index):,}", words, memory=int(index.memory_usage(deep=False)))


def _index_words(index: Any) -> str:
    names = [name for name in index.names if name is not None]
    named = f" ({', '.join(map(brief_name, names))})" if names else ""
    kind = short_name(type(index))
    dtype = "" if kind in ("RangeIndex", "MultiIndex") else f" {dtype_words(index.dtype)}"
    values = index[:SAMPLE_ROWS].tolist()
    last = f" … {brief(index[-1], 40)}" if len(index) > SAMPLE_ROWS else ""
    return f"{kind}{dtype}{named}: {', '.join(brief(each, 40) for each in values)}{last}"


def _groups(value: Any) -> Description:
    keys = value.keys
    shape = " × ".join(f"{length:,}" for length in value.obj.shape)
    words = f"of {shape}, by {brief(keys, 80)}; groups are not computed"
    return Description(type_name(type(value)), summary=words)
