"""The variables that a preview's code has made, changed or deleted.

`begin` and `report` run in the branch, beside code of Claude's: what they say is shown, and is believed in nothing. The
values come over as those that a user keeps do (`taken_values.py`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from cellwright.kernel.branches.snapshot import NoBranch
from cellwright.kernel.branches.taken_values import why_not
from cellwright.kernel.branches.undo_values import IPYTHONS, Value, difference, look_at, size_of
from cellwright.text import visible_line

MOST_NAMES = 200
_LINE_CHARS = 300

_before: dict[str, Value] = {}


class ChangedVariable(Struct, frozen=True):
    """A variable that the preview's code made, changed or deleted.

    `text` says how, `why_not` why it is no data that can be taken ("": it is).
    """

    name: str
    text: str
    why_not: str = ""


# ---------------------------------------------------------------- in the branch


def begin(shell: Any, folder: str, _descriptors: Sequence[int]) -> None:
    """Work in `folder`, and remember the variables as they are."""
    os.chdir(folder)
    _before.clear()
    _before.update(look_at(shell.user_ns, _names(shell)))


def report(shell: Any, _arguments: object, _descriptors: Sequence[int]) -> object:
    """Tell what has changed since."""
    now = look_at(shell.user_ns, _names(shell))
    found = []
    for name in sorted({*_before, *now}):
        was, value = _before.get(name), now.get(name)
        same = was is not None and value is not None and was.address == value.address
        if was is not None and value is not None and (was.digest == value.digest if was.digest else same):
            continue
        if value is not None and value.kind == "module":
            continue  # code that needs it imports it
        problem = "only the code deletes it" if value is None else why_not(shell.user_ns[name])
        found.append(ChangedVariable(name, change_text(name, was, value), problem))
    return msgspec.to_builtins(found[:MOST_NAMES])


def _names(shell: Any) -> list[str]:
    hidden = shell.user_ns_hidden
    return [name for name in shell.user_ns if not name.startswith("_") and name not in hidden and name not in IPYTHONS]


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
        size = f" of {size_of(now)}" if size_of(now) else f" {now.text}" if now.text else ""
        return f"`{name}`: new, {now.kind}{size}"
    return f"`{name}`: {difference(was, now) or 'other contents'}"


# ---------------------------------------------------------------- in the kernel


def reported(told: object) -> list[ChangedVariable]:
    """The variables that `report` has told, judged: names are names, texts one line. Raises `NoBranch`."""
    try:
        found = msgspec.convert(told, list[ChangedVariable])
    except msgspec.ValidationError as error:
        message = "What the copy of the kernel says of its variables cannot be read."
        raise NoBranch(message) from error
    return [
        ChangedVariable(each.name, visible_line(each.text, _LINE_CHARS), visible_line(each.why_not, _LINE_CHARS))
        for each in found[:MOST_NAMES]
        if each.name.isidentifier() and not each.name.startswith("_")
    ]
