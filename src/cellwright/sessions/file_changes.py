"""The records of changes of files: on disk before a file is touched, and until the result of the call is.

Each change has a file in the state folder's `changes/`, named by its session and a token of its own, and locked by the
process that makes the change. Its first line says what is to be, a second one what came of it:

    {"change": 1, "at": 1763…, "host": "…", "session": "…", "call": "toolu_…",
     "what": "The undo of turn 3", "files": [{"path": "/p/a.py", "before": "<sha256>" or null,
     "after": "<sha256>" or null, "in_place": false, "folders": ["/p/new"]}]}
    {"made": ["/p/a.py"], "unchanged": [], "unclear": [], "recovered": true}

An outcome that another process had to bring about is `recovered`: it is kept until somebody who works in the folder of one
of its files was told (`{"told": true}`), also when the result of its call is known (`{"known": true}`).

Beside it lie, as long as they are needed, the new and the old contents: `TOKEN-0.new`, `TOKEN-0.old`, and so on.
"""

from __future__ import annotations

import contextvars
import errno
import json
import os
import secrets
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, state_folder
from cellwright.sessions.transcripts.transcript_lock import Lease, acquire
from cellwright.text import counted

FORMAT = 1
SUFFIX = ".jsonl"
NAMED_FILES = 20
"""The number of files that a result names."""


class CallId(Struct, frozen=True):
    """A call of a session, by the id of its `tool_use` block."""

    session_id: str
    tool_use_id: str


changing_call: contextvars.ContextVar[CallId | None] = contextvars.ContextVar("changing_call", default=None)
"""The call that changes files now, where its result is to be known after a crash."""


