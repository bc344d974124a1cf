"""Images as the Messages API takes them: scaled down to what a model can make out, held against the API's limits.

One image that the API refuses would make every later request of the session fail, so each is decoded before it enters
a history, by whatever door: `admitted` is the gate of prompts, of results of calls, and of foreign sessions.
"""

from __future__ import annotations

import base64
import io
import math
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec import Struct

if TYPE_CHECKING:
    from PIL import Image


SIGNATURE = b"\x89PNG\r\n\x1a\n"

_CHUNK_HEAD = struct.Struct(">I4s")

BAND_ROWS = 8
"""Rows of the smaller image that are made at a time."""

FINE = 2
"""Pixels are averaged first where at least so many times as many are left as are wanted, so the last step is done well."""


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
        plain = inflate.decompress(pixels[2:], 90_000_000)  # without the two bytes of its head, and its checksum
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


def scaled_down(image: Image.Image, max_side: int, max_pixels: int) -> Image.Image:
    """The image itself if it is small enough, else a smaller one in proportion."""
    width, height = image.size
    factor = min(max_side / max(width, height), math.sqrt(max_pixels / (width * height)))
    if factor >= 1:
        return image
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    return _resized(image, size)


def plain(image: Image.Image) -> Image.Image:
    """The image in grey, RGB, or RGBA."""
    if image.mode in ("I", "F") or image.mode.startswith("I;"):
        return _stretched(image)
    if image.mode in ("L", "RGB", "RGBA"):
        return image
    if image.mode in ("LA", "PA", "La", "RGBa") or "transparency" in image.info:
        return image.convert("RGBA")
    return image.convert("L" if image.mode == "1" else "RGB")


