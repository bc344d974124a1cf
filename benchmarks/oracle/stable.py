"""Recorded bytes without what differs from run to run: places, ports, ids, times, signatures, the version of the package.

Each is replaced by a word, ids by one with a number in the order of their first appearance in the scene, so that what
refers to what is still held.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta

from cellwright.version import VERSION

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

NUMBERED = {
    "uuid": _UUID,
    "tooluse": r"(?:srv)?toolu_01[0-9a-f]{22}",
    "message": r"msg_01[0-9a-f]{22}",
    "request": r"req_011\d{21}",
    "hex": r"(?<![0-9A-Za-z])[0-9a-f]{32}(?![0-9A-Za-z])",
    "session": r"\d{8}-\d{6}-[0-9a-f]{6}",
    "log": r"(?<=log=)[0-9a-f]{8}\b",
}
"""Ids, by the word that stands for them."""

_KEYS_OF_TIME = r"\w*_ms|\w*_seconds|seconds|ms|at|started|modified|accessed|created_time"

TIMES = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d\b"), "<time>"),
    (re.compile(rf'(\\?"(?:{_KEYS_OF_TIME})\\?": ?)[\d.e+-]+'), r"\1<number>"),
    (re.compile(r'("signature": ?")[A-Za-z0-9+/=_-]{16,}'), r"\1<signature>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:<port>"),
    (re.compile(r",? ?\b\d+\.\d+ s\b"), ""),
    (re.compile(r", \d+ s(?=\\n)"), ""),
    (re.compile(r"(attempts) in \d+ s"), r"\1"),
)
"""Times as they are sent and printed, and the words for them."""

SECONDS = re.compile(r"(?:,| ·)? \d+ m?s$", re.MULTILINE)
"""A run's or a call's time at the end of a line, which is printed if it is long enough."""

PROGRESS = re.compile(r'^\{"(?:op|type)": ?"(?:tool_input|tool_progress)".*\n?', re.MULTILINE)
"""Lines of progress: how many there are depends on the moment."""

QUESTION = re.compile(r"(<session-\d+>)-\d+-\d+")
"""A question's id holds the number of events before it, progress too."""


class Stable:
    """Makes texts of one scene stable; the numbers of its ids go on from text to text."""

    def __init__(self, places: Sequence[tuple[str, str]]) -> None:
        """`places` are paths of this run and the words for them, the longest first."""
        today = date.today()
        days = {today - timedelta(1), today, today + timedelta(1)}
        self._words = [*places, (VERSION, "<version>")]
        self._days = re.compile(
            "|".join(re.escape(each) for day in days for each in (day.isoformat(), f"{day:%A}, {day:%B} {day.day}"))
        )
        self._ids = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in NUMBERED.items()))
        self._numbers: dict[str, str] = {}
        self._count: dict[str, int] = {}

    def __call__(self, text: str, *, printed: bool = False) -> str:
        """Return `text` with words for what differs from run to run."""
        if printed:
            text = PROGRESS.sub("", SECONDS.sub("", text))
        for found, word in self._words:
            text = text.replace(found, word)
        for pattern, word in TIMES:
            text = pattern.sub(word, text)
        return QUESTION.sub(r"\1-<question>", self._ids.sub(self._number, self._days.sub("<day>", text)))

    def _number(self, match: re.Match[str]) -> str:
        found, kind = match[0], str(match.lastgroup)
        if found not in self._numbers:
            self._count[kind] = self._count.get(kind, 0) + 1
            self._numbers[found] = f"<{kind}-{self._count[kind]}>"
        return self._numbers[found]
