"""The input schema of a stranger's tool, made into one that the Messages API takes and that cannot be used against us.

The API refuses a whole request, and with it the conversation, for one schema that is none. So only keywords that are known
are kept, with values of the kind that they must have; what is too deep or too large is left open. A call is then checked by
interpretation (`check_call`), never by code that is made of the schema, and never by a server's regular expressions, which
could take for ever: what a value must look like in detail the server checks itself.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from cellwright.errors import ErrorCode, ToolError
from cellwright.text import lazy_pattern, replace_surrogates

MAX_DEPTH = 12
MAX_CHARS = 40_000
"""Of a schema as JSON: about 10,000 tokens; one that is larger is left open."""

MAX_MEMBERS = 300
"""Properties, definitions, choices in one place."""

MAX_TEXT = 1_000

_PROPERTY = lazy_pattern(r"[a-zA-Z0-9_.-]{1,64}")
_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_OPEN: dict[str, Any] = {"type": "object", "properties": {}}

Clean = Callable[[Any, int], Any]
"""Cleans a keyword's value at a depth; `_GONE` where the keyword must go."""

_GONE: Any = object()


def safe_schema(schema: Any) -> dict[str, Any]:
    """The input schema of a tool as it is told and checked: always an object's, always valid.

    >>> safe_schema({"type": "object", "properties": {"path": {"type": "string", "pattern": "(a+)+$"}}})
    {'type': 'object', 'properties': {'path': {'type': 'string'}}}
    >>> safe_schema({"anyOf": [{"properties": {"id": {"type": "string"}}}, {"properties": {"url": {"type": "string"}}}]})
    {'type': 'object', 'properties': {'id': {'type': 'string'}, 'url': {'type': 'string'}}}
    >>> safe_schema(["nonsense"])
    {'type': 'object', 'properties': {}}
    """
    if not isinstance(schema, Mapping):
        return dict(_OPEN)
    cleaned = _schema(schema, 0)
    if not isinstance(cleaned, dict):
        return dict(_OPEN)
    properties, required = _merged(cleaned, cleaned, {})
    for word in ("oneOf", "anyOf", "allOf", "not", "enum", "const", "$ref"):
        cleaned.pop(word, None)  # the API takes none of these at the top, or they say it is no object
    named = {name: each for name, each in properties.items() if _PROPERTY.fullmatch(name)}
    cleaned = {**cleaned, "type": "object", "properties": named}
    cleaned.pop("required", None)
    if needed := [name for name in required if name in named]:
        cleaned["required"] = needed
    definitions = {f"#/{word}/{name}" for word in ("$defs", "definitions") for name in cleaned.get(word, ())}
    cleaned = _with_known_references(cleaned, definitions)
    return cleaned if len(json.dumps(cleaned)) <= MAX_CHARS and _is_valid(cleaned) else dict(_OPEN)


_Merged = tuple[dict[str, Any], list[str]]


def _merged(schema: Any, whole: Mapping[str, Any], known: dict[str, _Merged], depth: int = 0) -> _Merged:
    """The properties of a cleaned schema with those of its branches, and what each branch requires.

    What only some branches know is a property that may be left out: the server checks which go together. `known` are the
    definitions of `whole` that were merged already, or are at work: they may refer to each other without end.
    """
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return {}, []
    properties, required = dict(schema.get("properties", {})), list(schema.get("required", ()))
    for word in ("$ref", "allOf", "anyOf", "oneOf"):
        if word == "$ref":
            parts = [_definition(schema[word], whole, known, depth)] if word in schema else []
        else:
            branches = [each for each in schema.get(word, ()) if _may_be_object(each)]
            parts = [_merged(each, whole, known, depth + 1) for each in branches]
        for inner, _ in parts:
            for name, each in inner.items():
                if name in properties or len(properties) < MAX_MEMBERS:
                    properties[name] = _either(properties[name], each) if name in properties else each
        if word in ("$ref", "allOf"):
            required += [name for _, names in parts for name in names]
        elif parts:
            required += [name for name in parts[0][1] if all(name in names for _, names in parts)]
    return properties, list(dict.fromkeys(required))[:MAX_MEMBERS]


def _definition(reference: str, whole: Mapping[str, Any], known: dict[str, _Merged], depth: int) -> _Merged:
    if reference not in known:
        known[reference] = ({}, [])
        word, _, name = reference.removeprefix("#/").partition("/")
        there = whole.get(word, {}) if word in ("$defs", "definitions") else {}
        known[reference] = _merged(there.get(name), whole, known, depth + 1)
    return known[reference]


def _may_be_object(schema: Any) -> bool:
    kinds = schema.get("type", "object") if isinstance(schema, Mapping) else ()
    return kinds == "object" or (isinstance(kinds, list) and "object" in kinds)


def _either(one: Any, other: Any) -> Any:
    """A schema for what may be one or the other."""
    if one == other:
        return one
    known = one["anyOf"] if isinstance(one, dict) and one.keys() == {"anyOf"} else [one]
    return {"anyOf": known if other in known else [*known, other]}


