"""Objects of classes that nobody here knows: dataclasses, models, and whatever else has attributes."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from typing import Any

from cellwright.kernel.namespace.types.description import Description, in_columns
from cellwright.kernel.described.looking import classes, module_name, own_vars, short_name, static, type_name
from cellwright.kernel.namespace.types.values import brief, named

MOST_ATTRIBUTES = 30


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
    """What the object holds: the fields of a dataclass or a model in their order, else all of its own attributes."""
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
        for name, item in itertools.islice(attributes.items(), MOST_ATTRIBUTES)
    ]
    if rows:
        yield from in_columns(rows)
    if len(attributes) > MOST_ATTRIBUTES:
        yield f"… {len(attributes) - MOST_ATTRIBUTES:,} more attributes"


def _file(value: Any) -> Description:
    name = getattr(value, "name", None)
    state = "closed" if value.closed else "open"
    return Description(
        type_name(type(value)), summary=f"{brief(name, 120) if name is not None else ''} {state}".strip()
    )
