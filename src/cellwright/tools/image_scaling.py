"""Pixels made fewer, in little more memory than the image itself takes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL import Image

STRIP_ROWS = 64
"""Rows of the reduced image that are made at a time."""

FINE = 2
"""How many times larger than wanted a reduced image must still be, so that the last step can be done well."""


def scaled_down(image: Image.Image, max_side: int, max_pixels: int) -> Image.Image:
    """The image itself if it is small enough, else a smaller one in proportion."""
    from PIL import Image  # heavy

    width, height = image.size
    factor = min(max_side / max(width, height), math.sqrt(max_pixels / (width * height)))
    if factor >= 1:
        return image
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    times = int(1 / factor / FINE)
    fewer = _reduced(image, times) if times > 1 else _averageable(image)
    return fewer.resize(size, Image.Resampling.LANCZOS)


def plain(image: Image.Image) -> Image.Image:
    """The image in grey, RGB, or RGBA."""
    if image.mode in ("I", "F") or image.mode.startswith("I;"):
        return _stretched(image)
    if image.mode in ("L", "RGB", "RGBA"):
        return image
    if image.mode in ("LA", "PA", "La", "RGBa") or "transparency" in image.info:
        return image.convert("RGBA")
    return image.convert("L" if image.mode == "1" else "RGB")


def _reduced(image: Image.Image, times: int) -> Image.Image:
    """Each `times` × `times` pixels averaged, strip by strip: of a whole image Pillow would make copies on the way."""
    from PIL import Image  # heavy

    width, height = image.size
    rows = STRIP_ROWS * times
    fewer: Image.Image | None = None
    for top in range(0, height, rows):
        strip = _averageable(image.crop((0, top, width, min(height, top + rows)))).reduce(times)
        if fewer is None:
            fewer = Image.new(strip.mode, (strip.width, math.ceil(height / times)))
        fewer.paste(strip, (0, top // times))
    assert fewer is not None  # an image has a height
    return fewer


def _averageable(image: Image.Image) -> Image.Image:
    """Palettes, single bits and short integers cannot be averaged."""
    if image.mode.startswith("I;"):
        return image.convert("F")
    return image if image.mode in ("I", "F") else plain(image)


def _stretched(image: Image.Image) -> Image.Image:
    """Grey values of 16 bits and more, from the darkest to the brightest that are there."""
    values = image.convert("F")
    extrema: Any = values.getextrema()
    low, high = float(extrema[0]), float(extrema[1])
    scale = 255 / (high - low) if high > low else 0.0
    return values.point(lambda value: value * scale - low * scale).convert("L")
