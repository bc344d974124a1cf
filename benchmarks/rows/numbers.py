"""The row of traced numbers: what the end of an answer waits for, with the sources indexed before."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

from benchmarks.rows.row import Row
from cellwright.features.numbers.sources import source
from cellwright.features.numbers.trace import trace

SEEN, SOURCES, STATED, ROUNDS = 1_000_000, 50, 40, 5
NUMBERS = "n numbers: traced"


def traced(subject: str) -> Mapping[str, float]:
    """Milliseconds of CPU for the numbers of one answer, the best of some rounds."""
    chance = random.Random(3)
    rows = SEEN // SOURCES // 2
    seen = [
        source(
            "output",
            f"Python, call {at}",
            "\n".join(f"row {row} {chance.lognormvariate(5, 3):.4f}" for row in range(rows)),
        )
        for at in range(SOURCES)
    ]
    stated = [chance.choice(chance.choice(seen).values) if at % 2 else chance.random() * 1000 for at in range(STATED)]
    answer = " ".join(
        f"The mean of group {chr(97 + at % 26)} is {value:.2f} in all." for at, value in enumerate(stated)
    )
    rounds = []
    for _ in range(ROUNDS):
        begun = time.thread_time()
        trace(answer, seen)
        rounds.append((time.thread_time() - begun) * 1000)
    return {NUMBERS: min(rounds)}


NUMBER_ROWS = [
    Row(
        NUMBERS,
        f"CPU after an answer with {STATED} numbers, beside {SEEN:,} seen ones, in a thread of its own",
        "ms",
        traced,
        ("cellwright",),
        max_value=50,
    )
]
