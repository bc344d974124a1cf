"""What Write and Edit would make of a file: worked out from what is on disk now, nothing written."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode
from cellwright.tools.code.syntax import ALLOW, check_syntax
from cellwright.tools.files.changes import Change, Input
from cellwright.tools.files.diff import diff_texts
from cellwright.tools.files.file_state import FileState, Seen, is_stale
from cellwright.tools.files.formats.text import (
    UTF_8,
    Encoding,
    NotText,
    decode,
    encode,
    main_line_end,
    read_bytes,
    with_line_ends,
)
from cellwright.tools.files.originals import sha256
from cellwright.tools.paths import not_found, real_path
from cellwright.tools.replacement import replace_text
from cellwright.tools.schema import counted

EDITED_BYTES = 10 * 2**20
TOO_LARGE = "Change it with Bash (sed) or Python."


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A text file as it is now, and what the model saw of it."""

    data: bytes
    status: os.stat_result
    text: str
    encoding: Encoding
    seen: Seen
    stale: bool

    @property
    def known(self) -> bool:
        """Whether the model knows all of it, as it is now."""
        return self.seen.whole and not self.stale


def plan_write(path: Path, shown: str, tool_input: Input, state: FileState) -> Change:
    """The whole file anew. An existing one must have been read to its end, and be as it was then."""
    real, content = real_path(path), tool_input["content"]
    if real.suffix.lower() == ".ipynb":
        check_notebook(content, shown)
    old = on_disk(real, shown, state)
    if old is None:
        return creation(real, shown, content)
    if not old.seen.whole:
        raise ToolError(
            f"Only a part of {shown} was read in this session. Read all of it before you overwrite it, "
            "or change the part with Edit.",
            code=ErrorCode.FILE_ACCESS_ERROR,
        )
    if old.stale:
        raise stale_error(shown)
    if "\r\n" not in content:
        content = with_line_ends(content, old.text, main_line_end(old.text))
    return update(real, shown, old, content, ("Overwrite", "Wrote"), tool_input, whole=True)


def plan_edit(path: Path, shown: str, tool_input: Input, state: FileState) -> Change:
    """The file with `old_string` replaced.

    It must have been read. Has it changed since, an `old_string` that is there exactly once is replaced all the same.
    """
    real = real_path(path)
    old_string, new_string = tool_input["old_string"], tool_input["new_string"]
    replace_all = bool(tool_input.get("replace_all", False))
    if old_string == new_string:
        raise ToolError("old_string and new_string are the same.", code=ErrorCode.INVALID_PARAMETERS)
    old = on_disk(real, shown, state)
    if old is None:
        if old_string:
            raise not_found(path, shown)
        return creation(real, shown, new_string)
    check_editable(real, shown, old, old_string)
    if old.stale and replace_all:
        raise stale_error(shown)
    if not old.text and not old_string:
        text, count = new_string, 1
    else:
        text, count = replaced(old, old_string, new_string, replace_all, shown)
    places = f", {count} places" if count > 1 else ""
    return update(real, shown, old, text, ("Edit", "Edited"), tool_input, whole=old.known, about=places)


def creation(real: Path, shown: str, content: str) -> Change:
    """A new file, in UTF-8."""
    after = encode(content, UTF_8, shown)
    diff = diff_texts(None, content, shown)
    note = check_syntax(real, None, content, shown, allowed=True)
    return Change(
        path=real,
        shown=shown,
        before=None,
        replacing=None,
        after=after,
        diff=diff,
        title=f"Create {shown}",
        result=f"Created {shown} ({counted(diff.added, 'line')}, {len(after):,} bytes).{note}",
        whole=True,
    )


def update(
    real: Path,
    shown: str,
    old: OnDisk,
    text: str,
    verb: tuple[str, str],
    tool_input: Input,
    *,
    whole: bool,
    about: str = "",
) -> Change:
    """The file with `text` in place of what it holds. ToolError if its syntax breaks and the input does not allow it."""
    after = encode(text, old.encoding, shown)
    diff = diff_texts(old.text, text, shown)
    if after == old.data:
        result = f"{shown} has exactly this content already; nothing was written."
    else:
        note = check_syntax(real, old.text, text, shown, allowed=bool(tool_input.get(ALLOW, False)))
        result = f"{verb[1]} {shown} ({diff.counts}{about}):\n{diff.excerpt}{note}"
        if old.stale:
            result += (
                "\n[It had changed on disk since it was read; only your text was replaced. Read it to see the rest.]"
            )
    return Change(
        path=real,
        shown=shown,
        before=old.data,
        replacing=old.status,
        after=after,
        diff=diff,
        title=f"{verb[0]} {shown}",
        result=result,
        whole=whole,
    )


def replaced(old: OnDisk, old_string: str, new_string: str, replace_all: bool, shown: str) -> tuple[str, int]:
    """`replace_text` in a file that may have changed since it was read."""
    try:
        return replace_text(old.text, old_string, new_string, replace_all=replace_all, shown=shown)
    except ToolError as error:
        if old.stale:
            # what is there now was not shown to the model, and is not told to it by the way
            raise stale_error(shown) from error
        raise


def on_disk(real: Path, shown: str, state: FileState) -> OnDisk | None:
    """The file as it is; None if there is none. It must have been read before."""
    if not real.exists():
        return None
    if real.is_file():
        state.require(real, shown)
    data, status = read_bytes(real, shown, EDITED_BYTES, TOO_LARGE)
    seen = state.require(real, shown)
    try:
        text, encoding = decode(data)
    except NotText:
        raise ToolError(f"{shown} is binary data, not text. {TOO_LARGE}", code=ErrorCode.FILE_ACCESS_ERROR) from None
    stale = is_stale(seen, status, sha256(data))
    return OnDisk(data, status, text, encoding, seen, stale)


def check_editable(real: Path, shown: str, old: OnDisk, old_string: str) -> None:
    """Raise ToolError if `old_string` cannot be replaced in this file, whatever it holds."""
    if not old_string and old.text:
        raise ToolError(
            f"old_string is empty, but {shown} exists and is not. Give the text to replace, or use Write.",
            code=ErrorCode.INVALID_PARAMETERS,
        )
    check_editable_notebook(real, shown, old.text)


def check_editable_notebook(real: Path, shown: str, text: str) -> None:
    """Raise ToolError if the file is a notebook: those are not changed as text."""
    if real.suffix.lower() != ".ipynb":
        return
    from cellwright.tools.notebook.json import notebook_content  # few edits are of notebooks
    from cellwright.tools.notebook.spans import NotANotebook

    try:
        notebook_content(text)
    except NotANotebook:
        return  # broken as a notebook: it can only be mended as text
    raise ToolError(f"{shown} is a notebook. Change its cells with NotebookEdit.", code=ErrorCode.FILE_PATH_INVALID)


def check_notebook(content: str, shown: str) -> None:
    """Raise ToolError if a notebook file would not be a notebook with this content."""
    from cellwright.tools.notebook.json import notebook_content
    from cellwright.tools.notebook.spans import NotANotebook

    try:
        notebook_content(content)
    except NotANotebook as error:
        minimal = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
        raise ToolError(
            f"{shown} would not be a notebook: {error}. The smallest one is {minimal}; add cells with NotebookEdit.",
            code=ErrorCode.INVALID_PARAMETERS,
        ) from error


def stale_error(shown: str) -> ToolError:
    """The error for a file that is no longer what the model has seen."""
    return ToolError(
        f"{shown} has changed on disk since it was read. Read it again before you change it.",
        code=ErrorCode.FILE_ACCESS_ERROR,
    )
