"""A setting's value as a user enters it, checked before it is written: in the terminal and by clicks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from cellwright.config.settings.known_settings import KEYS, MODE_NAMES, Key, near_key
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.permissions.rules.rule import grant_problem, parse_rule
from cellwright.version import documented

_RULES = ("permissions.allow", "permissions.ask", "permissions.deny")


def parsed_value(text: str) -> Any:
    """Read JSON, or take the text as it is."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if value is None else value


def checked_value(key: str, value: Any) -> Any:
    """The value, if the key may have it in the user's own file. Raises CellwrightError CONFIG_INVALID."""
    path = tuple(key.split("."))
    known = KEYS.get(path) or KEYS.get(path[:-1])
    if known is None:
        near = near_key(key)
        hint = f" Did you mean `{near}`?" if near else f" {documented('settings')} lists them."
        raise CellwrightError(ErrorCode.CONFIG_INVALID, f"There is no setting `{key}`.{hint} Nothing was changed.")
    if problem := _problem(known, path, value):
        raise CellwrightError(ErrorCode.CONFIG_INVALID, f"{problem} Nothing was changed.")
    return value


def _problem(known: Key, path: tuple[str, ...], value: Any) -> str:
    if known.folder == "managed":
        return f"`{known.name}` counts in the administrator's settings only."
    if known.name == "permissions.defaultMode" and value not in MODE_NAMES:
        return f"`{known.name}` is one of {', '.join(MODE_NAMES)}."
    is_member = path != known.path
    if known.shape in ("members", "lists") and not is_member:
        return f"`{known.name}` is set member by member: `{known.name}.NAME`."
    listed = known.shape == "list" or (known.shape == "lists" and is_member)
    if listed and not isinstance(value, list):
        return f'`{".".join(path)}` is a list: \'["…", "…"]\'.'
    values = value if listed else [value]
    wrong = next((expected for each in values if (expected := known.check(each))), "")
    if wrong:
        return f"`{'.'.join(path)}` is {wrong}."
    return _rule_problem(known, values) if known.name in _RULES else ""


def _rule_problem(known: Key, values: Sequence[Any]) -> str:
    return next((problem for value in values if (problem := rule_problem(known.path[-1], value))), "")


def rule_problem(behavior: str, value: object) -> str:
    """Say what is wrong with a rule of `permissions.BEHAVIOR`; "" for nothing."""
    if not isinstance(value, str):
        return f"{value!r} is not a rule."
    try:
        rule = parse_rule(value)
    except CellwrightError as error:
        return error.message
    return (grant_problem(rule) or "") if behavior == "allow" else ""
