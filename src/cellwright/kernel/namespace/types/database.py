"""duckdb and SQLAlchemy: relations are not executed, results not used up, passwords not told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cellwright.kernel.namespace.types.description import Description, classes, is_of, own_vars, short_name, type_name
from cellwright.kernel.namespace.types.objects import attribute_lines
from cellwright.kernel.namespace.types.table_columns import MAX_COLUMNS, names_of


def describe(value: Any) -> Description | None:
    """A description of an object of a database's library; None for what is not known here."""
    if any(short_name(cls) == "DuckDBPyRelation" for cls in classes(value)):
        columns, kinds = value.columns, value.types
        words = f"not executed; {names_of(columns, len(columns))}"
        return Description("duckdb.Relation", f"{len(columns):,} columns", words, more=lambda: _typed(columns, kinds))
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


def _typed(columns: list[str], kinds: list[Any]) -> Iterator[str]:
    for name, kind in list(zip(columns, kinds, strict=True))[:MAX_COLUMNS]:
        yield f"{name}: {str(kind)[:60]}"


def _result(value: Any) -> Description:
    if own_vars(value).get("_soft_closed") or value.closed:
        return Description(type_name(type(value)), summary="used up")
    names = list(value.keys())
    words = f"rows not fetched, so that they can still be; {names_of(names, len(names))}"
    return Description(type_name(type(value)), f"{len(names):,} columns", words)