def _resized(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """The image at a smaller `size`, band by band: of a whole image Pillow would make copies on the way."""
    from PIL import Image  # heavy

    (width, height), (wanted_width, wanted_height) = image.size, size
    times = height / wanted_height
    margin = math.ceil(4 * times) + 1  # a pixel is made of those at most three of its heights away
    smaller: Image.Image | None = None
    for top in range(0, wanted_height, BAND_ROWS):
        bottom = min(top + BAND_ROWS, wanted_height)
        above = max(0, math.floor(top * times) - margin)
        below = min(height, math.ceil(bottom * times) + margin)
        strip = image.crop((0, above, width, below))
        if strip.mode.startswith("I;"):
            strip = strip.convert("F")
        elif strip.mode not in ("I", "F"):
            strip = plain(strip)  # palettes, single bits and short integers cannot be averaged
        box = (0, top * times - above, width, min(bottom * times, height) - above)
        band = strip.resize((wanted_width, bottom - top), Image.Resampling.LANCZOS, box, reducing_gap=FINE)
        if smaller is None:
            smaller = Image.new(band.mode, size)
        smaller.paste(band, (0, top))
    assert smaller is not None  # an image has a height
    return smaller


def _stretched(image: Image.Image) -> Image.Image:
    """Grey values of 16 bits and more, from the darkest to the brightest that are there."""
    values = image.convert("F")
    extrema: Any = values.getextrema()
    low, high = float(extrema[0]), float(extrema[1])
    scale = 255 / (high - low) if high > low else 0.0
    return values.point(lambda value: value * scale - low * scale).convert("L")


MAX_SIDE = 1_568
"""A larger image is scaled down by the API itself (some models). It takes 2,000 pixels a side at most when a request holds
more than 20 images.
"""


class ImageLimits(Struct, frozen=True):
    """The size at which an image is sent, and the memory of its pixels. The API charges a token for 28 × 28 pixels."""

    max_pixels: int
    decoded_bytes: int


FILE_LIMITS = ImageLimits(max_pixels=1_850_000, decoded_bytes=88_000_000)
"""An image that was asked for: at most about 2,400 tokens; 22 million pixels in colour, 88 million in grey."""

DISPLAY_LIMITS = ImageLimits(max_pixels=1_100_000, decoded_bytes=400_000_000)
"""A picture among what code displayed, of which there may be many: at most about 1,400 tokens. The code that made it had it
in memory already.
"""

MAX_KEPT_BYTES = 500_000
"""A larger file is written anew as JPEG, as Claude Code does."""

DRAFTED_PIXELS = 88_000_000
"""A JPEG takes less: it is decoded at a half, a quarter or an eighth of its size."""

EXIF_ORIENTATION = 0x0112
TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
"""The operation that brings a picture upright, by its EXIF orientation."""

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


class ModelImage(Struct, frozen=True):
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


def model_image(file: BinaryIO, size: int, limits: ImageLimits = FILE_LIMITS) -> ModelImage:
    """The image in `file` (`size` bytes) as a content block. Takes time and memory: not for the event loop.

    Scaled down to `MAX_SIDE` and `limits`, turned as its EXIF data says, the first picture of an animation. Raises
    `UnusableImage`.
    """
    try:
        pixels, about = _decoded(file, limits)
    except UnusableImage:
        file.seek(0)
        # a larger PNG does not get its checksums made anew
        if size > 32_000_000 or (mended := with_right_checksums(file.read(size))) is None:
            raise
        file = io.BytesIO(mended)
        pixels, about = _decoded(file, limits)
    words = f"{about.kind}, {about.width} × {about.height} pixels, {size:,} bytes"
    if about.animated:
        words += ", the first picture of an animation"
    elif pixels.size == (about.width, about.height) and not about.turned:
        if size <= MAX_KEPT_BYTES and about.kind in SENT_AS_THEY_ARE:
            file.seek(0)
            data = file.read()
            if about.kind != "PNG" or has_right_checksums(data):  # Pillow does not miss each of them
                return _with_block(data, SENT_AS_THEY_ARE[about.kind], words)
    else:
        words += f"; shown at {pixels.width} × {pixels.height}"
    return _with_block(*_encoded(plain(pixels)), words)


class _ImageInfo(Struct, frozen=True):
    """The facts that an image's file gives. `turned`: its pixels do not stand as it is meant to be seen."""

    kind: str
    width: int
    height: int
    animated: bool
    turned: bool


def _decoded(file: BinaryIO, limits: ImageLimits) -> tuple[Image.Image, _ImageInfo]:
    """The pixels to be shown, no more than are wanted, and what the file says."""
    from PIL import Image, UnidentifiedImageError  # heavy: 100 ms

    try:
        image = Image.open(file)
        _check_size(image, limits.decoded_bytes)
        orientation = image.getexif().get(EXIF_ORIENTATION, 1)
        turned = orientation in TURNS
        about = _ImageInfo(image.format or "", *image.size, bool(getattr(image, "is_animated", False)), turned)
        if about.kind == "JPEG":
            # Pillow takes the smallest whose sides are each at least so long: of a long picture the short one is no MAX_SIDE
            longest = max(image.size)
            image.draft(None, (max(1, about.width * MAX_SIDE // longest), max(1, about.height * MAX_SIDE // longest)))
        image.load()
        scaled = scaled_down(image, MAX_SIDE, limits.max_pixels)
        return scaled.transpose(Image.Transpose[TURNS[orientation]]) if turned else scaled, about
    except UnusableImage:
        raise
    except UnidentifiedImageError:
        raise UnusableImage("it is damaged, or of a kind that is not known") from None
    except Exception as error:  # broken bytes make the decoders raise whatever their C libraries do
        raise UnusableImage(f"it is damaged or cut off ({error})") from error


def _check_size(image: Image.Image, decoded_bytes: int) -> None:
    """The pixels are decoded only after this: a small file may unfold to gigabytes."""
    width, height = image.size
    if not width or not height:
        raise UnusableImage(f"it has {width} × {height} pixels")
    # Pillow keeps colours in four bytes, and has a copy of grey with transparency
    bytes_per_pixel = {"1": 1, "L": 1, "P": 1, "LA": 6, "PA": 6}.get(image.mode, 4)
    possible = DRAFTED_PIXELS if image.format == "JPEG" else decoded_bytes // bytes_per_pixel
    if width * height > possible:
        raise UnusableImage(f"it has {width} × {height} pixels, more than {possible:,}")


def _with_block(data: bytes, kind: str, words: str) -> ModelImage:
    encoded = base64.b64encode(data).decode("ascii")
    _remember(kind, encoded)
    source = {"type": "base64", "media_type": kind, "data": encoded}
    return ModelImage({"type": "image", "source": source}, words, len(encoded))


def image_from_bytes(data: bytes) -> ModelImage:
    """`model_image` of an image in memory."""
    return model_image(io.BytesIO(data), len(data))


def _encoded(image: Image.Image) -> tuple[bytes, str]:
    """As PNG, or as JPEG where that would be large."""
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


def image_block(data: str) -> dict[str, Any] | str:
    """The content block for a displayed base64 picture; a sentence instead where there can be none. Takes time.

    What kind it is says the picture itself: what was displayed as a PNG may be none.
    """
    try:
        raw = base64.b64decode(data)
    except ValueError:
        return "[a picture that cannot be shown: its data is not valid base64]"
    if media_type(raw[:16]) not in SENT_AS_THEY_ARE.values():
        return "[a picture that cannot be shown: its data is no PNG, JPEG, GIF or WebP]"
    try:
        return model_image(io.BytesIO(raw), len(raw), DISPLAY_LIMITS).block
    except UnusableImage as unusable:
        return f"[a picture that cannot be shown: {unusable}]"


# ---- the gate ----

PDF_BYTES = 32_000_000

_known: dict[tuple[str, int, int], None] = {}
"""Pictures that were made or looked at here, by kind, and length and hash of their data: not to be decoded again."""


def takes_time(content: str | Sequence[Mapping[str, Any]]) -> bool:
    """Return whether `admitted` has to decode something of it: not for the event loop."""
    return not isinstance(content, str) and any(
        takes_time(block.get("content") or ())
        if block.get("type") == "tool_result"
        else block.get("type") in ("image", "document") and not _is_known(block)
        for block in content
    )


def admitted(content: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Blocks of a user's message as the API takes them, and the reasons why pictures or documents are none of them.

    Each picture is decoded, and made smaller where the API or `model_image` wants it so: at most `MAX_SIDE` pixels a side,
    which holds however many there are. Words stand in the place of what cannot be sent. What stands at an address or in
    the API's own store is left to the API. Takes time and memory (`takes_time`).
    """
    blocks: list[dict[str, Any]] = []
    reasons: list[str] = []
    for block in content:
        kind = block.get("type")
        if kind == "tool_result" and not isinstance(block.get("content") or "", str):
            inside, inner = admitted(block["content"])
            blocks.append({**block, "content": inside} if inside != block["content"] else dict(block))
            reasons += inner
        elif kind in ("image", "document") and not _is_known(block):
            try:
                if kind == "document":
                    blocks.append(_admitted_document(block))
                else:
                    data = _base64_data(block)
                    blocks.append({**block, "source": model_image(io.BytesIO(data), len(data)).block["source"]})
            except UnusableImage as unusable:
                what = "a picture" if kind == "image" else "a document"
                blocks.append({"type": "text", "text": f"[{what} that cannot be shown: {unusable}]"})
                reasons.append(f"{what.capitalize()} was left out: {unusable}.")
        else:
            blocks.append(dict(block))
    return blocks, reasons


def _admitted_document(block: Mapping[str, Any]) -> dict[str, Any]:
    data = _base64_data(block)
    # `%PDF` stands in this part of a file at the latest
    if block["source"].get("media_type") != "application/pdf" or b"%PDF" not in data[:1_024]:
        raise UnusableImage("it is no PDF")
    if len(data) > PDF_BYTES:
        raise UnusableImage(f"it has {len(data):,} bytes, more than {PDF_BYTES:,}")
    encoded = base64.b64encode(data).decode("ascii")
    _remember("application/pdf", encoded)
    return {**block, "source": {**block["source"], "data": encoded}}


def _base64_data(block: Mapping[str, Any]) -> bytes:
    source = block.get("source")
    text = source.get("data") if isinstance(source, Mapping) else None
    if not isinstance(text, str):
        raise UnusableImage("it has no data")
    return bytes_of(text)


def bytes_of(text: str) -> bytes:
    """The bytes of base64, with or without the head of a data URL and line breaks. Raises `UnusableImage`."""
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        raise UnusableImage("its data is not valid base64") from None


def _is_known(block: Mapping[str, Any]) -> bool:
    """Return whether nothing has to be looked at: it is no data, or data that was looked at."""
    source = block.get("source")
    if not isinstance(source, Mapping):
        return False
    if source.get("type") != "base64":
        return True
    kind, data = source.get("media_type"), source.get("data")
    return isinstance(kind, str) and isinstance(data, str) and (kind, len(data), hash(data)) in _known


def _remember(kind: str, data: str) -> None:
    _known[kind, len(data), hash(data)] = None
    while len(_known) > 1_000:
        _known.pop(next(iter(_known)), None)
