"""Bodies of requests, held against the OpenAPI description: what it says is what is taken."""

from __future__ import annotations

import functools
import json
import math
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
def _validator(schema: str) -> Any:
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # heavy; most servers never take a body

    components = description()["components"]
    return Draft202012Validator({"$ref": f"#/components/schemas/{schema}", "components": components})


def checked_body(body: bytes, schema: str) -> dict[str, Any]:
    """`body` as JSON of that form. Raises ApiError 400: where it is wrong and what was expected."""
    try:
        content = json.loads(body or b"{}", parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise RouteError(400, "INVALID_PARAMETERS", f"The body is no JSON: {error}") from error
    problem = next(iter(_validator(schema).iter_errors(content)), None)
    if problem is not None:
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem.absolute_path)
        said = f"The body{where and ' at ' + where.lstrip('.')}: {_shortened(problem.message)}"
        raise RouteError(400, "INVALID_PARAMETERS", said)
    return _with_whole_characters(content) if b"\\u" in body else content  # type: ignore[no-any-return]


def _shortened(message: str) -> str:
    """What is wrong stands at the end, behind the value that it is about, which may be long."""
    return message if len(message) <= _MESSAGE_CHARS else f"{message[:100]} … {message[100 - _MESSAGE_CHARS :]}"


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is too large a number")
    return number


def _with_whole_characters(content: Any) -> Any:
    """Halves of surrogate pairs, which JSON's escapes can write, are no text in UTF-8: no kernel takes them."""
    text = json.dumps(content, ensure_ascii=False)
    return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
