"""A JSON schema as the API's structured output takes it, or an error that names what it cannot express.

Source of the rules: the Messages API's documentation of `output_config.format` and the SDK's own `transform_schema`. What
the API does not enforce (`minimum`, `maxLength`, …) is told to the model in the description, and its answer is checked;
what it cannot express (free keys, any value, recursion) is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cellwright.errors import CellwrightError, ErrorCode

Schema = Mapping[str, Any]

TYPES: Final = ("object", "array", "string", "integer", "number", "boolean", "null")
FORMATS: Final = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
DEFINITIONS: Final = ("$defs", "definitions")

FREE_KEYS: Final = ("patternProperties", "propertyNames", "unevaluatedProperties")
"""Keywords of objects whose keys are not known beforehand."""

_SILENT: Final = ("$schema", "$id", "$comment", "discriminator", "readOnly", "writeOnly", "deprecated")
"""Keywords that say nothing of the value."""


def api_schema(schema: Schema, name: str) -> dict[str, Any]:
    """`schema` with closed objects and only the keywords that the API knows; `name` is what the user calls it.

    Raises `CellwrightError` INVALID_PARAMETERS that names the keyword and where it stands.

    >>> api_schema({"type": "integer", "minimum": 1}, "Count")
    {'type': 'integer', 'description': '{minimum: 1}'}
    """
    _refuse_recursion(schema, name)
    return _Transformed(name).schema(schema, "")


class _Transformed:
    """One transformation; `path` is where in the schema it is, for messages."""

    def __init__(self, name: str) -> None:
        self._name = name

    def schema(self, schema: Any, path: str) -> dict[str, Any]:
        if not isinstance(schema, Mapping) or not schema:
            raise self._refusal(
                path, "a place for any value at all", "Say its type, for example str or a model of its own."
            )
        left = {word: value for word, value in schema.items() if word not in _SILENT}
        done: dict[str, Any] = {}
        for word in DEFINITIONS:
            if word in left:
                inner = left.pop(word)
                done[word] = {key: self.schema(value, f"{path}/{word}/{key}") for key, value in inner.items()}
        if "$ref" in left:
            return {"$ref": self._reference(left["$ref"], path), **done}
        done |= self._kind(left, path)
        notes = [str(left.pop("description"))] if left.get("description") else []
        if title := left.pop("title", None):
            done["title"] = title
        if left.get("default", ...) is None:
            del left["default"]  # every optional field has it
        if left:
            notes.append("{" + ", ".join(f"{word}: {_short(value)}" for word, value in left.items()) + "}")
        if notes:
            done["description"] = "\n\n".join(notes)
        return done

    def _kind(self, left: dict[str, Any], path: str) -> dict[str, Any]:
        """Build the schema of what the value is; takes the keywords that say so out of `left`."""
        if "allOf" in left:
            return self._all_of(left, path)
        for word in ("enum", "const"):
            if word in left:
                left.pop("type", None)
                return {word: self._literals(left.pop(word), word, path)}
        for word in ("anyOf", "oneOf"):
            if word in left:
                left.pop("type", None)
                variants = enumerate(left.pop(word))
                return {"anyOf": [self.schema(each, f"{path}/{word}/{place}") for place, each in variants]}
        kind = left.pop("type", "object" if "properties" in left else None)
        if isinstance(kind, list):
            common = dict(left)
            left.clear()
            return {"anyOf": [self.schema({"type": each, **_fitting(common, each)}, path) for each in kind]}
        return self._of_type(kind, left, path)

    def _all_of(self, left: dict[str, Any], path: str) -> dict[str, Any]:
        """One part alone is how some tools write a `$ref` with a description beside it."""
        parts = left.pop("allOf")
        if len(parts) != 1:
            raise self._refusal(path, "`allOf`", "Write the parts as one object.")
        merged = {**parts[0], **left}
        left.clear()
        left |= merged
        return {"$ref": self._reference(left.pop("$ref"), path)} if "$ref" in left else self._kind(left, path)

    def _of_type(self, kind: Any, left: dict[str, Any], path: str) -> dict[str, Any]:
        if kind not in TYPES:
            raise self._refusal(path, f"the type {kind!r}", f"The types are {', '.join(TYPES)}.")
        if kind == "object":
            return self._object(left, path)
        if kind == "array":
            return self._array(left, path)
        if kind == "string" and left.get("format") in FORMATS:
            return {"type": kind, "format": left.pop("format")}
        return {"type": kind}

    def _object(self, left: dict[str, Any], path: str) -> dict[str, Any]:
        more = left.pop("additionalProperties", True)
        properties = left.pop("properties", None)
        for word in FREE_KEYS:
            if word in left:
                raise self._refusal(path, f"`{word}`", "Name every key as a property, or use a list of key and value.")
        if isinstance(more, Mapping) or (properties is None and more is not False):
            advice = "Name every key as a property, or use a list of objects with a key and a value."
            raise self._refusal(path, "`additionalProperties`: an object with keys that are not named", advice)
        done: dict[str, Any] = {
            "type": "object",
            "properties": {
                key: self.schema(value, f"{path}/properties/{key}") for key, value in (properties or {}).items()
            },
            "additionalProperties": False,
        }
        if "required" in left:
            done["required"] = list(left.pop("required"))
        return done

    def _array(self, left: dict[str, Any], path: str) -> dict[str, Any]:
        done: dict[str, Any] = {"type": "array"}
        if "prefixItems" in left:  # a tuple: each place may hold what any place may
            left.pop("items", None)
            parts = [self.schema(part, f"{path}/prefixItems/{i}") for i, part in enumerate(left["prefixItems"])]
            different = [part for i, part in enumerate(parts) if part not in parts[:i]]
            done["items"] = different[0] if len(different) == 1 else {"anyOf": different}
        elif "items" in left:
            done["items"] = self.schema(left.pop("items"), f"{path}/items")
        else:
            raise self._refusal(path, "an array without `items`", "Say what it holds, for example list[str].")
        if left.get("minItems") in (0, 1):
            done["minItems"] = left.pop("minItems")
        return done

    def _literals(self, value: Any, word: str, path: str) -> Any:
        values = value if word == "enum" else [value]
        if not values or not all(each is None or isinstance(each, str | int | float | bool) for each in values):
            raise self._refusal(path, f"`{word}` with lists or objects", "Use strings, numbers, booleans or null.")
        return list(values) if word == "enum" else value

    def _reference(self, reference: Any, path: str) -> str:
        if not str(reference).startswith(tuple(f"#/{word}/" for word in DEFINITIONS)):
            raise self._refusal(path, f"`$ref` to {reference!r}", "Put the definition into the schema's own `$defs`.")
        return str(reference)

    def _refusal(self, path: str, what: str, advice: str) -> CellwrightError:
        return refusal(self._name, f"has {what} at {path or 'its root'}, which structured output cannot hold", advice)


def refusal(name: str, problem: str, advice: str) -> CellwrightError:
    """The error for a schema that cannot be used; nothing was sent."""
    message = f"The schema {name} {problem}. {advice} Nothing was sent."
    return CellwrightError(ErrorCode.INVALID_PARAMETERS, message, details={"schema": name})


_OF_TYPE: Final[Mapping[str, tuple[str, ...]]] = {
    "object": ("properties", "required", "additionalProperties", *FREE_KEYS),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    "string": ("format", "pattern", "minLength", "maxLength"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}


def _fitting(keywords: Schema, kind: str) -> dict[str, Any]:
    """The keywords that say something of a value of this type."""
    return {word: value for word, value in keywords.items() if word in _OF_TYPE.get(kind, ())}


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _refuse_recursion(schema: Schema, name: str) -> None:
    definitions = {f"#/{word}/{key}": inner for word in DEFINITIONS for key, inner in schema.get(word, {}).items()}
    leads_to = {key: set(_references(inner)) for key, inner in definitions.items()}
    for start in leads_to:
        waiting, reached = [start], set[str]()
        while waiting:
            for target in leads_to.get(waiting.pop(), set()) - reached:
                reached.add(target)
                waiting.append(target)
        if start in reached or "#" in reached:
            raise refusal(
                name,
                f"is recursive: `$ref` of {start.rpartition('/')[2]} leads back to it, which structured output cannot hold",
                "Use a flat list whose entries name their parent.",
            )


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for inner in schema.values():
            yield from _references(inner)
    elif isinstance(schema, Sequence) and not isinstance(schema, str):
        for inner in schema:
            yield from _references(inner)
