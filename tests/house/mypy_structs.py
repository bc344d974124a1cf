"""A plugin for mypy: what `dataclasses` does for dataclasses is refused for structs, which mypy takes for such.

See docs/decisions/records.md.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.plugin import FunctionContext, Plugin
from mypy.types import Type, TypeType, TypeVarType, UnionType, get_proper_type

ELSEWHERE = {
    "dataclasses.replace": "msgspec.structs.replace",
    "dataclasses.asdict": "msgspec.to_builtins",
    "dataclasses.astuple": "msgspec.structs.astuple",
    "dataclasses.fields": "msgspec.structs.fields",
}


def _is_struct(given: Type) -> bool:
    proper = get_proper_type(given)
    match proper:
        case UnionType():
            return any(map(_is_struct, proper.items))
        case TypeVarType():
            return _is_struct(proper.upper_bound)
        case TypeType():
            return _is_struct(proper.item)
    info = getattr(proper, "type", None) or getattr(getattr(proper, "ret_type", None), "type", None)
    return info is not None and info.has_base("msgspec.Struct")


class Structs(Plugin):
    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        return _checked if fullname in ELSEWHERE else None


def _checked(called: FunctionContext) -> Type:
    callee = getattr(called.context, "callee", None)
    name = getattr(callee, "fullname", "")
    if called.arg_types and called.arg_types[0] and _is_struct(called.arg_types[0][0]):
        called.api.fail(f"This is a struct and no dataclass: {name} fails; use {ELSEWHERE[name]}", called.context)
    return called.default_return_type


def plugin(_version: str) -> type[Plugin]:
    return Structs
