"""Recordings: whole turns kept in a file, to be played again without a request, and the user's trust in such files.

    {"cellwright_recording":1}
    {"prompt":…,"key":…,"ordinal":1,"messages":[{"message":{…},"stop_reason":…,"usage":{…},…}],"calls":[{"name":…,…}]}

One line per turn. The project folder stands in it as a mark, so that a recording plays in another folder, on another
machine, and does not tell where it was made.

A user trusts the recordings that are signed with a key of their own, as Jupyter does it for notebooks. The signature
(HMAC-SHA256 of the whole file) is kept beside the key, not in the recording: to trust a colleague's recording changes
nothing in it, and one altered byte makes it foreign.

Edits of files stand there by what a file held before and after, so that a replay makes each edit once. A tool that edits a
file says so in its result's `display`: `path`, `before_sha256` (None: there was no file) and `after_sha256`. The recording
keeps the new content beside it: to run the tool again would not do, since a new notebook cell gets a new id each time, and
a tool refuses to change what was not read in this session.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field, to_builtins

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.project_writes import check_way, within
from cellwright.sessions.state_dir import (
    PRIVATE_FILE,
    make_private_folder,
    read_key,
    signing_key,
    state_folder,
)
from cellwright.sessions.transcripts.transcript_file import encode_json
from cellwright.text import lazy_pattern, map_strings

PATH = "path"

BEFORE = "before_sha256"

AFTER = "after_sha256"


FORMAT = 1
FORMAT_KEY = "cellwright_recording"
PROJECT_MARK = "⟦project⟧"

FileState = Sequence[str | None]
"""A path, and the file's state (`file_states`)."""


class RecordedMessage(Struct, frozen=True):
    """One assistant message and what was known of it; of its thinking only the text is kept."""

    message: dict[str, Any]
    stop_reason: str | None
    usage: dict[str, Any]
    model: str
    context_tokens: int


class RecordedCall(Struct, frozen=True):
    """The recorded outcome of a call. `progress` has the arguments of its `ToolContext.progress` calls, text joined.

    `files`: the states, right after the call, of the files that it read or edited.
    """

    tool_use_id: str
    name: str
    status: str
    content: str | list[dict[str, Any]]
    display: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    progress: list[dict[str, Any]] | None = None
    files: Sequence[FileState] = ()
    structured: Any = None


class RecordedTurn(Struct, frozen=True):
    """A prompt and all that came of it. `ordinal` counts the turns with the same `key`, from 1.

    `context` has the digests of what was told with the prompt (`replay_checks.context_digests`); None: they were not kept.

    `contents`: what edited files held afterwards, by the content's SHA-256 (`kept_content`). `files`: the
    states of the calls' files at the end. `origin`: the `session` and its `turn` in which it was recorded, the `model`.
    """

    prompt: str
    key: str
    ordinal: int
    messages: list[RecordedMessage]
    calls: list[RecordedCall]
    contents: dict[str, str]
    files: Sequence[FileState] = ()
    origin: dict[str, Any] = field(default_factory=dict)
    context: Sequence[Mapping[str, str]] | None = None


_VOLATILE = lazy_pattern(
    r"""\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?   # a time stamp, to the second
    | \b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b                        # a UUID
    | \b0x[0-9a-fA-F]{6,}\b                                                          # an address in memory""",
    re.VERBOSE,
)


def prompt_text(prompt: str | Sequence[Mapping[str, Any]]) -> str:
    """Reduce a prompt to what counts for finding its turn: its text; of anything else in it, a checksum."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(
        str(block["text"]) if block["type"] == "text" else hashlib.sha256(encode_json(block)).hexdigest()
        for block in prompt
    )


def prompt_key(text: str, project: Path) -> str:
    """The hash a turn is found by: without what may differ from run to run (white space, paths, times, ids)."""
    return hashlib.sha256(steady_text(text, project).encode("utf-8", "surrogatepass")).hexdigest()


def steady_text(text: str, project: Path) -> str:
    """`text` without what may differ from run to run."""
    portable = str(without_project(text, project))
    temporary = re.escape(tempfile.gettempdir())
    steady = _VOLATILE.sub("⟦volatile⟧", re.sub(rf"{temporary}/[^\s\"'`,;:)\]]+", "⟦temporary⟧", portable))
    return " ".join(steady.split())


def without_project(value: Any, project: Path) -> Any:
    """`value` with the path of the project folder replaced by the mark."""
    pattern = _names_of(project)
    return value if pattern is None else map_strings(value, lambda text: pattern.sub(PROJECT_MARK, text))


@functools.lru_cache(maxsize=8)  # asked with each prompt
def _names_of(project: Path) -> re.Pattern[str] | None:
    """The ways in which a text may name the project folder; None for the root, which is in every path."""
    names = {str(path) for path in (project, project.resolve()) if len(path.parts) > 1}
    if not names:
        return None
    alternatives = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    # a whole path component: /home/ada must not be found in /home/adam
    return re.compile(rf"(?<![\w.-])(?:{alternatives})(?![\w-]|\.\w)")


def in_project(turn: RecordedTurn, project: Path) -> RecordedTurn:
    """The turn with the mark replaced by the path of the project folder. Contents of files stay as they were."""
    fields = map_strings(to_builtins(turn), lambda text: text.replace(PROJECT_MARK, str(project)))
    return turn_from_json({**fields, "contents": turn.contents})


def encode_recording(turns: Sequence[RecordedTurn]) -> bytes:
    """The file's content."""
    lines = [encode_json({FORMAT_KEY: FORMAT}), *(encode_json(to_builtins(turn)) for turn in turns)]
    return b"".join(line + b"\n" for line in lines)


def parse_recording(data: bytes, path: Path) -> list[RecordedTurn]:
    """The turns of a recording's content; `path` is named in the error (CONFIG_PARSE_ERROR) when it is none."""
    number = 1
    try:
        first, *rest = data.rstrip(b"\n").split(b"\n")
        if (version := json.loads(first)[FORMAT_KEY]) != FORMAT:
            raise ValueError(f"format {version}, and this version of Cellwright reads format {FORMAT}")
        turns: list[RecordedTurn] = []
        for line in rest:
            number += 1
            turns += [turn_from_json(json.loads(line))]
    except (ValueError, TypeError, KeyError) as error:
        message = f"{path} is not a recording that can be played: line {number} cannot be read ({error!s:.200})."
        raise CellwrightError(
            ErrorCode.CONFIG_PARSE_ERROR, f"{message} Record it again.", details={"path": str(path), "line": number}
        ) from error
    return turns


def turn_from_json(fields: Mapping[str, Any]) -> RecordedTurn:
    """A turn from its line."""
    messages = [RecordedMessage(**message) for message in fields["messages"]]
    calls = [RecordedCall(**call) for call in fields["calls"]]
    return RecordedTurn(**{**fields, "messages": messages, "calls": calls})


def read_recording(path: Path) -> bytes:
    """The file's content; FILE_NOT_FOUND or FILE_ACCESS_ERROR when it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        message = f"There is no recording at {path}. Make one with --record."
        raise CellwrightError(ErrorCode.FILE_NOT_FOUND, message) from error
    except OSError as error:
        message = f"The recording {path} cannot be read: {error}."
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from error


def _folder() -> Path:
    return state_folder() / "recordings"


def is_trusted(data: bytes) -> bool:
    """Return whether this user made the recording with the content `data`, or said that it may be played."""
    key = read_key(_folder() / "key")
    return key is not None and (_folder() / "trusted" / _signature(key, data)).exists()


def trust(data: bytes) -> None:
    """From now on the recording with the content `data`, and no other, is trusted."""
    try:
        folder = _folder() / "trusted"
        make_private_folder(folder)
        key = signing_key(_folder() / "key")
        os.close(os.open(folder / _signature(key, data), os.O_WRONLY | os.O_CREAT, PRIVATE_FILE))
    except OSError as error:
        message = f"The recording could not be signed: {error}. Repair access to the folder {_folder()}."
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from error


def _signature(key: bytes, data: bytes) -> str:
    return hmac.new(key, data, hashlib.sha256).hexdigest()


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
        # bytes: of a larger file only the hashes are kept
        if edit.path.stat().st_size > 5 * 2**20:
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
