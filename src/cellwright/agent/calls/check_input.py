"""A tool call's input held against the tool's JSON schema.

fastjsonschema (it comes with nbformat) and not jsonschema: 3 ms to import instead of 1.5 s, and microseconds a check.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

from cellwright.agent.calls.offered_schema import path_of, problem_of
from cellwright.agent.tool import Tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.model.provider import INVALID_JSON


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
