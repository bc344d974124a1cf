"""Structured results: what a call came to, as data for programs beside the text that the model reads.

A tool makes one as a `ToolOutput` of its own (`ToolResult.structured`). It becomes JSON once, here, and is bounded: a
program that wants the whole of a file or an output opens it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cellwright.errors import ErrorCode, ToolError
from cellwright.text import replace_surrogates_in

MAX_BYTES = 100_000
"""Of a structured result as JSON."""

CHARS_PER_ITEM = 100
"""Of a structured result that is too large a list keeps N items, and a text N times as many characters."""

CUT_MARK = "truncated"
"""The field that says of a structured result that something of it was left out to keep it within its bounds."""


class ToolOutput(msgspec.Struct, kw_only=True):
    """The structured result of a tool; subclass it, and name the subclass in `@tool(output=…)`.

    Fields have Claude Code's names where it has one for the same thing. Times are seconds since the epoch, sizes bytes;
    None stands for what is not known.

    >>> class Rows(ToolOutput):
    ...     rows: int
    >>> Rows(rows=2).rows
    2
    """


def json_of(structured: Any, tool_name: str) -> Any:
    """The structured result as bounded JSON, None where there is none. Raises ToolError for what JSON cannot hold.

    >>> json_of({"rows": (1, 2), "share": float("nan")}, "stats")
    {'rows': [1, 2], 'share': None}
    """
    if structured is None:
        return None
    try:
        encoded = msgspec.json.encode(replace_surrogates_in(msgspec.to_builtins(structured, str_keys=True)))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise ToolError(
            f"{tool_name} ran, but its structured result cannot be written as JSON: {error}.",
            code=ErrorCode.EXECUTION_ERROR,
        ) from error
    value = msgspec.json.decode(encoded)
    return value if len(encoded) <= MAX_BYTES else _shortened(value)


def _shortened(value: Any) -> Any:
    """`value` with as many items of each list, and as much of each text, as keep it within bounds; an object says so."""
    marked = {**value, CUT_MARK: True} if isinstance(value, dict) else value
    for items in (1_000, 300, 100, 30, 10, 3, 1):
        shorter = _cut(marked, items)
        if len(msgspec.json.encode(shorter)) <= MAX_BYTES:
            return shorter
    return {CUT_MARK: True}


def _cut(value: Any, items: int) -> Any:
    if isinstance(value, str):
        return value[: items * CHARS_PER_ITEM]
    if isinstance(value, dict):
        return {key: _cut(item, items) for key, item in value.items()}
    return [_cut(item, items) for item in value[:items]] if isinstance(value, list) else value
