"""Descriptions of tables: frames and series of pandas and polars, tables of pyarrow, relations and results of databases.

Nothing is computed for them. pandas: a subclass (geopandas) is looked at as what it comes from. polars: a LazyFrame is
not collected, and its schema not resolved: both may read files. pyarrow: of a dataset the schema is told; it is not
scanned. duckdb and SQLAlchemy: relations are not executed, results not used up, passwords not told. A column has one
line: name, type, nulls, first values.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from cellwright.kernel.namespace.describe import attribute_lines, brief, is_secret, named
from cellwright.kernel.namespace.description import (
    Description,
    classes,
    in_columns,
    is_of,
    library_class,
    module_name,
    own_vars,
    short_name,
    type_name,
)

MAX_COLUMNS = 60
SAMPLE_ROWS = 3
NAME_CHARS = 40

SAMPLED_ROWS = 10_000


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
    return " | ".join(named(label, value, 40, 2) for label, value in values)


def names_of(names: Iterable[object], total: int) -> str:
    """The first names of columns in one line."""
    shown: list[str] = []
    for name in names:
        shown.append(brief_name(name))
        if sum(map(len, shown)) > 120:
            break
    more = total - len(shown)
    return ", ".join([*shown, f"… {more:,} more"] if more > 0 else shown)


def describe_pandas(value: Any) -> Description | None:
    """A description of an object of pandas; None for what is not known here."""
    if is_of(value, "pandas", "DataFrame"):
        return _frame(value)
    if is_of(value, "pandas", "Series"):
        return _series(value)
    if is_of(value, "pandas", "Index"):
        is_own = module_name(type(value)).partition(".")[0] == "pandas"
        index = value if is_own else library_class("pandas", "Index")(value)
        memory = int(index.memory_usage(deep=False))
        return Description(type_name(type(value)), f"{len(index):,}", _index_words(index), memory=memory)
    if any(short_name(cls) in ("DataFrameGroupBy", "SeriesGroupBy") for cls in classes(value)):
        shape = " × ".join(f"{length:,}" for length in value.obj.shape)
        words = f"of {shape}, by {brief(value.keys, 80)}; groups are not computed"
        return Description(type_name(type(value)), summary=words)
    return None


def _plain(value: Any, name: str) -> Any:
    """A view of the same data as pandas' own class, whose methods are pandas' own."""
    cls = library_class("pandas", name)
    return value if type(value) is cls else cls(value, copy=False)


def _frame(value: Any) -> Description:
    frame = _plain(value, "DataFrame")
    rows, columns = frame.shape
    names = names_of(itertools.islice(frame.columns, MAX_COLUMNS), columns)
    # columns; the memory of a wider table is not added up
    return Description(
        type_name(type(value)),
        f"{rows:,} × {columns:,}",
        names,
        memory=int(frame.memory_usage(index=True, deep=False).sum()) if columns <= 500 else None,
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
    # up to as many cells nulls are counted; of more, in rows at equal distances
    return 1 if rows * columns <= 2_000_000 else max(1, rows // SAMPLED_ROWS)


def _column(series: Any, name: object, step: int) -> Column:
    count = int(series.iloc[::step].isna().sum())
    nulls = f"{count:,}" if step == 1 else f"~{count / max(1, len(range(0, len(series), step))):.1%}"
    return Column(name, dtype_words(series.dtype), nulls, series.iloc[:SAMPLE_ROWS].tolist())


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


def _index_words(index: Any) -> str:
    names = [name for name in index.names if name is not None]
    named = f" ({', '.join(map(brief_name, names))})" if names else ""
    kind = short_name(type(index))
    dtype = "" if kind in ("RangeIndex", "MultiIndex") else f" {dtype_words(index.dtype)}"
    values = index[:SAMPLE_ROWS].tolist()
    last = f" … {brief(index[-1], 40)}" if len(index) > SAMPLE_ROWS else ""
    return f"{kind}{dtype}{named}: {', '.join(brief(each, 40) for each in values)}{last}"


def describe_polars(value: Any) -> Description | None:
    """A description of an object of polars; None for what is not known here."""
    if is_of(value, "polars", "DataFrame"):
        rows, columns = value.shape
        size = int(value.estimated_size())
        names = names_of(value.columns, columns)
        return Description(
            "polars.DataFrame", f"{rows:,} × {columns:,}", names, size, lambda: _polars_frame_lines(value)
        )
    if is_of(value, "polars", "Series"):
        words = f"{value.name}: {value.dtype}" if value.name else str(value.dtype)
        size = int(value.estimated_size())
        return Description(
            "polars.Series",
            f"{len(value):,}",
            words,
            size,
            lambda: column_lines([_polars_column(value)], 1, len(value)),
        )
    if is_of(value, "polars", "LazyFrame"):
        return Description("polars.LazyFrame", summary="not collected: it has no rows before .collect()")
    return None


def _polars_frame_lines(frame: Any) -> Iterator[str]:
    shown = (_polars_column(frame[name]) for name in itertools.islice(frame.columns, MAX_COLUMNS))
    yield from column_lines(shown, frame.width, frame.height)


def _polars_column(series: Any) -> Column:
    return Column(series.name, str(series.dtype), f"{series.null_count():,}", series.head(SAMPLE_ROWS).to_list())


def describe_arrow(value: Any) -> Description | None:
    """A description of an object of pyarrow; None for what is not known here."""
    name = type_name(type(value))
    if is_of(value, "pyarrow", "Table") or is_of(value, "pyarrow", "RecordBatch"):
        rows, columns = value.num_rows, value.num_columns
        names = names_of(value.schema.names, columns)
        return Description(name, f"{rows:,} × {columns:,}", names, int(value.nbytes), lambda: _table_lines(value))
    if is_of(value, "pyarrow", "Array") or is_of(value, "pyarrow", "ChunkedArray"):
        lines = lambda: column_lines([_arrow_column("", value)], 1, len(value))  # noqa: E731  one of its kind
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
    found = (_arrow_column(table.schema.names[position], table.column(position)) for position in range(shown))
    yield from column_lines(found, table.num_columns, table.num_rows)


def _arrow_column(name: str, values: Any) -> Column:
    return Column(name, str(values.type)[:60], f"{values.null_count:,}", values.slice(0, SAMPLE_ROWS).to_pylist())


def _fields(schema: Any) -> Iterator[str]:
    for name, kind in list(zip(schema.names, schema.types, strict=True))[:MAX_COLUMNS]:
        yield f"{name}: {str(kind)[:60]}"


def describe_database(value: Any) -> Description | None:
    """A description of an object of a database's library; None for what is not known here."""
    if any(short_name(cls) == "DuckDBPyRelation" for cls in classes(value)):
        columns, kinds = value.columns, value.types
        words = f"not executed; {names_of(columns, len(columns))}"

        def lines() -> Iterator[str]:
            for name, kind in list(zip(columns, kinds, strict=True))[:MAX_COLUMNS]:
                yield f"{name}: {str(kind)[:60]}"

        return Description("duckdb.Relation", f"{len(columns):,} columns", words, more=lines)
    if any(short_name(cls) == "DuckDBPyConnection" for cls in classes(value)):
        return Description("duckdb.Connection")
    if is_of(value, "sqlalchemy.engine", "Engine"):
        url = value.url.render_as_string(hide_password=True)
        return Description("sqlalchemy.Engine", summary=f"{url[:160]} ({value.dialect.name})")
    if is_of(value, "sqlalchemy.engine", "Connection"):
        url = value.engine.url.render_as_string(hide_password=True)
        return Description("sqlalchemy.Connection", summary=f"{url[:160]}, {'closed' if value.closed else 'open'}")
    if is_of(value, "sqlalchemy.engine", "URL"):
        return Description("sqlalchemy.URL", summary=value.render_as_string(hide_password=True)[:160])
    if is_of(value, "sqlalchemy.engine", "Result"):
        return _result(value)
    if is_of(value, "sqlalchemy.engine", "Row"):
        fields = dict(zip(value._fields, tuple(value), strict=True))
        return Description("sqlalchemy.Row", f"len {len(fields)}", more=lambda: attribute_lines(fields))
    return None


def _result(value: Any) -> Description:
    if own_vars(value).get("_soft_closed") or value.closed:
        return Description(type_name(type(value)), summary="used up")
    names = list(value.keys())
    words = f"rows not fetched, so that they can still be; {names_of(names, len(names))}"
    return Description(type_name(type(value)), f"{len(names):,} columns", words)
