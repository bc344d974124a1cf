"""`make bench`: every row for Cellwright, for a plain floor and for the bare SDK, interleaved in one run.

Absolute times are this machine's; the ratios are what counts. Writes `docs/performance.json` and the table in
`docs/performance.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from collections import defaultdict
from pathlib import Path

from benchmarks.published import measured_code, uncommitted
from benchmarks.rows.branches import BRANCH_ROWS
from benchmarks.rows.browser import BROWSER_ROWS
from benchmarks.rows.cell_ends import CELL_END_ROWS
from benchmarks.rows.decisions import DECISION_ROWS
from benchmarks.rows.index_calls import INDEX_ROWS
from benchmarks.rows.kernel import KERNEL_ROWS
from benchmarks.rows.loop import LOOP_ROWS
from benchmarks.rows.numbers import NUMBER_ROWS
from benchmarks.rows.proxy import PROXY_ROWS
from benchmarks.rows.row import Figures, Row
from benchmarks.rows.sandbox import SANDBOX_ROWS
from benchmarks.rows.searches import SEARCH_ROWS
from benchmarks.rows.table import markdown_table, print_table

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- bench -->", "<!-- /bench -->"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--runs", type=int, default=7, help="runs of each row (median is shown)")
    parser.add_argument("--rows", default="", help="only rows whose name contains this")
    parser.add_argument("--write", action="store_true", help="write docs/performance.{json,md}")
    options = parser.parse_args()
    if options.write and options.rows:
        parser.error("--write publishes all rows: leave --rows out")
    if options.write and (changed := uncommitted()):
        parser.error(f"--write publishes the speeds of a commit: {', '.join(changed[:5])} are in none yet")
    # users' Python keeps its bytecode; compiling at each start is not what is measured
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    cells = (*KERNEL_ROWS, *CELL_END_ROWS)
    own = (*DECISION_ROWS, *NUMBER_ROWS, *LOOP_ROWS)
    process = (*PROXY_ROWS, *SANDBOX_ROWS, *BRANCH_ROWS)
    every = (*own, *cells, *SEARCH_ROWS, *INDEX_ROWS, *process, *BROWSER_ROWS)
    rows = [row for row in every if options.rows in row.name]
    figures = measure(rows, options.runs)
    print_table(rows, figures)
    if options.write:
        write(rows, figures, options.runs)
    missed = [row.name for row in rows if not row.met(figures)]
    if missed:
        print(f"Over target: {', '.join(missed)}")
    return 1 if missed else 0


def measure(rows: list[Row], runs: int) -> Figures:
    """The median of each row and subject; subjects take turns, so that a busy moment hits all of them."""
    samples: dict[tuple[str, str], list[float]] = defaultdict(list)
    for number in range(runs):
        for row in rows:
            for subject in row.subjects:
                print(f"\r{number + 1}/{runs} {row.name} {subject}".ljust(60), end="", file=sys.stderr, flush=True)
                for name, value in row.measure(subject).items():
                    samples[name, subject].append(value)
    print(file=sys.stderr)
    return {key: statistics.median(values) for key, values in samples.items()}


def write(rows: list[Row], figures: Figures, runs: int) -> None:
    code = measured_code()
    machine = f"{platform.machine()}, Python {platform.python_version()}, median of {runs}"
    data = {
        "machine": machine,
        "code": code._asdict(),
        "figures": {f"{name}/{subject}": value for (name, subject), value in figures.items()},
    }
    (DOCS / "performance.json").write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", "utf-8")
    page = DOCS / "performance.md"
    text = page.read_text("utf-8")
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    page.write_text(
        f"{head}{BEGIN}\n{machine}, {code.in_words()}\n\n{markdown_table(rows, figures)}{END}{tail}", "utf-8"
    )


if __name__ == "__main__":
    raise SystemExit(main())
