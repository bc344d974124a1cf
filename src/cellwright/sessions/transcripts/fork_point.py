"""The place in another session that a fork goes on from: its lines up to there are the fork's, and are not copied.

The header of a fork holds it. A transcript is only added to, so the lines up to a place stay what they were.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.transcripts.transcript_file import Line, encode_json
from cellwright.text import lazy_pattern

ONLY_THINKING = "[Only thinking, which was left out.]"

KEPT = ".kept"
"""The ending of a transcript whose session was deleted, and whose forks were not."""

_PARENT = lazy_pattern(rb'"parent":\{"session":"([^"]+)"')


class ForkPoint(Struct, frozen=True):
    """The first `lines` lines of `session`; `seq` and `at` are the last one's, by which it is known again.

    `without_thinking`: blocks of thinking are left out, since they are bound to tools that the fork does not have.
    """

    session: str
    lines: int
    seq: int
    at: float
    without_thinking: bool = False

    @classmethod
    def after(cls, session: str, lines: Sequence[Line], *, without_thinking: bool = False) -> ForkPoint:
        """The place behind the last of `lines`, the first of `session`."""
        last = lines[-1].meta
        return cls(session, len(lines), last["seq"], last["at"], without_thinking)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> ForkPoint:
        """The place as a header has it. Raises KeyError and TypeError."""
        return cls(
            str(fields["session"]),
            int(fields["lines"]),
            int(fields["seq"]),
            float(fields["at"]),
            fields.get("thinking") is False,
        )

    def to_json(self) -> dict[str, Any]:
        """The form in a header."""
        point = {"session": self.session, "lines": self.lines, "seq": self.seq, "at": self.at}
        return {**point, "thinking": False} if self.without_thinking else point

    def lines_of(self, parent: Sequence[Line]) -> list[Line] | None:
        """The fork's first lines, out of all of the session's; None where they do not hold the place any more."""
        if not self._is_last(parent, self.lines):
            # a line before it may have become unreadable
            places = [count for count in range(len(parent), 0, -1) if self._is_last(parent, count)]
            if not places:
                return None
            return self._taken(parent[: places[0]])
        return self._taken(parent[: self.lines])

    def _is_last(self, lines: Sequence[Line], count: int) -> bool:
        if not 0 < count <= len(lines):
            return False
        meta = lines[count - 1].meta
        return bool(meta["seq"] == self.seq and meta["at"] == self.at)

    def _taken(self, lines: Sequence[Line]) -> list[Line]:
        return list(map(without_thinking, lines)) if self.without_thinking else list(lines)


def without_thinking(line: Line) -> Line:
    """The line without the message's thinking blocks. Where there was nothing else its place is kept: lines cost."""
    if b'thinking"' not in line.message:
        return line
    message = json.loads(line.message)
    if message is None or message["role"] != "assistant" or isinstance(message["content"], str):
        return line
    content = [block for block in message["content"] if block["type"] not in ("thinking", "redacted_thinking")]
    content = content or [{"type": "text", "text": ONLY_THINKING}]  # the API takes no message without content
    return Line(line.meta, encode_json({**message, "content": content}))


def parent_gone(path: Path, point: ForkPoint, why: str) -> CellwrightError:
    """The error of a fork whose session cannot be read: the conversation has no beginning."""
    message = (
        f"The session {path.stem} continues the session {point.session}, {why}. The conversation before the fork is not in "
        f"its own transcript, so it cannot be resumed. Restore {path.with_name(f'{point.session}.jsonl')} from a copy; "
        f"the messages since the fork are in {path}."
    )
    return CellwrightError(ErrorCode.SESSION_CORRUPTED, message, details={"path": str(path), "parent": point.session})


def parent_path(folder: Path, session: str) -> Path:
    """The transcript of a session that forks in `folder` go on from, also where the session itself was deleted."""
    path = folder / f"{session}.jsonl"
    kept = path.with_suffix(KEPT)
    return kept if kept.exists() and not path.exists() else path


def delete_transcript(transcript: Path) -> None:
    """Delete the file, or put it where only its forks find it, until the last of them is deleted. Raises OSError."""
    if _parents(transcript.parent, but=transcript).get(transcript.stem):
        transcript.replace(transcript.with_suffix(KEPT))
        return
    transcript.unlink(missing_ok=True)
    # what it went on from may have been kept for it alone
    while unneeded := [
        kept for kept in transcript.parent.glob(f"*{KEPT}") if not _parents(transcript.parent).get(kept.stem)
    ]:
        for kept in unneeded:
            kept.unlink(missing_ok=True)


def _parents(folder: Path, but: Path | None = None) -> Counter[str]:
    """The sessions that forks in `folder` go on from, and how many do."""
    found: Counter[str] = Counter()
    for path in folder.iterdir():
        if path.suffix not in (".jsonl", KEPT) or path == but:
            continue
        try:
            with path.open("rb") as file:
                # so much of a header comes before its system prompt, at most
                head = file.read(4_096).partition(b'"system":')[0]
        except FileNotFoundError:
            continue  # deleted meanwhile
        if match := _PARENT.search(head):
            found[match[1].decode("utf-8", "replace")] += 1
    return found
