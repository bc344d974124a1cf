"""Claude Code's sessions of a folder, and a copy of one as a session of ours, under the same id.

The copy has no system prompt and no tools yet: the first run in it gives it those of the place where it goes on. What
it cost was paid to Claude Code and is not counted.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.catalog.metadata import write_title
from cellwright.sessions.claude_code.entries import Entries, read_entries
from cellwright.sessions.claude_code.messages import messages_of, said_in
from cellwright.sessions.history import imported_note
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import sessions_folder
from cellwright.text import lazy_pattern

MAX_FOLDER_NAME = 200
"""A longer name is cut by Claude Code, and a hash put behind it."""

_ID = lazy_pattern(r"[\w-]{8,64}")


class ClaudeCodeSession(Struct, frozen=True):
    """A transcript of Claude Code's. `updated` is in seconds since the epoch."""

    id: str
    path: Path
    updated: float
    size: int


def claude_code_sessions(cwd: Path, environ: Mapping[str, str]) -> list[ClaudeCodeSession]:
    """Claude Code's sessions of the folder `cwd`, the one written last first."""
    found: dict[str, ClaudeCodeSession] = {}
    for folder in _folders(cwd, environ):
        for path in folder.glob("*.jsonl"):
            try:
                status = path.stat()
            except OSError:
                continue
            if status.st_size and _ID.fullmatch(path.stem):
                found.setdefault(path.stem, ClaudeCodeSession(path.stem, path, status.st_mtime, status.st_size))
    return sorted(found.values(), key=lambda each: each.updated, reverse=True)


def import_session(found: ClaudeCodeSession, cwd: Path) -> Session:
    """A session of ours with what was said in `found`, to be gone on with in `cwd`; its notices say what it is.

    Raises `CellwrightError`: SESSION_NOT_FOUND where nothing was said in it, SESSION_CORRUPTED where it cannot be read,
    INVALID_PARAMETERS where it is a session of ours already.
    """
    folder = sessions_folder(cwd)
    if (folder / f"{found.id}.jsonl").exists():
        message = f"The session {found.id} was imported already: --resume {found.id} continues it."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    try:
        entries = read_entries(found.path)
    except OSError as error:
        message = f"The session {found.path} of Claude Code cannot be read: {error}"
        raise CellwrightError(ErrorCode.SESSION_CORRUPTED, message) from error
    messages = messages_of(entries.conversation)
    if not messages:
        message = f"Nothing was said in the session {found.id} of Claude Code, or none of it can be read: {found.path}"
        raise CellwrightError(ErrorCode.SESSION_NOT_FOUND, message)
    messages.append({"role": "user", "content": [imported_note(compacted=entries.compacted)]})
    times = [entry.at for entry in entries.conversation if entry.at is not None]
    began, ended = (times[0], times[-1]) if times else (found.updated, found.updated)
    session = Session.with_history(cwd, folder, found.id, messages, began=min(began, time.time()), ended=ended)
    if entries.title and session.path is not None:
        write_title(session.path, entries.title, "model")
    session.notices.append(_notice(found, entries))
    return session


def named(session_id: str, cwd: Path, environ: Mapping[str, str]) -> ClaudeCodeSession | None:
    """The one session of Claude Code's in `cwd` whose id begins so; None where there is none, or more than one."""
    found = [each for each in claude_code_sessions(cwd, environ) if session_id and each.id.startswith(session_id)]
    return found[0] if len(found) == 1 else None


def first_words(entries: Entries) -> str:
    """The first words of the user's, for a session that has no title."""
    said = (
        block["text"]
        for message in said_in(entries.conversation[:20])
        for block in message["content"]
        if message["role"] == "user" and block["type"] == "text"
    )
    return str(next(said, ""))


def _notice(found: ClaudeCodeSession, entries: Entries) -> str:
    left_out = "Claude's thinking is left out"
    if entries.damaged:
        left_out += f", and {entries.damaged} damaged line{'s' if entries.damaged > 1 else ''}"
    compacted = " It begins with the summary that Claude Code made when it compacted it." if entries.compacted else ""
    return (
        f"This continues a copy of a Claude Code session, {found.id} ({left_out}).{compacted} "
        f"Claude Code's own file stays as it is: {found.path}"
    )


def _folders(cwd: Path, environ: Mapping[str, str]) -> list[Path]:
    """The folders that Claude Code may keep the sessions of `cwd` in: it takes the path as it is, or as it really is."""
    config = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(environ.get("HOME") or str(Path.home()), ".claude")  # noqa: PTH118
    projects = Path(config).expanduser() / "projects"
    folders: list[Path] = []
    for path in dict.fromkeys((cwd.absolute(), cwd.resolve())):
        name = re.sub(r"[^a-zA-Z0-9]", "-", str(path))
        if len(name) <= MAX_FOLDER_NAME:
            folders.append(projects / name)
        else:
            folders += sorted(projects.glob(f"{name[:MAX_FOLDER_NAME]}-*"))
    return [folder for folder in folders if folder.is_dir()]
