"""Amounts that all processes of the user have spent on one thing, and what their open requests may cost: a file of lines.

    0.25                 an amount in US dollars
    +ID 0.81 0.06        a request may cost up to 0.81; 0.06 is what it has cost at least
    =ID 0.09             it has cost at least 0.09 by now
    -ID                  it is over, and what it cost is among the amounts

A request of a process that is gone counts what it had cost at least: nobody knows more of it. Lines are written under a
lock, so that two processes cannot both take what is left.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, state_folder, write_atomic
from cellwright.sessions.transcripts import transcript_lock

LOCK_SECONDS = 2.0
"""The time that another process may take to write its line; then ours is written all the same."""

MAX_BYTES = 32_768
"""A longer file is written anew as its sum."""

_MAX_USD = 1e6


class Spent(Struct, frozen=True):
    """The content of the file: what was spent, and what requests that are open may cost, at worst."""

    usd: float
    open_usd: float

    @property
    def at_worst(self) -> float:
        return self.usd + self.open_usd


class SpendingFile:
    """Amounts in the file that `path` names when it is asked. Where it cannot be written, this process knows its own.

    All of it blocks on the disk for a moment. `begun` is called with a file that is to be made.
    """

    def __init__(self, path: Callable[[], Path], *, begun: Callable[[Path], object] = lambda _: None) -> None:
        self._path = path
        self._begun = begun
        self._own: dict[Path, float] = {}
        self._owner: transcript_lock.Lease | None = None
        self._numbers = itertools.count(1)

    def add(self, usd: float) -> None:
        """Count an amount."""
        path = self._path()
        self._own = {path: self._own.get(path, 0.0) + usd}
        self._write(path, f"{usd:.9f}")

    def usd(self) -> float:
        """Add up what was spent, open requests left out."""
        return self.spent().usd

    def spent(self, *, without: str = "") -> Spent:
        """Add up the file; the request `without` is left out."""
        path = self._path()
        return self._read(path, without)

    def reserve(self, usd_of: Callable[[Spent], tuple[float, float] | None]) -> Reservation | None:
        """Set aside what a request may cost: the worst and the least that `usd_of` gives for what is spent.

        None where it gives nothing. Nobody writes to the file between the two.
        """
        path = self._path()
        with self._locked(path):
            if (amounts := usd_of(self._read(path, ""))) is None:
                return None
            reservation = Reservation(self, path, f"{self._owner_id(path)}.{next(self._numbers)}")
            self._append(path, f"+{reservation.id} {amounts[0]:.9f} {amounts[1]:.9f}")
            return reservation

    def _write(self, path: Path, line: str) -> None:
        with self._locked(path):
            self._append(path, line)

    @contextlib.contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        held = None
        with contextlib.suppress(OSError):  # a file system without locks, or a full disk
            if not path.parent.exists() or not path.exists():
                make_private_folder(path.parent)
                self._begun(path)
            held = transcript_lock.acquire(_beside(path, ".lock"), LOCK_SECONDS)
        try:
            yield
        finally:
            if held is not None:
                held.release()

    def _append(self, path: Path, line: str) -> None:
        with contextlib.suppress(OSError):  # it is known to this process
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
            with contextlib.closing(os.fdopen(descriptor, "r+b", buffering=0)) as file:
                size = file.seek(0, os.SEEK_END)
                # what a full disk left of a line must not run into this one
                torn = size and os.pread(descriptor, 1, size - 1) != b"\n" if hasattr(os, "pread") else False
                file.write(f"{chr(10) if torn else ''}{line}\n".encode())
            if size > MAX_BYTES:
                self._sum_up(path)

    def _sum_up(self, path: Path) -> None:
        usd, requests = _lines(path)
        lines = [f"{usd:.9f}", *(f"+{id} {worst:.9f} {least:.9f}" for id, (worst, least) in requests.items())]
        write_atomic(path, "".join(f"{line}\n" for line in lines).encode(), PRIVATE_FILE)

    def _read(self, path: Path, without: str) -> Spent:
        usd, requests = _lines(path)
        open_usd = 0.0
        alive: dict[str, bool] = {}
        for id, (worst, least) in requests.items():
            if id == without:
                continue
            owner = id.partition(".")[0]
            if owner not in alive:
                alive[owner] = transcript_lock.is_held(_owner_path(path, owner))
            usd += 0.0 if alive[owner] else least
            open_usd += worst if alive[owner] else 0.0
        return Spent(max(usd, self._own.get(path, 0.0)), open_usd)

    def _owner_id(self, path: Path) -> str:
        """The name of this process, which holds a lock as long as it lives."""
        if self._owner is None or not self._owner.held:
            with contextlib.suppress(OSError):
                owners = _owner_path(path, "").parent
                make_private_folder(owners)
                _forget_old(owners)
                self._owner = transcript_lock.acquire(_owner_path(path, secrets.token_hex(6)), 0)
        return "unknown" if self._owner is None else self._owner.path.name.removesuffix(".lock")


class Reservation(Struct, frozen=True):
    """The cost that one request may have, set aside in a file until `release`."""

    file: SpendingFile
    path: Path
    id: str

    def costs_at_least(self, usd: float) -> None:
        """Say what it has cost by now, for the case that this process does not live to count it."""
        self.file._write(self.path, f"={self.id} {usd:.9f}")

    def release(self) -> None:
        """The request is over, and what it cost is counted."""
        self.file._write(self.path, f"-{self.id}")


def day_spending(folder: Path, today: Callable[[], str] = lambda: time.strftime("%Y-%m-%d")) -> SpendingFile:
    """Return the spending of a day, the user's: one file for each in `folder`, those before yesterday are deleted."""

    def forget_earlier(path: Path) -> None:
        yesterday = (datetime.date.fromisoformat(path.name) - datetime.timedelta(days=1)).isoformat()
        for file in folder.iterdir():  # in another time zone it may still be yesterday
            if file.is_file() and file.name < yesterday:
                file.unlink(missing_ok=True)

    return SpendingFile(lambda: folder / today(), begun=forget_earlier)


def completion_spending() -> SpendingFile:
    """Return the user's daily spending on inline completion."""
    return day_spending(state_folder() / "completion-spending")


def _lines(path: Path) -> tuple[float, dict[str, tuple[float, float]]]:
    """The sum of the amounts, and the open requests' worst and least."""
    try:
        lines = path.read_text("ascii", "replace").splitlines()
    except OSError:
        lines = []
    usd, requests = 0.0, dict[str, tuple[float, float]]()
    for line in lines:
        match line[:1], line[1:].split():
            case "+", [id, worst, least]:
                requests[id] = (_amount(worst), _amount(least))
            case "=", [id, least] if id in requests:
                requests[id] = (requests[id][0], _amount(least))
            case "-", [id]:
                requests.pop(id, None)
            case _:
                usd += _amount(line)
    return usd, requests


def _amount(text: str) -> float:
    try:
        usd = float(text)
    except ValueError:  # a line that was cut off as the disk was full
        return 0.0
    return usd if 0 <= usd < _MAX_USD else 0.0


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.name}{suffix}")


def _owner_path(path: Path, owner: str) -> Path:
    return path.parent / "owners" / f"{owner}.lock"


def _forget_old(owners: Path) -> None:
    """Delete the locks of processes that are gone for good."""
    for file in owners.iterdir():
        with contextlib.suppress(OSError):
            if file.stat().st_mtime < time.time() - 7 * 86_400 and not transcript_lock.is_held(file):
                file.unlink()
