"""pyarrow: tables, batches, arrays. Of a dataset the schema is told; it is not scanned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cellwright.kernel.namespace.types.description import Description, is_of, type_name
from cellwright.kernel.namespace.types.table_columns import MAX_COLUMNS, SAMPLE_ROWS, Column, column_lines, names_of


def describe(value: Any) -> Description | None:
    """A description of an object of pyarrow; None for what is not known here."""
    name = type_name(type(value))
    if is_of(value, "pyarrow", "Table") or is_of(value, "pyarrow", "RecordBatch"):
        rows, columns = value.num_rows, value.num_columns
        names = names_of(value.schema.names, columns)
        return Description(name, f"{rows:,} × {columns:,}", names, int(value.nbytes), lambda: _table_lines(value))
    if is_of(value, "pyarrow", "Array") or is_of(value, "pyarrow", "ChunkedArray"):
        lines = lambda: column_lines([_column("", value)], 1, len(value))  # noqa: E731  one of its kind
        return Description(name, f"{len(value):,}", str(value.type)[:120], int(value.nbytes), lines)
    if is_of(value, "pyarrow", "Schema"):
        return Description(
            name, f"{len(value):,} fields", names_of(value.names, len(value)), more=lambda: _fields(value)
        )
    if is_of(value, "pyarrow.dataset", "Dataset"):
        words = f"not scanned; {names_of(value.schema.names, len(value.schema))}"
        return Description(name, f"{len(value.schema):,} columns", words, more=lambda: _fields(value.schema))
    return None


def _table_lines(table: Any) -> Iterator[str]:
    shown = min(table.num_columns, MAX_COLUMNS)
    found = (_column(table.schema.names[position], table.column(position)) for position in range(shown))
    yield from column_lines(found, table.num_columns, table.num_rows)


def _column(name: str, values: Any) -> Column:
    return Column(name, str(values.type)[:60], f"{values.null_count:,}", values.slice(0, SAMPLE_ROWS).to_pylist())


def _fields(schema: Any) -> Iterator[str]:
    for name, kind in list(zip(schema.names, schema.types, strict=True))[:MAX_COLUMNS]:
        yield f"{name}: {str(kind)[:60]}"
