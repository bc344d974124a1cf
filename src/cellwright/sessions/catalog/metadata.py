"""A session's title and tags, the facts known besides its transcript, in `ID.about` beside it.

A JSON Lines file that is only ever added to, by any process at any time; the last line that says something counts:

    {"at": 1790000000.0, "title": "Tides of Brest", "by": "user"}
    {"at": 1790000001.0, "tags": ["thesis"]}

Each line is one write on a file that is open for appending, and begins with a newline: a line that a crash cut off
spoils no other. docs/decisions/session-catalog.md says why it is not in the catalog.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.api_messages import begins_turn_encoded
from cellwright.sessions.catalog.extract import first_line, users_words
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import PRIVATE_FILE
from cellwright.text import lazy_pattern, visible_line

TITLE_CHARS = 120
TAG_CHARS = 40
MAX_TAGS = 20

By = Literal["user", "model", "fork", "notebook"]
"""The maker of a title. The user's goes before all others, whenever it was given; "notebook": its name, the first words."""

_TAG = lazy_pattern(r"[^\W_][\w./:+-]*")

FIRST_WORDS_CHARS = 80


class SessionMetadata(Struct, frozen=True):
    """`title` is "" where nobody gave one; `by` is then "" as well. `notebook` is the name of the file it was held in."""

    title: str = ""
    by: By | Literal[""] = ""
    tags: tuple[str, ...] = ()
    notebook: str = ""


def about_path(transcript: Path) -> Path:
    """Return the path of what is known of the session of this transcript."""
    return transcript.with_suffix(".about")


def read_about(transcript: Path) -> SessionMetadata:
    """Read what is known of the session of this transcript; nothing where nothing can be read."""
    try:
        lines = about_path(transcript).read_bytes().split(b"\n")
    except OSError:
        return SessionMetadata()
    titles: dict[str, str] = {}
    tags: tuple[str, ...] = ()
    notebook = ""
    for raw in lines:
        line = _decoded(raw)
        match line:
            case {"title": str(title), "by": "user" | "model" | "fork" | "notebook" as by}:
                titles.pop(by, None)  # the last of the others comes last
                titles[by] = visible_line(title, TITLE_CHARS)
            case {"tags": list(fields)}:
                tags = tuple(tag for tag in fields if isinstance(tag, str) and _TAG.fullmatch(tag))[:MAX_TAGS]
            case {"notebook": str(name)}:
                notebook = name
    if titles.get("user"):
        return SessionMetadata(titles["user"], "user", tags, notebook)
    others = [(title, by) for by, title in titles.items() if title and by != "user"]
    title, by = others[-1] if others else ("", "")
    return SessionMetadata(title, by, tags, notebook)  # type: ignore[arg-type]  # the pattern above leaves no other


def write_title(transcript: Path, title: str, by: By = "user") -> str:
    """Name the session; gives the title as it is shown. "" takes the user's title away. Raises `CellwrightError`."""
    shown = visible_line(" ".join(title.split()), TITLE_CHARS) if title.strip() else ""
    _add(transcript, {"title": shown, "by": by})
    return shown


def write_notebook(transcript: Path, notebook: Path, subject: str) -> None:
    """Note the session's notebook, and name the session after its `subject`, else the notebook. Raises `CellwrightError`."""
    _add(transcript, {"notebook": notebook.name})
    write_title(transcript, subject or notebook.stem, "notebook")


def write_tags(transcript: Path, tags: Iterable[str]) -> tuple[str, ...]:
    """Give the session these tags and no others. Raises `CellwrightError` for what cannot be a tag."""
    checked = checked_tags(tags)
    _add(transcript, {"tags": list(checked)})
    return checked


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """The tags, each once, without the `#` that people put before them. Raises `CellwrightError` INVALID_PARAMETERS."""
    found = tuple(dict.fromkeys(tag.strip().removeprefix("#") for tag in tags if tag.strip()))
    for tag in found:
        if len(tag) > TAG_CHARS or not _TAG.fullmatch(tag):
            form = f"one word of letters, digits and - _ . / : +, of at most {TAG_CHARS} characters"
            message = f"{tag!r} cannot be a tag, which is {form}. Nothing was changed."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    if len(found) > MAX_TAGS:
        message = f"A session has at most {MAX_TAGS} tags, and these are {len(found)}."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return found


def _add(transcript: Path, fields: dict[str, Any]) -> None:
    if not transcript.exists():
        message = f"Session {transcript.stem} was not found; nothing was changed."
        raise CellwrightError(ErrorCode.SESSION_NOT_FOUND, message)
    line = json.dumps({"at": round(time.time(), 3), **fields}, ensure_ascii=True)
    path = about_path(transcript)
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, flags, PRIVATE_FILE)
        with contextlib.closing(os.fdopen(descriptor, "wb", buffering=0)) as file:
            file.write(f"\n{line}\n".encode())
            os.fsync(descriptor)
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}. Repair access to the folder, then try again."
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message, details={"path": str(path)}) from error


def _decoded(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def with_title_of_fork(transcript: Path, fork: Path, turn: int | None, title: str) -> None:
    """Name a fork after what it was forked from, where that has a title."""
    if title:
        write_title(fork, f"{title} (fork{f' at turn {turn}' if turn else ''})", "fork")


def shown_tags(tags: Sequence[str]) -> str:
    """Tags as people write them."""
    return " ".join(f"#{tag}" for tag in tags)


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
