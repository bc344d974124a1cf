"""The comparison of two runs' outputs of a cell, without what differs each time (addresses, how long it took).

Dates and times do count: they may be data.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from cellwright.kernel.execute.captured_output import ESCAPE_SEQUENCE, IMAGE_TYPES, OVERWRITTEN
from cellwright.text import lazy_pattern
from cellwright.tools.notebook.notebook_source import joined

SHOWN_CHARS = 1_500
"""The length to which each side of a difference is shown."""

_NUMBER = r"\d[\d,.]*(?:e[+-]?\d+)?"
_UNIT = r"(?:ns|µs|μs|us|ms|s|secs?|seconds?|min|mins|minutes?|h)"
_TIME = rf"{_NUMBER}\s*{_UNIT}\b"
_TOOK = (
    r"(?:took|elapsed|duration|runtime|(?:run|elapsed|execution|training|total|fit) time"
    r"|(?:done|finished|completed) (?:in|after))"
)

VOLATILE: tuple[tuple[re.Pattern[str], str], ...] = (
    (lazy_pattern(r"\b0x[0-9a-fA-F]{5,}\b"), "0x…"),
    (lazy_pattern(r"\bid=\d{9,}\b"), "id=…"),
    (lazy_pattern(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"), "<uuid>"),
    (lazy_pattern(r"ipykernel_\d+(?:/\d+\.py)?"), "ipykernel_…"),
    (lazy_pattern(r"\b(?:In|Out) ?\[\d+\]"), "In[…]"),
    (lazy_pattern(r"<ipython-input-\d+-\w+>"), "<ipython-input>"),
    (lazy_pattern(r"^(?:CPU times|Wall time|Compiler time)\s*:.*$", re.MULTILINE), "<time>"),
    (lazy_pattern(rf"(?<![\d,.]){_TIME} ± {_TIME} per loop \(.*\)"), "<time per loop>"),
    (lazy_pattern(r"^.*\d%\|.*\|.*$", re.MULTILINE), "<progress bar>"),
    (lazy_pattern(r"^.*\b\d+it \[\d\d:\d\d, .*\]$", re.MULTILINE), "<progress bar>"),
    (lazy_pattern(rf"(?P<what>\b{_TOOK}[^\n\d]{{0,12}}){_TIME}", re.IGNORECASE), r"\g<what><time>"),
    (lazy_pattern(rf"(?P<what>\b{_TOOK} ?[:=] ?){_NUMBER}", re.IGNORECASE), r"\g<what><time>"),
    (lazy_pattern(r"\b(?P<table>T_)[0-9a-f]{5}(?![0-9a-z])"), r"\g<table>…"),
)
"""Patterns of what differs each time, with their stand-ins: pandas numbers its styled tables at random, for one."""

_SVG_IDS = (
    (lazy_pattern(r"<dc:date>.*?</dc:date>", re.DOTALL), ""),
    (lazy_pattern(r'((?:id|href|clip-path)="(?:url\()?#?)[\w-]+'), r"\1…"),
)

_TEXTS = ("text/plain", "text/markdown", "text/latex", "text/html", "application/json", "image/svg+xml")
"""The types that say most of a mimebundle, best first: the others say the same in another way."""


class Difference(Struct, frozen=True):
    """A difference, in a few words, with what each side has."""

    what: str
    was: str
    now: str


class _Part(Struct, frozen=True):
    """One thing that is compared: `key` is what counts, `shown` what is shown of it."""

    kind: str
    key: str
    shown: str
    image: bytes = b""


def difference(was: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> Difference | None:
    """The first difference between the outputs of two runs; None when they are the same."""
    before, after = list(_parts(was)), list(_parts(now))
    for old, new in zip(before, after, strict=False):
        if (old.kind, old.key) == (new.kind, new.key):
            continue
        if old.kind != new.kind:
            return Difference(f"{old.kind} became {new.kind}", bounded(old.shown), bounded(new.shown))
        what = _pixels(old.image, new.image) if old.image else f"{old.kind} differs"
        return Difference(what, bounded(old.shown), bounded(new.shown))
    if len(before) > len(after):
        gone = before[len(after)]
        return Difference(f"{gone.kind} is missing", bounded(gone.shown), "")
    if len(after) > len(before):
        new = after[len(before)]
        return Difference(f"{new.kind} is new", "", bounded(new.shown))
    return None


def _parts(outputs: Sequence[Mapping[str, Any]]) -> Iterator[_Part]:
    """Errors, then what was printed, each stream as a whole since their order is a matter of chance, then the rest."""
    for output in outputs:
        if output.get("output_type") == "error":
            text = f"{output.get('ename')}: {output.get('evalue')}"
            yield _Part("an error", normalised(text), text)
    for name in ("stdout", "stderr"):
        texts = (joined(output.get("text")) for output in outputs if output.get("name") == name)
        if text := "".join(texts):
            yield _Part(f"the text on {name}", normalised(text), text)
    for output in outputs:
        if output.get("output_type") in ("execute_result", "display_data"):
            yield _of_bundle(output["output_type"], output.get("data") or {})


def _of_bundle(kind: str, data: Mapping[str, Any]) -> _Part:
    what = "the result" if kind == "execute_result" else "a display"
    text = next((mime for mime in _TEXTS if mime in data), "")
    shown = _text(data[text]) if text else ", ".join(data)
    image = next((mime for mime in IMAGE_TYPES if mime in data), "")
    if not image:
        return _Part(what, normalised(_text(data[text]), svg=text == "image/svg+xml") if text else shown, shown)
    try:
        raw = base64.b64decode(joined(data[image]))
    except (binascii.Error, ValueError):
        raw = joined(data[image]).encode()
    return _Part(f"{what} (a picture)", _image_key(raw), f"[{image}, {len(raw):,} bytes] {shown}", raw)


def _text(value: Any) -> str:
    return joined(value) if isinstance(value, str | list) else json.dumps(value, sort_keys=True)


def normalised(text: str, *, svg: bool = False) -> str:
    """`text` without what differs each time."""
    text = ESCAPE_SEQUENCE.sub("", text).replace("\r\n", "\n")
    text = OVERWRITTEN.sub("", text)
    for pattern, stand_in in (*VOLATILE, *(_SVG_IDS if svg else ())):
        text = pattern.sub(stand_in, text)
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))


def _image_key(raw: bytes) -> str:
    """A hash of the pixels; of the bytes where they cannot be decoded."""
    image = _decoded(raw)
    if image is None:
        return hashlib.sha256(raw).hexdigest()
    return f"{image.size} {hashlib.sha256(image.tobytes()).hexdigest()}"


def _pixels(was: bytes, now: bytes) -> str:
    """Describe the difference between two pictures."""
    old, new = _decoded(was), _decoded(now)
    if old is None or new is None:
        return "a picture differs in its bytes"
    if old.size != new.size:
        return "a picture has another size: {}×{} became {}×{}".format(*old.size, *new.size)
    from PIL import ImageChops  # heavy, like all of it

    changed = ImageChops.difference(old, new).convert("RGB").convert("L").point(lambda value: 255 if value else 0)
    share = sum(changed.histogram()[1:]) / (old.size[0] * old.size[1])
    return f"a picture differs in {share:.2%} of its pixels"


def _decoded(raw: bytes) -> Any:
    """The picture; None where it cannot be decoded."""
    from PIL import Image  # heavy

    try:
        return Image.open(io.BytesIO(raw)).convert("RGBA")
    except (OSError, Image.DecompressionBombError):
        return None


def bounded(text: str) -> str:
    """The beginning and the end of a text."""
    text = ESCAPE_SEQUENCE.sub("", text).strip("\n")
    if len(text) <= SHOWN_CHARS:
        return text
    head, tail = SHOWN_CHARS * 2 // 3, SHOWN_CHARS // 3
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters left out …]\n{text[-tail:]}"
