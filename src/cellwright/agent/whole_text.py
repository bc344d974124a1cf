"""Text that every encoder takes: a lone half of a surrogate pair in it would end whatever has to send it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def whole_text(text: str) -> str:
    """`text` with surrogate pairs joined and lone surrogates replaced: those cannot be encoded as UTF-8."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def whole_strings(value: Any) -> Any:
    """JSON with `whole_text` done to every string in it, keys apart; the same object where that changes nothing."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, Mapping):
        changed = {key: whole_strings(item) for key, item in value.items()}
        return changed if any(changed[key] is not value[key] for key in changed) else value
    if isinstance(value, list):
        items = [whole_strings(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value
