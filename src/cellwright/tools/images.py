"""Images as the Messages API takes them: scaled down to what a model can make out, held against the API's limits.

One image that the API refuses would make every later request of the session fail, so each is decoded before it is sent.
"""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from PIL import Image

MAX_SIDE = 1_568
MAX_PIXELS = 1_850_000
"""A larger image is scaled down by the API itself (some models), or costs more than what is seen in it is worth.

The API charges a token for each 28 × 28 pixels: at most about 2,400 here. It takes 2,000 pixels a side at most when a
request holds more than 20 images.
"""

MAX_KEPT_BYTES = 500_000
"""A larger file is written anew as JPEG, as Claude Code does."""

DECODED_BYTES = 88_000_000
"""What the pixels of one image may take in memory: 22 million in colour, 88 million in grey."""

DRAFTED_PIXELS = 88_000_000
"""A JPEG takes less: it is decoded at a half, a quarter or an eighth of its size."""

EXIF_ORIENTATION = 0x0112
JPEG_QUALITIES = (85, 70, 50, 30)

SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"II*\0": "image/tiff",
    b"MM\0*": "image/tiff",
    b"\0\0\1\0": "image/x-icon",
    b"\0\0\0\x0cjP  \r\n\x87\n": "image/jp2",
    b"\xff\x4f\xff\x51": "image/jp2",
    b"qoif\0": "image/qoi",
    b"8BPS\0\1": "image/vnd.adobe.photoshop",
}
SENT_AS_THEY_ARE = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}


class UnusableImage(Exception):
    """The API would not take it; the message says why."""


@dataclass(frozen=True, slots=True)
class ModelImage:
    """An image as it is sent: `block` for the API, `words` on what was made of it, the length of its base64."""

    block: dict[str, Any]
    words: str
    size: int


def media_type(head: bytes) -> str | None:
    """The media type of the image that begins with `head` (16 bytes); None if it is none that can be shown."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head[4:12] in (b"ftypavif", b"ftypavis"):
        return "image/avif"
    # two letters alone could be text; the four reserved bytes behind the length are zero
    if head[:2] == b"BM" and head[6:10] == bytes(4):
        return "image/bmp"
    return next((kind for signature, kind in SIGNATURES.items() if head.startswith(signature)), None)


def model_image(file: BinaryIO, size: int) -> ModelImage:
    """The image in `file` (`size` bytes) as a content block. Takes time and memory: not for the event loop.

    Scaled down to `MAX_SIDE` and `MAX_PIXELS`, turned as its EXIF data says, the first picture of an animation. Raises
    `UnusableImage`.
    """
    image = _decoded(file)
    scaled = _scaled(image.pixels)
    words = f"{image.kind}, {image.width} × {image.height} pixels, {size:,} bytes"
    if image.animated:
        words += ", the first picture of an animation"
    if image.as_in_file and scaled is image.pixels and size <= MAX_KEPT_BYTES and image.kind in SENT_AS_THEY_ARE:
        file.seek(0)
        return _with_block(file.read(), SENT_AS_THEY_ARE[image.kind], words)
    if scaled.size != image.pixels.size or scaled.size not in (
        (image.width, image.height),
        (image.height, image.width),
    ):
        words += f"; shown at {scaled.width} × {scaled.height}"
    return _with_block(*_encoded(scaled), words)


@dataclass(frozen=True, slots=True)
class _Decoded:
    """An image's pixels, and what its file says of it. `as_in_file`: the pixels are neither turned nor one of many."""

    pixels: Image.Image
    kind: str
    width: int
    height: int
    animated: bool
    as_in_file: bool


