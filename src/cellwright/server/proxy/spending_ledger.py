"""The book of who has spent what: a SQLite file that every request is written into before it is sent.

The most a request may cost is reserved first, in one transaction with the look at what is left, so that requests at
the same time cannot overspend together; its real cost takes the place of that when its answer has ended. A request
that was under way when the server died goes on to count as it was reserved. Days are UTC's.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder

KEPT_DAYS = 400
BUSY_SECONDS = 30.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS request (
    id INTEGER PRIMARY KEY, day TEXT NOT NULL, user TEXT NOT NULL, kernel TEXT NOT NULL, model TEXT NOT NULL,
    usd REAL NOT NULL, settled INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS request_of_day ON request (user, day);
CREATE INDEX IF NOT EXISTS request_of_kernel ON request (user, kernel);
"""


class Spent(NamedTuple):
    """US dollars, what is reserved included: of the user on this day, and of the kernel in its life."""

    day: float
    kernel: float


class SpendingLedger:
    """The book in `file`; from any thread, and from several processes. `clock` gives seconds since the epoch."""

    def __init__(self, file: Path, *, clock: Callable[[], float] = time.time) -> None:
        make_private_folder(file.parent)
        file.touch(PRIVATE_FILE)
        self._clock = clock
        self._lock = threading.Lock()
        self._db = sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        with self._lock:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.executescript(_SCHEMA)
            oldest = datetime.fromtimestamp(clock() - KEPT_DAYS * 86_400, UTC).date().isoformat()
            self._db.execute("DELETE FROM request WHERE day < ?", (oldest,))

    def reserve(self, user: str, kernel: str, model: str, worst_usd: Callable[[Spent], float]) -> int:
        """Write a request into the book at the worst it may cost; gives its number.

        `worst_usd` says that, given what is spent; what it raises is raised, and nothing is written.
        """
        day = self._today()
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                usd = worst_usd(self._spent(user, kernel, day))
                row = self._db.execute(
                    "INSERT INTO request (day, user, kernel, model, usd) VALUES (?, ?, ?, ?, ?)",
                    (day, user, kernel, model, usd),
                )
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        number = row.lastrowid
        assert number is not None
        return number

    def settle(self, number: int, usd: float) -> None:
        """The request has ended, and this is what it cost."""
        with self._lock:
            self._db.execute("UPDATE request SET usd = ?, settled = 1 WHERE id = ?", (usd, number))

    def spent(self, user: str, kernel: str = "") -> Spent:
        with self._lock:
            return self._spent(user, kernel, self._today())

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _spent(self, user: str, kernel: str, day: str) -> Spent:
        sums = (
            self._db.execute(f"SELECT total(usd) FROM request WHERE user = ? AND {column} = ?", (user, value))
            for column, value in (("day", day), ("kernel", kernel))
        )
        return Spent(*(found.fetchone()[0] for found in sums))

    def _today(self) -> str:
        return datetime.fromtimestamp(self._clock(), UTC).date().isoformat()
