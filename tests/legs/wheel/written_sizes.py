"""The sizes and packages that pages state, as the wheel's tests measure them: `docs/installation.json`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

WRITTEN = Path(__file__).parents[3] / "docs" / "installation.json"
WRITES = os.environ.get("CELLWRIGHT_WRITE_SIZES") == "1"
"""Read before a test begins, which has no variable of ours."""
SHARE = 0.1
"""How far a size may be from the written one: versions of other packages differ from day to day."""


def write_sizes(measured: Mapping[str, Any]) -> None:
    """Put what was measured into the file, if the run is `make sizes`."""
    if WRITES:
        known = json.loads(WRITTEN.read_text("utf-8")) if WRITTEN.is_file() else {}
        WRITTEN.write_text(json.dumps({**known, **measured}, indent=1, sort_keys=True) + "\n", "utf-8")