def _decoded(file: BinaryIO) -> _Decoded:
    from PIL import Image, ImageOps, UnidentifiedImageError  # heavy: 100 ms

    try:
        image = Image.open(file)
        _check_size(image)
        kind, (width, height) = image.format or "", image.size
        animated = bool(getattr(image, "is_animated", False))
        if kind == "JPEG":
            image.draft(None, (MAX_SIDE, MAX_SIDE))
        image.load()
        turned = ImageOps.exif_transpose(image)
    except UnusableImage:
        raise
    except UnidentifiedImageError:
        raise UnusableImage("it is damaged, or of a kind that is not known") from None
    except Exception as error:  # broken bytes make the decoders raise whatever their C libraries do
        raise UnusableImage(f"it is damaged or cut off ({error})") from error
    # without an orientation exif_transpose gives a copy
    as_in_file = not animated and image.getexif().get(EXIF_ORIENTATION, 1) == 1 and image.size == (width, height)
    return _Decoded(image if as_in_file else turned, kind, width, height, animated, as_in_file)


def _with_block(data: bytes, kind: str, words: str) -> ModelImage:
    encoded = base64.b64encode(data).decode("ascii")
    source = {"type": "base64", "media_type": kind, "data": encoded}
    return ModelImage({"type": "image", "source": source}, words, len(encoded))


def image_from_bytes(data: bytes) -> ModelImage:
    """`model_image` of an image in memory."""
    return model_image(io.BytesIO(data), len(data))


def _check_size(image: Image.Image) -> None:
    """The pixels are decoded only after this: a small file may unfold to gigabytes."""
    width, height = image.size
    if not width or not height:
        raise UnusableImage(f"it has {width} × {height} pixels")
    # Pillow keeps colours in four bytes
    bytes_per_pixel = 1 if image.mode in ("1", "L", "P") else 4
    possible = DRAFTED_PIXELS if image.format == "JPEG" else DECODED_BYTES // bytes_per_pixel
    if width * height > possible:
        raise UnusableImage(f"it has {width} × {height} pixels, more than {possible:,}")


def _scaled(image: Image.Image) -> Image.Image:
    from PIL import Image  # heavy

    width, height = image.size
    factor = min(MAX_SIDE / max(width, height), math.sqrt(MAX_PIXELS / (width * height)))
    if factor >= 1:
        return image
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    # palettes and single bits cannot be averaged
    plain = image if image.mode in ("L", "RGB", "RGBA") else _plain(image)
    return plain.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)


def _plain(image: Image.Image) -> Image.Image:
    """The image in grey, RGB, or RGBA."""
    if image.mode in ("L", "RGB", "RGBA"):
        return image
    if image.mode.startswith(("I", "F")):
        return _stretched(image)
    if image.mode in ("LA", "PA", "La", "RGBa") or "transparency" in image.info:
        return image.convert("RGBA")
    return image.convert("L" if image.mode == "1" else "RGB")


def _stretched(image: Image.Image) -> Image.Image:
    """Grey values of 16 bits and more, from the darkest to the brightest that are there."""
    values = image.convert("F")
    extrema: Any = values.getextrema()
    low, high = float(extrema[0]), float(extrema[1])
    scale = 255 / (high - low) if high > low else 0.0
    return values.point(lambda value: value * scale - low * scale).convert("L")


def _encoded(image: Image.Image) -> tuple[bytes, str]:
    """As PNG, or as JPEG where that would be large."""
    image = _plain(image)
    out = io.BytesIO()
    image.save(out, "PNG")
    if len(out.getvalue()) <= MAX_KEPT_BYTES:
        return out.getvalue(), "image/png"
    opaque = _on_white(image)
    for quality in JPEG_QUALITIES:
        out = io.BytesIO()
        opaque.save(out, "JPEG", quality=quality)
        if len(out.getvalue()) <= MAX_KEPT_BYTES:
            break
    return out.getvalue(), "image/jpeg"


def _on_white(image: Image.Image) -> Image.Image:
    """JPEG knows no transparency."""
    from PIL import Image  # heavy

    if image.mode != "RGBA":
        return image
    white = Image.new("RGB", image.size, "white")
    white.paste(image, mask=image.getchannel("A"))
    return white
