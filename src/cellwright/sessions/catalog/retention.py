"""Deletion of old sessions: those that nobody went on with for `cleanupPeriodDays`, as with Claude Code.

The user is told a day before anything is deleted for the first time. Nothing that has a tag is deleted, and nothing
that is in use. The check is made once in each process, at its first run, on a thread of its own; something is deleted
at most once a day. `cleanup.json` in the state folder holds when what happened: {"announced": N, "told": TIME,
"deleted": TIME}.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cellwright.errors import CellwrightError
from cellwright.sessions.catalog.metadata import read_about
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import PRIVATE_FILE, state_folder, write_atomic
from cellwright.sessions.transcripts import transcript_lock as lease

SECONDS_PER_DAY = 86_400

_BESIDE = (".about", ".lease", ".new")
"""The endings of files that belong to a transcript and stand beside it."""

logger = logging.getLogger(__name__)


class Retention:
    """Has the old sessions deleted, as `days()` says, in the background of a conversation's runs."""

    def __init__(self, days: Callable[[], int]) -> None:
        self._days = days
        self._looked = False

    def at_run(self, session: Session) -> list[str]:
        """A run of `session` begins: what its user is to be told. Reads one small file; the rest is done on a thread."""
        if session.path is None:
            return []
        state = state_folder()
        if not self._looked:
            self._looked = True
            days = self._days()
            self._start(lambda: clean_up(state, days, time.time()))
        known = _known(state)
        if "announced" not in known or "told" in known:
            return []
        self._start(lambda: _note(state, {**known, "told": round(time.time(), 3)}))
        return [_announcement(int(known["announced"]), self._days())]

    def _start(self, work: Callable[[], object]) -> None:
        def logged() -> None:
            try:
                work()
            except (OSError, CellwrightError) as error:
                logger.warning("old sessions could not be looked for: %s", error)

        threading.Thread(target=logged, name="cellwright-old-sessions", daemon=True).start()


def clean_up(state: Path, days: int, now: float) -> list[str]:
    """Delete the sessions below `state` that are older than `days`, if that is due; gives their ids.

    The first time it only notes that the user is to be told. Raises OSError.
    """
    before = now - max(days, 1) * SECONDS_PER_DAY
    old = list(_old(state / "sessions", before))
    if not old:
        return []
    owned = lease.acquire(state / "cleanup.lease", 0)
    if owned is None:
        return []  # another process does it
    try:
        known = _known(state)
        if "told" not in known:
            there = sum(path.exists() for path in old)
            if there and "announced" not in known:  # else a run may be noting just now that it has told it
                _note(state, {"announced": there})
            return []
        if now - known["told"] < SECONDS_PER_DAY or now - known.get("deleted", 0) < SECONDS_PER_DAY:
            return []
        _note(state, {**known, "deleted": round(now, 3)})
        return _deleted(old, state, before)
    finally:
        owned.release()


def _deleted(old: list[Path], state: Path, before: float) -> list[str]:
    from cellwright.sessions.catalog.catalog import (  # SQLite: most delete nothing
        Catalog,
        delete_leftovers,
        delete_session,
    )

    gone: list[str] = []
    for path in old:
        if not path.exists():
            delete_leftovers(path)
            continue
        try:
            if not _is_older(path, before):
                continue  # somebody has gone on with it meanwhile
            delete_session(path)
        except (CellwrightError, OSError) as error:
            logger.info("an old session stays: %s", error)  # in use, or in a folder that is read only
        else:
            gone.append(path.stem)
    catalog = Catalog(state)
    if catalog.path.exists():
        catalog.entries(limit=1)  # what was said in them is not to be found any more
    logger.info("%d old sessions were deleted", len(gone))
    return gone


def _old(sessions: Path, before: float) -> Iterator[Path]:
    """The transcripts that nobody needs any more; of ones that are gone what was left of them."""
    for folder in sessions.glob("*"):
        for path in folder.glob("*.*"):
            transcript = path.with_suffix(".jsonl")
            try:
                if path.suffix == ".jsonl":
                    unwanted = _is_older(path, before) and not read_about(path).tags
                else:
                    is_old = path.suffix in _BESIDE and path.stat().st_mtime < before
                    # left over by a transcript that is gone
                    unwanted = is_old and not transcript.exists() and not lease.is_held(lease.lease_path(transcript))
            except OSError:
                continue  # deleted meanwhile
            if unwanted:
                yield transcript


def _is_older(transcript: Path, before: float) -> bool:
    about = transcript.with_suffix(".about")
    return transcript.stat().st_mtime < before and not (about.exists() and about.stat().st_mtime >= before)


def _announcement(count: int, days: int) -> str:
    what = "session was" if count == 1 else "sessions were"
    return (
        f"{count} {what} not used for {max(days, 1)} days. From tomorrow, sessions of that age are deleted, as "
        "`cleanupPeriodDays` in ~/.claude/settings.json says (30 if it is not set). "
        "A tag keeps a session: cellwright sessions tag ID keep. The list: cellwright sessions --all"
    )


def _known(state: Path) -> dict[str, Any]:
    try:
        known = json.loads((state / "cleanup.json").read_bytes())
    except (OSError, ValueError):
        return {}
    numbers = isinstance(known, dict) and all(isinstance(value, int | float) for value in known.values())
    return known if numbers else {}


def _note(state: Path, known: dict[str, Any]) -> None:
    write_atomic(state / "cleanup.json", json.dumps(known).encode(), PRIVATE_FILE)
