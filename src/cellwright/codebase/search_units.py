"""Texts for lexical search: the pieces of a file that are found as one, and the words that stand for them.

An identifier stands for itself and for the words that it is made of: `parseHTTPHeader` is also parse, http and header.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from msgspec import Struct

from cellwright.codebase.parsing.facts import FUNCTIONS, Symbol
from cellwright.codebase.parsing.source_file import SourceText
from cellwright.text import lazy_pattern

FUNCTION_LINES = 200
HEAD_LINES = 20
WINDOW_LINES = 60
UNIT_CHARS = 20_000

_WORD = lazy_pattern(r"[^\W\d]\w*")
_PIECE = lazy_pattern(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[^\W\d_A-Za-z]+")


class Unit(Struct, frozen=True):
    """Lines of a file that are found together; `symbol` is the index of the definition that they are, -1 for none."""

    line: int
    end_line: int
    symbol: int = -1


@functools.lru_cache(maxsize=200_000)
def subtokens(word: str) -> str:
    """An identifier and the words in it."""
    pieces = _PIECE.findall(word)
    return word if len(pieces) < 2 else f"{word} {' '.join(pieces)}"


def searchable(text: str) -> str:
    """The words of a text, each identifier with those in it.

    >>> searchable("x = parseHTTPHeader(raw_line)")
    'x parseHTTPHeader parse HTTP Header raw_line raw line'
    """
    return " ".join(map(subtokens, _WORD.findall(text[:UNIT_CHARS])))


def units_of(source: SourceText, symbols: Sequence[Symbol]) -> Iterator[Unit]:
    """The units of a file with these definitions."""
    if not symbols:
        for line in range(1, source.lines + 1, WINDOW_LINES):
            yield Unit(line, min(line + WINDOW_LINES - 1, source.lines))
        return
    first = min(symbol.line for symbol in symbols)
    if first > 1:
        yield Unit(1, min(first - 1, WINDOW_LINES))
    children: dict[int, int] = {}
    for symbol in symbols:
        if symbol.parent >= 0:
            children[symbol.parent] = min(symbol.line, children.get(symbol.parent, symbol.line))
    for index, symbol in enumerate(symbols):
        if symbol.parent >= 0 and symbols[symbol.parent].kind in FUNCTIONS:
            continue  # it is in the text of the one around it
        if symbol.kind not in ("variable", "macro"):
            yield Unit(symbol.line, _last_line(symbol, children.get(index, symbol.end_line + 1)), index)


def _last_line(symbol: Symbol, first_child: int) -> int:
    """The last line of the unit of a definition: what is defined in a class has units of its own."""
    if symbol.kind in FUNCTIONS:
        return min(symbol.end_line, symbol.line + FUNCTION_LINES - 1)
    own = max(min(symbol.end_line, first_child - 1), symbol.line)
    return own if symbol.kind == "heading" else min(own, symbol.line + HEAD_LINES - 1)
