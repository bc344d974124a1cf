"""The description of a value: the parts of a line in a list, and further lines made when somebody wants them.

The helpers look at an object without running any of its code: no attribute access that a class could have redefined.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct


def nothing_more() -> Iterable[str]:
    """Of a value that its summary says everything about."""
    return ()


class Description(Struct, frozen=True):
    """A value in words. `summary` is short; `more()` gives further lines and may take a while; `memory` is in bytes."""

    type: str
    shape: str = ""
    summary: str = ""
    memory: int | None = None
    more: Callable[[], Iterable[str]] = nothing_more

    @property
    def label(self) -> str:
        """The value inside of another."""
        return f"<{self.type} {self.shape}>" if self.shape else f"<{self.type}>"


def bytes_in_words(size: int) -> str:
    """A size as people read it: `1.2 MB`."""
    if size < 1_000:
        return f"{size} B"
    amount = float(size)
    for unit in ("kB", "MB", "GB"):
        amount /= 1_000
        if amount < 1_000:
            return f"{amount:.3g} {unit}"
    return f"{amount / 1_000:,.3g} TB"


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of a table as lines; every column but the last is as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


_mro_of = type.__dict__["__mro__"].__get__
_name_of = type.__dict__["__name__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__
_module_of = type.__dict__["__module__"].__get__
_vars_of = type.__dict__["__dict__"].__get__

MISSING: Any = object()


def classes(value: object) -> tuple[type, ...]:
    """The class of a value and those it comes from. `value.__class__` may be whatever the value says."""
    return tuple(_mro_of(type(value)))


def class_vars(cls: type) -> Mapping[str, Any]:
    """Return what stands in the body of a class."""
    found: Mapping[str, Any] = _vars_of(cls)
    return found


def module_name(cls: type) -> str:
    """Return the module a class was defined in, as far as it says so."""
    try:
        module = _module_of(cls)
    except AttributeError:  # it was deleted
        return ""
    return module if type(module) is str else ""


def type_name(cls: type) -> str:
    """A class as a reader knows it: with its library, but not with the notebook."""
    module = module_name(cls).partition(".")[0]
    name = str(_qualname_of(cls)).rpartition("<locals>.")[2]
    return name if module in ("builtins", "__main__", "") else f"{module}.{name}"


def short_name(cls: type) -> str:
    """The bare name of a class."""
    return str(_name_of(cls))


def static(value: object, name: str) -> Any:
    """An attribute that the value's class has, as it stands there; `MISSING` without one."""
    for cls in classes(value):
        if (found := class_vars(cls).get(name, MISSING)) is not MISSING:
            return found
    return MISSING


def own_vars(value: object) -> dict[str, Any]:
    """The value's own attributes: its `__dict__`, and its slots as far as they are filled."""
    found: dict[str, Any] = {}
    for cls in reversed(classes(value)):
        for name, member in class_vars(cls).items():
            if type(member) is types.MemberDescriptorType and not name.startswith("__"):
                try:
                    found[name] = member.__get__(value)
                except AttributeError:  # a slot that is empty
                    continue
    own = _dict_of(value)
    if type(own) is dict:
        found.update((name, item) for name, item in dict(own).items() if type(name) is str)
    return found


def library_class(module: str, name: str) -> type:
    """A class of a library that is imported; one that no value is of, without it."""
    loaded = sys.modules.get(module)
    found = vars(loaded).get(name) if loaded is not None else None
    return found if isinstance(found, type) else _NoSuchClass


def is_of(value: object, module: str, name: str) -> bool:
    """Return whether a value is of the library's class, or of one that comes from it."""
    return library_class(module, name) in classes(value)


def is_exactly(value: object, module: str, name: str) -> bool:
    """Return whether a value is of the library's class itself."""
    return type(value) is library_class(module, name)


def _dict_of(value: object) -> Any:
    """The value's `__dict__`, unless a class has put a property in its place."""
    descriptor = static(value, "__dict__")
    if type(descriptor) not in (types.GetSetDescriptorType, types.MemberDescriptorType):
        return None
    try:
        return descriptor.__get__(value)
    except AttributeError:
        return None


class _NoSuchClass:
    """Stands for the classes of libraries that are not there."""
