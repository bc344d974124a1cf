from __future__ import annotations

import base64
import io
import struct
import subprocess
import sys
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import picture
from PIL import Image

from cellwright.errors import ErrorCode
from cellwright.model.images import UnusableImage, image_from_bytes
from row_tables import for_each_row


def shown(tools: Any, data: bytes, name: str = "picture.dat") -> tuple[str, str, bytes, Image.Image]:
    """What Read says of an image, and the image it sends: media type, bytes, pixels."""
    (tools.cwd / name).write_bytes(data)
    words, block = tools.result("Read", file_path=name).content
    assert block["type"] == "image"
    sent = base64.b64decode(block["source"]["data"])
    return words["text"], block["source"]["media_type"], sent, Image.open(io.BytesIO(sent))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_small_image_is_sent_as_it_is(tools, kind):
    data = picture(kind)
    words, media_type, sent, _ = shown(tools, data)
    assert (media_type, sent) == (f"image/{kind.lower()}", data)
    assert words == f"[picture.dat: {kind}, 8 × 6 pixels, {len(data):,} bytes]"


@for_each_row(
    ("kind", "mode"),
    [
        ("BMP", "RGB"),
        ("TIFF", "RGB"),
        ("TIFF", "CMYK"),
        ("TIFF", "F"),
        ("ICO", "RGBA"),
        ("JPEG2000", "RGB"),
        ("AVIF", "RGB"),
    ],
)
def test_other_kinds_are_sent_as_png(tools, kind, mode):
    _, media_type, _, image = shown(tools, picture(kind, 32, 32, mode))
    assert media_type == "image/png"
    assert image.size == (32, 32)


@for_each_row(
    ("size", "mode", "sent"),
    [
        ((3000, 1000), "RGB", (1568, 523)),
        ((8001, 1), "L", (1568, 1)),
        ((2400, 2400), "1", (1360, 1360)),
        ((2400, 2400), "P", (1360, 1360)),
        ((2400, 2400), "I;16", (1360, 1360)),
        ((100, 1569), "LA", (100, 1568)),
    ],
)
def test_a_large_image_is_scaled_down(tools, size, mode, sent):
    words, _, _, image = shown(tools, picture("PNG", *size, mode))
    assert image.size == sent
    assert words.endswith(f"; shown at {sent[0]} × {sent[1]}]")


def test_what_stays_large_becomes_jpeg(tools):
    data = picture("PNG", 3000, 2000, noisy=True)
    assert len(data) > 10_000_000
    _, media_type, sent, image = shown(tools, data)
    assert media_type == "image/jpeg"
    assert image.format == "JPEG"
    assert len(sent) <= 500_000


def test_transparency_becomes_white_in_jpeg(tools):
    image = Image.merge(
        "RGBA", (*Image.effect_noise((1500, 1200), 90).convert("RGB").split(), Image.new("L", (1500, 1200)))
    )
    out = io.BytesIO()
    image.save(out, "PNG")
    _, media_type, _, shown_image = shown(tools, out.getvalue())
    assert media_type == "image/jpeg"
    assert shown_image.getpixel((700, 600)) == (255, 255, 255)


def test_an_image_is_turned_as_its_exif_data_says(tools):
    exif = Image.Exif()
    exif[0x0112] = 6
    _, _, _, image = shown(tools, picture("JPEG", 40, 20, exif=exif))
    assert image.size == (20, 40)


def test_the_first_picture_of_an_animation_is_shown(tools):
    red, blue = Image.new("P", (9, 9), 1), Image.new("P", (9, 9), 2)
    red.putpalette([0, 0, 0, 255, 0, 0, 0, 0, 255])
    blue.putpalette([0, 0, 0, 255, 0, 0, 0, 0, 255])
    out = io.BytesIO()
    red.save(out, "GIF", save_all=True, append_images=[blue])
    words, media_type, _, image = shown(tools, out.getvalue())
    assert media_type == "image/png"
    assert image.convert("RGB").getpixel((4, 4)) == (255, 0, 0)
    assert "of an animation" in words


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few hundred bytes that says it has so many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(100_000))) + chunk(b"IEND", b"")


@for_each_row(
    ("data", "why"),
    [
        (bomb(6_000, 6_000), "6000 × 6000 pixels, more than"),
        (bomb(60_000, 60_000), "too many pixels|exceeds limit"),
        (picture("PNG")[:30], "damaged"),
        (picture("JPEG", 300, 300, noisy=True)[:5000], "damaged or cut off"),
        (b"\xff\xd8\xff\xe0\x00\x04ab", "damaged"),
        (bomb(0, 0), "damaged"),
    ],
)
def test_images_that_the_api_would_refuse_never_get_into_the_session(tools, data, why):
    (tools.cwd / "picture.png").write_bytes(data)
    error = tools.error("Read", file_path="picture.png")
    assert error.code == ErrorCode.FILE_ACCESS_ERROR
    assert any(part in error.message for part in why.split("|"))


def test_svg_is_text(tools):
    (tools.cwd / "a.svg").write_text("<svg/>\n")
    assert tools.text("Read", file_path="a.svg") == "     1\t<svg/>"


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "ICO", "JPEG2000"]),
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=6),
    cut=st.integers(0, 500),
)
def test_broken_images_are_refused_and_never_crash(kind, changes, cut):
    data = bytearray(picture(kind, 16, 16))
    for at, value in changes:
        data[at % len(data)] = value
    try:
        image = image_from_bytes(bytes(data[: len(data) - cut % 40]))
    except UnusableImage:
        return
    Image.open(io.BytesIO(base64.b64decode(image.block["source"]["data"]))).load()


def test_text_is_read_without_pillow(tools):
    (tools.cwd / "a.txt").write_text("a\n")
    script = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from cellwright.agent.tool import ToolContext\n"
        "from cellwright.tools.files.file_state import FileState\n"
        "from cellwright.tools.files.read import read_tool\n"
        "read = read_tool(FileState(), Path(sys.argv[1]))\n"
        "asyncio.run(read.call({'file_path': 'a.txt'}, ToolContext('t', print)))\n"
        "print([name for name in ('PIL', 'pypdf', 'nbformat') if name in sys.modules])\n"
    )
    run = subprocess.run([sys.executable, "-c", script, str(tools.cwd)], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
