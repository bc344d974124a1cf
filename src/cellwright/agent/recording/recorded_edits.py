"""Edits of files in a recording: what a file held before and after, so that a replay makes each edit once.

A tool that edits a file says so in its result's `display`: `path`, `before_sha256` (None: there was no file) and
`after_sha256`. The recording keeps the new content beside it: to run the tool again would not do, since a new notebook
cell gets a new id each time, and a tool refuses to change what was not read in this session.
"""

from __future__ import annotations

import base64
import hashlib
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from cellwright.sessions.project_writes import check_way, within
from cellwright.sessions.state_dir import write_atomic

PATH, BEFORE, AFTER = "path", "before_sha256", "after_sha256"
LARGEST_CONTENT = 5 * 2**20
"""Bytes: of a larger file only the hashes are kept."""


class Edit(Struct, frozen=True):
    """A call's change to a file. Hashes are SHA-256 of the whole content; None where there was, or then is, none.

    `link`: the link of the project that `path` leads out of it through; None: it leads through none.
    """

    path: Path
    before: str | None
    after: str | None
    link: str | None = None


def edits_of(display: Mapping[str, Any] | None, project: Path) -> tuple[Edit, ...]:
    """The edits that a result's `display` tells of: of one file, or of those that it lists as `files`."""
    if display is None:
        return ()
    listed = display.get("files") if PATH not in display else [display]
    found = [each for each in listed if _tells_of_an_edit(each)] if isinstance(listed, list) else []
    return tuple(_edit(project, each) for each in found)


def _edit(project: Path, display: Mapping[str, Any]) -> Edit:
    path, real = project / display[PATH], (project / display[PATH]).resolve()
    link = None
    if within(project, path) is not None and within(project, real) is None:
        try:
            check_way(project, path)
        except OSError as error:
            link = str(error)
    return Edit(real, display.get(BEFORE), display[AFTER], link)


def _tells_of_an_edit(display: Any) -> bool:
    if not isinstance(display, Mapping) or not isinstance(display.get(PATH), str) or AFTER not in display:
        return False
    after, before = display[AFTER], display.get(BEFORE)
    return isinstance(after, str) or (after is None and isinstance(before, str))


def content_hash(path: Path) -> str | None:
    """The hash of what the file holds, None where there is no file. OSError when it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


def kept_content(edit: Edit) -> str | None:
    """Return the content right after the edit, as the recording keeps it; None if too large or changed again."""
    try:
        if edit.path.stat().st_size > LARGEST_CONTENT:
            return None
        data = edit.path.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(data).hexdigest() != edit.after:
        return None
    try:
        return "text:" + data.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(data).decode()


def content_bytes(kept: str) -> bytes:
    """The content that `kept_content` kept."""
    kind, _, content = kept.partition(":")
    return base64.b64decode(content) if kind == "base64" else content.encode()


def apply_edit(edit: Edit, content: bytes) -> None:
    """Give the file its recorded content; mode and missing folders as an editor would have them. OSError otherwise."""
    if edit.link is not None:
        raise OSError(edit.link)
    edit.path.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(edit.path.stat().st_mode) if edit.path.exists() else 0o644
    write_atomic(edit.path, content, mode)
