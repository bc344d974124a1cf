"""One message in a transcript, and the JSON that messages are kept and sent as."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encode_json(value: object) -> bytes:
    """Compact UTF-8 JSON: the form in which messages are kept and sent. Halves of surrogate pairs become U+FFFD."""
    try:
        text = _encoder.encode(value)
    except ValueError as error:
        raise CellwrightError(
            ErrorCode.API_REQUEST_INVALID, f"The message holds a number that JSON cannot express: {error}."
        ) from error
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


class Line(Struct, frozen=True):
    """One message: its encoded JSON, and what is known of it: `seq`, `at`, `epoch`; of answers `usage`, `model`, …"""

    meta: Mapping[str, Any]
    message: bytes
