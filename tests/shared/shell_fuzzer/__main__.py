"""`python -m shell_fuzzer`: plays commands for a time and tells what ran against its decision."""

from __future__ import annotations

import argparse
import sys
import time

from shell_fuzzer.fuzzing import fuzz
from shell_fuzzer.traced_shell import missing_means


def main() -> int:
    """Play, print the tally and each failure; the exit code says whether there was one."""
    parser = argparse.ArgumentParser(prog="python -m shell_fuzzer", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--commands", type=int, default=10**9)
    parser.add_argument("--seed", default=str(int(time.time())))
    given = parser.parse_args()
    if missing := missing_means():
        print(f"The fuzzer cannot run here: {missing}", file=sys.stderr)
        return 2
    print(f"seed {given.seed}", flush=True)
    tally = fuzz(given.seed, given.commands, given.seconds, tell=lambda failure: print(failure, flush=True))
    if tally.failures:
        print(f"{len(tally.failures)} commands did what nothing allowed, in {len(tally.kinds)} ways.")
    print(tally)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
