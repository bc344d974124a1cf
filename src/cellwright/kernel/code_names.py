"""The names of the kernel's namespace as a completion is told them: each with its type, and with what can be known without
running any code of the user's. Never a value, and never a `repr`. From any thread.
"""

from __future__ import annotations

import itertools
import re
import types
from collections.abc import Mapping
from typing import Any

from cellwright.kernel.described.looking import classes, library_class, short_name
from cellwright.kernel.namespace.namespace import fingerprint
from cellwright.kernel.namespace.types.tables import names_of

MOST_NAMES = 80
MOST_COLUMNS = 30
LINE_CHARS = 200
_WORD = re.compile(r"[^\W\d]\w*")


def code_names(values: Mapping[str, Any], text: str) -> list[str]:
    """A line for each variable; those that `text` mentions first, then the newest."""
    mentioned = set(_WORD.findall(text))
    newest = list(values)[::-1]
    ordered = sorted(newest, key=lambda name: name not in mentioned)[:MOST_NAMES]
    # in the namespace's own order the lines stay as they are while the user types, and the cache holds them
    chosen = set(ordered)
    return [f"{name}: {_what(values[name])}"[:LINE_CHARS] for name in values if name in chosen]


def _what(value: object) -> str:
    kind = type(value)
    if kind is types.ModuleType:
        name = vars(value).get("__name__")
        return f"module {name}" if isinstance(name, str) else "module"
    if isinstance(value, types.FunctionType):
        return f"function{_signature(value.__code__)}"
    if type in classes(value):
        return f"class {short_name(value)}"  # type: ignore[arg-type]
    found, *rest = fingerprint(value)
    shape = next((each for each in rest if isinstance(each, tuple)), None)
    words = f"{found} {shape}" if shape is not None else str(found)
    return f"{words} with columns {columns}" if (columns := _columns(value)) else words


def _signature(code: types.CodeType) -> str:
    return f"({', '.join(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])})"


def _columns(value: object) -> str:
    """The columns of a table that is pandas' or Polars' own: a subclass could run code."""
    for module in ("pandas", "polars"):
        if type(value) is library_class(module, "DataFrame"):
            columns = value.columns  # type: ignore[attr-defined]
            return names_of(itertools.islice(columns, MOST_COLUMNS), len(columns))
    return ""
