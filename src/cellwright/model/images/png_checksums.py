"""PNG files whose checksums are wrong: many programs write them, every viewer shows them, and strict readers refuse them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

SIGNATURE = b"\x89PNG\r\n\x1a\n"

_MOST_PIXEL_BYTES = 90_000_000
_CHUNK_HEAD = struct.Struct(">I4s")


def has_right_checksums(data: bytes) -> bool:
    """Return whether each chunk of a PNG has its checksum, and the last is the end."""
    found = list(_chunks(data))
    return bool(found) and found[-1][0] == b"IEND" and all(right for _, _, right in found)


def with_right_checksums(data: bytes) -> bytes | None:
    """The same picture with its checksums made anew; None if it is no PNG, or its pixels are damaged.

    What is no pixels (a text, a time) is left out if its checksum is wrong.
    """
    if not data.startswith(SIGNATURE):
        return None
    pixels = b"".join(content for kind, content, _ in _chunks(data) if kind == b"IDAT")
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        plain = inflate.decompress(pixels[2:], _MOST_PIXEL_BYTES)  # without the two bytes of its head, and its checksum
    except zlib.error:
        return None
    if not inflate.eof:
        return None
    made = bytearray(SIGNATURE)
    for kind, content, right in _chunks(data):
        is_ancillary = bool(kind[0] & 0x20)
        if kind in (b"IDAT", b"IEND") or (is_ancillary and not right):
            continue
        made += _chunk(kind, content)
    return bytes(made + _chunk(b"IDAT", zlib.compress(plain, 1)) + _chunk(b"IEND", b""))


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes, bool]]:
    """The kind and the content of each chunk, and whether its checksum is right."""
    at = len(SIGNATURE)
    while at + 12 <= len(data):
        size, kind = _CHUNK_HEAD.unpack_from(data, at)
        content = data[at + 8 : at + 8 + size]
        if len(content) < size:
            return
        said = data[at + 8 + size : at + 12 + size]
        yield kind, content, said == zlib.crc32(kind + content).to_bytes(4, "big")
        at += 12 + size
        if kind == b"IEND":
            return


def _chunk(kind: bytes, content: bytes) -> bytes:
    return _CHUNK_HEAD.pack(len(content), kind) + content + zlib.crc32(kind + content).to_bytes(4, "big")
