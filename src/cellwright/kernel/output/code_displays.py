"""Displays of Claude's code as the outputs of the cell: while it runs, and as much of it as the notebook keeps.

A display is the user's own kind of output, with all its MIME types: a table, a plot, a widget look as if the cell itself had
displayed them. Pictures are made smaller until they fit into a notebook that is mailed and compared.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from cellwright.events import Event, ToolEnd, ToolProgress, ToolStart

PICTURE_BYTES = 150_000
"""Of one picture, before it is encoded."""

PICTURES_BYTES = 1_000_000
"""Of all pictures of a run."""

_FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP"}
_SIDES = (1_600, 1_100, 800)
_MAX_PIXELS = 4_000_000

_NOTHING = {"text/plain": ""}


class CodeDisplay(Struct, frozen=True):
    """A display, or its new state where one with this `display_id` is there."""

    display_id: str
    data: Mapping[str, Any]
    metadata: Mapping[str, Any]


class CodeDisplays:
    """Says which outputs come of the displays of code. After `clear_output` new displays take the places of the old ones."""

    def __init__(self) -> None:
        self._calls: set[str] = set()
        self._own: dict[str, list[str]] = {}
        """The outputs of each call."""
        self._free: list[str] = []
        self._named: dict[str, list[str]] = {}
        """The outputs that the code can update, by the name that it has for them."""

    def take(self, event: Event) -> Iterator[CodeDisplay]:
        """Yield what `event` shows."""
        match event:
            case ToolStart():
                # no other tool may put something active into a page; what a branch displays is made passive by its tool
                self._calls |= {call.id for call in event.calls if call.name in ("Python", "Branch")}
            case ToolProgress(place=dict(place)) if event.tool_use_id in self._calls:
                yield from self._placed(event, place)
            case ToolEnd() if event.tool_use_id in self._calls:
                yield from (CodeDisplay(each, _NOTHING, {}) for each in self._free)
                self._free.clear()

    def _placed(self, event: ToolProgress, place: Mapping[str, Any]) -> Iterator[CodeDisplay]:
        own = self._own.setdefault(event.tool_use_id, [])
        if place.get("clear"):
            self._free = list(own)
            return
        name, data, metadata = str(place["display_id"]), event.output or {}, place["metadata"]
        if place["update"]:
            yield from (CodeDisplay(each, data, metadata) for each in self._named.get(name, ()))
            return
        named = self._named.setdefault(name, []) if name else []
        if self._free:
            display_id = self._free.pop(0)
        else:
            # under the name of the code's own, the user's code can update it, too
            display_id = name if name and not named else f"claude-{uuid.uuid4().hex}"
            own.append(display_id)
        named.append(display_id)
        yield CodeDisplay(display_id, data, metadata)


def kept_displays(displays: Sequence[Mapping[str, Any]], clean: Callable[[str], str]) -> list[dict[str, Any]]:
    """The mimebundles as a notebook keeps them; what there is no room for is a line that says so.

    `clean` takes secrets out of a text.
    """
    # of all its other displays: a chart that brings its library along has four megabytes
    room = {True: PICTURES_BYTES, False: 5_000_000}
    kept: list[dict[str, Any]] = []
    for bundle in displays:
        is_picture = any(kind.startswith("image/") for kind in bundle)
        smaller = {kind: _cleaned(kind, smaller_picture(kind, data), clean) for kind, data in bundle.items()}
        texts = (data if isinstance(data, str) else json.dumps(data, default=str) for data in smaller.values())
        size = sum(map(len, texts))
        if size > room[is_picture]:
            what = "picture" if is_picture else "display"
            smaller = {"text/plain": f"[a {what} of {size:,} bytes: not kept in the notebook]"}
        else:
            room[is_picture] -= size
        kept.append(smaller)
    return kept


def _cleaned(kind: str, data: Any, clean: Callable[[str], str]) -> Any:
    # what is longer is a library that came along
    return clean(data) if kind.startswith("text/") and isinstance(data, str) and len(data) <= 400_000 else data


def smaller_picture(kind: str, data: Any) -> Any:
    """Return a picture, as base64, scaled down as far as it must be; everything else as it is."""
    if kind not in _FORMATS or not isinstance(data, str) or len(data) * 3 / 4 <= PICTURE_BYTES:
        return data
    from PIL import Image  # heavy, and few pictures are large

    from cellwright.model.images import plain, scaled_down

    try:
        image = Image.open(io.BytesIO(base64.b64decode(data)))
        encoded = data
        for side in _SIDES:
            out = io.BytesIO()
            small = plain(scaled_down(image, side, _MAX_PIXELS))
            if kind == "image/png":
                # a figure has few colours: 256 of them look the same and take a third
                small = small.quantize(256, method=Image.Quantize.FASTOCTREE)
            small.convert("RGB" if kind == "image/jpeg" else small.mode).save(out, _FORMATS[kind], optimize=True)
            encoded = base64.b64encode(out.getvalue()).decode("ascii")
            if out.tell() <= PICTURE_BYTES:
                break
    except (OSError, ValueError, binascii.Error, Image.DecompressionBombError):
        return data  # no picture that can be opened: the front end says so
    return encoded if len(encoded) < len(data) else data
