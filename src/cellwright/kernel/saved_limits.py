"""How much of a run a notebook keeps: it is opened, diffed and mailed long after. The whole is in the session's transcript.

An answer is kept whole up to 100,000 characters, some 25,000 tokens. The plain text beside the Markdown is for front ends
that show no Markdown, and short: it would double every notebook. Pictures are made smaller until they fit.
"""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Mapping, Sequence
from typing import Any

ANSWER_CHARS = 100_000
DIFF_CHARS = 10_000
"""Of one call."""

DIFFS_CHARS = 50_000
"""Of all calls of a run."""

PLAIN_CHARS = 8_000
PICTURE_BYTES = 150_000
"""Of one picture, before it is encoded."""

PICTURES_BYTES = 1_000_000
"""Of all pictures of a run."""

_SIDES = (1_600, 1_100, 800)
_MOST_PIXELS = 4_000_000


class Room:
    """What is left of a number of characters."""

    def __init__(self, chars: int) -> None:
        self._left = chars

    def take(self, text: str, most: int | None = None) -> tuple[str, int]:
        """As much of `text` as there is room for, at most `most`, and how many characters that leaves out."""
        end = min(self._left, len(text) if most is None else most)
        self._left -= min(end, len(text))
        return text[:end], max(len(text) - end, 0)


def left_out(chars: int) -> str:
    """What stands in the place of characters that are not kept."""
    return f"… {chars:,} characters more are in the session's transcript: /export writes it out"


def short_plain(text: str) -> str:
    """`text` as the notebook keeps it: its beginning and its end."""
    if len(text) <= PLAIN_CHARS:
        return text
    tail = PLAIN_CHARS // 4
    head = PLAIN_CHARS - tail
    return f"{text[:head]}\n[{left_out(len(text) - PLAIN_CHARS)}]\n{text[-tail:]}"


def kept_pictures(pictures: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The mimebundles with pictures that a notebook keeps; one of text says how many were left out."""
    kept: list[dict[str, Any]] = []
    left = PICTURES_BYTES
    for number, bundle in enumerate(pictures):
        smaller = {kind: _smaller(kind, data) for kind, data in bundle.items() if isinstance(data, str)}
        size = sum(len(data) for kind, data in smaller.items() if kind.startswith("image/"))
        if size > left:
            more = len(pictures) - number
            kept.append(
                {"text/plain": f"[{more} more picture{'s' if more > 1 else ''} of this run: not kept in the notebook]"}
            )
            break
        left -= size
        kept.append({**smaller})
    return kept


def _smaller(kind: str, data: str) -> str:
    """A PNG scaled down as far as it must be; everything else as it is."""
    if kind != "image/png" or len(data) * 3 / 4 <= PICTURE_BYTES:
        return data
    from PIL import Image  # heavy, and few pictures are large

    from cellwright.tools.image_scaling import plain, scaled_down

    try:
        image = Image.open(io.BytesIO(base64.b64decode(data)))
        encoded = data
        for side in _SIDES:
            out = io.BytesIO()
            small = plain(scaled_down(image, side, _MOST_PIXELS))
            # a figure has few colours: 256 of them look the same and take a third
            small.quantize(256, method=Image.Quantize.FASTOCTREE).save(out, "PNG", optimize=True)
            encoded = base64.b64encode(out.getvalue()).decode("ascii")
            if out.tell() <= PICTURE_BYTES:
                break
    except (OSError, ValueError, binascii.Error, Image.DecompressionBombError):
        return data  # no picture that can be opened: the front end says so
    return encoded if len(encoded) < len(data) else data
