"""What is known of a value: the parts of a line in a list, and further lines that are made when somebody wants them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


def nothing_more() -> Iterable[str]:
    """Of a value that its summary says everything about."""
    return ()


@dataclass(frozen=True, slots=True)
class Description:
    """A value in words. `summary` is short; `more()` gives further lines and may take a while; `memory` is in bytes."""

    type: str
    shape: str = ""
    summary: str = ""
    memory: int | None = None
    more: Callable[[], Iterable[str]] = nothing_more

    @property
    def label(self) -> str:
        """The value inside of another."""
        return f"<{self.type} {self.shape}>" if self.shape else f"<{self.type}>"


def count_of(number: int, word: str) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def bytes_in_words(size: int) -> str:
    """A size as people read it: `1.2 MB`."""
    if size < 1_000:
        return f"{size} B"
    amount = float(size)
    for unit in ("kB", "MB", "GB"):
        amount /= 1_000
        if amount < 1_000:
            return f"{amount:.3g} {unit}"
    return f"{amount / 1_000:,.3g} TB"


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of a table as lines; every column but the last is as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
