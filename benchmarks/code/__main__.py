"""`make bench-code`: what docs/code-intelligence.md says of the index in figures, measured anew.

Speed on the folders of `--speed`, how right the answers are on those of `--accuracy`, and what Claude saves on a checkout of
Flask. Programs that do a part of it (rg, git grep, ctags, jedi) are measured in the same run. What is not given is not
measured, and its table stays. Indexes are built in a temporary place; nothing in the folders is changed.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.code.accuracy import NAMES as ACCURACY_NAMES
from benchmarks.code.accuracy import QUERIES, definitions, embedding_settings, references, retrieval
from benchmarks.code.index import NAMES, run_indexer, speed
from benchmarks.code.navigation import navigation
from benchmarks.code.tables import Table, write_tables
from benchmarks.published import measured_code

PAGE = Path(__file__).parents[2] / "docs" / "code-intelligence.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.code", description=__doc__)
    parser.add_argument("--speed", type=Path, help="a folder, the larger the better")
    parser.add_argument("--accuracy", nargs="*", type=Path, default=[], help="folders")
    parser.add_argument("--flask", type=Path, help="a checkout of Flask, for questions and retrieval")
    parser.add_argument("--embedding", type=embedding_settings, help="a model, as `cellwright.embedding` names it")
    parser.add_argument("--sample", type=int, default=NAMES, help="names and questions at most")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page that the tables are written to")
    options = parser.parse_args()
    # users' Python keeps its bytecode; compiling at each start is not what is measured
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as home:
        os.environ["CELLWRIGHT_HOME"] = home
        for table in measure(options, Path(home)):
            print(f"\n{table.name}\n{table.markdown()}", flush=True)
            # at once: what comes later may fail, or be ended
            write_tables(options.page, [table], what_was_measured())
    return 0


def measure(options: argparse.Namespace, home: Path) -> Iterator[Table]:
    """The tables, one by one."""
    if options.speed is not None:
        yield speed(options.speed.resolve(), options.sample)
    folders = [folder.resolve() for folder in options.accuracy]
    for folder in folders:
        run_indexer(folder)
    head = ("corpus", "language", "beside", "definitions", "of these found", "of ours, also there")
    yield Table("definitions", head, [row for each in folders for row in definitions(each)], words=3)
    names = min(options.sample, ACCURACY_NAMES)
    columns = ("corpus", "names", "by jedi", "of these found", "by the index", "of these by jedi")
    head = (*columns, "time of the index", "of jedi")
    yield Table("references", head, [row for each in folders for row in references(each, names)])
    if options.flask is None:
        return
    flask = options.flask.resolve()
    run_indexer(flask)
    rows = list(retrieval(flask, home / "stripped", options.embedding, min(options.sample * 3, QUERIES)))
    yield Table("retrieval", ("corpus", "way", "MRR@10", "recall@10"), rows, words=2)
    yield navigation(flask)


def what_was_measured() -> str:
    """The code, the day and the machine, in a line."""
    code, load = measured_code(), os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    machine = f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}"
    return f"{code.in_words()}, {datetime.date.today():%B %Y}, {machine}, load {load:.1f}."


if __name__ == "__main__":
    sys.exit(main())
