"""The files of a project by name, for completion: what its ignore files leave, within a bound of time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from cellwright.tools.search.glob import NO_VERSION_CONTROL, relative_path
from cellwright.tools.search.ripgrep import SearchProgram, run_ripgrep, search_program

LIST_SECONDS = 1.0
"""A project that takes longer to list is known in part."""

MOST_FILES = 50_000
FRESH_SECONDS = 2.0
"""Who types a path asks with each letter."""

ARGUMENTS = ("--files", "--hidden", "--null", *NO_VERSION_CONTROL, "--", ".")


class ProjectFiles:
    """The files below `folder`, and the folders that hold them (with a `/` at the end). Used on the agent's loop."""

    def __init__(self, folder: Path, program: Callable[[], SearchProgram] = search_program) -> None:
        self._folder = folder
        self._program = program
        self._listing = asyncio.Lock()
        self._paths: list[str] = []
        self._listed = float("-inf")

    async def paths(self) -> list[str]:
        """Paths relative to the folder, those nearest to it first. Raises ToolError where nothing can be listed."""
        async with self._listing:
            if time.monotonic() - self._listed > FRESH_SECONDS:
                output = await run_ripgrep(
                    self._program(),
                    ARGUMENTS,
                    cwd=self._folder,
                    separator=b"\0",
                    seconds=LIST_SECONDS,
                    max_records=MOST_FILES,
                )
                self._paths = await asyncio.to_thread(_in_order, output.records)
                self._listed = time.monotonic()
            return self._paths


def _in_order(records: Iterable[bytes]) -> list[str]:
    files = [path for record in records if (path := relative_path(record)).isprintable()]
    folders = {folder for path in files for folder in _folders_of(path)}
    return sorted(
        [*files, *folders], key=lambda path: (path.rstrip("/").count("/"), path.startswith("."), path.lower())
    )


def _folders_of(path: str) -> Iterable[str]:
    end = path.rfind("/")
    while end > 0:
        yield path[: end + 1]
        end = path.rfind("/", 0, end)
