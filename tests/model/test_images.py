"""Pictures: the API takes them as they are, or reads words in their place."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from typing import Any

from PIL import Image

from cellwright.model.images import MAX_SIDE, admitted, takes_time
from row_tables import for_each_row


def encoded(width: int, height: int, kind: str = "PNG") -> str:
    data = io.BytesIO()
    Image.new("RGB", (width, height)).save(data, kind)
    return base64.b64encode(data.getvalue()).decode()


def bomb() -> str:
    """A PNG of a few bytes that says it has 10,000,000,000 pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">II", 100_000, 100_000) + b"\x08\x02\x00\x00\x00")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", b"") + chunk(b"IEND", b"")).decode()


def picture(data: Any, kind: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


GOOD = encoded(20, 10)


SHOWN = {
    "as it is": picture(GOOD),
    "too wide": picture(encoded(9_000, 10)),
    "too wide for one of many": picture(encoded(2_500, 10)),
    "of another kind than it says": picture(encoded(20, 10, "JPEG")),
    "of a kind that the API does not take": picture(encoded(20, 10, "BMP"), "image/bmp"),
    "with line breaks": picture("\n".join([GOOD[:20], GOOD[20:]])),
    "as a data URL": picture(f"data:image/png;base64,{GOOD}"),
}


IN_WORDS = {
    "no base64": picture("!!!"),
    "no picture": picture(base64.b64encode(b"RIFF\0\0\0\0WEBP").decode()),
    "cut off": picture(encoded(200, 100)[:120]),
    "empty": picture(""),
    "without data": picture(None),
    "without a source": {"type": "image"},
    "a bomb": picture(bomb()),
    "no PDF": {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "bm8="}},
}


LEFT_TO_THE_API = {
    "an address": {"type": "image", "source": {"type": "url", "url": "https://example.com/x.png"}},
    "a file": {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
    "text": {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
}


@for_each_row(("name", "block"), SHOWN.items())
def test_what_can_be_shown_is_shown(name, block):
    [made], reasons = admitted([block])
    assert reasons == []
    data = base64.b64decode(made["source"]["data"], validate=True)
    image = Image.open(io.BytesIO(data))
    image.load()
    assert max(image.size) <= MAX_SIDE
    assert made["source"]["media_type"] == Image.MIME[image.format or ""]
    assert not takes_time([made]), "once is enough"


@for_each_row(("name", "block"), IN_WORDS.items())
def test_what_cannot_is_put_in_words(name, block):
    [made], [reason] = admitted([block])
    assert made["type"] == "text"
    assert "cannot be shown" in made["text"]
    assert "was left out" in reason


@for_each_row(("name", "block"), LEFT_TO_THE_API.items())
def test_what_is_no_data_is_the_api_s_to_look_at(name, block):
    assert admitted([block]) == ([block], [])
    assert not takes_time([block])
