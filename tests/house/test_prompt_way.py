"""The way of a warm cell to its request stays short: what it does is counted, which no busy machine changes."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_warm_cell_does_little_before_its_request_leaves() -> None:
    command = [sys.executable, "-m", "benchmarks.prompt_way"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    counted = re.search(r"(\d+) files on the way.*?(\d+) calls, (\d+) looks", said, re.DOTALL)
    assert counted is not None, said
    files, calls, looks = map(int, counted.groups())
    assert files <= 10, said
    assert calls <= 4_700, said
    assert looks <= 97, said
