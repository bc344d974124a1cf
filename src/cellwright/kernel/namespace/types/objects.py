"""Descriptions of objects of unknown classes (dataclasses, models, anything with attributes), and of code.

Code is functions, classes, modules and generators: what they are called with, what they say of themselves, where they
stand.
"""

from __future__ import annotations

import inspect
import io
import itertools
import types
from collections.abc import Iterator
from typing import Any

from IPython.core.getipython import get_ipython

from cellwright.kernel.namespace.cell_names import cell_of_file
from cellwright.kernel.namespace.types.description import (
    Description,
    class_vars,
    classes,
    in_columns,
    module_name,
    own_vars,
    short_name,
    static,
    type_name,
)
from cellwright.kernel.namespace.types.plain_values import brief, named

MAX_ATTRIBUTES = 30


def describe_object(value: Any) -> Description:
    """Any object: its type, and its own attributes without those that are made when they are asked for."""
    if BaseException in classes(value):
        return Description(type_name(type(value)), summary=brief(BaseException.args.__get__(value)))  # type: ignore[attr-defined]
    if io.IOBase in classes(value) and module_name(type(value)) in ("_io", "io"):
        return _file(value)
    attributes = _fields(value)
    words = ", ".join(f"{name}={named(name, item, 40, 1)}" for name, item in itertools.islice(attributes.items(), 6))
    more = ", …" if len(attributes) > 6 else ""
    return Description(
        type_name(type(value)),
        summary=f"{short_name(type(value))}({words}{more})" if attributes else "",
        more=lambda: attribute_lines(attributes),
    )


def _fields(value: object) -> dict[str, Any]:
    """Return what the object holds: the fields of a dataclass or model in order, else all of its own attributes."""
    own = own_vars(value)
    for declared in ("__dataclass_fields__", "__pydantic_fields__", "model_fields", "__struct_fields__"):
        names = static(value, declared)
        if type(names) in (dict, tuple):
            return {name: own[name] for name in names if name in own}
    kept = [name for name in own if not name.startswith(("_sa_", "__"))]
    return {name: own[name] for name in sorted(kept, key=lambda name: name.startswith("_"))}


def attribute_lines(attributes: dict[str, Any]) -> Iterator[str]:
    """One line for each attribute, with its type and as much of its value as is safe to tell."""
    rows = [
        (f".{name}", short_name(type(item)), named(name, item, 120, 2))
        for name, item in itertools.islice(attributes.items(), MAX_ATTRIBUTES)
    ]
    if rows:
        yield from in_columns(rows)
    if len(attributes) > MAX_ATTRIBUTES:
        yield f"… {len(attributes) - MAX_ATTRIBUTES:,} more attributes"


def _file(value: Any) -> Description:
    name = getattr(value, "name", None)
    state = "closed" if value.closed else "open"
    return Description(
        type_name(type(value)), summary=f"{brief(name, 120) if name is not None else ''} {state}".strip()
    )


MAX_NAMES = 20

_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
_PAUSED = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


def describe_code(value: Any) -> Description | None:
    """A description of code; None for a value that is none."""
    kind = type(value)
    if kind in _FUNCTIONS:
        return _function(value)
    if type in classes(value):
        return _class(value)
    if kind is types.ModuleType:
        return _module(value)
    if kind in _PAUSED:
        return Description(short_name(kind), summary=f"{_name(value)}, not run by looking at it")
    return None


def _function(value: Any) -> Description:
    plain = value.__func__ if type(value) is types.MethodType else value
    if type(plain) is not types.FunctionType:
        return Description("builtin", summary=f"{_name(plain)}(…)", more=lambda: _docstring_line(plain))
    kind = "async function" if inspect.iscoroutinefunction(plain) else "function"
    return Description(kind, summary=f"{plain.__name__}{signature(plain)}", more=lambda: _function_lines(plain))


def _function_lines(function: types.FunctionType) -> Iterator[str]:
    yield from _docstring_line(function)
    yield f"defined in {_file_in_words(function.__code__.co_filename)}, line {function.__code__.co_firstlineno}"


