"""Columns of a table, one line each: name, type, nulls, first values."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from cellwright.kernel.namespace.types.description import in_columns
from cellwright.kernel.namespace.types.plain_values import brief, is_secret, named

MAX_COLUMNS = 60
SAMPLE_ROWS = 3
NAME_CHARS = 40
CELL_CHARS = 40


class Column(Struct, frozen=True):
    """A column of any library's table. `nulls` is in words, since not every null is counted; "" where it is not known.

    `labels` name the values of the sample where each has a name of its own: a row that was taken out of a table.
    """

    name: object
    dtype: str
    nulls: str
    sample: Sequence[Any]
    labels: Sequence[Any] = ()


def column_lines(columns: Iterable[Column], total: int, rows: int) -> Iterator[str]:
    """The columns as lines; `total` is how many there are, `rows` how many rows the table has."""
    head = ("column", "dtype", "nulls", f"first {min(rows, SAMPLE_ROWS)} of {rows:,} rows" if rows else "")
    lines = [head]
    for column in columns:
        lines.append((brief_name(column.name), column.dtype[:60], column.nulls, sample_of(column)))
    if len(lines) > 1:
        yield from in_columns(lines)
    if (more := total - (len(lines) - 1)) > 0:
        yield f"… {more:,} more columns"


def brief_name(name: object) -> str:
    """A column's name as it is written in code: texts without quotes."""
    return name[:NAME_CHARS] if type(name) is str else brief(name, NAME_CHARS)


def sample_of(column: Column) -> str:
    if any(is_secret(column.name, value) for value in column.sample):
        return f"[secret removed: {column.name}]"
    values = itertools.zip_longest(column.labels, column.sample)
    return " | ".join(named(label, value, CELL_CHARS, 2) for label, value in values)


def names_of(names: Iterable[object], total: int) -> str:
    """The first names of columns in one line."""
    shown: list[str] = []
    for name in names:
        shown.append(brief_name(name))
        if sum(map(len, shown)) > 120:
            break
    more = total - len(shown)
    return ", ".join([*shown, f"… {more:,} more"] if more > 0 else shown)
