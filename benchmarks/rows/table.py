"""The figures as a table: on the screen and in docs/performance.md."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.rows.row import Figures, Row


def _cells(row: Row, figures: Figures) -> list[str]:
    def value(subject: str) -> str:
        figure = figures.get((row.name, subject))
        return "–" if figure is None else f"{figure:.3g}" if figure < 100 else f"{figure:,.0f}"

    ratio = row.ratio(figures)
    target = f"≤ {row.max_ratio:g}× floor" if row.max_ratio else f"≤ {row.max_value:g}" if row.max_value else ""
    return [
        row.name,
        f"{row.what}, {row.unit}",
        value("floor"),
        value("sdk"),
        value("cellwright"),
        "–" if ratio is None else f"{ratio:.2f}×",
        target + ("" if row.met(figures) else " **missed**"),
    ]


HEAD = ["row", "what", "floor", "SDK", "Cellwright", "to floor", "target"]


def markdown_table(rows: Sequence[Row], figures: Figures) -> str:
    lines = [HEAD, ["---", "---", "--:", "--:", "--:", "--:", "---"], *(_cells(row, figures) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def print_table(rows: Sequence[Row], figures: Figures) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*HEAD)
    for row in rows:
        table.add_row(*_cells(row, figures))
    Console(width=150).print(table)
