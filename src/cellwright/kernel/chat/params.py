"""The params of a panel's request, read with what is wrong with them said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from cellwright.kernel.pages.comm import PageError

T = TypeVar("T")


def required(params: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """The param `name`. Raises PageError `invalid` where it is missing or of another type."""
    value = params.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _invalid(name, kind, value)
    return value


def optional(params: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    """The param `name`, None where it is left out or null. Raises PageError `invalid` where it is of another type."""
    return None if params.get(name) is None else required(params, name, kind)


def _invalid(name: str, kind: type[Any], value: object) -> PageError:
    return PageError("invalid", f"The param {name!r} has to be {_WORDS.get(kind, kind.__name__)}, not {value!r:.100}.")


_WORDS: Mapping[type[Any], str] = {str: "a text", int: "a whole number", dict: "an object", list: "a list"}
