"""The shape of JSON as small functions: `check(value, path)` raises `ApiRejection` in the API's own words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from cellwright.testing.rules.api_error import ApiRejection

Check = Callable[[Any, str], None]
Fields = Mapping[str, Check]


def anything(value: Any, path: str) -> None:
    """Any JSON."""


def string(value: Any, path: str) -> None:
    if not isinstance(value, str):
        raise ApiRejection(f"{path}: Input should be a valid string")


def boolean(value: Any, path: str) -> None:
    if not isinstance(value, bool):
        raise ApiRejection(f"{path}: Input should be a valid boolean")


def dictionary(value: Any, path: str) -> None:
    if not isinstance(value, dict):
        raise ApiRejection(f"{path}: Input should be a valid dictionary")


def integer(minimum: int = 0) -> Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ApiRejection(f"{path}: Input should be a valid integer")
        if value < minimum:
            raise ApiRejection(f"{path}: Input should be greater than or equal to {minimum}")

    return check


def matching(pattern: str) -> Check:
    compiled = re.compile(pattern)

    def check(value: Any, path: str) -> None:
        string(value, path)
        if not compiled.fullmatch(value):
            raise ApiRejection(f"{path}: String should match pattern '{pattern}'")

    return check


def one_of(*values: str) -> Check:
    allowed = " or ".join(filter(None, (", ".join(repr(value) for value in values[:-1]), repr(values[-1]))))

    def check(value: Any, path: str) -> None:
        if value not in values:
            raise ApiRejection(f"{path}: Input should be {allowed}")

    return check


def nullable(inner: Check) -> Check:
    def check(value: Any, path: str) -> None:
        if value is not None:
            inner(value, path)

    return check


def list_of(inner: Check) -> Check:
    def check(value: Any, path: str) -> None:
        if not isinstance(value, list):
            raise ApiRejection(f"{path}: Input should be a valid list")
        for index, item in enumerate(value):
            inner(item, f"{path}.{index}")

    return check


def text_or(inner: Check) -> Check:
    """A string, or what `inner` takes."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, str):
            inner(value, path)

    return check


def record(required: Fields, optional: Fields | None = None) -> Check:
    """An object with exactly these fields."""
    fields = {**required, **(optional or {})}

    def check(value: Any, path: str) -> None:
        dictionary(value, path or "body")
        start = f"{path}." if path else ""
        for name, content in value.items():
            field = fields.get(name)
            if field is None:
                raise ApiRejection(f"{start}{name}: Extra inputs are not permitted")
            field(content, start + name)
        for name in required:
            if name not in value:
                raise ApiRejection(f"{start}{name}: Field required")

    return check


def tagged(variants: Fields, *, default: str | None = None, in_path: bool = True) -> Check:
    """An object whose `type` says which variant it is; the tag is a step of the path (`…content.1.tool_use.text`)."""

    def check(value: Any, path: str) -> None:
        dictionary(value, path)
        tag = value.get("type") or default
        if tag is None:
            raise ApiRejection(f"{path}.type: Field required")
        variant = variants.get(tag) if isinstance(tag, str) else None
        if variant is None:
            expected = ", ".join(repr(name) for name in variants)
            raise ApiRejection(
                f"{path}: Input tag '{tag}' found using 'type' does not match any of the expected tags: {expected}"
            )
        variant(value, f"{path}.{tag}" if in_path else path)

    return check
