"""The browser's part as it was built: a small loader and the renderer."""

from __future__ import annotations

from pathlib import Path

STATIC = Path(__file__).parent / "static"
LOADER = STATIC / "loader.js"
RENDERER = STATIC / "transcript.js"


def is_built() -> bool:
    """Return whether the files are there; a source checkout has them after `make build`."""
    return LOADER.is_file() and RENDERER.is_file()
