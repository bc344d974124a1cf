"""polars: frames and series. A LazyFrame is not collected, and its schema not resolved: both may read files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from cellwright.kernel.namespace.types.description import Description, is_of
from cellwright.kernel.namespace.types.table_columns import MAX_COLUMNS, SAMPLE_ROWS, Column, column_lines, names_of


def describe(value: Any) -> Description | None:
    """A description of an object of polars; None for what is not known here."""
    if is_of(value, "polars", "DataFrame"):
        rows, columns = value.shape
        size = int(value.estimated_size())
        names = names_of(value.columns, columns)
        return Description("polars.DataFrame", f"{rows:,} × {columns:,}", names, size, lambda: _frame_lines(value))
    if is_of(value, "polars", "Series"):
        words = f"{value.name}: {value.dtype}" if value.name else str(value.dtype)
        size = int(value.estimated_size())
        return Description("polars.Series", f"{len(value):,}", words, size, lambda: _series_lines(value))
    if is_of(value, "polars", "LazyFrame"):
        return Description("polars.LazyFrame", summary="not collected: it has no rows before .collect()")
    return None


def _frame_lines(frame: Any) -> Iterator[str]:
    shown = (_column(frame[name]) for name in itertools.islice(frame.columns, MAX_COLUMNS))
    yield from column_lines(shown, frame.width, frame.height)


def _series_lines(series: Any) -> Iterator[str]:
    yield from column_lines([_column(series)], 1, len(series))


def _column(series: Any) -> Column:
    return Column(series.name, str(series.dtype), f"{series.null_count():,}", series.head(SAMPLE_ROWS).to_list())
