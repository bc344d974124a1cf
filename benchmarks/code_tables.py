"""Tables in docs/code-intelligence.md, each between marks of its name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "code-intelligence.md"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is words and the others numbers."""
    marks = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, marks, *rows))


def write_table(name: str, table: str) -> None:
    """Put a table in the place of the one of its name."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    PAGE.write_text(f"{before}{begin}\n{table}\n{end}{after}", "utf-8")
