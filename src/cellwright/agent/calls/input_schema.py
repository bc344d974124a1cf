"""A tool's schema: as Claude is told it, with each session once, and as the input of a call is held against it.

What is offered is what a call is checked by, less what says nothing. Inputs are checked by the whole schema all the same,
and an error says what was wrong. Each token of a definition is paid for with every request.

fastjsonschema (it comes with nbformat) and not jsonschema: 3 ms to import instead of 1.5 s, and microseconds a check.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from cellwright.errors import ErrorCode, ToolError
from cellwright.model.provider import INVALID_JSON

if TYPE_CHECKING:
    from cellwright.agent.tool import Tool


Schema = Mapping[str, Any]


_NEVER_TOLD = ("pattern", "title", "format")
_BOUNDS = ("maxLength", "maxItems")
_IMPLIED = {"additionalProperties": False, "required": [], "minLength": 1, "uniqueItems": False}

MAX_SHOWN = 80
"""Characters of a wrong value that are shown."""


def offered_schema(schema: Schema) -> dict[str, Any]:
    """The schema without what is implied, is a default that a field left out has anyway, or bounds what nobody sends."""
    told = {key: _offered_value(key, value) for key, value in schema.items() if not _says_nothing(key, value)}
    if "default" in told and "default" in str(told.get("description", "")):
        del told["default"]  # it is told in words
    return told


def offered_examples(examples: Iterable[Mapping[str, Any]], schema: Schema) -> list[dict[str, Any]]:
    """The first examples that show more than the required fields with a plain value each: that the schema says already."""
    required = set(schema.get("required", ()))
    telling = (
        dict(each)
        for each in examples
        if set(each) - required or any(isinstance(value, list | dict) and value for value in each.values())
    )
    # one is told; a longer one costs as much as the schema that it would explain
    return list(islice((each for each in telling if len(json.dumps(each)) <= 250), 1))


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
        # longer texts and lists than this are bounded for safety; nobody who writes a call comes near
        return isinstance(value, int) and value > 40
    if key == "default":
        return value is None or value is False or value in ("", [], {})
    return key in _IMPLIED and value == _IMPLIED[key] and type(value) is type(_IMPLIED[key])


def path_of(steps: Sequence[Any]) -> str:
    """`todos[0].status`."""
    return "".join(f"[{step}]" if str(step).isdecimal() else f".{step}" for step in steps).removeprefix(".")


def problem_of(field: str, rule: str, node: Mapping[str, Any], value: Any) -> str:
    """Say what is wrong, as a clause: `value`, at the path `field`, breaks `rule` of the schema `node`."""
    if rule == "required" and isinstance(value, Mapping):
        missing = [name for name in node["required"] if name not in value]
        problem = f"{_names(field, missing)} {'is' if len(missing) == 1 else 'are'} missing"
        unknown = [name for name in value if name not in node.get("properties", value)]
        return f"{problem}, and there is no field {_names(field, unknown)}" if unknown else problem
    if rule == "additionalProperties" and isinstance(value, Mapping):
        known = [*node.get("properties", {})]
        unknown = [name for name in value if name not in known]
        there_are = f"the fields are {', '.join(known)}" if known else "it takes none"
        return f"there is no field {_names(field, unknown)}; {there_are}"
    shown = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
    if len(shown) > MAX_SHOWN:
        shown = f"{shown[: MAX_SHOWN - 1]}…"
    return f"{field or 'the input'} must be {expected(node)}; got {shown}"


def problem_at(steps: Sequence[str | int], value: Any, schema: Mapping[str, Any], own_words: str = "") -> str:
    """The same for a value that only its parser refused, at `steps` of `schema`; `own_words` are what its author said."""
    if own_words:
        return f"{path_of(steps)}: {own_words}" if steps else own_words
    return problem_of(path_of(steps), "", _node_at(steps, schema), value)


def _node_at(steps: Sequence[str | int], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    node: Mapping[str, Any] = schema
    for step in steps:
        while "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        node = node.get("items", {}) if isinstance(step, int) else node.get("properties", {}).get(step, {})
        if not isinstance(node, Mapping):
            return {}
    return node


def _names(field: str, names: Sequence[str]) -> str:
    return ", ".join(f"{field}.{name}" if field else name for name in names)


def expected(node: Mapping[str, Any] | bool) -> str:
    """Describe a value that fits a schema, in words.

    >>> expected({"type": "integer", "minimum": 1})
    'a whole number ≥ 1'
    >>> expected({"type": "array", "items": {"type": "string"}, "maxItems": 50})
    'a list of at most 50 items, each text'
    """
    if isinstance(node, bool):
        return "anything" if node else "left out"
    if "enum" in node:
        listed = [json.dumps(value, ensure_ascii=False) for value in node["enum"]]
        return listed[0] if len(listed) == 1 else f"one of {', '.join(listed)}"
    if "const" in node:
        return json.dumps(node["const"])
    for key in ("anyOf", "oneOf"):
        if key in node:
            return " or ".join(dict.fromkeys(expected(branch) for branch in node[key]))
    kinds = node.get("type", ())
    if not isinstance(kinds, str):
        return " or ".join(expected({**node, "type": kind}) for kind in kinds) or "something else"
    describe = _DESCRIBED.get(kinds)
    return str(kinds) if describe is None else describe(node)


def _range(node: Mapping[str, Any], least: str, most: str) -> tuple[Any, Any]:
    return node.get(least), node.get(most)


def _number(name: str, node: Mapping[str, Any]) -> str:
    low, high = _range(node, "minimum", "maximum")
    if low is not None and high is not None:
        name = f"{name} from {low} to {high}"
    elif low is not None or high is not None:
        name = f"{name} ≥ {low}" if low is not None else f"{name} ≤ {high}"
    for key, sign in (("exclusiveMinimum", ">"), ("exclusiveMaximum", "<")):
        name = f"{name} {sign} {node[key]}" if key in node else name
    return f"{name}, a multiple of {node['multipleOf']}" if "multipleOf" in node else name


def _count(node: Mapping[str, Any], least: str, most: str, noun: str) -> str:
    """`at least 1 item`, `at most 50 items`, `1 to 4 items`; "" where any number will do."""
    low, high = _range(node, least, most)
    if low and high is not None:
        return f"{low} {noun}{'s' * (low != 1)}" if low == high else f"{low} to {high} {noun}s"
    if low:
        return f"at least {low} {noun}{'s' * (low != 1)}"
    return "" if high is None else f"at most {high} {noun}{'s' * (high != 1)}"


def _text(node: Mapping[str, Any]) -> str:
    length = _count(node, "minLength", "maxLength", "character")
    words = "text that is not empty" if length == "at least 1 character" else f"text of {length}" if length else "text"
    words = _FORMATS.get(node.get("format", ""), words)
    return f"{words} that matches {node['pattern']}" if "pattern" in node else words


_FORMATS: Mapping[str, str] = {
    "date": "a date (2026-01-31)",
    "date-time": "a date with a time (2026-01-31T12:00:00Z)",
    "time": "a time (12:00:00)",
    "duration": "a duration (PT1H30M)",
    "uri": "an address (https://…)",
    "uuid": "a UUID",
    "path": "a path",
    "email": "an e-mail address",
}


def _list(node: Mapping[str, Any]) -> str:
    count = _count(node, "minItems", "maxItems", "item")
    items = node.get("items")
    each = f", each {expected(items)}" if items else ""
    return f"a list of {count}{each}" if count else f"a list{each}"


def _object(node: Mapping[str, Any]) -> str:
    names = [*node.get("properties", {})]
    return f"an object with {', '.join(names)}" if names else "an object"


_DESCRIBED: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "integer": functools.partial(_number, "a whole number"),
    "number": functools.partial(_number, "a number"),
    "string": _text,
    "boolean": lambda _node: "true or false",
    "array": _list,
    "object": _object,
    "null": lambda _node: "null",
}


def check_input(tool: Tool, tool_input: Mapping[str, Any], *, answered: bool = False) -> dict[str, Any]:
    """The input in the tool's own spelling; ToolError names the field that does not fit and what it must be.

    `answered`: it did not come from the model, so it may hold the user's answer.
    """
    if set(tool_input) == {INVALID_JSON}:
        raise ToolError(
            f"The input of {tool.name} was not valid JSON; nothing was run. Send the whole call again.",
            code=ErrorCode.INVALID_PARAMETERS,
            details={"raw": str(tool_input[INVALID_JSON])[:500]},
        )
    values = tool.canonical(tool_input)
    if tool.check is not None:
        tool.check(values)
        return values
    import fastjsonschema  # not needed before the first call

    schema = tool.answered_schema if answered and tool.answered_schema is not None else tool.input_schema
    try:
        _validator(json.dumps(schema))(values)
    except fastjsonschema.JsonSchemaValueException as error:
        field = path_of(error.path[1:])
        problem = problem_of(field, error.rule or "", error.definition, error.value)
        raise ToolError(
            f"{tool.name} was not run: {problem}.",
            code=ErrorCode.INVALID_PARAMETERS,
            details={"field": field or "input", "problem": problem},
        ) from error
    return values


@functools.lru_cache(maxsize=256)
def _validator(schema: str) -> Callable[[Any], Any]:
    return compile_schema(json.loads(schema))


def compile_schema(schema: Mapping[str, Any]) -> Callable[[Any], Any]:
    """A function that raises fastjsonschema's JsonSchemaValueException for a value that does not fit `schema`.

    Raises its JsonSchemaDefinitionException for what is no schema, and for one that refers to another document: whoever
    wrote it would have this machine open an address, or a file.
    """
    import fastjsonschema

    def refuse(address: str) -> Any:
        raise fastjsonschema.JsonSchemaDefinitionException(f"a schema may not refer to {address}")

    check: Callable[[Any], Any] = fastjsonschema.compile(
        dict(schema), use_default=False, handlers=dict.fromkeys(_SCHEMES, refuse)
    )
    return check


_SCHEMES = ("", "http", "https", "file", "ftp", "data")
"""All that urllib opens."""
