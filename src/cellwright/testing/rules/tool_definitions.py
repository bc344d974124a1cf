"""The tools of a request: names, schemas, examples, and which of them the model is told to use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from cellwright.testing.rules.api_error import ApiRejection
from cellwright.testing.rules.models import ServedModel

PROPERTY_PATTERN = "^[a-zA-Z0-9_.-]{1,64}$"
MAX_STRICT_TOOLS = 20
MAX_STRICT_OPTIONAL = 24
NOT_STRICT = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
    "contains",
    "minProperties",
    "maxProperties",
    "patternProperties",
    "propertyNames",
    "oneOf",
    "not",
    "if",
)
STRICT_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
SAYS_WHAT = ("type", "$ref", "anyOf", "allOf", "enum", "const")
DIALECT = "JSON Schema draft 2020-12 (https://json-schema.org/draft/2020-12)"

Schema = Mapping[str, Any]


def check_tools(tools: Sequence[Mapping[str, Any]]) -> None:
    """Everything about the list of tools that does not depend on the rest of the request."""
    names = [tool["name"] for tool in tools if "name" in tool]
    if len(set(names)) != len(names):
        raise ApiRejection("tools: Tool names must be unique.")
    for index, tool in enumerate(tools):
        if tool.get("type") in (None, "custom"):
            _check_custom(tool, f"tools.{index}.custom")
    if tools and all(tool.get("defer_loading") for tool in tools):
        raise ApiRejection("tools: At least one tool must have defer_loading=false.")
    _check_strict_totals([tool["input_schema"] for tool in tools if tool.get("strict") and "input_schema" in tool])


def _check_custom(tool: Mapping[str, Any], path: str) -> None:
    schema = tool["input_schema"]
    field = f"{path}.input_schema"
    if "type" not in schema:
        raise ApiRejection(f"{field}.type: Field required")
    if schema["type"] != "object":
        raise ApiRejection(f"{field}.type: Input should be 'object'")
    for word in ("oneOf", "allOf", "anyOf"):
        if word in schema:
            raise ApiRejection(f"{field}: input_schema does not support oneOf, allOf, or anyOf at the top level")
    validator = _validator(json.dumps(schema))
    if validator is None:
        raise ApiRejection(f"{field}: JSON schema is invalid. It must match {DIALECT}.")
    for name in schema.get("properties", {}):
        if not re.fullmatch(PROPERTY_PATTERN, name):
            raise ApiRejection(f"{field}.properties: Property keys should match pattern '{PROPERTY_PATTERN}'")
    _check_examples(tool.get("input_examples", ()), validator, path)
    if tool.get("strict"):
        check_strict(schema, field)


@lru_cache(maxsize=1024)
def _validator(encoded: str) -> Any:
    """The validator of a JSON schema; None if it is no valid one."""
    # heavy, and the one that knows the meta-schema of draft 2020-12; a server without tools never needs it
    from jsonschema import Draft202012Validator, SchemaError  # type: ignore[import-untyped]

    schema = json.loads(encoded)
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError:
        return None
    return Draft202012Validator(schema)


def _check_examples(examples: Sequence[Any], validator: Any, path: str) -> None:
    for index, example in enumerate(examples):
        if not validator.is_valid(example):
            raise ApiRejection(f"{path}.input_examples.{index}: Input example does not match the tool's input_schema")


def _subschemas(schema: Any, path: str) -> Iterator[tuple[Schema, str]]:
    """The schema and everything below it that can be a schema, with paths."""
    if isinstance(schema, list):
        for index, item in enumerate(schema):
            yield from _subschemas(item, f"{path}.{index}")
    elif isinstance(schema, dict):
        yield schema, path
        for word, inner in schema.items():
            if word in ("properties", "$defs", "definitions"):
                for name, property_schema in inner.items():
                    yield from _subschemas(property_schema, f"{path}.{word}.{name}")
            elif word in ("items", "prefixItems", "anyOf", "allOf", "oneOf", "additionalProperties", "not"):
                yield from _subschemas(inner, f"{path}.{word}")


def check_strict(schema: Schema, path: str) -> None:
    """Check what `strict: true` and structured output demand of a schema."""
    for part, where in _subschemas(schema, path):
        if part.get("type") == "object" and part.get("additionalProperties") is not False:
            raise ApiRejection(f"{where}: For 'object' type, 'additionalProperties' must be explicitly set to false")
        for word in NOT_STRICT:
            if word in part:
                raise ApiRejection(f"{where}: For '{part.get('type')}' type, property '{word}' is not supported")
        _check_strict_values(part, where)
    if _is_recursive(schema):
        raise ApiRejection(f"{path}: Recursive schemas are not supported")


def _check_strict_values(part: Schema, where: str) -> None:
    """Keywords that are known, with values that are not."""
    if not any(word in part for word in SAYS_WHAT):
        raise ApiRejection(f"{where}: Schema must have a 'type', '$ref', 'anyOf', 'allOf', 'enum' or 'const'")
    if part.get("minItems", 0) not in (0, 1):
        raise ApiRejection(f"{where}: For 'array' type, 'minItems' values other than 0 or 1 are not supported")
    if part.get("type") == "string" and part.get("format", "uri") not in STRICT_FORMATS:
        raise ApiRejection(f"{where}: For 'string' type, the format '{part['format']}' is not supported")
    if any(isinstance(value, list | dict) for value in part.get("enum", ())):
        raise ApiRejection(f"{where}: 'enum' values must be strings, numbers, booleans or null")
    if not str(part.get("$ref", "#")).startswith("#"):
        raise ApiRejection(f"{where}: External '$ref' is not supported")


def _is_recursive(schema: Schema) -> bool:
    """Return whether following `$ref` from any definition leads back to it."""
    definitions = {
        f"#/{word}/{name}": inner for word in ("$defs", "definitions") for name, inner in schema.get(word, {}).items()
    }
    leads_to = {
        name: {part["$ref"] for part, _ in _subschemas(inner, "") if "$ref" in part}
        for name, inner in {"#": schema, **definitions}.items()
    }
    return any(name in _reachable(leads_to, name) for name in leads_to if name != "#") or any(
        "#" in targets for targets in leads_to.values()
    )


def _reachable(leads_to: Mapping[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    waiting = list(leads_to[start])
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(leads_to.get(name, ()))
    return reached


def _check_strict_totals(schemas: Sequence[Schema]) -> None:
    if len(schemas) > MAX_STRICT_TOOLS:
        raise ApiRejection(f"tools: Too many strict tools: {len(schemas)} > {MAX_STRICT_TOOLS} maximum")
    optional = sum(
        len(set(part.get("properties", {})) - set(part.get("required", ())))
        for schema in schemas
        for part, _ in _subschemas(schema, "")
    )
    if optional > MAX_STRICT_OPTIONAL:
        raise ApiRejection(
            f"tools: Too many optional parameters in strict tools: {optional} > {MAX_STRICT_OPTIONAL} maximum"
        )


def check_tool_choice(body: Mapping[str, Any], model: ServedModel) -> None:
    """`tool_choice` needs tools, names one of them, and is not forced where the model cannot be forced."""
    choice = body.get("tool_choice")
    if not choice:
        return
    tools = body.get("tools") or ()
    if not tools:
        raise ApiRejection("tool_choice: tool_choice may only be specified while providing tools")
    if choice["type"] == "tool" and choice["name"] not in {tool.get("name") for tool in tools}:
        raise ApiRejection(f"tool_choice.tool.name: Tool '{choice['name']}' not found in provided tools")
    if choice["type"] not in ("tool", "any"):
        return
    if not model.forced_tool_choice:
        raise ApiRejection('tool_choice: type "tool" and "any" are not supported for this model.')
    if (body.get("thinking") or {}).get("type") == "enabled":
        raise ApiRejection("tool_choice: Thinking may not be enabled when tool_choice forces tool use.")