class FileToChange(Struct, frozen=True):
    """A file of a change: the hashes of what it holds and of what it shall hold (None: no file).

    `in_place`: it is written into, since it has other names (hard links). `folders` are made for it.
    """

    path: Path
    before: str | None
    after: str | None
    in_place: bool = False
    folders: tuple[Path, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "before": self.before,
            "after": self.after,
            "in_place": self.in_place,
            "folders": [str(folder) for folder in self.folders],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FileToChange:
        folders = tuple(Path(folder) for folder in data["folders"])
        return cls(Path(data["path"]), data["before"], data["after"], bool(data["in_place"]), folders)


class ChangeOutcome(Struct, frozen=True):
    """The files of a change that hold what was wanted, those that hold what they did before, and the others."""

    made: tuple[Path, ...] = ()
    unchanged: tuple[Path, ...] = ()
    unclear: tuple[Path, ...] = ()

    def to_json(self) -> dict[str, list[str]]:
        return {
            "made": [str(path) for path in self.made],
            "unchanged": [str(path) for path in self.unchanged],
            "unclear": [str(path) for path in self.unclear],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ChangeOutcome:
        return cls(*(tuple(Path(path) for path in data[key]) for key in ("made", "unchanged", "unclear")))


class CallOutcome(Struct, frozen=True):
    """The deeds of a call that was cut off, in words; `made` is True when they are all that was wanted."""

    text: str
    made: bool


class ChangeRecord:
    """The record of one change, from before it is made until its outcome is known. Holds its lock."""

    def __init__(self, path: Path, files: Sequence[FileToChange], call: str, lease: Lease) -> None:
        self.path = path
        self.files = files
        self.call = call
        self._lease = lease

    @property
    def token(self) -> str:
        """The name by which its contents are known."""
        return _token(self.path)

    def new_content(self, number: int) -> Path:
        """Return where the new content of a file is kept, by its number."""
        return self.path.with_name(f"{self.token}-{number}.new")

    def old_content(self, number: int) -> Path:
        """Return where the old content of a file is kept, by its number."""
        return self.path.with_name(f"{self.token}-{number}.old")

    def beside(self, number: int) -> str:
        """The name that a new file has in its own folder, where it cannot get its final one at once."""
        return f".cellwright-{self.token}-{number}.tmp"

    def sync(self) -> None:
        """Have the record on the disk itself, and the names of the contents beside it."""
        for path, flags in ((self.path, os.O_RDONLY), (self.path.parent, os.O_RDONLY)):
            with suppress(OSError):  # a file system that cannot sync a folder
                descriptor = os.open(path, flags)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)

    def end(self, outcome: ChangeOutcome | None, *, recovered: bool = False) -> None:
        """Write down what came of it, for the call's result; None, or no call: it is not needed any more.

        `recovered`: its own process could not end it, so the user must be told, too.
        """
        try:
            for number in range(len(self.files)):
                for content in (self.new_content(number), self.old_content(number)):
                    content.unlink(missing_ok=True)
            if outcome is None or not (self.call or recovered):
                if sys.platform == "win32":  # a file that is open is not removed there
                    self._lease.release()
                self.path.unlink(missing_ok=True)
            else:
                _append(self.path, {**outcome.to_json(), **({"recovered": True} if recovered else {})})
        finally:
            self._lease.release()

    def leave(self) -> None:
        """Leave it to the next who looks for unfinished changes: it cannot be ended now."""
        self._lease.release()


class RecoveredChange(Struct, frozen=True):
    """A change that was cut off with its process, and what came of it, in words; `session` is where it was begun."""

    text: str
    session: str


def begin_change(files: Sequence[FileToChange], what: str = "") -> ChangeRecord:
    """Write down what is about to be changed; `what` names the change in a sentence. Raises OSError."""
    call = changing_call.get() or CallId("", "")
    folder = changes_folder()
    make_private_folder(folder)
    path = folder / f"{call.session_id or 'no-session'}.{secrets.token_hex(6)}{SUFFIX}"
    lease = acquire(path, 1.0)
    if lease is None:
        raise OSError(errno.EBUSY, "the record of the change is locked", str(path))
    record = ChangeRecord(path, files, call.tool_use_id, lease)
    try:
        line = {
            "change": FORMAT,
            "at": round(time.time(), 3),
            "host": socket.gethostname(),
            "session": call.session_id,
            "call": call.tool_use_id,
            "what": what,
        }
        _append(path, {**line, "files": [file.to_json() for file in files]})
    except BaseException:
        record.end(None)
        raise
    return record


def changes_folder() -> Path:
    """Return the folder of the records."""
    return state_folder() / "changes"


def unfinished_changes() -> Iterator[ChangeRecord]:
    """The changes that a process began that is no more; each is locked, and to be ended by who gets it."""
    for path in _records(""):
        if _has_ended(path):
            continue  # its outcome is known and waits for its session
        lines = _lines(path)
        if len(lines) != 1:
            continue  # it is not begun yet
        at = lines[0].get("at")
        age = time.time() - (at if isinstance(at, float | int) else 0.0)
        # an older change of another machine or container is not under way, should its lock not be seen here
        if lines[0].get("host") != socket.gethostname() and age < 60.0:
            continue
        try:
            lease = acquire(path, 0)
        except OSError:
            continue
        if lease is None:
            continue  # it is being made now
        files: tuple[FileToChange, ...] = ()
        lines = _lines(path)
        with suppress(KeyError, TypeError, ValueError, IndexError):  # not as it was written: nothing was begun
            files = tuple(FileToChange.from_json(file) for file in lines[0]["files"])
        call = str(lines[0].get("call", "")) if lines else ""
        if len(lines) > 1:
            lease.release()  # another process has ended it just now
        else:
            yield ChangeRecord(path, files, call, lease)


def outcomes(session_id: str) -> dict[str, CallOutcome]:
    """The outcomes of the calls whose changes of files are known, by the ids of the calls."""
    found_outcomes: dict[str, CallOutcome] = {}
    records = (lines for path in _records(session_id) if len(lines := _lines(path)) > 1)
    found = [(lines[0], lines[1]) for lines in records if lines[0].get("call") and not _is(lines, "known")]
    for begun, ended in sorted(found, key=lambda lines: lines[0].get("at", 0)):
        with suppress(KeyError, TypeError, ValueError):  # of a later version
            outcome = ChangeOutcome.from_json(ended)
            made = not outcome.unchanged and not outcome.unclear
            known = found_outcomes.get(str(begun["call"]), CallOutcome("", made=True))
            text = f"{known.text} {_in_words(outcome)}".strip()
            found_outcomes[str(begun["call"])] = CallOutcome(text, made=known.made and made)
    return found_outcomes


def forget_outcomes(session_id: str) -> None:
    """The calls of the session have their results: what is known of their changes is not needed any more."""
    for path in _records(session_id):
        if len(lines := _lines(path)) > 1:
            _end_need(path, lines, "known")


def untold_changes(folders: Sequence[Path]) -> list[RecoveredChange]:
    """The changes of files in `folders` that were cut off, and ended since, of which nobody was told; they count as told."""
    found: list[RecoveredChange] = []
    for path in _records(""):
        lines = _lines(path) if _has_ended(path) else []
        if len(lines) < 2 or not lines[1].get("recovered") or _is(lines, "told"):
            continue
        with suppress(KeyError, TypeError, ValueError, OSError):  # of a later version, or a disk that is full
            outcome = ChangeOutcome.from_json(lines[1])
            paths = (*outcome.made, *outcome.unchanged, *outcome.unclear)
            if any(each.is_relative_to(folder) for each in paths for folder in folders):
                text = f"{lines[0].get('what') or _A_CHANGE.format(counted(len(paths), 'file'))}{_CUT_OFF}"
                found.append(RecoveredChange(f"{text} {_in_words(outcome)}", str(lines[0].get("session", ""))))
                _end_need(path, lines, "told")
    return found


_A_CHANGE = "A change of {}"
_CUT_OFF = " was cut off when its process was killed. It has been put right."


def _end_need(path: Path, lines: Sequence[Mapping[str, Any]], which: str) -> None:
    """Note that who needs the outcome for `which` has it; without another need the record goes."""
    needs = {"told": bool(lines[1].get("recovered")), "known": bool(lines[0].get("call"))}
    if any(needed and need != which and not _is(lines, need) for need, needed in needs.items()):
        _append(path, {which: True})
    else:
        path.unlink(missing_ok=True)


def _is(lines: Sequence[Mapping[str, Any]], which: str) -> bool:
    return any(line.get(which) for line in lines[2:])


def _has_ended(path: Path) -> bool:
    """Return whether the record has more than its first line, without reading hundreds of names."""
    try:
        return path.read_bytes().count(b"\n") > 1
    except OSError:
        return False


def drop_outcomes_older_than(seconds: float) -> None:
    """Delete what no session has asked for in so long a time, and changes that nobody could end."""
    before = time.time() - seconds
    for path in _records(""):
        with suppress(OSError):  # another process may drop it at the same time
            if path.stat().st_mtime < before:
                for content in changes_folder().glob(f"{_token(path)}-*"):
                    content.unlink()
                path.unlink()


def _in_words(outcome: ChangeOutcome) -> str:
    if not outcome.made and not outcome.unclear:
        return f"Nothing was written; as before: {_named(outcome.unchanged)}."
    if not outcome.unchanged and not outcome.unclear:
        return f"Its change was made as a whole: {_named(outcome.made)}."
    parts = {
        "Changed as the call wanted": outcome.made,
        "As before": outcome.unchanged,
        "Neither, so it was changed from outside since": outcome.unclear,
    }
    told = " ".join(f"{words}: {_named(paths)}." for words, paths in parts.items() if paths)
    return f"{told} Read these files before you continue."


def _named(paths: Sequence[Path]) -> str:
    names = ", ".join(path.as_posix() for path in paths[:NAMED_FILES])
    more = len(paths) - NAMED_FILES
    return f"{names} and {counted(more, 'more file')}" if more > 0 else names


def _records(session_id: str) -> Iterable[Path]:
    """The records of a session, of all where the id is empty."""
    try:
        names = os.listdir(changes_folder())  # noqa: PTH208  there are none, mostly
    except OSError:
        return []
    begins = f"{session_id}." if session_id else ""
    return [changes_folder() / name for name in sorted(names) if name.startswith(begins) and name.endswith(SUFFIX)]


def _token(record: Path) -> str:
    return record.name.removesuffix(SUFFIX).rpartition(".")[2]


def _append(path: Path, line: Mapping[str, Any]) -> None:
    data = json.dumps(line, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), PRIVATE_FILE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a record, as far as they can be read."""
    try:
        data = path.read_bytes()
    except OSError:
        return []
    found: list[dict[str, Any]] = []
    for raw in data.split(b"\n"):
        with suppress(ValueError):
            line = json.loads(raw)
            if isinstance(line, dict):
                found.append(line)
    return found
