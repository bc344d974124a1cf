"""Images as the Messages API takes them: told by their first bytes, held against its limits before they are sent.

One image that the API refuses would make every later request of the session fail.
"""

from __future__ import annotations

import base64
import struct
from typing import Any

MAX_BYTES = 7_500_000
"""10 MB of base64 an image, the API's limit."""

MAX_SIDE = 8_000
"""Pixels, the API's limit for up to 20 images in a request."""

MAX_SIDE_OF_MANY = 2_000
"""Pixels, the API's limit when a request holds more than 20 images."""

SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


class UnusableImage(Exception):
    """The API would not take it; the message says why."""


def media_type(head: bytes) -> str | None:
    """The media type of the image that begins with `head`; None if it is none that the API takes."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for signature, kind in SIGNATURES.items() if head.startswith(signature)), None)


def image_block(data: bytes, max_side: int = MAX_SIDE) -> tuple[dict[str, Any], str]:
    """The content block of an image and a few words on it. Raises `UnusableImage`."""
    kind = media_type(data)
    if kind is None:
        raise UnusableImage("it is no PNG, JPEG, GIF or WebP")
    if len(data) > MAX_BYTES:
        raise UnusableImage(f"it has {len(data):,} bytes; {MAX_BYTES:,} are possible")
    try:
        width, height = _size(data, kind)
    except (struct.error, IndexError):
        raise UnusableImage("it is damaged or cut off") from None
    if not width or not height or max(width, height) > max_side:
        raise UnusableImage(f"it has {width} × {height} pixels; {max_side} a side are possible")
    source = {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode("ascii")}
    words = f"{kind.removeprefix('image/').upper()}, {width} × {height} pixels, {len(data):,} bytes"
    return {"type": "image", "source": source}, words


def _size(data: bytes, kind: str) -> tuple[int, int]:
    """Width and height in pixels, from the header (PNG 1.2 §11.2.2, GIF89a §18, ITU T.81 B.2.2, RFC 9649)."""
    if kind == "image/png":
        width, height = struct.unpack_from(">II", data, 16)
    elif kind == "image/gif":
        width, height = struct.unpack_from("<HH", data, 6)
    elif kind == "image/jpeg":
        width, height = _jpeg_size(data)
    else:
        width, height = _webp_size(data)
    return width, height


def _jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    while True:
        while data[at + 1] == 0xFF:  # fill bytes
            at += 1
        marker = data[at + 1]
        # start of frame, all kinds; C4, C8 and CC are tables and an extension
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + struct.unpack_from(">H", data, at + 2)[0]


def _webp_size(data: bytes) -> tuple[int, int]:
    chunk = data[12:16]
    if chunk == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if chunk == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack_from("<HH", data, 26)
    return width & 0x3FFF, height & 0x3FFF
