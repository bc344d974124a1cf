"""Typed tool inputs: a class of fields is the schema that Claude sees, the check of what it sends, and the defaults.

msgspec and not pydantic: 16 ms instead of 140 ms for its import and the schemas of thirty tools.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import sys
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import msgspec

from cellwright.text import lazy_pattern

Input = TypeVar("Input", bound="ToolInput")

WRITTEN_SCHEMAS = Path(__file__).with_name("input_schemas.json")
"""The schemas of our own inputs: working out forty of them took 20 ms of each start. `tests/house/test_input_schemas.py`
writes them, and says where one is no longer what its class says."""


FIELDS: Mapping[str, tuple[str, ...]] = {
    # files and folders
    "path": ("file_path", "notebook_path"),
    "file": ("file_path", "notebook_path", "path"),
    "file_path": ("path", "notebook_path"),
    "filename": ("file_path", "notebook_path", "path"),
    "target_file": ("file_path", "path"),
    "absolute_path": ("file_path", "notebook_path", "path"),
    "notebook": ("notebook_path",),
    "directory": ("path", "working_directory"),
    "dir": ("path", "working_directory"),
    "dir_path": ("path", "working_directory"),
    "directory_path": ("path", "working_directory"),
    "folder": ("path", "working_directory"),
    "search_path": ("path",),
    "workdir": ("working_directory", "path"),
    "working_dir": ("working_directory", "path"),
    "working_directory": ("path",),
    "cwd": ("working_directory", "path"),
    # text and edits
    "old_str": ("old_string",),
    "old_text": ("old_string",),
    "new_str": ("new_string",),
    "new_text": ("new_string",),
    "contents": ("content",),
    "file_text": ("content",),
    "text": ("content",),
    "source": ("new_source", "code"),
    "new_content": ("new_source",),
    "python_code": ("code",),
    # searches
    "regex": ("pattern",),
    "regexp": ("pattern",),
    "search_pattern": ("pattern",),
    "glob_pattern": ("pattern",),
    "search_term": ("query", "pattern"),
    "search_query": ("query", "pattern"),
    "query": ("pattern",),
    "ignore_case": ("-i",),
    "case_insensitive": ("-i",),
    "case_sensitive": ("-i",),
    "i": ("-i",),
    "context_after": ("-A",),
    "after_context": ("-A",),
    "lines_after": ("-A",),
    "A": ("-A",),
    "context_before": ("-B",),
    "before_context": ("-B",),
    "lines_before": ("-B",),
    "B": ("-B",),
    "context_around": ("-C",),
    "context_lines": ("-C",),
    "C": ("-C",),
    "show_line_numbers": ("-n",),
    "line_numbers": ("-n",),
    "n": ("-n",),
    "only_matching": ("-o",),
    "max_results": ("head_limit", "limit"),
    "max_matches": ("head_limit", "limit"),
    "max_count": ("head_limit", "limit"),
    "limit": ("head_limit",),
    "head_limit": ("limit",),
    "file_patterns": ("glob", "pattern"),
    "file_pattern": ("glob", "pattern"),
    "include_patterns": ("glob", "pattern"),
    "include_pattern": ("glob", "pattern"),
    "include": ("glob", "pattern"),
    "exclude_patterns": ("ignore", "exclude"),
    "exclude_pattern": ("ignore", "exclude"),
    "ignore_patterns": ("ignore", "exclude"),
    "exclude": ("ignore",),
    "ignore": ("exclude",),
    # parts of files
    "start_line": ("offset",),
    "line_start": ("offset",),
    "end_line": ("limit",),
    "line_end": ("limit",),
    "max_lines": ("limit",),
    # commands
    "cmd": ("command",),
    "shell_command": ("command",),
    "background": ("run_in_background",),
    "is_background": ("run_in_background",),
    "timeout_ms": ("timeout",),
    "timeout_seconds": ("timeout",),
    "env": ("environment_variables",),
    "environment": ("environment_variables",),
    # agents, skills and lists
    "agent_type": ("subagent_type",),
    "agent": ("subagent_type",),
    "task": ("prompt",),
    "skill_name": ("skill",),
    "todo_list": ("todos",),
    "items": ("todos",),
}
"""The fields that a name may mean where a tool has none of that name, the likeliest first: other agents use other names.

A field that is given is never overridden. Names are applied before a call is checked and judged, so that permissions,
hooks and transcripts know the fields that are meant.

