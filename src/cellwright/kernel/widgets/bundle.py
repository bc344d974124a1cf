"""The browser's part as it was built, a small loader and the renderer, and whether this environment can show it."""

from __future__ import annotations

import functools
import importlib.metadata
from pathlib import Path

STATIC = Path(__file__).parent / "static"
LOADER = STATIC / "loader.js"
RENDERER = STATIC / "transcript.js"


def is_built() -> bool:
    """Return whether the files are there; a source checkout has them after `make build`."""
    return LOADER.is_file() and RENDERER.is_file()


NOT_BUILT = (
    "[Cellwright's widget was not built: run `make build` in the source checkout. Answers appear without it, and "
    "questions come as input fields.]"
)
TOO_OLD = (
    "[{package} {version} is too old for the live transcript ({least} has it): the answer is renewed as it comes, and "
    "questions come as input fields.]"
)


@functools.cache  # nothing takes the files away; each cell asks
def why_no_widget() -> str:
    """Explain why the transcript's widget cannot be shown here, in one sentence for the user; "" where it can."""
    return _too_old() or ("" if is_built() else NOT_BUILT)


def _too_old() -> str:
    for package, least in (("ipywidgets", (8, 0)), ("ipykernel", (6, 18))):
        version = importlib.metadata.version(package)
        if tuple(map(int, version.split(".")[:2])) < least:
            return TOO_OLD.format(package=package, version=version, least=".".join(map(str, least)))
    return ""
