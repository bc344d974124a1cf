"""A tool call's input held against the tool's JSON schema.

fastjsonschema (it comes with nbformat) and not jsonschema: 3 ms to import instead of 1.5 s, and microseconds a check.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

from cellwright.agent.tool import Tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.model.provider import INVALID_JSON


def check_input(tool: Tool, tool_input: Mapping[str, Any], *, answered: bool = False) -> None:
    """Raise a `ToolError` that names the field and what was expected, if `tool_input` does not fit the tool's schema.

    `answered`: it did not come from the model, so it may hold the user's answer.
    """
    if set(tool_input) == {INVALID_JSON}:
        raise ToolError(
            f"The input of {tool.name} was not valid JSON; nothing was run. Send the whole call again.",
            code=ErrorCode.INVALID_PARAMETERS,
            details={"raw": str(tool_input[INVALID_JSON])[:500]},
        )
    import fastjsonschema  # not needed before the first call

    schema = tool.answered_schema if answered and tool.answered_schema is not None else tool.input_schema
    try:
        _validator(json.dumps(schema, sort_keys=True))(dict(tool_input))
    except fastjsonschema.JsonSchemaValueException as error:
        field = ".".join(str(part) for part in error.path[1:]) or "input"
        expected = error.message.removeprefix(error.name or "").strip()
        raise ToolError(
            f"Invalid input for {tool.name}: {field} {expected}. Nothing was run.",
            code=ErrorCode.INVALID_PARAMETERS,
            details={"field": field, "expected": expected},
        ) from error


@functools.lru_cache(maxsize=256)
def _validator(schema: str) -> Callable[[dict[str, Any]], Any]:
    import fastjsonschema

    validator: Callable[[dict[str, Any]], Any] = fastjsonschema.compile(json.loads(schema), use_default=False)
    return validator
