"""`cellwright trust-recording FILE`: the user, or their CI, says that somebody else's recording may be played."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from cellwright.agent.recording.recordings import parse_recording, read_recording
from cellwright.agent.recording_trust import trust


def trust_recordings(argv: Sequence[str]) -> int:
    """Sign the recordings that `argv` names, as they are now. Raises CellwrightError for what is none."""
    parser = argparse.ArgumentParser(
        prog="cellwright trust-recording",
        description="Say that recordings may be played although you did not make them. Playing one sends nothing, but runs "
        "its Python code and writes its files. A recording that changes afterwards is asked about again.",
    )
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path)
    for file in parser.parse_args(argv).files:
        data = read_recording(file)
        turns = parse_recording(data, file)
        trust(data)
        print(f"{file}: {len(turns)} turn{'s' if len(turns) != 1 else ''}, trusted as it is now")
    return 0
