"""The variables of a preview: what its code has changed in the branch, and the values that formats of data carry over.

`begin`, `report` and `carry` run in the branch, beside code of Claude's: what they say is shown and written to files, and is
believed in nothing. `read` runs in the kernel: it reads Arrow, npy and JSON, never a pickle, and no code comes with them.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from cellwright.kernel.branches.undo_values import Value, look_at
from cellwright.text import counted

MOST_NAMES = 200
MOST_BYTES = 4 * 2**30
MOST_NESTED = 50

Format = Literal["", "arrow", "npy", "json"]
"""The form in which a value comes over; "": in none."""

_FORMATS = ("arrow", "npy", "json")
_OURS = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open"})
_before: dict[str, Value] = {}


class ChangedVariable(Struct, frozen=True):
    """A variable that the preview's code made, changed or deleted. `text` says how."""

    name: str
    text: str
    format: Format = ""


class NotCarried(Exception):
    """A value did not come over; the text says why."""


# ---------------------------------------------------------------- in the branch


def begin(shell: Any, folder: str) -> None:
    """Work in `folder`, and remember the variables as they are."""
    os.chdir(folder)
    _before.clear()
    _before.update(look_at(shell.user_ns, _names(shell)))


def report(shell: Any) -> None:
    """Print what has changed since, as JSON."""
    now = look_at(shell.user_ns, _names(shell))
    found = []
    for name in sorted({*_before, *now}):
        was, value = _before.get(name), now.get(name)
        same = was is not None and value is not None and was.address == value.address
        if was is not None and value is not None and (was.digest == value.digest if was.digest else same):
            continue
        if value is not None and value.kind == "module":
            continue  # code that needs it imports it
        form: Format = "" if value is None else _format(shell.user_ns[name])
        found.append(ChangedVariable(name, change_text(name, was, value), form))
    print(msgspec.json.encode(found[:MOST_NAMES]).decode())


def carry(shell: Any, name: str, path: str) -> None:
    """Write the value of `name` to the file `path`."""
    value = shell.user_ns[name]
    match _format(value):
        case "arrow":
            pa = sys.modules["pyarrow"]
            table = pa.Table.from_pandas(value)
            with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
        case "npy":
            with open(path, "wb") as file:  # noqa: PTH123 - as numpy takes it
                sys.modules["numpy"].save(file, value, allow_pickle=False)
        case "json":
            Path(path).write_text(json.dumps(value), "utf-8")


def _names(shell: Any) -> list[str]:
    hidden = shell.user_ns_hidden
    return [name for name in shell.user_ns if not name.startswith("_") and name not in hidden and name not in _OURS]


def _format(value: Any) -> Format:
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    if numpy is not None and type(value) is numpy.ndarray:
        return "" if value.dtype.hasobject else "npy"
    if pandas is not None and type(value) is pandas.DataFrame:
        return "arrow" if _fits_arrow(value) else ""
    return "json" if _is_json(value) else ""


def _fits_arrow(frame: Any) -> bool:
    try:
        import pyarrow as pa  # type: ignore[import-not-found, import-untyped, unused-ignore]  # the user's
        import pyarrow.ipc  # type: ignore[import-not-found, import-untyped, unused-ignore]

        # older ones unpickle types of extensions
        if int(pa.__version__.partition(".")[0]) < 15 or frame.attrs or not all(type(c) is str for c in frame.columns):
            return False
        head = frame.iloc[:1000]
        return bool(pa.Table.from_pandas(head).to_pandas().equals(head))
    except Exception:  # noqa: BLE001 - whatever keeps it from that
        return False


def _is_json(value: Any, depth: int = 0) -> bool:
    """Return whether JSON gives the very same back."""
    if value is None or type(value) in (bool, int, str):
        return True
    if type(value) is float:
        return value == value and value not in (float("inf"), float("-inf"))
    if depth > MOST_NESTED:
        return False
    if type(value) is list:
        return all(_is_json(each, depth + 1) for each in value)
    return type(value) is dict and all(type(key) is str and _is_json(each, depth + 1) for key, each in value.items())


def change_text(name: str, was: Value | None, now: Value | None) -> str:
    """Say how a variable has changed.

    >>> table = Value(1, "x", "DataFrame", rows=68846, columns=3)
    >>> change_text("df", table, Value(2, "y", "DataFrame", rows=70112, columns=3))
    '`df`: 68,846 rows → 70,112'
    >>> change_text("model", None, Value(1, "y", "Ridge"))
    '`model`: new, Ridge'
    """
    if now is None:
        return f"`{name}`: deleted"
    if was is None:
        size = f" of {_counted(now)}" if now.rows >= 0 else f" {now.text}" if now.text else ""
        return f"`{name}`: new, {now.kind}{size}"
    if was.text and now.text:
        return f"`{name}`: {was.text} → {now.text}"
    if was.kind != now.kind:
        return f"`{name}`: {was.kind} → {now.kind}"
    if was.rows != now.rows:
        return f"`{name}`: {_counted(was)} → {now.rows:,}"
    if was.columns != now.columns:
        return f"`{name}`: {was.columns:,} columns → {now.columns:,}"
    return f"`{name}`: other contents"


def _counted(value: Value) -> str:
    return counted(value.rows, "row" if value.columns >= 0 else "item")


# ---------------------------------------------------------------- in the kernel


def reported(outputs: Sequence[Mapping[str, Any]]) -> list[ChangedVariable]:
    """The variables that `report` has printed, judged: names are names, texts one line. Raises NotCarried."""
    text = "".join(str(each.get("text", "")) for each in outputs if each.get("output_type") == "stream")
    try:
        found = msgspec.json.decode(text, type=list[ChangedVariable])
    except msgspec.MsgspecError as error:
        message = f"the copy of the kernel did not say what has changed ({error})"
        raise NotCarried(message) from None
    return [each for each in found[:MOST_NAMES] if each.name.isidentifier() and not each.name.startswith("_")]


def read(path: Path, form: Format) -> Any:
    """The value in a file that the branch has written. Raises NotCarried."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
                message = "it is too large"
                raise NotCarried(message)
            match form:
                case "arrow":
                    import pyarrow as pa  # as above
                    import pyarrow.ipc

                    return pa.ipc.open_file(pa.BufferReader(file.read())).read_all().to_pandas()
                case "npy":
                    import numpy

                    return numpy.load(file, allow_pickle=False)
                case "json":
                    value = json.load(file)
                    if not _is_json(value):
                        message = "it is no JSON"
                        raise NotCarried(message)
                    return value
    except NotCarried:
        raise
    except Exception as error:  # a stranger's file, read by libraries
        message = f"{type(error).__name__}: {error}"
        raise NotCarried(message) from error
    message = f"it has no format of data ({_FORMATS})"
    raise NotCarried(message)
