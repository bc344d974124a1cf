"""A session deleted, with all that belongs to it. What is in use is not deleted."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.catalog.metadata import about_path
from cellwright.sessions.state_dir import journal_path
from cellwright.sessions.transcripts import transcript_lock as lease
from cellwright.sessions.transcripts.fork_point import delete_transcript
from cellwright.sessions.transcripts.transcript_lock import lease_path


def delete_session(transcript: Path) -> None:
    """Delete the transcript with its title and tags, and the journal of what can be taken back.

    Where forks go on from it, its lines stay for them, and are deleted with the last.
    What files held before stays in `originals/`, where other sessions may need it, until it is too old. Raises
    `CellwrightError` SESSION_NOT_FOUND, and EXECUTION_ERROR while a process (this one counts) has the session open.
    """
    if not transcript.exists():
        message = f"Session {transcript.stem} was not found; nothing was deleted."
        raise CellwrightError(ErrorCode.SESSION_NOT_FOUND, message)
    try:
        owned = lease.acquire(lease_path(transcript), 0)
        if owned is None:
            raise _in_use(transcript)
        try:
            # the transcript first: after a crash there is no session that lost its title, but leftovers to sweep
            delete_transcript(transcript)
            delete_leftovers(transcript)
        finally:
            owned.release()
    except OSError as error:
        message = (
            f"The session {transcript.stem} cannot be deleted: {error}. Repair access to the folder, then try again."
        )
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message, details={"path": str(transcript)}) from error


def delete_leftovers(transcript: Path) -> None:
    """Delete what belongs to a transcript that is gone; its lease last, which keeps others away meanwhile."""
    journal = journal_path(transcript.stem)
    for path in (about_path(transcript), journal, transcript.with_suffix(".new"), lease_path(transcript)):
        with contextlib.suppress(PermissionError):  # Windows deletes no file that is open: the sweep comes again
            path.unlink(missing_ok=True)
    shutil.rmtree(transcript.with_suffix(""), ignore_errors=True)  # its agents' sessions


def _in_use(transcript: Path) -> CellwrightError:
    holder = lease.read_holder(lease_path(transcript))
    who = f"process {holder.pid} on {holder.host}" if holder else "a process"
    message = (
        f"The session {transcript.stem} is in use by {who}; nothing was deleted. "
        "Close it there (/clear starts a new session), then try again."
    )
    return CellwrightError(ErrorCode.EXECUTION_ERROR, message, details={"path": str(transcript)}, recoverable=True)