Written with capitals (`filePath`) or dashes, a field's own name needs no row.
"""


_HUMP = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])")


class ToolInput(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The input of a tool, one attribute a field; subclass it and name the subclass as the parameter of a `@tool` function.

    A field's type hint says what it may hold, `msgspec.Meta` its bounds and its description for Claude; one with a default
    may be left out or be null. `aliases` maps other names of this input's fields to ours, besides those that hold for all
    tools (`FIELDS`); `ignored` names fields that other programs send and that mean nothing here. Any other field is
    an error that Claude is told of.

    >>> class GreetInput(ToolInput):
    ...     aliases: ClassVar = {"who": "name"}
    ...     name: typing.Annotated[str, msgspec.Meta(description="Whom to greet.")]
    ...     times: typing.Annotated[int, msgspec.Meta(ge=1)] = 1
    >>> GreetInput.from_json({"who": "Ada", "times": None})
    GreetInput(name='Ada', times=1)
    """

    aliases: ClassVar[Mapping[str, str]] = {}
    ignored: ClassVar[Sequence[str]] = ()

    @classmethod
    def from_json(cls: type[Input], values: Mapping[str, Any]) -> Input:
        """The input that the JSON object `values` holds. Raises ValueError where it does not fit the schema."""
        # not strict: JSON Schema, which inputs were checked by, takes 3.0 for a whole number
        return msgspec.convert(cls.canonical(values), cls, strict=False)

    @classmethod
    def canonical(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """`values` in our spelling of the fields, without what is ignored and without optional fields that are null."""
        fields = _fields(cls)
        named = {cls.aliases.get(key, key): value for key, value in values.items() if key not in cls.ignored}
        # said in both spellings: ours counts
        named |= {key: value for key, value in values.items() if key in fields}
        kept: dict[str, Any] = {}
        for name, value in with_own_fields(named, fields).items():
            if name not in fields:
                kept[name] = value
                continue
            field = fields[name]
            if value is None and field.optional:
                continue
            kept[name] = value if field.inner is None else _canonical_within(field.inner, value)
        return kept

    @classmethod
    def foreign_fields(cls) -> set[str]:
        """The names of fields that are taken although the schema does not have them, those of inner objects included."""
        inner = (field.inner.foreign_fields() for field in _fields(cls).values() if field.inner is not None)
        return {*cls.aliases, *cls.ignored}.union(*inner)


def _pattern(value: Any) -> Any:
    """One glob for a list of them."""
    if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
        return value
    return value[0] if len(value) == 1 else f"{{{','.join(value)}}}"


def _milliseconds(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value * 1_000) if is_number and 0 < value < 1e9 else value


_VALUES: Mapping[tuple[str, str], Callable[[Any], Any]] = {
    ("case_sensitive", "-i"): lambda value: not value if isinstance(value, bool) else value,
    ("timeout_seconds", "timeout"): _milliseconds,
    **{
        (name, field): _pattern
        for name in FIELDS
        if name.startswith(("file_pattern", "include"))
        for field in FIELDS[name]
    },
    **dict.fromkeys(
        ((name, field) for name, fields in FIELDS.items() for field in fields if field in ("ignore", "exclude")),
        lambda value: [value] if isinstance(value, str) else value,
    ),
}
"""The changes of values that are said otherwise under another name."""


def with_own_fields(values: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """`values` under the names of `fields`, where theirs are other names for one; the rest is left as it is."""
    if all(name in fields for name in values):
        return dict(values)
    spelled = {spelling_of(field): field for field in fields}
    found: dict[str, Any] = {name: value for name, value in values.items() if name in fields}
    for name, value in values.items():
        if name in fields:
            continue
        own = spelled.get(spelling_of(name))
        if not own:
            meant = FIELDS.get(name) or FIELDS.get(snake_case(name), ())
            own = next((field for field in meant if field in fields), None)
        if own is None or (own in found and own not in values):  # two other names for one field: which is meant?
            found[name] = value
        elif own not in values:
            changed = _VALUES.get((snake_case(name), own))
            found[own] = value if changed is None else changed(value)
    return _as_count(values, found, fields)


def _as_count(values: Mapping[str, Any], found: dict[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """The number of lines where the last line was said instead."""
    said_last = next(
        (name for name in values if snake_case(name) in ("end_line", "line_end") and name not in fields), None
    )
    if said_last is None or "limit" in values or "limit" not in found or values[said_last] is not found["limit"]:
        return found
    first, last = found.get("offset", 1), found["limit"]
    if all(isinstance(each, int) and not isinstance(each, bool) for each in (first, last)) and 1 <= first <= last:
        found["limit"] = last - first + 1
    return found


def snake_case(name: str) -> str:
    """`filePath` and `file-path` as `file_path`."""
    return _HUMP.sub("_", name).replace("-", "_").lower() if len(name) > 1 else name


def spelling_of(name: str) -> str:
    """The same for all spellings of a name: `filePath`, `file-path`, `file_path`."""
    return name if name.startswith("-") else name.replace("_", "").replace("-", "").lower()  # not -A for -a


def _canonical_within(inner: type[ToolInput], value: Any) -> Any:
    if isinstance(value, Mapping):
        return inner.canonical(value)
    return [_canonical_within(inner, item) for item in value] if isinstance(value, list) else value


class _Field(NamedTuple):
    """A field of an input: its type hint, the input type that its value consists of, and whether it may be left out."""

    hint: Any
    inner: type[ToolInput] | None
    optional: bool


@functools.cache
def _read_hints(input_type: type[ToolInput]) -> None:
    """Have the hints of a class be types: each look at texts, as modules keep them, compiles them: 10 ms in all."""
    for each in input_type.__mro__:
        if issubclass(each, ToolInput):
            # names as msgspec looks them up: a field may be called as a type of the module is
            module = vars(sys.modules[each.__module__])
            with contextlib.suppress(NameError):  # msgspec says of which class it is
                each.__annotations__ = inspect.get_annotations(
                    each, globals=dict(vars(each)), locals=module, eval_str=True
                )
    for hint in input_type.__annotations__.values():
        if (inner := _input_type_in(hint)) is not None:
            _read_hints(inner)


@functools.cache
def _fields(input_type: type[ToolInput]) -> dict[str, _Field]:
    """The fields by their names in JSON."""
    _read_hints(input_type)
    return {
        field.encode_name: _Field(field.type, _input_type_in(field.type), not field.required)
        for field in msgspec.structs.fields(input_type)
    }


def _input_type_in(hint: Any) -> type[ToolInput] | None:
    if isinstance(hint, type) and issubclass(hint, ToolInput):
        return hint
    return next((found for part in typing.get_args(hint) if (found := _input_type_in(part))), None)


def json_schema(input_type: type[ToolInput], changes: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """The JSON Schema of an input (draft 2020-12), without references, titles and nulls, which cost tokens.

    `changes` are keywords by field, for what a session's settings decide: a bound, the description that names it.
    """
    schema = _schema(input_type)
    properties = dict(schema["properties"])
    for name, keywords in (changes or {}).items():
        properties[name] = {**properties[name], **keywords}
    return {**schema, "properties": properties}


@functools.lru_cache(maxsize=256)  # half a millisecond each, and each agent that is started has all tools made anew
def _schema(input_type: type[ToolInput]) -> Mapping[str, Any]:
    if input_type.__module__.startswith("cellwright.") and (written := _written_schemas().get(full_name(input_type))):
        return written
    return schema_of(input_type)


@functools.cache
def _written_schemas() -> Mapping[str, Mapping[str, Any]]:
    schemas: Mapping[str, Mapping[str, Any]] = json.loads(WRITTEN_SCHEMAS.read_bytes())
    return schemas


def written_schema(name: str) -> dict[str, Any]:
    """The schema of one of our own inputs, by the `full_name` of its class."""
    return {**_written_schemas()[name]}


def full_name(input_type: type[ToolInput]) -> str:
    """The name that the schema of one of our own inputs is written under."""
    return f"{input_type.__module__}.{input_type.__qualname__}"


def schema_of(input_type: type[ToolInput]) -> Mapping[str, Any]:
    """The schema as the class says it."""
    _read_hints(input_type)
    (schema,), components = msgspec.json.schema_components([input_type], ref_template="{name}")
    found: dict[str, Any] = _inlined(schema, components)
    _restore_order(input_type, found)
    return found


def _restore_order(input_type: type[ToolInput], schema: Mapping[str, Any]) -> None:
    """Put the values of each enumeration back into the order they were written in: msgspec sorts them."""
    if "'enum'" not in repr(schema):
        return  # reading the type hints of a class takes half a millisecond, and most have none
    for name, field in _fields(input_type).items():
        node = schema["properties"][name]
        if field.inner is not None:
            _restore_order(field.inner, node.get("items", node))
        elif "enum" in node:
            node["enum"].sort(key=[*_literals(field.hint), *node["enum"]].index)


def _literals(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) is typing.Literal:
        return typing.get_args(hint)
    return next((found for part in typing.get_args(hint) if (found := _literals(part))), ())


def _inlined(node: Any, components: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, components) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        # a class's docstring is for those who read the code
        component = {
            key: value for key, value in components[node["$ref"]].items() if key not in ("title", "description")
        }
        component.setdefault("properties", {})
        return {**_inlined(component, components), **{key: value for key, value in node.items() if key != "$ref"}}
    if "default" in node:
        node = _with_default(node)
    return {
        key: {name: _inlined(field, components) for name, field in value.items()}
        if key == "properties"
        else _inlined(value, components)
        for key, value in node.items()
    }


def _with_default(node: Mapping[str, Any]) -> dict[str, Any]:
    """An optional field: what is left out is the default, so that null need not be offered, nor an empty default be told."""
    kept = dict(node)
    if kept["default"] in (None, "", [], (), {}):
        del kept["default"]
    branches = [branch for branch in kept.get("anyOf", ()) if branch != {"type": "null"}]
    if len(branches) == 1:
        del kept["anyOf"]
        kept = {**branches[0], **kept}
    return kept
