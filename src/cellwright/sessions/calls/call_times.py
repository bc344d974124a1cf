"""The times that calls of each tool took, from which the next one's is estimated; kept for each project across sessions."""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from cellwright.sessions.state_dir import (
    PRIVATE_FILE,
    make_private_folder,
    sessions_folder,
    state_folder,
    write_atomic,
)
from cellwright.sessions.transcripts import transcript_lock

KEPT = 20
"""The number of latest calls of a tool that count."""

MAX_TOOLS = 100
"""Of those that were called last, in a file."""

MAX_PROJECTS = 200
"""The files that are kept, those written last."""

LOCK_SECONDS = 0.2


class CallTimes:
    """The times of the calls that succeeded, in seconds, by tool. `file` keeps them for later sessions."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._times: dict[str, deque[float]] | None = None if file is not None else {}
        self._new: dict[str, list[float]] = {}

    def add(self, tool_name: str, seconds: float) -> None:
        """Take note of a call that has ended."""
        self._known().setdefault(tool_name, deque(maxlen=KEPT)).append(seconds)
        if self._file is not None:
            self._new.setdefault(tool_name, []).append(round(seconds, 3))

    def estimate(self, tool_names: Sequence[str], side_by_side: int = 1) -> float | None:
        """The time that calls of these tools take, at most `side_by_side` at once; None where one was never called.

        >>> times = CallTimes()
        >>> times.add("Bash", 2.0), times.add("Bash", 4.0)
        (None, None)
        >>> times.estimate(["Bash"]), times.estimate(["Bash", "Bash"]), times.estimate(["Bash", "Bash"], 2)
        (3.0, 6.0, 3.0)
        >>> times.estimate(["Bash", "Read"]) is None
        True
        """
        known = self._known()
        if not tool_names or any(name not in known for name in tool_names):
            return None
        import statistics  # brings fractions and decimal along; most runs estimate nothing

        medians = [statistics.median(known[name]) for name in tool_names]
        return max(max(medians), sum(medians) / side_by_side)

    def save(self) -> None:
        """Keep what is new for later sessions, beside what others have kept. Where that is not possible, nothing is."""
        file, new = self._file, self._new
        if file is None or not new:
            return
        self._new = {}
        with contextlib.suppress(OSError):
            make_private_folder(file.parent)
            held = transcript_lock.acquire(file.with_suffix(".lock"), LOCK_SECONDS)
            if held is None:  # another process writes its own: these are not worth a wait
                return
            try:
                kept = _read(file)
                for name, seconds in new.items():
                    # those that were called last stand last
                    kept[name] = [*kept.pop(name, []), *seconds][-KEPT:]
                last = dict(list(kept.items())[-MAX_TOOLS:])
                is_new = not file.exists()
                write_atomic(file, json.dumps(last).encode(), PRIVATE_FILE)
                if is_new:
                    _forget_oldest(file.parent)
            finally:
                held.release()

    def _known(self) -> dict[str, deque[float]]:
        if self._times is None:
            assert self._file is not None
            self._times = {name: deque(times, maxlen=KEPT) for name, times in _read(self._file).items()}
        return self._times


def call_times_file(cwd: Path) -> Path:
    """The file of the project at `cwd`."""
    return state_folder() / "call-times" / f"{sessions_folder(cwd).name}.json"


def _read(file: Path) -> dict[str, list[float]]:
    """The times in the file; what is no such thing is passed over."""
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(content, dict):
        return {}
    times = {
        name: [each for each in value if type(each) in (int, float) and 0 <= each < 1e7]
        for name, value in content.items()
        if isinstance(value, list)
    }
    return {name: found for name, found in times.items() if found}


def _forget_oldest(folder: Path) -> None:
    files = sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[MAX_PROJECTS:]:
        file.unlink(missing_ok=True)
        file.with_suffix(".lock").unlink(missing_ok=True)
