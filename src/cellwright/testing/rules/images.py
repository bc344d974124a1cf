"""Images and PDFs in a request: is the data what it says it is, and is it small enough?"""

from __future__ import annotations

import base64
import binascii
import io
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cellwright.testing.rules.api_error import ApiRejection
from cellwright.testing.rules.models import ServedModel

MAX_BASE64 = 10 * 1024 * 1024
MAX_SIDE = 8000
MAX_SIDE_OF_MANY = 2000
MANY = 20
PATCH = 28
TOKENS_UNMEASURED = 1500


@dataclass(frozen=True, slots=True)
class Picture:
    """An image in a request, or a PDF with its `pages`. What is 0 is not known (URLs, uploaded files)."""

    path: str
    width: int = 0
    height: int = 0
    pages: int = 0

    @property
    def tokens(self) -> int:
        if self.pages:
            return self.pages * TOKENS_UNMEASURED
        if not self.width:
            return TOKENS_UNMEASURED
        return math.ceil(self.width / PATCH) * math.ceil(self.height / PATCH)


def _decoded(source: Mapping[str, Any], path: str) -> bytes:
    try:
        return base64.b64decode(source["data"], validate=True)
    except (binascii.Error, ValueError):
        raise ApiRejection(f"{path}.source.base64.data: Invalid base64 data") from None


def _media_type(data: bytes) -> str:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return ""


def _jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return 0, 0


def _webp_size(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + ((bits >> 14) & 0x3FFF)
    if kind == b"VP8 ":
        return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF
    return 0, 0


def _size(media_type: str, data: bytes) -> tuple[int, int]:
    """Width and height from the file's head; (0, 0) when it is cut off."""
    if media_type == "image/png" and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        return width, height
    if media_type == "image/gif" and len(data) >= 10:
        width, height = struct.unpack("<HH", data[6:10])
        return width, height
    return _webp_size(data) if media_type == "image/webp" else _jpeg_size(data)


def measured(block: Mapping[str, Any], path: str) -> Picture:
    """Check one image block and read its size."""
    source = block["source"]
    if source["type"] != "base64":
        return Picture(path)
    field = f"{path}.image.source.base64"
    if len(source["data"]) > MAX_BASE64:
        raise ApiRejection(f"{field}: image exceeds 10 MB maximum: {len(source['data'])} bytes > {MAX_BASE64} bytes")
    data = _decoded(source, f"{path}.image")
    found = _media_type(data)
    if not found:
        raise ApiRejection(f"{field}.data: Could not process image")
    if found != source["media_type"]:
        raise ApiRejection(
            f"{field}: The image was specified using the {source['media_type']} media type, but the image appears to "
            f"be a {found} image"
        )
    return Picture(path, *_size(found, data))


def counted_pages(block: Mapping[str, Any], path: str) -> Picture:
    """A base64 document, which must be a PDF, and how many pages it has; one where that cannot be told."""
    field = f"{path}.document.source.base64.data"
    data = _decoded(block["source"], f"{path}.document")
    if not data.startswith(b"%PDF"):
        raise ApiRejection(f"{field}: The PDF specified was not valid.")
    try:
        import pypdf  # heavy, not needed by most conversations, and of an extra

        reader = pypdf.PdfReader(io.BytesIO(data))
        encrypted = reader.is_encrypted
        pages = 0 if encrypted else len(reader.pages)
    except Exception:  # noqa: BLE001  broken files make pypdf raise nearly anything; what the API then says is not known
        return Picture(path, pages=1)
    if encrypted:
        raise ApiRejection(f"{field}: The PDF specified is password protected.")
    return Picture(path, pages=max(pages, 1))


def check_pictures(pictures: Sequence[Picture], model: ServedModel) -> None:
    """Check how many there are, and how large each may then be; how many pages of PDFs."""
    allowed = 100 if model.context_window <= 200_000 else 600
    if sum(picture.pages for picture in pictures) > allowed:
        raise ApiRejection(f"messages: A maximum of {allowed} PDF pages may be provided.")
    images = [picture for picture in pictures if not picture.pages]
    if len(images) > allowed:
        raise ApiRejection(f"messages: too many images: {len(images)} > {allowed} maximum")
    limit = MAX_SIDE_OF_MANY if len(images) > MANY else MAX_SIDE
    for picture in images:
        if max(picture.width, picture.height) > limit:
            many = " for many-image requests" if limit == MAX_SIDE_OF_MANY else ""
            raise ApiRejection(
                f"{picture.path}.image.source.base64.data: At least one of the image dimensions exceed max allowed size"
                f"{many}: {limit} pixels"
            )
