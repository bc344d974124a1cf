"""An answer as a value of a type that the user has: its schema for the API, and how its text is read.

A dict is taken as a JSON schema, and checked by fastjsonschema; everything else is what pydantic can make an adapter of:
models, dataclasses, TypedDicts, `list[Model]`, `Literal[…]`. pydantic is only imported for those.
"""

from __future__ import annotations

import functools
import json
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from cellwright.agent.calls.check_input import compile_schema
from cellwright.agent.structured_output.schema import api_schema, refusal

SHOWN_CHARS = 2_000
"""The number of characters of an answer's problem that Claude and the user are told."""


class AnswerProblem(ValueError):
    """Raised for a text that is no value of the type, with the reason in words for Claude."""


class AnswerType(Struct, frozen=True):
    """The type an answer has to be of. `name` is for people, `schema` is the API's; `read` raises `AnswerProblem`."""

    name: str
    schema: Mapping[str, Any]
    read: Callable[[str], Any]

    @property
    def output_format(self) -> dict[str, Any]:
        """The API's `output_config.format`."""
        return {"type": "json_schema", "schema": dict(self.schema)}


def answer_type(given: Any, name: str = "") -> AnswerType:
    """The type that `given` stands for: a JSON schema, a class or annotation that pydantic knows, or a `TypeAdapter`.

    Raises `CellwrightError` INVALID_PARAMETERS when it is none of these, or cannot be had as structured output.
    """
    if isinstance(given, Mapping):
        name = name or str(given.get("title") or "given")
        return AnswerType(name, api_schema(given, name), functools.partial(_read_json, _schema_check(given, name)))
    name = name or (given.__name__ if isinstance(given, type) else str(given).replace("__main__.", ""))
    adapter, schema = _adapted(given, name)
    return AnswerType(name, api_schema(schema, name), functools.partial(_read_typed, adapter))


def _read_json(check: Callable[[Any], Any], text: str) -> Any:
    import fastjsonschema  # as for a tool's input

    try:
        value = json.loads(text)
    except ValueError as error:
        raise AnswerProblem(f"it is not JSON: {error}") from None
    try:
        check(value)
    except fastjsonschema.JsonSchemaValueException as error:
        raise AnswerProblem(error.message.replace("data", "the answer", 1)[:SHOWN_CHARS]) from None
    return value


def _schema_check(schema: Mapping[str, Any], name: str) -> Callable[[Any], Any]:
    import fastjsonschema

    try:
        return compile_schema(json.loads(json.dumps(schema)))
    except (fastjsonschema.JsonSchemaDefinitionException, TypeError, ValueError, RecursionError) as error:
        raise refusal(name, f"is not a JSON schema: {error}.", "Correct it.") from None


def _read_typed(adapter: Any, text: str) -> Any:
    import pydantic

    try:
        return adapter.validate_json(text)
    except pydantic.ValidationError as error:
        problems = [
            f"{_location(each['loc'])}: {each['msg']}" for each in error.errors(include_url=False, include_input=False)
        ]
        raise AnswerProblem("; ".join(problems)[:SHOWN_CHARS]) from None
    except Exception as error:  # a validator of the user's may raise anything at what it did not foresee
        raise AnswerProblem(f"checking it raised {type(error).__name__}: {error}"[:SHOWN_CHARS]) from error


def _location(location: tuple[int | str, ...]) -> str:
    return ".".join(map(str, location)) or "the answer"


def _adapted(given: Any, name: str) -> tuple[Any, dict[str, Any]]:
    """The pydantic adapter for `given`, and its JSON schema."""
    # half a second, and most runs have no schema
    import pydantic
    from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

    try:
        ready = isinstance(given, pydantic.TypeAdapter)
        adapter: Any = given if ready else pydantic.TypeAdapter(_with_known_dicts(given))
        return adapter, adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError, NameError) as error:
        problem = f"is not a type that an answer can have: {str(error).splitlines()[0]}."
        advice = "Give a pydantic model, a dataclass, a TypedDict, an annotation such as list[str], or a JSON schema."
        raise refusal(name, problem, advice) from None
    except RecursionError:  # a TypedDict that holds itself
        advice = "Use a flat list whose entries name their parent."
        raise refusal(name, "is recursive, which structured output cannot hold.", advice) from None


def _with_known_dicts(annotation: Any) -> Any:
    """`annotation` with `typing.TypedDict` as the one of typing_extensions: before Python 3.12 pydantic takes no other."""
    if sys.version_info >= (3, 12):
        return annotation
    if type(annotation).__module__ == "typing" and type(annotation).__name__ == "_TypedDictMeta":
        return _known_dict(annotation)
    if typing.get_origin(annotation) is typing.Annotated:
        return typing.Annotated[(_with_known_dicts(annotation.__origin__), *annotation.__metadata__)]
    arguments = typing.get_args(annotation)
    if not arguments or typing.get_origin(annotation) is typing.Literal:
        return annotation
    known = tuple(_with_known_dicts(argument) for argument in arguments)
    if known == arguments:
        return annotation
    if isinstance(annotation, types.UnionType):
        return functools.reduce(lambda one, other: one | other, known)
    if isinstance(annotation, types.GenericAlias):
        return types.GenericAlias(typing.cast("type", annotation.__origin__), known)
    return annotation.copy_with(known)


def _known_dict(given: Any) -> Any:
    import typing_extensions  # comes with pydantic

    fields = {
        key: value if key in given.__required_keys__ else typing_extensions.NotRequired[value]
        for key, value in _field_types(given).items()
    }
    made: Any = getattr(typing_extensions, "TypedDict")(given.__name__, fields)  # noqa: B009  # mypy wants the name written out
    made.__doc__ = given.__doc__
    return made


def _field_types(given: Any) -> dict[str, Any]:
    """The fields of a TypedDict with what `Annotated` says of them, without `Required` and `NotRequired` around."""
    hints = typing.get_type_hints(given, include_extras=True)
    marks = (typing.Required, typing.NotRequired)
    return {
        key: _with_known_dicts(typing.get_args(hint)[0] if typing.get_origin(hint) in marks else hint)
        for key, hint in hints.items()
    }
