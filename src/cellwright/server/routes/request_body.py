"""Bodies of requests, held against the OpenAPI description: what it says is what is taken."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cellwright.server.api_error import RouteError

_MESSAGE_CHARS = 300
_FILE = Path(__file__).with_name("openapi.json")


@functools.cache
def description() -> dict[str, Any]:
    """The OpenAPI description as it is in the package; `servers` is filled in for each server."""
    content: dict[str, Any] = json.loads(_FILE.read_text("utf-8"))
    return content


@functools.cache
def _validator(schema: str) -> Callable[[Any], Any]:
    import fastjsonschema  # most servers never take a body

    whole = {"$ref": f"#/components/schemas/{schema}", "components": description()["components"]}
    validator: Callable[[Any], Any] = fastjsonschema.compile(whole, use_default=False, use_formats=False)
    return validator


def checked_body(body: bytes, schema: str) -> dict[str, Any]:
    """`body` as JSON of that form. Raises ApiError 400: where it is wrong and what was expected."""
    import fastjsonschema

    try:
        content = json.loads(body or b"{}", parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise RouteError(400, "INVALID_PARAMETERS", f"The body is not valid JSON: {error}") from error
    try:
        _validator(schema)(content)
    except fastjsonschema.JsonSchemaValueException as problem:
        name = str(problem.name)
        where = name.removeprefix("data").removeprefix(".")
        said = f"The body{where and ' at ' + where} {_shortened(problem.message.removeprefix(name).lstrip())}"
        raise RouteError(400, "INVALID_PARAMETERS", said) from None
    return _with_whole_characters(content) if b"\\u" in body else content  # type: ignore[no-any-return]


def _shortened(message: str) -> str:
    """The beginning and the end of `message`: names that a caller made up may stand in it."""
    return message if len(message) <= _MESSAGE_CHARS else f"{message[:100]} … {message[100 - _MESSAGE_CHARS :]}"


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not valid JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is too large a number")
    return number


def _with_whole_characters(content: Any) -> Any:
    """Halves of surrogate pairs, which JSON's escapes can write, are no text in UTF-8: no kernel takes them."""
    text = json.dumps(content, ensure_ascii=False)
    return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
