"""The name of a session: the title that was given, else its first words."""

from __future__ import annotations

import json
from pathlib import Path

from cellwright.sessions.catalog.extract import first_line, users_words
from cellwright.sessions.catalog.metadata import read_about
from cellwright.sessions.session import Session
from cellwright.sessions.turns import begins_turn_encoded
from cellwright.text import visible_line

FIRST_WORDS_CHARS = 80


def title_of(session: Session) -> str:
    """Return the name of `session`, "" while nothing was said in it. Reads one small file."""
    given = read_about(session.path).title if session.path is not None else ""
    return given or first_words(session)


def first_words(session: Session) -> str:
    """The first line of the first prompt."""
    first = next((json.loads(data) for data in session.story if begins_turn_encoded(data)), None)
    return "" if first is None else visible_line(first_line(users_words(first)), FIRST_WORDS_CHARS)


def has_title(transcript: Path) -> bool:
    """Return whether somebody has named the session; its notebook and first words alone are no such name."""
    return read_about(transcript).by not in ("", "notebook")
