"""`@tool`: a tool from a plain function. The schema comes from its type hints, the descriptions from its docstring."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any, overload

from cellwright.agent.tool import Content, Tool, ToolContext, ToolError, ToolLimits, ToolResult
from cellwright.errors import CellwrightError, ErrorCode

TOOL_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
"""What the Messages API takes as a tool's name."""


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    read_only: bool = False,
    rule_key: str = "",
    limits: ToolLimits | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    read_only: bool = False,
    rule_key: str = "",
    limits: ToolLimits | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a `Tool` of a function, sync or async.

    Each parameter needs a type hint that pydantic knows; the docstring's first part describes the tool, its `Args:` the
    parameters (Google, NumPy or reST style). A parameter hinted `ToolContext` gets the call's context and is no input.
    A sync function runs in a worker thread. What it returns goes to Claude: a string, content blocks, a `ToolResult`, or
    anything that JSON can hold. To tell Claude what is wrong, raise `ToolError`.

    `read_only=True` says that the function changes nothing: it may run in parallel and is not asked for.
    `rule_key` names the parameter that permission rules such as `Weather(Oslo)` match.

    >>> @tool(read_only=True)
    ... def add(a: int, b: int = 1) -> int:
    ...     '''Add two numbers.
    ...
    ...     Args:
    ...         a: the first
    ...     '''
    ...     return a + b
    >>> add.name, add.description, add.input_schema["required"]
    ('add', 'Add two numbers.', ['a'])
    """

    def make(function: Callable[..., Any]) -> Tool:
        return _from_function(
            function, name or function.__name__, description, read_only, rule_key, limits or ToolLimits()
        )

    return make(function) if function is not None else make


def _from_function(
    function: Callable[..., Any], name: str, description: str, read_only: bool, rule_key: str, limits: ToolLimits
) -> Tool:
    if not TOOL_NAME.match(name):
        raise _unusable(name, "a tool's name has 1 to 64 letters, digits, `_` or `-`; give one with @tool(name=…)")
    doc, parameter_docs = _docstring(function)
    description = description or doc
    if not description:
        raise _unusable(name, "Claude needs a description: give the function a docstring, or @tool(description=…)")
    model, context_name = _input_model(function, name, parameter_docs)
    schema = _tidy(model.model_json_schema())
    if rule_key and rule_key not in schema["properties"]:
        raise _unusable(name, f"rule_key {rule_key!r} is none of its parameters")

    async def call(tool_input: dict[str, Any], ctx: ToolContext) -> ToolResult | Content:
        arguments = _parse(model, tool_input)
        if context_name:
            arguments[context_name] = ctx
        if inspect.iscoroutinefunction(function):
            value = await function(**arguments)
        else:
            value = await asyncio.to_thread(functools.partial(function, **arguments))
        return _content(value)

    return Tool(
        name=name,
        description=description,
        input_schema=schema,
        call=call,
        read_only=read_only,
        rule_key=rule_key,
        limits=limits,
    )


def _unusable(name: str, why: str) -> CellwrightError:
    return CellwrightError(ErrorCode.CONFIG_INVALID, f"the function {name} cannot be a tool: {why}")


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    import docstring_parser  # 30 ms that only users of @tool pay

    parsed = docstring_parser.parse(inspect.getdoc(function) or "")
    text = "\n\n".join(part for part in (parsed.short_description, parsed.long_description) if part)
    return text, {p.arg_name: p.description for p in parsed.params if p.description}


def _input_model(function: Callable[..., Any], name: str, docs: Mapping[str, str]) -> tuple[Any, str]:
    """A pydantic model of the parameters, and the name of the one that wants the context ("" if none does)."""
    import pydantic  # 40 ms that only users of @tool pay

    hints = typing.get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    context_name = ""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise _unusable(name, f"parameter {parameter.name} has no name Claude could use")
        if parameter.name not in hints:
            raise _unusable(name, f"parameter {parameter.name} has no type hint")
        if hints[parameter.name] is ToolContext:
            context_name = parameter.name
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (
            hints[parameter.name],
            pydantic.Field(default, description=docs.get(parameter.name)),
        )
    try:
        model = pydantic.create_model(name, __config__=pydantic.ConfigDict(extra="forbid"), **fields)
        model.model_json_schema()
    except (pydantic.errors.PydanticUserError, NameError) as error:
        raise _unusable(name, f"a type hint has no JSON schema ({error})") from error
    return model, context_name


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    """Without the titles that pydantic makes of the names: they cost tokens and say nothing."""

    def strip(node: Any, *, names: bool = False) -> Any:
        if isinstance(node, dict):
            return {
                key: strip(value, names=key in ("properties", "$defs") and not names)
                for key, value in node.items()
                if names or key != "title"
            }
        return [strip(item) for item in node] if isinstance(node, list) else node

    tidy: dict[str, Any] = strip(schema)
    tidy.setdefault("properties", {})
    return tidy


def _parse(model: Any, tool_input: Mapping[str, Any]) -> dict[str, Any]:
    import pydantic

    try:
        parsed = model.model_validate(dict(tool_input))
    except pydantic.ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, item['loc'])) or 'input'}: {item['msg']}" for item in error.errors(include_url=False)
        )
        raise ToolError(f"The input does not fit: {problems}", code=ErrorCode.INVALID_PARAMETERS) from error
    return {field: getattr(parsed, field) for field in type(parsed).model_fields}


_BLOCKS = ("text", "image", "document")


def _is_block(item: Any) -> bool:
    # data can have a "type" too
    return isinstance(item, dict) and item.get("type") in _BLOCKS


def _content(value: Any) -> ToolResult | Content:
    if isinstance(value, ToolResult | str):
        return value
    if isinstance(value, list) and value and all(_is_block(item) for item in value):
        return value
    if value is None:
        return "(no result)"
    return json.dumps(value, ensure_ascii=False, default=str)
