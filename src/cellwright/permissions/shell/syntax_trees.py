"""Parsing by tree-sitter that can be stopped, and that lets other threads run meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Tree

_BUFFERS: list[bytearray] = []
"""Buffers that no parser reads from now; as many as there were ever read at once."""


def parse_until(language: Language, source: bytes, stop: Callable[[], bool]) -> Tree | None:
    """Return the syntax tree of `source` (UTF-8); None once `stop`, which is asked again and again, says so.

    The tree knows places, not texts: `Node.text` is not to be used.
    """
    from tree_sitter import Parser  # native code

    # py-tree-sitter (0.26.1) can be stopped only where it reads by a function, and keeps a reference to whatever that
    # returns for good: so it is always one of a few buffers, which are empty afterwards
    try:
        buffer = _BUFFERS.pop()
    except IndexError:
        buffer = bytearray()

    def read(at: int, _position: object) -> bytearray:
        buffer[:] = source[at:]
        return buffer

    try:
        # a parser of its own: while it asks us, another thread may parse
        return Parser(language).parse(read, progress_callback=lambda _at, _has_error: stop())
    except ValueError:  # it was stopped
        return None
    finally:
        buffer.clear()
        _BUFFERS.append(buffer)
