"""A tool's definition as Claude is told it, with each session once: what the call is checked by, less what says nothing.

Inputs are checked by the whole schema all the same, and an error says what was wrong. Each token of a definition is paid
for with every request.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

Schema = Mapping[str, Any]

TOLD_LENGTH = 40
"""Longer texts and lists than this are bounded for safety; nobody who writes a call comes near."""

TOLD_EXAMPLES = 1
TOLD_EXAMPLE_CHARS = 250
"""A longer one costs as much as the schema that it would explain."""

_NEVER_TOLD = ("pattern", "title", "format")
_BOUNDS = ("maxLength", "maxItems")
_IMPLIED = {"additionalProperties": False, "required": [], "minLength": 1, "uniqueItems": False}


def offered_schema(schema: Schema) -> dict[str, Any]:
    """The schema without what is implied, is a default that a field left out has anyway, or bounds what nobody sends."""
    told = {key: _offered_value(key, value) for key, value in schema.items() if not _says_nothing(key, value)}
    if "default" in told and "default" in str(told.get("description", "")):
        del told["default"]  # it is told in words
    return told


def offered_examples(examples: Iterable[Mapping[str, Any]], schema: Schema) -> list[dict[str, Any]]:
    """The first examples that show more than the required fields with a plain value each: that the schema says already."""
    required = set(schema.get("required", ()))
    telling = (dict(each) for each in examples if set(each) - required or any(map(_nests, each.values())))
    return list(islice((each for each in telling if len(json.dumps(each)) <= TOLD_EXAMPLE_CHARS), TOLD_EXAMPLES))


def _offered_value(key: str, value: Any) -> Any:
    if key in ("properties", "$defs", "definitions", "patternProperties"):
        return {name: offered_schema(inner) if isinstance(inner, Mapping) else inner for name, inner in value.items()}
    if key in ("items", "additionalProperties", "not") and isinstance(value, Mapping):
        return offered_schema(value)
    if key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        return [offered_schema(inner) if isinstance(inner, Mapping) else inner for inner in value]
    return value


def _says_nothing(key: str, value: Any) -> bool:
    if key in _NEVER_TOLD:
        return isinstance(value, str)
    if key in _BOUNDS:
        return isinstance(value, int) and value > TOLD_LENGTH
    if key == "default":
        return value is None or value is False or value in ("", [], {})
    return key in _IMPLIED and value == _IMPLIED[key] and type(value) is type(_IMPLIED[key])


def _nests(value: Any) -> bool:
    return isinstance(value, list | dict) and bool(value)
