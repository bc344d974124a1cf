"""An answer as a value of a type that the user has: its schema for the API, how its text is read, and the answer so far.

A dict is taken as a JSON schema, and checked by fastjsonschema; everything else is what pydantic can make an adapter of:
models, dataclasses, TypedDicts, `list[Model]`, `Literal[…]`. pydantic is only imported for those.

Source of the rules for schemas: the Messages API's documentation of `output_config.format` and the SDK's own
`transform_schema`. What the API does not enforce (`minimum`, `maxLength`, …) is told to the model in the description, and
its answer is checked; what it cannot express (free keys, any value, recursion) is refused.

Not here: types of the user's namespace by name (`kernel/magic`).
"""

from __future__ import annotations

import functools
import json
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from cellwright.agent.calls.input_schema import compile_schema
from cellwright.errors import CellwrightError, ErrorCode

Schema = Mapping[str, Any]

TYPES: Final = ("object", "array", "string", "integer", "number", "boolean", "null")
FORMATS: Final = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
DEFINITIONS: Final = ("$defs", "definitions")

FREE_KEYS: Final = ("patternProperties", "propertyNames", "unevaluatedProperties")
"""Keywords of objects whose keys are not known beforehand."""

_SILENT: Final = ("$schema", "$id", "$comment", "discriminator", "readOnly", "writeOnly", "deprecated")
"""Keywords that say nothing of the value."""

SHOWN_CHARS = 2_000
"""The number of characters of an answer's problem that Claude and the user are told."""

MAX_PAUSES = 10
"""The number of times a `pause_turn` is answered by going on before the run is given up."""

MAX_CONTINUATIONS = 3
"""The number of times an answer that met the output limit is taken up again."""


ASK_AGAIN = (
    "Your answer does not fit the schema that it must have: {problem}. Give the whole answer again, so that it fits."
)
CUT_OFF = "it was cut off at the output limit"


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
            said = []
            for word, value in left.items():
                shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
                said.append(f"{word}: {shown}")
            notes.append("{" + ", ".join(said) + "}")
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
                value = left.pop(word)
                values = value if word == "enum" else [value]
                if not values or not all(each is None or isinstance(each, str | int | float | bool) for each in values):
                    raise self._refusal(
                        path, f"`{word}` with lists or objects", "Use strings, numbers, booleans or null."
                    )
                return {word: list(values) if word == "enum" else value}
        for word in ("anyOf", "oneOf"):
            if word in left:
                left.pop("type", None)
                variants = enumerate(left.pop(word))
                return {"anyOf": [self.schema(each, f"{path}/{word}/{place}") for place, each in variants]}
        kind = left.pop("type", "object" if "properties" in left else None)
        if isinstance(kind, list):
            # each with the keywords that say something of a value of this type
            fitting = [
                {"type": each, **{word: value for word, value in left.items() if word in _OF_TYPE.get(each, ())}}
                for each in kind
            ]
            left.clear()
            return {"anyOf": [self.schema(each, path) for each in fitting]}
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
    try:
        return compile_schema(json.loads(json.dumps(schema)))
    except (TypeError, ValueError, RecursionError) as error:  # fastjsonschema's are ValueErrors
        raise refusal(name, f"is not a JSON schema: {error}.", "Correct it.") from None


def _read_typed(adapter: Any, text: str) -> Any:
    import pydantic

    try:
        return adapter.validate_json(text)
    except pydantic.ValidationError as error:
        problems = [
            f"{'.'.join(map(str, each['loc'])) or 'the answer'}: {each['msg']}"
            for each in error.errors(include_url=False, include_input=False)
        ]
        raise AnswerProblem("; ".join(problems)[:SHOWN_CHARS]) from None
    except Exception as error:  # a validator of the user's may raise anything at what it did not foresee
        raise AnswerProblem(f"checking it raised {type(error).__name__}: {error}"[:SHOWN_CHARS]) from error


def _adapted(given: Any, name: str) -> tuple[Any, dict[str, Any]]:
    """The pydantic adapter for `given`, and its JSON schema."""
    # half a second, and most runs have no schema
    import pydantic

    try:
        ready = isinstance(given, pydantic.TypeAdapter)
        adapter: Any = given if ready else pydantic.TypeAdapter(_with_known_dicts(given))
        return adapter, adapter.json_schema()
    except (pydantic.errors.PydanticUserError, TypeError, NameError) as error:
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


class AnswerCheck:
    """One run's answer against its type, if it has one. Claude is asked again once, then the run fails."""

    def __init__(self, answer_type: AnswerType | None) -> None:
        self._type = answer_type
        self._asked_again = False

    @property
    def output_format(self) -> dict[str, Any] | None:
        """The API's `output_config.format`; None: any text is an answer."""
        return None if self._type is None else self._type.output_format

    def again(self, text: str, *, may_ask: bool) -> str | None:
        """Return what to ask Claude after the answer `text`, or None when it is as it should be.

        Raises `CellwrightError` when it is not, and was asked for before or may not be (`may_ask`).
        """
        if self._type is None:
            return None
        try:
            self._type.read(text)
        except AnswerProblem as problem:
            return self._asking(self._type, str(problem), may_ask)
        return None

    def after_cut(self, go_on: str, *, may_ask: bool) -> str:
        """Return what to ask after a cut-off answer: half of a value is none, other texts go on (`go_on`)."""
        return go_on if self._type is None else self._asking(self._type, CUT_OFF, may_ask)

    def _asking(self, answer_type: AnswerType, problem: str, may_ask: bool) -> str:
        if self._asked_again or not may_ask:
            raise _does_not_fit(answer_type, problem, asked_again=self._asked_again)
        self._asked_again = True
        return ASK_AGAIN.format(problem=problem)


def _does_not_fit(answer_type: AnswerType, problem: str, *, asked_again: bool) -> CellwrightError:
    again = "also when it was asked for again" if asked_again else "and no request is left to ask for it again"
    message = (
        f"Claude's answer is not a valid {answer_type.name}, {again}: {problem}. Its text is kept in the conversation."
    )
    details = {"schema": answer_type.name, "problem": problem}
    return CellwrightError(ErrorCode.EXECUTION_ERROR, message, details=details, recoverable=True)


class RunAnswer:
    """`text` is the last answer; `continues` says that the next message is a part of it. `check` holds it to its type."""

    def __init__(self, answer_type: AnswerType | None) -> None:
        self.check = AnswerCheck(answer_type)
        self.text = ""
        self.continues = False
        self._pauses = 0
        self._continuations = 0

    def take(self, content: Sequence[dict[str, Any]]) -> None:
        """Add the text of a message."""
        text = "".join(block["text"] for block in content if block["type"] == "text")
        self.text = self.text + text if self.continues else text
        self.continues = False

    def pause(self) -> bool:
        """Note that the model has paused; return whether the run may continue."""
        self._pauses += 1
        self.continues = True
        return self._pauses <= MAX_PAUSES

    def cut_off(self, *, continues: bool) -> bool:
        """Note that the answer met the output limit; return whether it may be taken up once more."""
        self._continuations += 1
        self.continues = continues
        return self._continuations <= MAX_CONTINUATIONS
