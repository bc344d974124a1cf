"""Searches of folders whose result is kept while nothing that they look at has changed.

Each prompt asks what settings, skills, agents and instructions there are, and hardly ever is there anything new.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Found = TypeVar("Found")

Facts = tuple[int | str, ...]
"""The first is the time of the last change, in nanoseconds; 0 where it does not matter."""

MAX_PLACES = 400
"""The most that is looked at to know that nothing has changed; with more, a search is no dearer."""

TIME_STEP_NS = 2_000_000_000
"""The coarsest step in which a file system in use counts time (FAT's), in nanoseconds."""


class KeptSearch(Generic[Asked, Found]):
    """A search, `search(asked)`, made anew only where something has changed that it looks at. From any thread.

    `places(asked)` are the files and folders that tell, by being there, by the time of their change, or by the names in
    them, whether the search would find something else. `keeps(found)` says whether they tell all of it. A file that has
    changed within `time_step_ns` before a search can change again and look the same, so that one is not relied on.
    """

    def __init__(
        self,
        search: Callable[[Asked], Found],
        places: Callable[[Asked], Iterator[str]],
        *,
        keeps: Callable[[Found], bool] = lambda _found: True,
        time_step_ns: int = TIME_STEP_NS,
    ) -> None:
        self._search, self._places, self._keeps = search, places, keeps
        self._time_step_ns = time_step_ns
        self._kept: tuple[Asked, Sequence[str], list[Facts | None], Found] | None = None

    def find(self, asked: Asked) -> Found:
        """The findings as they are now."""
        if (kept := self._kept) is not None:
            before, places, facts, found = kept
            if before == asked and [facts_of(place) for place in places] == facts:
                return found
        now = time.time_ns()
        places = [*islice(self._places(asked), MAX_PLACES + 1)]
        if len(places) > MAX_PLACES:
            self._kept = None
            return self._search(asked)
        facts = [facts_of(place) for place in places]  # before the search: what changes during it is seen next time
        found = self._search(asked)
        is_settled = all(fact is None or int(fact[0]) < now - self._time_step_ns for fact in facts)
        self._kept = (asked, places, facts, found) if is_settled and self._keeps(found) else None
        return found


def places_below(folder: str) -> Iterator[str]:
    """The places of a search that may find any file in `folder` or below."""
    yield folder
    # links are followed: what they lead to is read, too
    for parent, folders, files in os.walk(folder, followlinks=True):
        for name in (*folders, *files):
            yield f"{parent}/{name}"


class _Seen(threading.local):
    facts: dict[str, Facts | None] | None = None


_seen = _Seen()  # of a thread and no context: what is begun meanwhile and goes on looks for itself


@contextlib.contextmanager
def seen_once() -> Iterator[None]:
    """In the block, on this thread, `facts_of` tells of each path what it found first.

    For a moment in which several searches look at the same files: an answer from before a search is as good for it.
    """
    before, _seen.facts = _seen.facts, {}
    try:
        yield
    finally:
        _seen.facts = before


def facts_of(path: str) -> Facts | None:
    """The facts that tell one state of a file or folder from another; of the folder of git, that it is there."""
    if (seen := _seen.facts) is None:
        return _facts(path)
    if path not in seen:
        seen[path] = _facts(path)
    return seen[path]


def _facts(path: str) -> Facts | None:
    try:
        # of what a link leads to; a string, since paths are dear to make; the change time cannot be set back
        facts = os.stat(path)  # noqa: PTH116
        if not stat.S_ISDIR(facts.st_mode):
            return (facts.st_ctime_ns, facts.st_mtime_ns, facts.st_size, facts.st_ino, facts.st_mode)
        if path.endswith("/.git"):
            return (0, facts.st_ino)
        # the times of a folder tell nothing where it is kept by a web service
        return (0, facts.st_ino, facts.st_mode, *sorted(os.listdir(path)))  # noqa: PTH208
    except (OSError, ValueError):  # none is there, it may not be read, or none can be of that name
        return None


def crowded(folder: Path, there: int, most: int, what: str) -> list[str]:
    """Say that of the `what` in a folder only the first are taken, where there are more."""
    return [f"{folder}: of {there:,} {what} only the first {most:,} are taken."] if there > most else []


def files_in(folder: Path, pattern: str) -> list[Path]:
    """The files of `folder` that fit a pattern of `Path.glob`, sorted; none where it is missing or may not be read."""
    if not os.path.isdir(folder):  # noqa: PTH112  most are not there, and every prompt asks: a glob is dear
        return []
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []
