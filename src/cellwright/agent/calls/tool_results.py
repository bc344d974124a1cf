"""Results that are longer than the model should get: their start and end, and the whole in a file that Read can page."""

from __future__ import annotations

import functools
import os
import secrets
from pathlib import Path

from cellwright.agent.tool import Content
from cellwright.sessions.state_dir import PRIVATE_FOLDER

LONGEST_BYTES = 200_000_000
"""More of a result than this is not kept."""


@functools.cache
def output_folder() -> Path:
    """Where this process keeps long outputs. It is made with the first of them, and gone when the process ends by itself."""
    import tempfile  # loading the extension needs none of it

    return Path(os.path.realpath(tempfile.gettempdir())) / f"cellwright-output-{secrets.token_hex(8)}"


def made_output_folder() -> Path:
    """The folder, which is there now, for this user alone. Raises OSError."""
    import atexit
    import shutil

    folder = output_folder()
    if not folder.exists():
        folder.mkdir(mode=PRIVATE_FOLDER)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def bounded(content: Content, limit: int) -> Content:
    """`content` for the model: never empty (the API refuses it), its text never much over `limit` characters in all.

    What was left out is said, with the file that holds the whole.
    """
    if isinstance(content, str):
        return _bounded_text(content, limit)
    blocks, left = [], limit
    for block in content:
        if block.get("type") != "text":
            blocks.append(block)
            continue
        text = _bounded_text(str(block["text"]), max(left, limit // 20))
        left -= len(text)
        blocks.append({**block, "text": text})
    return blocks or "(no output)"


def _bounded_text(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text if text.strip() else "(no output)"
    cut = len(text) - limit
    note = f"[… {cut:,} of {len(text):,} characters left out; {_kept(text)} …]"
    return f"{text[: limit // 2]}\n{note}\n{text[-(limit - limit // 2) :]}"


def _kept(text: str) -> str:
    """Where the whole of `text` is, in words."""
    data = text.encode("utf-8", "replace")
    if len(data) > LONGEST_BYTES:
        return "it is too long to be kept: narrow the call down"
    import tempfile

    try:
        descriptor, name = tempfile.mkstemp(dir=made_output_folder(), prefix="result-", suffix=".txt")
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except OSError as error:
        return f"the whole could not be kept ({error.strerror}): narrow the call down"
    return f"the whole is in {name}, which Read can page"