def _file_in_words(file: str) -> str:
    """A file's name; of a cell, the name that tracebacks have for it."""
    shell = get_ipython()
    words = cell_of_file(shell, file) if shell is not None else None
    return " ".join(words) if words else file


def _docstring_line(value: Any) -> Iterator[str]:
    """The first line of a docstring."""
    doc = value.__doc__
    if type(doc) is str and (lines := doc.strip().splitlines()):
        yield lines[0][:300]


def signature(function: types.FunctionType) -> str:
    """The parameters of a function, from its code: `inspect.signature` would have defaults describe themselves."""
    code, defaults = function.__code__, function.__defaults__ or ()
    names = list(code.co_varnames)
    count = code.co_argcount
    parts: list[str] = []
    for index, name in enumerate(names[:count]):
        position = index - (count - len(defaults))
        parts.append(_parameter(function, name, defaults[position:]) if position >= 0 else _parameter(function, name))
        if index + 1 == code.co_posonlyargcount:
            parts.append("/")
    after = count + code.co_kwonlyargcount
    if code.co_flags & inspect.CO_VARARGS:
        parts.append(f"*{names[after]}")
        after += 1
    elif code.co_kwonlyargcount:
        parts.append("*")
    keyword_defaults = function.__kwdefaults__ or {}
    for name in names[count : count + code.co_kwonlyargcount]:
        given = (keyword_defaults[name],) if name in keyword_defaults else ()
        parts.append(_parameter(function, name, given))
    if code.co_flags & inspect.CO_VARKEYWORDS:
        parts.append(f"**{names[after]}")
    text = ", ".join(parts)
    return f"({text if len(text) < 400 else text[:400] + '…'})"


def _parameter(function: types.FunctionType, name: str, default: tuple[Any, ...] = ()) -> str:
    # lazily evaluated annotations (3.14) would run code
    annotations = own_vars(function).get("__annotations__") or _plain_annotations(function)
    annotation = f": {_annotation(annotations[name])}" if name in annotations else ""
    return f"{name}{annotation}" + (f"={named(name, default[0], 40, 1)}" if default else "")


def _plain_annotations(function: types.FunctionType) -> dict[str, Any]:
    if getattr(function, "__annotate__", None) is not None:
        return {}
    found = function.__annotations__
    return found if type(found) is dict else {}


def _annotation(annotation: Any) -> str:
    if type(annotation) is str:
        return annotation[:60]
    if type in classes(annotation):
        return short_name(annotation)
    if module_name(type(annotation)) in ("typing", "types"):
        return str(annotation)[:60]
    return f"<{short_name(type(annotation))}>"


def _class(value: type) -> Description:
    bases = ", ".join(type_name(base) for base in classes_of_class(value)[1:3] if base is not object)
    return Description("class", summary=f"{type_name(value)}({bases})", more=lambda: _class_lines(value))


def classes_of_class(cls: type) -> tuple[type, ...]:
    """The method resolution order of a class, whatever its metaclass says."""
    return tuple(type.__dict__["__mro__"].__get__(cls))


def _class_lines(cls: type) -> Iterator[str]:
    body = class_vars(cls)
    doc = body.get("__doc__")
    if type(doc) is str and doc.strip():
        yield doc.strip().splitlines()[0][:300]
    initialize = body.get("__init__")
    if type(initialize) is types.FunctionType:
        yield f"__init__{signature(initialize)}"
    names = [name for name in body if not name.startswith("_")]
    if names:
        yield f"has {', '.join(names[:MAX_NAMES])}{' …' if len(names) > MAX_NAMES else ''}"


def _module(value: types.ModuleType) -> Description:
    there = vars(value)
    name, version = there.get("__name__"), there.get("__version__")
    words = f"{name if type(name) is str else '?'}{f' {version}' if type(version) is str else ''}"
    file = there.get("__file__")
    return Description("module", summary=words, more=lambda: [file] if type(file) is str else [])


def _name(value: Any) -> str:
    return str(value.__qualname__)
