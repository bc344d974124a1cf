"""Tables of a documentation page, each between marks of its name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct


class Table(Struct, frozen=True):
    """A table: its first columns hold words, the others numbers."""

    name: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1

    def markdown(self) -> str:
        """The table as it stands in the page."""
        marks = ["---" if column < self.words else "--:" for column in range(len(self.head))]
        return "\n".join(f"| {' | '.join(row)} |" for row in (self.head, marks, *self.rows))


def write_tables(page: Path, tables: Iterable[Table], line: str) -> None:
    """Put each table that has rows in the place of the one of its name, below `line`, which says what was measured."""
    text = page.read_text("utf-8")
    for table in tables:
        begin, end = f"<!-- {table.name} -->", f"<!-- /{table.name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise ValueError(f"{page} has no place for the table {table.name}")
        if table.rows:
            text = f"{before}{begin}\n{line}\n\n{table.markdown()}\n{end}{after}"
    page.write_text(text, "utf-8")
