"""Large messages, sent in pieces between the kernel and those who look on from outside (a page, the server).

Jupyter Server takes 10 MB in one message of a page, and closes the connection for more; and what a kernel sends is
dropped beyond 1 MB a second (over three seconds). So larger messages go as pieces of their JSON, at a pace.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

PIECE_CHARS = 200_000
MAX_CHARS = 100_000_000


_numbers = itertools.count(1)


class Piece(NamedTuple):
    """A message to send, and how many seconds to wait then."""

    message: Mapping[str, Any]
    pause: float


def pieces(message: Mapping[str, Any]) -> Iterator[Piece]:
    """`message` as it is, or, if it is long, in pieces."""
    text = json.dumps(message)
    if len(text) <= PIECE_CHARS:
        yield Piece(message, 0.0)
        return
    number = next(_numbers)
    for start in range(0, len(text), PIECE_CHARS):
        last = start + PIECE_CHARS >= len(text)
        part = text[start : start + PIECE_CHARS]
        # the first few fit into what a server lets through at once
        # a piece of ASCII each so often is half of what a server lets through
        pause = 0.4 if not last and start >= 3 * PIECE_CHARS else 0.0
        yield Piece({"type": "part", "of": number, "text": part, "last": last}, pause)


class JoinedMessages:
    """Puts the pieces of one sender's messages together; those of one message come in order."""

    def __init__(self) -> None:
        self._texts: dict[int, list[str]] = {}
        self._chars = 0

    def add(self, piece: object) -> dict[str, Any] | None:
        """The message that is whole now; None where more is to come, or where it makes no sense."""
        match piece:
            case {"type": "part", "of": int(number), "text": str(text), "last": bool(last)}:
                self._texts.setdefault(number, []).append(text)
                self._chars += len(text)
                if self._chars > MAX_CHARS:
                    self._texts.clear()
                    self._chars = 0
                return self._whole(number) if last else None
            case {"type": "part"}:
                return None
        return piece if isinstance(piece, dict) else None

    def _whole(self, number: int) -> dict[str, Any] | None:
        text = "".join(self._texts.pop(number, ()))
        self._chars -= len(text)
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            return None  # its beginning was too much
        return message if isinstance(message, dict) else None
