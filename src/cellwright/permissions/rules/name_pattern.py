"""Patterns in the parentheses of rules for other tools: `Agent(name)`, `Skill(name *)`, `Tool(parameter:value)`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from cellwright.permissions.paths import folded
from cellwright.text import lazy_pattern

_NAME = lazy_pattern(r"[^\s,()]+(?P<more> \*)?")
_PARAMETER = lazy_pattern(r"(?P<name>[A-Za-z_-][\w-]*):(?P<value>.*)", re.DOTALL)

GENERAL_AGENT = "general-purpose"
"""The sub-agent of a call that names none."""


def glob_match(pieces: Sequence[str], text: str) -> bool:
    """Return whether `text` is `pieces` in this order with anything between them."""
    if len(pieces) == 1:
        return text == pieces[0]
    first, *middle, last = pieces
    end = len(text) - len(last)
    if len(first) > end or not (text.startswith(first) and text.endswith(last)):
        return False
    at = len(first)
    for piece in middle:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


class NamePattern(Struct, frozen=True):
    """`name`, or `name *` for a skill with whatever arguments; a `*` in the name stands for anything."""

    pieces: tuple[str, ...]
    with_arguments: bool
    restricts: bool

    def matches(self, name: str, arguments: str = "") -> bool:
        """Return whether the agent or skill `name`, called with `arguments`, falls under the pattern."""
        if self.restricts:
            return glob_match(self.pieces, folded(name))
        return glob_match(self.pieces, name) and (self.with_arguments or not arguments)


def read_name(specifier: str, *, restricts: bool) -> NamePattern | None:
    """Compile the name of an agent or a skill; None when it is not one."""
    found = _NAME.fullmatch(specifier)
    if found is None:
        return None
    more = found["more"] or ""
    name = specifier.removesuffix(more).removeprefix("/")
    return NamePattern(tuple((folded(name) if restricts else name).split("*")), bool(more), restricts)


class ParameterPattern(Struct, frozen=True):
    """`parameter:value` in a rule that restricts."""

    name: str
    pieces: tuple[str, ...]

    def matches(self, tool_input: Mapping[str, Any]) -> bool:
        """Return whether the call has the parameter with such a value; a value that is no scalar counts as any."""
        if self.name not in tool_input:
            return False
        value = tool_input[self.name]
        if isinstance(value, (dict, list)):
            return True
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        return glob_match(self.pieces, folded(text))


def read_parameter(specifier: str) -> ParameterPattern | None:
    """Compile `parameter:value`; None when it is not of that form."""
    found = _PARAMETER.fullmatch(specifier)
    if found is None:
        return None
    return ParameterPattern(found["name"], tuple(folded(found["value"].strip()).split("*")))
