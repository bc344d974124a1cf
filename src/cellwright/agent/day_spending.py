"""What was spent on one purpose today, by all processes of the user: one file for each day, a line for each amount."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, state_folder


class DaySpending:
    """Amounts in US dollars, in files of `folder` that are named after the user's day. Where it cannot be written, what
    this process spent is known all the same.
    """

    def __init__(self, folder: Path, today: Callable[[], str] = lambda: time.strftime("%Y-%m-%d")) -> None:
        self._folder = folder
        self._today = today
        self._own: dict[str, float] = {}

    def add(self, usd: float) -> None:
        """Count an amount. Blocks on the disk."""
        day = self._today()
        self._own = {day: self._own.get(day, 0.0) + usd}
        with contextlib.suppress(OSError):  # it is known to this process
            make_private_folder(self._folder)
            for file in self._folder.iterdir():
                if file.name != day:
                    file.unlink(missing_ok=True)
            # appended in one write, so that processes do not mix their lines
            descriptor = os.open(self._folder / day, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
            with contextlib.closing(os.fdopen(descriptor, "wb", buffering=0)) as today:
                today.write(f"{usd:.9f}\n".encode())

    def usd(self) -> float:
        """What was spent today. Blocks on the disk."""
        day = self._today()
        try:
            lines = (self._folder / day).read_text("ascii", "replace").splitlines()
        except OSError:
            lines = []
        return max(sum(map(_amount, lines)), self._own.get(day, 0.0))


def completion_spending() -> DaySpending:
    """What inline completion costs the user."""
    return DaySpending(state_folder() / "completion-spending")


def _amount(line: str) -> float:
    try:
        usd = float(line)
    except ValueError:  # a line that was cut off as the disk was full
        return 0.0
    return usd if 0 <= usd < 1e6 else 0.0