def unusable_fields(schema: Any) -> list[str]:
    """The required fields that the API has no way to name: a tool with one cannot be called."""
    required = schema.get("required") if isinstance(schema, Mapping) else None
    return [str(name) for name in required if not _PROPERTY.fullmatch(str(name))] if isinstance(required, list) else []


def check_call(name: str, schema: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Hold a call's input against a schema of `safe_schema`. Raises ToolError, which names the field that does not fit."""
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # heavy, and only for servers' tools

    try:
        error = next(Draft202012Validator(schema).iter_errors(values), None)
    except RecursionError:  # definitions that refer to each other without end
        return
    if error is None:
        return
    field = ".".join(str(part) for part in error.absolute_path)
    problem = f"{field or 'the input'}: {error.message[:300]}"
    raise ToolError(
        f"{name} was not run: {problem}.",
        code=ErrorCode.INVALID_PARAMETERS,
        details={"field": field or "input", "problem": problem},
    )


def _is_valid(schema: Mapping[str, Any]) -> bool:
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except (SchemaError, RecursionError):
        return False
    return True


def _schema(value: Any, depth: int) -> Any:
    if isinstance(value, bool):
        return value
    if not isinstance(value, Mapping):
        return _GONE
    if depth > MAX_DEPTH:
        return {}
    cleaned: dict[str, Any] = {}
    for word, inner in value.items():
        if (clean := _KEYWORDS.get(word)) is not None and (kept := clean(inner, depth)) is not _GONE:
            cleaned[word] = kept
    return cleaned


def _members(value: Any, depth: int) -> Any:
    if not isinstance(value, Mapping):
        return _GONE
    cleaned = {
        replace_surrogates(name): _schema(inner, depth + 1)
        for name, inner in list(value.items())[:MAX_MEMBERS]
        if isinstance(name, str) and len(name) <= MAX_TEXT
    }
    return {name: inner for name, inner in cleaned.items() if inner is not _GONE}


def _schemas(value: Any, depth: int) -> Any:
    if not isinstance(value, list):
        return _GONE
    cleaned = [_schema(inner, depth + 1) for inner in value[:MAX_MEMBERS]]
    return [inner for inner in cleaned if inner is not _GONE] or _GONE


def _type(value: Any, _depth: int) -> Any:
    if isinstance(value, list):
        kinds = [kind for kind in dict.fromkeys(each for each in value if isinstance(each, str)) if kind in _TYPES]
        return kinds or _GONE
    return value if value in _TYPES else _GONE


def _names(value: Any, _depth: int) -> Any:
    if not isinstance(value, list):
        return _GONE
    return list(dict.fromkeys(each for each in value if isinstance(each, str)))[:MAX_MEMBERS]


def _number(value: Any, _depth: int) -> Any:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if fits and abs(value) < 1e300 else _GONE


def _count(value: Any, _depth: int) -> Any:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else _GONE


def _text(value: Any, _depth: int) -> Any:
    return shown_text(value, MAX_TEXT) if isinstance(value, str) else _GONE


def _plain(value: Any, _depth: int) -> Any:
    """A value of a choice, or a default: JSON as it is, if it is small."""
    try:
        encoded = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return _GONE
    return json.loads(encoded) if len(encoded) <= MAX_TEXT else _GONE


def _choices(value: Any, depth: int) -> Any:
    if not isinstance(value, list):
        return _GONE
    kept = [_plain(each, depth) for each in value[:MAX_MEMBERS]]
    # a choice that cannot be told must stay possible: then none is told
    return kept if kept and len(value) <= MAX_MEMBERS and all(each is not _GONE for each in kept) else _GONE


_KEYWORDS: Mapping[str, Clean] = {
    "type": _type,
    **dict.fromkeys(("properties", "$defs", "definitions"), _members),
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), _schemas),
    **dict.fromkeys(
        ("items", "additionalProperties", "not", "contains"), lambda value, depth: _schema(value, depth + 1)
    ),
    "required": _names,
    "enum": _choices,
    "const": _plain,
    "default": _plain,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _count),
    "uniqueItems": lambda value, _: value if isinstance(value, bool) else _GONE,
    **dict.fromkeys(("description", "title", "format"), _text),
    "$ref": lambda value, _: value if isinstance(value, str) and value.startswith("#") else _GONE,
}


def _with_known_references(value: Any, known: set[str]) -> Any:
    """`value` without references to what is not there: nobody could say what they mean."""
    if isinstance(value, list):
        return [_with_known_references(inner, known) for inner in value]
    if not isinstance(value, dict):
        return value
    kept = {word: _with_known_references(inner, known) for word, inner in value.items()}
    if isinstance(reference := kept.get("$ref"), str) and reference != "#" and reference not in known:
        del kept["$ref"]
    return kept


@functools.cache
def _hidden() -> re.Pattern[str]:
    # tags and the like, which a reader does not see and a model reads; controls; what turns the direction of writing
    return re.compile("[\U000e0000-\U000e0fff\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\x00-\x08\x0b-\x1f\x7f-\x9f]")


def shown_text(text: str, limit: int) -> str:
    """A server's words without characters that nobody sees, at most `limit` of them."""
    cleaned = _hidden().sub("", replace_surrogates(text))
    return cleaned if len(cleaned) <= limit else f"{cleaned[: limit - 1]}…"
