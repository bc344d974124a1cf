"""Pictures as a model gets them: small enough for about 1,500 tokens, and always such as the API takes.

One that it refuses would make every later request of the session fail.
"""

from __future__ import annotations

import base64
import io
import math
import struct
from typing import Any

from cellwright.tools.files.formats.images import media_type

MAX_PIXELS = 1_100_000
"""A picture costs about one token for every 750 pixels."""

MAX_EDGE = 1_568
"""Pixels; the API itself scales down what is longer."""

PNG_END = b"IEND\xaeB`\x82"
"""The last chunk of a PNG, with its checksum."""

MAX_UNSCALED_EDGE = 2_000
MAX_UNSCALED_BYTES = 3_000_000
"""What is still sent as it is where nothing can scale it (Pillow is not installed)."""


SENT = ("image/png", "image/jpeg", "image/gif", "image/webp")


def image_block(data: str) -> dict[str, Any] | str:
    """The image block for a base64 picture, scaled down if need be; a sentence instead where that is not possible.

    What kind it is says the picture itself: what was displayed as a PNG may be none.
    """
    try:
        raw = base64.b64decode(data)
    except ValueError:
        return "[a picture that cannot be shown: its data is no base64]"
    if (mime := media_type(raw[:16])) not in SENT:
        return "[a picture that cannot be shown: its data is no PNG, JPEG, GIF or WebP]"
    size = png_size(raw)
    if size is not None and (0 in size or PNG_END not in raw):
        return "[a picture that cannot be shown: it is damaged or cut off]"
    if size is None or _too_large(*size):
        try:
            from PIL import Image  # heavy, and not among what Cellwright needs installed
        except ImportError:
            return _unscaled(mime, raw, size)
        try:
            mime, raw = _scaled(Image.open(io.BytesIO(raw)), mime, raw)
        except Exception as error:  # noqa: BLE001  broken bytes make the decoders raise whatever their C libraries do
            return f"[a picture that cannot be shown: {error}]"
    return _block(mime, raw)


def png_size(raw: bytes) -> tuple[int, int] | None:
    """Width and height from a PNG's header; None if it is no PNG."""
    if len(raw) < 24 or not raw.startswith(b"\x89PNG\r\n\x1a\n"):
        return None
    width, height = struct.unpack(">II", raw[16:24])
    return width, height


def _too_large(width: int, height: int) -> bool:
    return max(width, height) > MAX_EDGE or width * height > MAX_PIXELS


def _scaled(image: Any, mime: str, raw: bytes) -> tuple[str, bytes]:
    width, height = image.size
    if not _too_large(width, height):
        image.load()  # finds what is cut off
        return mime, raw
    factor = min(MAX_EDGE / max(width, height), math.sqrt(MAX_PIXELS / (width * height)))
    size = (max(1, int(width * factor)), max(1, int(height * factor)))
    if image.mode not in ("L", "RGB", "RGBA"):
        image = image.convert("RGBA")
    out = io.BytesIO()
    image.resize(size).save(out, "PNG")
    return "image/png", out.getvalue()


def _unscaled(mime: str, raw: bytes, size: tuple[int, int] | None) -> dict[str, Any] | str:
    if size is not None and max(size) <= MAX_UNSCALED_EDGE and len(raw) <= MAX_UNSCALED_BYTES:
        return _block(mime, raw)
    shape = f" of {size[0]}×{size[1]} pixels" if size else ""
    return f"[a picture{shape} is not shown: Pillow, which would scale it down, is not installed]"


def _block(mime: str, raw: bytes) -> dict[str, Any]:
    data = base64.b64encode(raw).decode("ascii")
    return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}
